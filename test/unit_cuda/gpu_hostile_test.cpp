// An engine with messages in GPU memory whose peer writes what no honest rank writes.
#include <unistd.h>

#include <array>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "channel/shm/ring_writer.hpp"
#include "cuda_fixture.hpp"
#include "gpu/memory/classify.hpp"
#include "launch/job.hpp"
#include "p2p/engine.hpp"
#include "vmm_memory.hpp"
#include "wire/gpu.hpp"

namespace isthmus::testing_cuda::gpu_hostile_test {
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
    auto box = launch::DescriptorBox::make();
    ASSERT_TRUE(box);
    peers_box_ = std::make_unique<launch::DescriptorBox>(UniqueFd(::dup(box->get())), 1);
    jobs_[0].box = std::make_shared<launch::DescriptorBox>(std::move(*box), 0);
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
  void write(wire::CellKind kind, const T& payload, int tag = 5, const wire::GpuExport* piece = nullptr) {
    ASSERT_TRUE(out_.has_cell());
    const wire::CellHeader header{.context = 0,
                                  .source = 1,
                                  .tag = tag,
                                  .size = piece ? std::uint32_t{sizeof *piece} : 0U,
                                  .kind = kind,
                                  .flag = wire::CellFlag::none,
                                  .mark = 0};
    if (piece) {
      std::byte* const to = out_.reserve(header.size);
      ASSERT_TRUE(to);
      std::memcpy(to, piece, sizeof *piece);
      out_.publish_reserved(header, &payload, sizeof payload);
    } else {
      out_.publish(header, &payload, sizeof payload);
    }
    region().doorbells(0)[0].fetch_or(2);
    for (int i = 0; i < 20; ++i)
      engine_->progress();
  }
  /// Into the memory of a GPU.
  Request* start_receive() {
    MatchContext& world = engine_->open_context(Engine::world_context, 2);
    return engine_->start_receive(world, 1, 5, Payload::of(reinterpret_cast<void*>(address_), bytes));
  }
  /// Memory that the peer can hand over. Its descriptor is in the box where it `has_left` it.
  wire::GpuExport lend(const VmmMemory& memory, bool has_left) {
    CudaDriver driver;
    Classifier classifier(driver);
    const auto self = ProcessIdentity::here();
    Exporter exporter(functions, *self);
    const auto buffer = classifier.classify(reinterpret_cast<void*>(memory.address), memory.bytes);
    const auto offer = exporter.offer(*buffer);
    EXPECT_TRUE(offer);
    wire::GpuExport what{.memory = *offer, .descriptor = -1, .ticket = 7};
    what.memory.exporter = 0x7001;
    if (has_left)
      EXPECT_TRUE(peers_box_->leave(0, what.left(), exporter.descriptor(offer->allocation)->get()));
    return what;
  }
  /// Of the memory of a GPU.
  Request* start_send() {
    return engine_->start_send({1, 0, 0, 5}, Payload::of(reinterpret_cast<void*>(address_), bytes));
  }

  std::vector<launch::Job> jobs_;
  std::unique_ptr<launch::DescriptorBox> peers_box_;
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

// Once by way of a window and once through the host: the second would end a receive that has ended.
TEST_F(GpuHostile, AMessageInChunksBeginsOnceWhateverItGoesThrough) {
  const VmmMemory memory(functions, 0);
  Request* const receive = start_receive();
  const wire::Cookie cookie = receive->cookie();
  write(wire::CellKind::gpu_offer,
        wire::GpuOffer{.sender = 3, .bytes = bytes, .offset = 0, .number = 0, .latency_bound = 0});
  ASSERT_EQ(receive->transfer, Request::Transfer::push);
  write(wire::CellKind::gpu_end, wire::GpuEnd{cookie, wire::GpuOutcome::hindered, 0});
  ASSERT_EQ(receive->transfer, Request::Transfer::staged);
  const wire::GpuExport window = lend(memory, true);
  write(wire::CellKind::gpu_window, wire::GpuWindow{cookie}, 1, &window);
  wire::RegionHeap heap = region().heap();
  const auto header = heap.allocate(wire::staging_data);
  const auto area = heap.allocate(wire::least_area);
  ASSERT_TRUE(header && area);
  const auto window_bytes = static_cast<std::uint32_t>(memory.bytes);
  write(wire::CellKind::staged, wire::StageStart{cookie, *header, 0, wire::staging_data, window_bytes}, 1);
  write(wire::CellKind::staged, wire::StageStart{cookie, *area, 0, wire::least_area, wire::least_window}, 0);
  ASSERT_FALSE(receive->complete);
  const auto filled = [&](std::uint64_t offset) -> auto& {
    return reinterpret_cast<wire::StagingHeader*>(heap.at(offset, sizeof(wire::StagingHeader)).data())
        ->filled;
  };
  filled(*header).store(bytes);
  engine_->wait(*receive);
  EXPECT_EQ(receive->status.bytes, bytes);
  EXPECT_EQ(receive->status.error, 0);
  // What comes the other way has no business in the program's buffer any more.
  EXPECT_EQ(functions.fill(address_, 0x33, bytes), Status::success);
  EXPECT_EQ(functions.context_synchronize(), Status::success);
  filled(*area).store(bytes);
  for (int i = 0; i < 2000; ++i)
    engine_->progress();
  EXPECT_EQ(functions.context_synchronize(), Status::success);
  EXPECT_THAT(read(address_, bytes), testing::Each(0x33));
  engine_->free(receive);
}

TEST_F(GpuHostile, WhatALostPeerHasPromisedIsNotWaitedFor) {
  const VmmMemory memory(functions, 0);
  Request* const receive = start_receive();
  const wire::GpuExport never_left = lend(memory, false);
  write(wire::CellKind::gpu_offer,
        wire::GpuOffer{.sender = 3, .bytes = bytes, .offset = 0, .number = 0, .latency_bound = 0}, 5,
        &never_left);
  ASSERT_FALSE(receive->complete);
  EXPECT_TRUE(engine_->gpu()->wakes_nobody()) << "or this proves nothing";
  engine_->lose(1, "it is gone", false);
  EXPECT_TRUE(receive->complete);
  EXPECT_FALSE(engine_->gpu()->wakes_nobody());
  engine_->free(receive);
}

}  // namespace
}  // namespace isthmus::testing_cuda::gpu_hostile_test
