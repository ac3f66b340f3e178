// Kernels by name, and faults on demand, of the emulated driver.
#include <chrono>
#include <thread>

#include "cuda_fixture.hpp"
#include "entry.hpp"
#include "roles.hpp"

namespace isthmus::testing_cuda::emulated_kernel_test {
namespace {

using testing::Each;

/// add(unsigned char* memory, unsigned count, unsigned char value), a byte a thread.
int add(const EmulatedLaunch* launch) {
  const auto address = *static_cast<unsigned long long*>(launch->parameters[0]);
  const auto count = *static_cast<unsigned*>(launch->parameters[1]);
  const auto value = *static_cast<unsigned char*>(launch->parameters[2]);
  auto* memory = static_cast<unsigned char*>(load_emulated().view(address));
  if (!memory) return 700;
  for (unsigned i = 0; i < launch->grid[0] * launch->block[0] && i < count; ++i)
    memory[i] = static_cast<unsigned char>(memory[i] + value);
  return 0;
}

constexpr std::size_t add_parameters[] = {8, 4, 1, 0};
constexpr EmulatedTwin twins[] = {{"add", add, add_parameters}, {nullptr, nullptr, nullptr}};
constexpr const char* image = ".version 8.0\n.target sm_70\n";

class EmulatedKernel : public CudaTest {
 protected:
  EmulatedKernel() {
    control.register_twins(twins);
    EXPECT_EQ(functions.module_load(&module, image), Status::success);
    EXPECT_EQ(functions.module_function(&function, module, "add"), Status::success);
  }
  ~EmulatedKernel() override { EXPECT_EQ(functions.module_unload(module), Status::success); }
  Status launch(cuda::Address memory, unsigned count, unsigned char value) const {
    std::array<void*, 3> parameters{&memory, &count, &value};
    return functions.launch(function, (count + 31) / 32, 1, 1, 32, 1, 1, 0, nullptr, parameters.data(),
                            nullptr);
  }

