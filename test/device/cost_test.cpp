// What memory/ costs on the driver of this machine. Prints; asserts nothing of speed.
#include <dlfcn.h>

#include <chrono>
#include <functional>

#include "device_fixture.hpp"
#include "gpu/copy/engine.hpp"

namespace isthmus::testing_cuda {
namespace {

void print_cost(const char* what, int times, const std::function<void()>& work) {
  using Clock = std::chrono::steady_clock;
  double best = 1e30;
  for (int round = 0; round < 5; ++round) {
    const auto start = Clock::now();
    for (int i = 0; i < times; ++i)
      work();
    best = std::min(best, std::chrono::duration<double, std::nano>(Clock::now() - start).count() / times);
  }
  std::printf("  %-58s %10.1f ns\n", what, best);
}

class DeviceCost : public DeviceTest {};

TEST_F(DeviceCost, OfClassification) {
  cuda::Address device = 0;
  cuda::Address managed = 0;
  functions.allocate(&device, 1 << 20U);
  functions.managed_allocate(&managed, 1 << 20U, cuda::attach_global);
  std::fill_n(reinterpret_cast<char*>(managed), 1 << 20U, 1);
  const std::vector<char> large(64U << 20U);
  const int on_stack = 0;
  volatile std::size_t sum = 0;
  const auto classify_often = [&](const void* address, std::size_t bytes) {
    return [this, address, bytes, &sum] { sum = sum + classifier.classify(address, bytes)->bytes; };
  };
  print_cost("CudaDriver::find, found", 1000000, [&] { sum = sum + (driver.find() ? 1 : 0); });
  print_cost("on the stack, 8 B", 1000000, classify_often(&on_stack, 8));
  print_cost("mapped host memory, 8 B", 100000, classify_often(large.data(), 8));
  print_cost("device memory", 100000, classify_often(reinterpret_cast<void*>(device), 8));
  print_cost("managed memory", 10000, classify_often(reinterpret_cast<void*>(managed), 8));
  cuda::Context current = nullptr;
  print_cost("cuCtxGetCurrent", 100000, [&] { functions.context_current(&current); });
  functions.free(device);
  functions.free(managed);
}

TEST_F(DeviceCost, OfReachingAPeersMemory) {
  for (const MemoryKind kind : {MemoryKind::device, MemoryKind::vmm, MemoryKind::pool}) {
    Player exporter("exporter");
    UniqueFd descriptor;
    const Letter offer = wish(exporter, Wish::allocate, static_cast<std::uint64_t>(kind), &descriptor);
    const auto open = [&] {
      const auto start = std::chrono::steady_clock::now();
      EXPECT_TRUE(cache.open(offer.offer, 0, descriptor.get()));
      return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    };
    const double first = open();
    cache.forget(offer.offer.exporter, offer.offer.allocation);
    const double second = open();
    std::printf("  %-20s first open %.3f ms, again %.3f ms\n", std::string(name_of(kind)).c_str(), first,
                second);
    volatile bool found = false;
    print_cost("    found in the cache", 100000, [&] { found = cache.find(offer.offer, 0) != nullptr; });
    cache.forget(offer.offer.exporter);
  }
}

TEST_F(DeviceCost, OfCopies) {
  const std::size_t last = gpus.gpus().size() - 1;
  const auto there_device = static_cast<cuda::Device>(last);
  constexpr std::size_t most = 64U << 20U;
  cuda::Address here = 0;
  cuda::Address there = 0;
  functions.allocate(&here, most);
  {
    const cuda::ContextScope scope(functions, *contexts.of(there_device));
    functions.allocate(&there, most);
  }
  if (there_device != 0) functions.context_enable_peer(*contexts.of(there_device), 0);
  std::printf("  from GPU 0 to GPU %d, until an event that is polled says so\n", there_device);
  cuda::Stream stream = nullptr;
  cuda::Event event = nullptr;
  functions.stream_create(&stream, cuda::stream_non_blocking);
  functions.event_create(&event, cuda::event_disable_timing);
  CopyEngine engine(contexts, 0);
  for (const std::size_t bytes : {std::size_t{8}, std::size_t{1} << 20U, most}) {
    const int times = bytes == most ? 20 : 500;
    print_cost(("bare calls, " + std::to_string(bytes) + " B").c_str(), times, [&] {
      functions.copy_async(there, here, bytes, stream);
      functions.event_record(event, stream);
      while (functions.event_query(event) == Status::not_ready) {
      }
    });
    print_cost(("CopyEngine, " + std::to_string(bytes) + " B").c_str(), times, [&] {
      const auto copy =
          engine.start(reinterpret_cast<std::byte*>(there), reinterpret_cast<std::byte*>(here), bytes);
      while (copy && !copy->is_done().value_or(true)) {
      }
    });
  }
  functions.event_destroy(event);
  functions.stream_destroy(stream);
  functions.free(here);
  functions.free(there);
}

/// In a process that does not use CUDA. Prints; returns its exit status.
int cost_without_cuda(const Line&) {
  CudaDriver driver;
  Classifier classifier(driver);
  const std::vector<char> large(64U << 20U);
  const int on_stack = 0;
  volatile std::size_t sum = 0;
  const auto measure = [&](const char* what, const void* address) {
    print_cost(what, 1000000, [&] { sum = sum + classifier.classify(address, 8)->bytes; });
  };
  measure("8 B on the stack", &on_stack);
  measure("8 B of mapped memory", large.data());
  if (!dlopen("libresolv.so.2", RTLD_NOW)) return 1;
  measure("8 B on the stack, something was loaded since", &on_stack);
  measure("8 B of mapped memory, something was loaded since", large.data());
  return driver.find() ? 2 : 0;
}
const Role cost_without_cuda_role("cost without CUDA", cost_without_cuda);

TEST(HostOnlyCost, OfClassification) {
  EXPECT_EQ(Player("cost without CUDA").end(), 0);
}

}  // namespace
}  // namespace isthmus::testing_cuda
