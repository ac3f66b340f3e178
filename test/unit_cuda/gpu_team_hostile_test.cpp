// A member of a GPU team whose memory a peer writes while the two agree on a collective.
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "coll/gpu/team/gpu_team.hpp"
#include "cuda_fixture.hpp"
#include "launch/job.hpp"
#include "p2p/engine.hpp"

namespace isthmus::testing_cuda::gpu_team_hostile_test {
namespace {

/// Rank 0 is a member of a team of two; rank 1 is the test, which writes to their area by hand.
class GpuTeamHostile : public CudaTest {
 protected:
  static constexpr std::uint64_t bytes = 100'000;
  static constexpr int own = 0, peer = 1;

  void SetUp() override {
    auto made = launch::local_jobs(2, {64, 64 * 1024});
    ASSERT_TRUE(made);
    jobs_ = std::move(*made);
    jobs_[0].in_process = false;  // as if the other were a process of its own
    auto box = launch::DescriptorBox::make();
    ASSERT_TRUE(box);
    jobs_[0].box = std::make_shared<launch::DescriptorBox>(std::move(*box), 0);
    Settings settings;
    settings.warn = false;
    auto engine = Engine::make(jobs_[0], settings);
    ASSERT_TRUE(engine);
    engine_ = std::move(*engine);
    comm_ =
        Communicator::make(*engine_, make_ref<Group>(std::vector<PeerId>{0, 1}), Engine::first_job_context);
    auto team = coll::Team::make(*comm_);
    ASSERT_TRUE(team && *team);
    team_ = std::move(*team);
    ASSERT_TRUE(engine_->gpu());
    gpu_team_ = std::make_unique<coll::GpuTeam>(*team_, *engine_->gpu());
    address_ = allocate(bytes);
  }
  void TearDown() override {
    gpu_team_.reset();
    team_.reset();
    comm_ = {};
    engine_.reset();
    EXPECT_EQ(functions.free(address_), Status::success);
  }

  /// The other member of step `number`: hears what rank 0 says, changes it to `instead` where it stands, and
  /// says `answer`.
  template <class Said, class Answer>
  void answer(std::uint64_t number, const Said* instead, const Answer& answer) {
    coll::Line& heard = team_->area().line(number, own);
    while (heard.sequence.load(std::memory_order_acquire) != number)
      std::this_thread::yield();
    if (instead) std::memcpy(heard.data.data(), instead, sizeof *instead);
    coll::Line& mine = team_->area().line(number, peer);
    std::memcpy(mine.data.data(), &answer, sizeof answer);
    mine.call = heard.call;
    mine.sequence.store(number, std::memory_order_release);
    team_->area().finished(peer).sequence.store(number, std::memory_order_release);
  }

  std::vector<launch::Job> jobs_;
  std::unique_ptr<Engine> engine_;
  Ref<Communicator> comm_;
  std::unique_ptr<coll::Team> team_;
  std::unique_ptr<coll::GpuTeam> gpu_team_;
  cuda::Address address_ = 0;
};

TEST_F(GpuTeamHostile, AMemberBelievesItselfAndNotWhatStandsInItsLine) {
  std::byte* const buffer = reinterpret_cast<std::byte*>(address_);
  const coll::GpuCall call{.collective = coll::Collective::bcast,
                           .root = own,
                           .bytes = bytes,
                           .send = {.payload = Payload::of(buffer, bytes), .offered = true},
                           .receive = {}};
  std::uint64_t step = 0;
  // In the first round the buffer is named, in the others it is known; each entry is beyond those that are.
  for (const std::uint8_t entry : {200, 254, 5}) {
    const bool is_fresh = entry == 200;
    coll::GpuOffer said;
    said.send = {.offset = bytes, .entry = entry, .fresh = is_fresh ? std::uint8_t{1} : std::uint8_t{0}};
    said.takes_part = 1;
    const coll::GpuOffer answered{.send = {}, .receive = {}, .takes_part = 1};
    {
      const std::jthread other([&] {
        answer(++step, &said, answered);
        if (is_fresh) answer<coll::GpuVerdict>(++step, nullptr, coll::GpuVerdict{});
        answer<std::int32_t>(++step, nullptr, std::int32_t{0});
      });
      const auto view = gpu_team_->begin(call);
      EXPECT_TRUE(view && *view);
      if (view && *view) {
        const auto place = gpu_team_->send_of(**view, own, bytes);
        EXPECT_TRUE(place) << place.error().text();
        EXPECT_EQ(place.value_or(nullptr), buffer);
      }
      EXPECT_TRUE(gpu_team_->end(call, {}));
    }
  }
}

TEST_F(GpuTeamHostile, WhatAMemberHasNotLeftIsWaitedForOnceInAll) {
  const coll::GpuCall call{.collective = coll::Collective::bcast,
                           .root = peer,
                           .bytes = bytes,
                           .send = {.payload = Payload::of(reinterpret_cast<std::byte*>(address_), bytes)},
                           .receive = {},
                           .root_is_enough = true};
  constexpr int calls = 12;
  coll::GpuOffer named;
  named.send = {.offset = 0, .entry = 0, .fresh = 1};
  named.takes_part = 1;
  coll::GpuSaid said{};
  said.fresh.send.memory.kind = ExportKind::vmm;
  said.fresh.send.memory.exporter = 0x7001;
  said.fresh.send.memory.room = said.fresh.send.memory.bytes = bytes;
  said.fresh.send.descriptor = -1;
  const auto begun = std::chrono::steady_clock::now();
  {
    std::uint64_t step = 0;
    const std::jthread other([&] {
      for (int i = 0; i < calls; ++i) {
        said.fresh.send.memory.allocation = said.fresh.send.ticket = static_cast<std::uint32_t>(i + 1);
        std::memcpy(team_->area().slot(step + 1, peer), &said, sizeof said);
        answer<coll::GpuOffer>(++step, nullptr, named);
        answer<coll::GpuVerdict>(++step, nullptr, coll::GpuVerdict{});
      }
    });
    for (int i = 0; i < calls; ++i) {
      const auto view = gpu_team_->begin(call);
      ASSERT_TRUE(view);
      EXPECT_FALSE(*view) << "a member's memory that has not come";
    }
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begun, launch::DescriptorBox::patience * calls / 2);
}

}  // namespace
}  // namespace isthmus::testing_cuda::gpu_team_hostile_test
