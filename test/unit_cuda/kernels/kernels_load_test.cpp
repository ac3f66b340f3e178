// Kernels that are loaded beforehand run while a stream waits for what the processor does (`src/stream` needs
// that).
#include <chrono>
#include <thread>

#include "kernels_fixture.hpp"

namespace isthmus::testing_cuda::kernels_load_test {
namespace {

using cuda::Status;

class KernelLoading : public KernelTest {
 protected:
  /// Each kernel there is but the courier, which stays on the GPU, on that stream.
  void run_each(cuda::Stream stream) {
    const GpuStream where{0, stream};
    const CopyPiece piece{to_.data(), from_.data(), 64};
    EXPECT_TRUE(kernels.copy(where, {&piece, 1}));
    const std::byte* const source = from_.data();
    std::byte* const result = to_.data();
    for (const OpCode code :
         {OpCode::sum, OpCode::prod, OpCode::min, OpCode::max, OpCode::band, OpCode::bor, OpCode::bxor,
          OpCode::land, OpCode::lor, OpCode::lxor, OpCode::minloc, OpCode::maxloc})
      for_each_basic([&](const BasicInfo& facts) {
        const Op& op = Op::predefined(code);
        const Datatype& type = Datatype::basic(facts.basic);
        if (GpuKernels::can_reduce(op, type))
          EXPECT_TRUE(kernels.reduce(where, op, type, {&source, 1}, result, 1));
      });
    for (const std::uint64_t unit : {1U, 2U, 4U, 8U, 16U})
      EXPECT_TRUE(kernels.move(where, {.data = from_.data()}, {.data = to_.data()}, unit));
  }

 private:
  DeviceBytes from_{functions, 64}, to_{functions, 64};
};

TEST_F(KernelLoading, NoKernelWaitsForAStreamThatWaitsOnceAllAreLoaded) {
  ASSERT_EQ(kernels.load_all(0), "");
  void* word = nullptr;
  ASSERT_EQ(functions.host_allocate(&word, 64, 0), Status::success);
  __atomic_store_n(static_cast<unsigned*>(word), 0U, __ATOMIC_RELEASE);
  cuda::Stream waiting = nullptr, other = nullptr;
  cuda::Event end = nullptr;
  ASSERT_EQ(functions.stream_create(&waiting, cuda::stream_non_blocking), Status::success);
  ASSERT_EQ(functions.stream_create(&other, cuda::stream_non_blocking), Status::success);
  ASSERT_EQ(functions.event_create(&end, cuda::event_disable_timing), Status::success);
  ASSERT_EQ(
      functions.stream_wait_value_32(waiting, reinterpret_cast<cuda::Address>(word), 1, cuda::wait_equal),
      Status::success);

  run_each(other);
  EXPECT_EQ(functions.event_record(end, other), Status::success);
  Status ended = Status::not_ready;
  for (int i = 0; i < 1000 && ended == Status::not_ready; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ended = functions.event_query(end);
  }
  EXPECT_EQ(ended, Status::success);
  EXPECT_EQ(functions.stream_query(waiting), Status::not_ready);

  __atomic_store_n(static_cast<unsigned*>(word), 1U, __ATOMIC_RELEASE);
  EXPECT_EQ(functions.context_synchronize(), Status::success);
  functions.event_destroy(end);
  functions.stream_destroy(other);
  functions.stream_destroy(waiting);
  functions.host_free(word);
}

}  // namespace
}  // namespace isthmus::testing_cuda::kernels_load_test