  cuda::Module module = nullptr;
  cuda::Function function = nullptr;
};

TEST_F(EmulatedKernel, RunsItsHostTwinInTheStream) {
  const cuda::Address memory = allocate(100);
  EXPECT_EQ(functions.fill(memory, 1, 100), Status::success);
  EXPECT_EQ(launch(memory, 100, 5), Status::success);
  EXPECT_EQ(launch(memory, 50, 1), Status::success);
  EXPECT_THAT(read(memory, 50), Each(7));
  EXPECT_THAT(read(memory + 50, 50), Each(6));
  EXPECT_EQ(functions.free(memory), Status::success);
}

TEST_F(EmulatedKernel, IsFoundByItsNameAlone) {
  cuda::Function none = nullptr;
  EXPECT_EQ(functions.module_function(&none, module, "subtract"), Status::not_found);
  cuda::Module nonsense = nullptr;
  EXPECT_EQ(functions.module_load(&nonsense, "nonsense"), Status::invalid_image);
  cuda::Library library = nullptr;
  ASSERT_EQ(functions.library_load(&library, image, nullptr, nullptr, 0, nullptr, nullptr, 0),
            Status::success);
  cuda::Kernel kernel = nullptr;
  EXPECT_EQ(functions.library_kernel(&kernel, library, "add"), Status::success);
  EXPECT_EQ(functions.kernel_function(&none, kernel), Status::success);
  EXPECT_EQ(none, function);
  EXPECT_EQ(functions.library_unload(library), Status::success);
}

TEST_F(EmulatedKernel, ReachesAPeerAfterAccessIsEnabledAlone) {
  cuda::Context second = nullptr;
  ASSERT_EQ(functions.primary_retain(&second, 1), Status::success);
  cuda::Address there = 0;
  {
    const cuda::ContextScope scope(functions, second);
    there = allocate(10);
    EXPECT_EQ(functions.fill(there, 0, 10), Status::success);
  }
  EXPECT_EQ(functions.context_enable_peer(second, 0), Status::success);
  EXPECT_EQ(functions.context_enable_peer(second, 0), Status::peer_access_already_enabled);
  EXPECT_EQ(launch(there, 10, 4), Status::success);
  EXPECT_THAT(read(there, 10), Each(4));
  EXPECT_EQ(functions.context_disable_peer(second), Status::success);
  EXPECT_EQ(functions.free(there), Status::success);
  EXPECT_EQ(functions.primary_release(1), Status::success);
}

/// The twin of "count" comes from an object of its own.
int use_twins_of_an_object(const Line&) {
  const cuda::Functions& functions = cuda_functions();
  cuda::Context context = nullptr;
  cuda::Module module = nullptr;
  cuda::Function function = nullptr;
  void* memory = nullptr;
  if (functions.primary_retain(&context, 0) != Status::success ||
      functions.context_push(context) != Status::success ||
      functions.host_allocate(&memory, 64, 0) != Status::success ||
      functions.module_load(&module, image) != Status::success ||
      functions.module_function(&function, module, "count") != Status::success)
    return 1;
  auto* counter = static_cast<unsigned*>(memory);
  *counter = 10;
  std::array<void*, 1> parameters{&counter};
  if (functions.launch(function, 2, 3, 1, 4, 1, 1, 0, nullptr, parameters.data(), nullptr) !=
          Status::success ||
      functions.stream_synchronize(nullptr) != Status::success || *counter != 10 + 2 * 3 * 4)
    return 2;
  functions.module_unload(module);
  functions.host_free(memory);
  functions.primary_release(0);
  return 0;
}
const Role use_twins_role("use twins of an object", use_twins_of_an_object);

TEST(EmulatedKernels, ComeFromObjectsToo) {
  const std::string object = emulated_path().substr(0, emulated_path().rfind('/')) + "/libemulated_twins.so";
  Player player("use twins of an object", {.settings = {"EMULATED_CUDA_TWINS=" + object}});
  EXPECT_EQ(player.end(), 0);
}

int illegal_access(const Line&) {
  const cuda::Functions& functions = cuda_functions();
  load_emulated().register_twins(twins);
  cuda::Context context = nullptr;
  cuda::Module module = nullptr;
  cuda::Function function = nullptr;
  cuda::Address memory = 0;
  if (functions.primary_retain(&context, 0) != Status::success ||
      functions.context_push(context) != Status::success ||
      functions.allocate(&memory, 10) != Status::success ||
      functions.module_load(&module, image) != Status::success ||
      functions.module_function(&function, module, "add") != Status::success)
    return 1;
  cuda::Address wild = 0x1000;
  unsigned count = 1;
  unsigned char value = 1;
  std::array<void*, 3> parameters{&wild, &count, &value};
  if (functions.launch(function, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters.data(), nullptr) != Status::success)
    return 2;
  if (functions.stream_synchronize(nullptr) != Status::illegal_address) return 3;
  if (functions.free(memory) != Status::illegal_address) return 4;
  int devices = 0;
  return functions.device_count(&devices) == Status::success ? 0 : 5;
}
const Role illegal_access_role("illegal access", illegal_access);

TEST(EmulatedFault, AnIllegalAccessOfAKernelSticks) {
  Player player("illegal access", {.settings = {"EMULATED_CUDA_LEAKS="}});
  EXPECT_EQ(player.end(), 0);
}

int leave_open(const Line&) {
  const cuda::Functions& functions = cuda_functions();
  cuda::Context context = nullptr;
  cuda::Stream stream = nullptr;
  functions.primary_retain(&context, 0);
  functions.context_push(context);
  functions.stream_create(&stream, 0);
  std::array<char, 200> text{};
  if (load_emulated().open_handles(text.data(), text.size()) != 2) return 1;
  return std::string(text.data()) == "1 x stream, 1 x retained primary context" ? 0 : 2;
}
const Role leave_open_role("leave open", leave_open);

TEST(EmulatedFault, WhatIsLeftOpenEndsTheProcessWithAStatusOfItsOwn) {
  EXPECT_EQ(Player("leave open", {.settings = {"EMULATED_CUDA_LEAKS=fail"}}).end(), 86);
  EXPECT_EQ(Player("leave open", {.settings = {"EMULATED_CUDA_LEAKS="}}).end(), 0);
}

TEST_F(EmulatedKernel, WaitsForSlowCopies) {
  const Fault slow("MEGABYTES_PER_SECOND", "10", "0");
  const cuda::Address memory = allocate(100'000);
  EXPECT_EQ(functions.fill_async(memory, 1, 100'000, nullptr), Status::success);
  EXPECT_EQ(functions.stream_query(nullptr), Status::not_ready) << "it takes 10 ms";
  EXPECT_EQ(launch(memory, 100'000, 1), Status::success);
  EXPECT_EQ(functions.stream_synchronize(nullptr), Status::success);
  EXPECT_EQ(functions.free(memory), Status::success);
}

TEST_F(EmulatedKernel, WaitsForAllStreamsWhenItIsLoadedLateAndForNoneAfterwards) {
  constexpr EmulatedTwin late[] = {{"late", add, add_parameters}, {nullptr, nullptr, nullptr}};
  control.register_twins(late);
  cuda::Stream waiting = nullptr;
  EXPECT_EQ(functions.stream_create(&waiting, cuda::stream_non_blocking), Status::success);
  void* pinned = nullptr;
  EXPECT_EQ(functions.host_allocate(&pinned, sizeof(unsigned), 0), Status::success);
  auto* const word = static_cast<unsigned*>(pinned);
  *word = 0;
  EXPECT_EQ(functions.stream_wait_value_32(waiting, address_of(word), 1, cuda::wait_equal), Status::success);
  const cuda::Address memory = allocate(32);
  EXPECT_EQ(launch(memory, 32, 1), Status::success);
  EXPECT_EQ(functions.stream_synchronize(nullptr), Status::success) << "it was loaded before";
  EXPECT_EQ(functions.module_function(&function, module, "late"), Status::success);
  EXPECT_EQ(launch(memory, 32, 1), Status::success);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(functions.stream_query(nullptr), Status::not_ready);
  __atomic_store_n(word, 1U, __ATOMIC_RELEASE);
  EXPECT_EQ(functions.stream_synchronize(nullptr), Status::success);
  EXPECT_EQ(functions.stream_synchronize(waiting), Status::success);
  __atomic_store_n(word, 0U, __ATOMIC_RELEASE);
  EXPECT_EQ(functions.stream_wait_value_32(waiting, address_of(word), 1, cuda::wait_equal), Status::success);
  EXPECT_EQ(launch(memory, 32, 1), Status::success);
  EXPECT_EQ(functions.stream_synchronize(nullptr), Status::success);
  __atomic_store_n(word, 1U, __ATOMIC_RELEASE);
  EXPECT_EQ(functions.stream_synchronize(waiting), Status::success);
  EXPECT_EQ(functions.stream_destroy(waiting), Status::success);
  EXPECT_EQ(functions.free(memory), Status::success);
  EXPECT_EQ(functions.host_free(pinned), Status::success);
}

TEST(EmulatedFault, SticksAfterSoManyCalls) {
  const cuda::Functions& functions = cuda_functions();
  const Control& control = load_emulated();
  control.set("STICKY_AFTER", "3");
  {
    const Fault sticky("STICKY", "719", "0");
    std::uint64_t id = 0;
    const auto ask = [&] {
      return functions.pointer_attribute(&id, cuda::PointerAttribute::buffer_id, address_of(&id));
    };
    EXPECT_EQ(ask(), Status::invalid_value);
    EXPECT_EQ(ask(), Status::invalid_value);
    EXPECT_EQ(ask(), Status::launch_failed);
    EXPECT_EQ(ask(), Status::launch_failed);
  }
  EXPECT_EQ(control.set("STICKY_AFTER", "0"), 0);
  EXPECT_EQ(control.set("NO_SUCH_FAULT", "0"), -1);
}

TEST(EmulatedDriver, GivesItsFunctionsByName) {
  const auto find = reinterpret_cast<decltype(&emulated::cuGetProcAddress_v2)>(symbol("cuGetProcAddress_v2"));
  void* function = nullptr;
  int found = -1;
  EXPECT_EQ(find("cuMemAlloc", &function, 13000, 0, &found), Status::success);
  EXPECT_EQ(function, symbol("cuMemAlloc_v2"));
  EXPECT_EQ(found, 0);
  EXPECT_EQ(find("cuNoSuchThing", &function, 13000, 0, &found), Status::not_found);
  const char* text = nullptr;
  const cuda::Functions& functions = cuda_functions();
  EXPECT_EQ(functions.error_name(Status::invalid_context, &text), Status::success);
  EXPECT_STREQ(text, "CUDA_ERROR_INVALID_CONTEXT");
  EXPECT_EQ(functions.error_name(static_cast<Status>(12345), &text), Status::invalid_value);
}

}  // namespace
}  // namespace isthmus::testing_cuda::emulated_kernel_test
