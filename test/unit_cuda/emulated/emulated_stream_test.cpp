// What the emulated driver does with streams and events, as the real one.
#include <atomic>
#include <numeric>
#include <thread>

#include "cuda_fixture.hpp"

namespace isthmus::testing_cuda::emulated_stream_test {
namespace {

using testing::Each;
using namespace std::chrono_literals;

class EmulatedStream : public CudaTest {
 protected:
  EmulatedStream() {
    EXPECT_EQ(functions.stream_create(&stream, cuda::stream_non_blocking), Status::success);
    EXPECT_EQ(functions.stream_create(&other, cuda::stream_non_blocking), Status::success);
    void* memory = nullptr;
    EXPECT_EQ(functions.host_allocate(&memory, 4096, 0), Status::success);
    word = static_cast<std::atomic<std::uint32_t>*>(memory);
  }
  ~EmulatedStream() override {
    EXPECT_EQ(functions.stream_destroy(stream), Status::success);
    EXPECT_EQ(functions.stream_destroy(other), Status::success);
    EXPECT_EQ(functions.host_free(word), Status::success);
  }
  /// Holds a stream up until `word` is 1.
  void block(cuda::Stream which) const {
    EXPECT_EQ(functions.stream_wait_value_32(which, address_of(word), 1, cuda::wait_equal), Status::success);
  }

