// Messages in GPU memory while memory runs out, at the n-th allocation from the first of them on, for every
// n: each time in a new engine, which has not used a GPU before. On one host and between hosts.
#include <vector>

#include "carried.hpp"
#include "emulated_control.hpp"

namespace isthmus::testing_ranks {
namespace {

/// The first device of the emulated driver.
class EmulatedDevice final : public Device {
 public:
  EmulatedDevice() { EXPECT_EQ(functions_.primary_retain(&context_, 0), cuda::Status::success); }
  ~EmulatedDevice() { functions_.primary_release(0); }
  EmulatedDevice(const EmulatedDevice&) = delete;
  EmulatedDevice& operator=(const EmulatedDevice&) = delete;

  std::byte* allocate(std::size_t bytes) override {
    cuda::Address address = 0;
    with_context([&] { return functions_.allocate(&address, bytes); });
    return reinterpret_cast<std::byte*>(address);
  }
  void free(std::byte* data) override {
    with_context([&] { return functions_.free(reinterpret_cast<cuda::Address>(data)); });
  }
  void copy(std::byte* to, const std::byte* from, std::size_t bytes) override {
    with_context([&] {
      return functions_.copy(reinterpret_cast<cuda::Address>(to), reinterpret_cast<cuda::Address>(from),
                             bytes);
    });
  }

 private:
  template <class Call>
  void with_context(const Call& call) {
    EXPECT_EQ(functions_.context_push(context_), cuda::Status::success);
    EXPECT_EQ(call(), cuda::Status::success);
    cuda::Context popped = nullptr;
    EXPECT_EQ(functions_.context_pop(&popped), cuda::Status::success);
  }

  const cuda::Functions& functions_ = testing_cuda::cuda_functions();
  cuda::Context context_ = nullptr;
};

/// In the message itself, behind it, in one chunk, in several.
std::vector<Flight> flights(Device& device) {
  std::vector<Flight> all;
  for (const std::uint64_t bytes : {8, 2000, 20'000, 300'000})
    for (const bool is_early : {false, true}) {
      all.push_back({.bytes = bytes, .is_early = is_early, .from = &device, .to = &device});
      all.push_back({.bytes = bytes, .is_early = is_early, .from = &device});
      all.push_back({.bytes = bytes, .is_early = is_early, .to = &device});
    }
  return all;
}

void carry_all(std::uint32_t hosts) {
  EmulatedDevice device;
  Settings settings;
  settings.gpu_chunk = 64 * 1024;
  exhaust(flights(device), hosts, settings);
}

TEST(GpuMemoryTest, MessagesOfAHostEnd) {
  carry_all(1);
}

TEST(NetworkGpuMemoryTest, MessagesBetweenHostsEnd) {
  if (!why_no_network().empty()) GTEST_SKIP() << why_no_network();
  carry_all(2);
}

}  // namespace
}  // namespace isthmus::testing_ranks
