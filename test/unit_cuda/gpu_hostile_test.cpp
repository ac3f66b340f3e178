// An engine with messages in GPU memory whose peer writes what no honest rank writes.
#include <array>
#include <memory>
#include <vector>

#include "channel/shm/ring_writer.hpp"
#include "cuda_fixture.hpp"
#include "launch/job.hpp"
#include "p2p/engine.hpp"
#include "wire/gpu.hpp"

namespace isthmus::testing_cuda {
namespace {

/// Rank 0 is an engine, and rank 1 the test, which writes to the region by hand.
class GpuHostile : public CudaTest {
 protected:
  static constexpr std::uint64_t bytes = 200'000;

  void SetUp() override {
    constexpr wire::RingGeometry geometry{64, 64 * 1024};
    auto made = launch::local_jobs(2, geometry);
    ASSERT_TRUE(made);
    jobs_ = std::move(*made);
    jobs_[0].in_process = false;  // as if the other were a process of its own
    Settings settings;
    settings.warn = false;
    auto engine = Engine::make(jobs_[0], settings);
    ASSERT_TRUE(engine);
    engine_ = std::move(*engine);
    engine_->open_context(Engine::world_context, 2);
    const std::uint32_t number = region().header().rings_used.fetch_add(1);
    out_ = RingWriter(region().ring(number), geometry);
    region().directory(0)[1].store(number + 1);
    region().block(0).connections.fetch_add(1);
    address_ = allocate(bytes);
  }
  void TearDown() override {
    engine_.reset();
    EXPECT_EQ(functions.free(address_), Status::success);
  }

  const wire::RegionView& region() { return jobs_[0].region; }
  template <class T>
  void write(wire::CellKind kind, const T& payload) {
    ASSERT_TRUE(out_.has_cell());
    out_.publish({.context = 0,
                  .source = 1,
                  .tag = 5,
                  .size = 0,
                  .kind = kind,
                  .flag = wire::CellFlag::none,
                  .reserved = 0},
                 &payload, sizeof payload);
    region().doorbells(0)[0].fetch_or(2);
    for (int i = 0; i < 20; ++i)
      engine_->progress();
  }
  /// Of the memory of a GPU.
  Request* start_send() {
    return engine_->start_send({1, 0, 0, 5}, Payload::of(reinterpret_cast<void*>(address_), bytes));
  }

  std::vector<launch::Job> jobs_;
  std::unique_ptr<Engine> engine_;
  RingWriter out_;
  cuda::Address address_ = 0;
};

TEST_F(GpuHostile, NoProcessorReadsGpuMemoryBecauseAPeerAsksForIt) {
  Request* send = start_send();
  ASSERT_TRUE(send);
  ASSERT_FALSE(send->complete);
  const wire::Cookie cookie = send->cookie();
  write(wire::CellKind::clear_to_send, wire::ReceiveOffer{cookie, 9, bytes});
  write(wire::CellKind::split_start, wire::SplitOffer{cookie, address_, bytes, 0, 102'400});
  EXPECT_FALSE(send->complete);
  EXPECT_EQ(send->transfer, Request::Transfer::none);
  write(wire::CellKind::share_done, cookie);
  EXPECT_TRUE(send->complete);
  EXPECT_EQ(send->status.error, 0);
  engine_->free(send);
}

TEST_F(GpuHostile, ASendThatHasFailedEndsItsReceive) {
  for (const bool is_posted : {true, false}) {
    std::array<std::byte, 100> memory{};
    MatchContext& world = engine_->open_context(Engine::world_context, 2);
    const wire::GpuOffer nothing{
        .sender = 3, .bytes = 100, .offset = 0, .number = wire::failed_send, .latency_bound = 0};
    Request* receive = nullptr;
    const auto post = [&] { receive = engine_->start_receive(world, 1, 5, Payload::of(memory.data(), 100)); };
    if (is_posted) post();
    write(wire::CellKind::gpu_offer, nothing);
    if (!is_posted) post();
    ASSERT_TRUE(receive->complete);
    EXPECT_EQ(receive->status.error, static_cast<int>(ErrorClass::other));
    EXPECT_EQ(receive->status.bytes, 0U);
    engine_->free(receive);
  }
}

}  // namespace
}  // namespace isthmus::testing_cuda