  cuda::Stream stream = nullptr, other = nullptr;
  std::atomic<std::uint32_t>* word = nullptr;
};

TEST_F(EmulatedStream, CopiesLaterThanTheCallAndInOrder) {
  const cuda::Address memory = allocate(1000);
  block(stream);
  EXPECT_EQ(functions.fill_async(memory, 1, 1000, stream), Status::success);
  EXPECT_EQ(functions.fill_async(memory, 2, 500, stream), Status::success);
  std::this_thread::sleep_for(5ms);
  EXPECT_EQ(functions.stream_query(stream), Status::not_ready);
  EXPECT_THAT(read(memory, 1000), Each(0));
  *word = 1;
  EXPECT_EQ(functions.stream_synchronize(stream), Status::success);
  EXPECT_EQ(functions.stream_query(stream), Status::success);
  EXPECT_THAT(read(memory, 500), Each(2));
  EXPECT_THAT(read(memory + 500, 500), Each(1));
  EXPECT_EQ(functions.free(memory), Status::success);
}

TEST_F(EmulatedStream, OthersWaitForItsEvents) {
  cuda::Event event = nullptr;
  ASSERT_EQ(functions.event_create(&event, cuda::event_disable_timing), Status::success);
  EXPECT_EQ(functions.event_query(event), Status::success) << "never recorded";
  const cuda::Address memory = allocate(100);
  block(stream);
  EXPECT_EQ(functions.fill_async(memory, 1, 100, stream), Status::success);
  EXPECT_EQ(functions.event_record(event, stream), Status::success);
  EXPECT_EQ(functions.stream_wait_event(other, event, 0), Status::success);
  EXPECT_EQ(functions.fill_async(memory, 2, 100, other), Status::success);
  std::this_thread::sleep_for(5ms);
  EXPECT_EQ(functions.event_query(event), Status::not_ready);
  EXPECT_EQ(functions.stream_query(other), Status::not_ready);
  *word = 1;
  EXPECT_EQ(functions.event_synchronize(event), Status::success);
  EXPECT_EQ(functions.stream_synchronize(other), Status::success);
  EXPECT_THAT(read(memory, 100), Each(2));
  EXPECT_EQ(functions.event_destroy(event), Status::success);
  EXPECT_EQ(functions.event_query(event), Status::invalid_handle);
  EXPECT_EQ(functions.free(memory), Status::success);
}

TEST_F(EmulatedStream, TheLegacyStreamAndBlockingStreamsWaitForEachOther) {
  cuda::Stream blocking = nullptr;
  ASSERT_EQ(functions.stream_create(&blocking, cuda::stream_default), Status::success);
  block(blocking);
  EXPECT_EQ(functions.stream_write_value_32(nullptr, address_of(word + 1), 5, 0), Status::success);
  std::this_thread::sleep_for(5ms);
  EXPECT_EQ(word[1], 0U);
  EXPECT_EQ(functions.stream_query(stream), Status::success) << "non-blocking streams take no part";
  *word = 1;
  EXPECT_EQ(functions.context_synchronize(), Status::success);
  EXPECT_EQ(word[1], 5U);
  EXPECT_EQ(functions.stream_destroy(blocking), Status::success);
}

TEST_F(EmulatedStream, BatchesOfMemoryOperationsRunInTheirOrder) {
  std::array<cuda::StreamOperation, 3> batch{{{.type = cuda::StreamOperationType::wait_value_32,
                                               .address = address_of(word),
                                               .value = 3,
                                               .flags = cuda::wait_at_least},
                                              {.type = cuda::StreamOperationType::barrier},
                                              {.type = cuda::StreamOperationType::write_value_64,
                                               .address = address_of(word + 2),
                                               .value = 1ULL << 40U}}};
  ASSERT_EQ(functions.stream_batch(stream, 3, batch.data(), 0), Status::success);
  EXPECT_EQ(functions.stream_query(stream), Status::not_ready);
  *word = 4;
  EXPECT_EQ(functions.stream_synchronize(stream), Status::success);
  EXPECT_EQ(word[3], 256U);
  std::uint32_t pageable = 0;
  EXPECT_EQ(functions.stream_write_value_32(stream, address_of(&pageable), 1, 0), Status::invalid_value);
}

TEST_F(EmulatedStream, CallsHostFunctions) {
  std::atomic<int> calls{0};
  EXPECT_EQ(functions.launch_host_function(
                stream, [](void* counter) { ++*static_cast<std::atomic<int>*>(counter); }, &calls),
            Status::success);
  EXPECT_EQ(functions.stream_synchronize(stream), Status::success);
  EXPECT_EQ(calls, 1);
}

TEST_F(EmulatedStream, CopiesRowsOfTwoDimensions) {
  const cuda::Address memory = allocate(64);
  std::vector<unsigned char> bytes(64);
  std::iota(bytes.begin(), bytes.end(), 0);
  ASSERT_EQ(functions.copy(memory, address_of(bytes.data()), 64), Status::success);
  std::vector<unsigned char> column(8, 99);
  const cuda::Copy2D copy{.source_x = 3,
                          .source_type = cuda::MemoryType::device,
                          .source = memory,
                          .source_pitch = 8,
                          .target_type = cuda::MemoryType::host,
                          .target_host = column.data(),
                          .target_pitch = 1,
                          .width = 1,
                          .height = 8};
  ASSERT_EQ(functions.copy_2d(&copy), Status::success);
  EXPECT_THAT(column, testing::ElementsAre(3, 11, 19, 27, 35, 43, 51, 59));
  EXPECT_EQ(functions.free(memory), Status::success);
}

TEST_F(EmulatedStream, CopiesBetweenDevicesWithoutPeerAccessToo) {
  cuda::Context second = nullptr;
  ASSERT_EQ(functions.primary_retain(&second, 1), Status::success);
  const cuda::Address here = allocate(100);
  cuda::Address there = 0;
  {
    const cuda::ContextScope scope(functions, second);
    there = allocate(100);
  }
  EXPECT_EQ(functions.fill(here, 5, 100), Status::success);
  EXPECT_EQ(functions.copy_peer_async(there, second, here, context, 100, stream), Status::success);
  EXPECT_EQ(functions.stream_synchronize(stream), Status::success);
  EXPECT_THAT(read(there, 100), Each(5));
  EXPECT_EQ(functions.free(here), Status::success);
  EXPECT_EQ(functions.free(there), Status::success);
  EXPECT_EQ(functions.primary_release(1), Status::success);
}

class EmulatedCapture : public EmulatedStream {};

TEST_F(EmulatedCapture, RecordsWorkAndReplaysIt) {
  const cuda::Address memory = allocate(100);
  EXPECT_EQ(functions.stream_begin_capture(stream, cuda::CaptureMode::global), Status::success);
  EXPECT_EQ(functions.fill_async(memory, 6, 100, stream), Status::success);
  cuda::CaptureStatus status{};
  EXPECT_EQ(functions.stream_is_capturing(stream, &status), Status::success);
  EXPECT_EQ(status, cuda::CaptureStatus::active);
  cuda::Graph graph = nullptr;
  ASSERT_EQ(functions.stream_end_capture(stream, &graph), Status::success);
  EXPECT_THAT(read(memory, 100), Each(0));
  cuda::GraphExec executable = nullptr;
  ASSERT_EQ(functions.graph_instantiate(&executable, graph, 0), Status::success);
  EXPECT_EQ(functions.graph_launch(executable, stream), Status::success);
  EXPECT_EQ(functions.stream_synchronize(stream), Status::success);
  EXPECT_THAT(read(memory, 100), Each(6));
  EXPECT_EQ(functions.graph_exec_destroy(executable), Status::success);
  EXPECT_EQ(functions.graph_destroy(graph), Status::success);
  EXPECT_EQ(functions.free(memory), Status::success);
}

TEST_F(EmulatedCapture, IsInvalidatedByWhatItForbidsUnlessTheThreadIsRelaxed) {
  cuda::Graph graph = nullptr;
  cuda::Address memory = 0;
  EXPECT_EQ(functions.stream_begin_capture(stream, cuda::CaptureMode::global), Status::success);
  {
    const cuda::ContextScope scope(functions, context);
    EXPECT_EQ(functions.allocate(&memory, 100), Status::success);
  }
  EXPECT_EQ(functions.stream_end_capture(stream, &graph), Status::success);
  EXPECT_EQ(functions.graph_destroy(graph), Status::success);

  EXPECT_EQ(functions.stream_begin_capture(stream, cuda::CaptureMode::global), Status::success);
  EXPECT_EQ(functions.free(memory), Status::stream_capture_unsupported);
  EXPECT_EQ(functions.fill_async(memory, 1, 1, stream), Status::stream_capture_invalidated);
  EXPECT_EQ(functions.stream_end_capture(stream, &graph), Status::stream_capture_invalidated);

  EXPECT_EQ(functions.stream_begin_capture(stream, cuda::CaptureMode::relaxed), Status::success);
  EXPECT_EQ(functions.free(memory), Status::success);
  EXPECT_EQ(functions.stream_query(stream), Status::stream_capture_unsupported);
  EXPECT_EQ(functions.stream_end_capture(stream, &graph), Status::stream_capture_invalidated);
}

TEST_F(EmulatedCapture, ForbidsTheLegacyStreamWhileABlockingStreamCaptures) {
  cuda::Stream blocking = nullptr;
  ASSERT_EQ(functions.stream_create(&blocking, cuda::stream_default), Status::success);
  EXPECT_EQ(functions.stream_begin_capture(blocking, cuda::CaptureMode::relaxed), Status::success);
  EXPECT_EQ(functions.stream_write_value_32(nullptr, address_of(word), 5, 0),
            Status::stream_capture_implicit);
  cuda::Graph graph = nullptr;
  EXPECT_EQ(functions.stream_end_capture(blocking, &graph), Status::stream_capture_invalidated);
  EXPECT_EQ(functions.stream_destroy(blocking), Status::success);
}

TEST_F(EmulatedCapture, SpreadsByEvents) {
  cuda::Event event = nullptr;
  ASSERT_EQ(functions.event_create(&event, cuda::event_disable_timing), Status::success);
  EXPECT_EQ(functions.stream_begin_capture(stream, cuda::CaptureMode::relaxed), Status::success);
  EXPECT_EQ(functions.event_record(event, stream), Status::success);
  EXPECT_EQ(functions.stream_wait_event(other, event, 0), Status::success);
  cuda::CaptureStatus status{};
  EXPECT_EQ(functions.stream_is_capturing(other, &status), Status::success);
  EXPECT_EQ(status, cuda::CaptureStatus::active);
  cuda::Graph graph = nullptr;
  EXPECT_EQ(functions.stream_end_capture(other, &graph), Status::stream_capture_unmatched);
  EXPECT_EQ(functions.stream_end_capture(stream, &graph), Status::success);
  EXPECT_EQ(functions.graph_destroy(graph), Status::success);
  EXPECT_EQ(functions.event_destroy(event), Status::success);
}

}  // namespace
}  // namespace isthmus::testing_cuda::emulated_stream_test
