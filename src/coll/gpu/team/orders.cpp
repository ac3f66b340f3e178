// Short collectives whose members' GPUs meet: rooms.hpp.
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>

#include "coll/gpu/team/gpu_team.hpp"
#include "coll/team/step.hpp"
#include "p2p/progress/poll_list.hpp"

namespace isthmus::coll {
namespace {

/// After how many short collectives that have gone otherwise rooms are made, which take some milliseconds,
/// and memory; and made again where some member had none of its data in GPU memory so far.
constexpr unsigned calls_before_rooms = 3;
constexpr unsigned most_calls_before_rooms = 1024;
/// Looks at the GPU before one at everything else.
constexpr unsigned looks_at_a_time = 8;

/// While it lives, no thread of the rank sleeps: a GPU wakes nobody.
class Awake final : public Polled {
 public:
  explicit Awake(PollList& list) : list_(list) { list_.add(*this); }
  Awake(const Awake&) = delete;
  Awake& operator=(const Awake&) = delete;
  ~Awake() { list_.remove(*this); }

  unsigned poll() override { return 0; }
  [[nodiscard]] bool wakes_nobody() const noexcept override { return true; }

 private:
  PollList& list_;
};

/// What every member says of itself, bit by bit; the bits that all have said. Collective.
Result<std::uint8_t> all_say(Team& team, const GpuCall& call, std::uint8_t mine) {
  Step step(team, call.collective, call.root, call.bytes);
  std::memcpy(step.room(sizeof mine), &mine, sizeof mine);
  ISTHMUS_TRY(step.exchange());
  std::uint8_t all = mine;
  for (int i = 0; i < team.size(); ++i)
    if (i != team.rank()) all &= std::to_integer<std::uint8_t>(*step.heard(i, sizeof mine));
  return all;
}
constexpr std::uint8_t said_can = 1;
constexpr std::uint8_t said_courier = 2;

}  // namespace

// --- rooms

Result<std::unique_ptr<GpuRooms>> GpuTeam::make_own_room() {
  cuda::PrimaryContexts& contexts = gpu_->copies().contexts();
  auto context = contexts.of(device_);
  if (!context) return std::unexpected(std::move(context).error());
  const cuda::ContextScope scope(contexts.functions(), *context);
  auto first = queue(0);
  if (!first) return std::unexpected(std::move(first).error());
  if (!pool_) pool_ = std::make_unique<DevicePool>(contexts, DevicePool::Limits{});
  return GpuRooms::make(*gpu_, *pool_, **first, device_, team_.rank(), team_.size());
}

std::unique_ptr<GpuRooms> GpuTeam::make_rooms() {
  const bool may = gpu_->may_meet() && device_ != cuda::no_device;
  auto made = may ? make_own_room() : Result<std::unique_ptr<GpuRooms>>(nullptr);
  if (!made) gpu_->note(team_.peer(team_.rank()), made.error());
  GpuCall call{.collective = Collective::barrier, .send = {}, .receive = {}};
  const bool has_own = made && *made;
  if (has_own) call.send = {(*made)->own(), true};
  call.barred = !has_own;
  auto view = begin(call);
  if (!view || !*view) return nullptr;
  // All have handed theirs over, or a window in its place.
  Result<> opened;
  const bool is_of_use = has_own && !(*view)->by_window && (*view)->all_send && (*view)->has_kernels;
  for (int i = 0; is_of_use && opened && i < team_.size(); ++i) {
    if (i == team_.rank()) continue;
    auto here = send_of(**view, i, (*made)->own().bytes);
    const auto& entry = (*view)->offers[static_cast<std::size_t>(i)].send.entry;
    if (here)
      (*made)->open(i, *here, tables_[static_cast<std::size_t>(i)][entry].mapping);
    else
      opened = std::unexpected(std::move(here).error());
  }
  if (is_of_use && opened) {
    const cuda::PrimaryContexts& contexts = gpu_->copies().contexts();
    auto context = gpu_->copies().contexts().of(device_);
    if (context) {
      const cuda::ContextScope scope(contexts.functions(), *context);
      auto first = queue(0);
      opened = first ? (*made)->complete(**first) : std::unexpected(std::move(first).error());
    } else {
      opened = std::unexpected(std::move(context).error());
    }
  }
  const bool is_ready = is_of_use && opened;
  if (!end(call, std::move(opened))) return nullptr;
  auto all = all_say(team_, call, is_ready && gpu_->has_to_itself(device_) ? said_can : 0);
  return all && *all == said_can ? std::move(*made) : nullptr;
}

void GpuTeam::saw_short(const GpuCall& call) {
  if (call.order.bytes == 0 || rooms_ || short_calls_ >= most_calls_before_rooms) return;
  ++short_calls_;
  // The 3rd, 6th, 12th one and so on.
  if (short_calls_ % calls_before_rooms == 0 && std::has_single_bit(short_calls_ / calls_before_rooms))
    rooms_ = make_rooms();
}

// --- orders

bool GpuTeam::can_obey(const GpuCall& call) {
  std::array<Buffer, 2> buffers;
  if (rooms_have_failed_ || !rooms_->is_alive() || !locate(call, buffers)) return false;
  for (const Buffer& buffer : buffers)
    if (buffer.bytes != 0 && (buffer.device != rooms_->device() || buffer.is_host_readable())) return false;
  return true;
}

Result<> GpuTeam::carry_out(const GpuCall& call, bool by_courier) {
  cuda::PrimaryContexts& contexts = gpu_->copies().contexts();
  auto context = contexts.of(device_);
  if (!context) return std::unexpected(std::move(context).error());
  const cuda::ContextScope scope(contexts.functions(), *context);
  auto first = queue(0);
  if (!first) return std::unexpected(std::move(first).error());
  GpuQueue& where = **first;
  auto round = rooms_->begin(call.order, by_courier, where);
  if (!round) return std::unexpected(std::move(round).error());
  const std::atomic<std::uint64_t>& failed = team_.area().header().gpu_failed;
  bool has_ended = false;
  Result<bool> done = false;
  // Others of this rank's threads go on meanwhile: another member may wait for one of them.
  const Awake awake(team_.engine().polled());
  team_.engine().wait_for([&] {
    for (unsigned looks = 0; looks < looks_at_a_time; ++looks) {
      done = rooms_->is_done(where);
      if (!done || *done) return true;
    }
    if (!has_ended && (team_.is_broken() || failed.load(std::memory_order_acquire) != 0)) {
      // Its kernel still looks at this member's buffers, until it has seen that nobody waits.
      rooms_->end();
      has_ended = true;
    }
    return false;
  });
  if (!done) return std::unexpected(std::move(done).error());
  if (!has_ended) return {};
  rooms_have_failed_ = true;
  if (team_.is_broken() && !team_.wait([] { return false; })) return team_.loss();
  return fail(ErrorClass::other, "the GPU of another rank could not do its part of a collective");
}

MetOnGpu GpuTeam::meet_on_gpu(const GpuCall& call) {
  if (!rooms_ || call.order.bytes == 0 || !room_patience_.asks()) return std::nullopt;
  const bool can = can_obey(call);
  const bool by_courier = can && rooms_->may_use_courier(call.order.bytes);
  auto all =
      all_say(team_, call, static_cast<std::uint8_t>((can ? said_can : 0) | (by_courier ? said_courier : 0)));
  if (!all) return MetOnGpu(std::in_place, std::unexpect, std::move(all).error());
  const bool all_can = (*all & said_can) != 0;
  room_patience_.heard(all_can);
  if (!all_can || (call.is_for_couriers && (*all & said_courier) == 0)) return std::nullopt;
  Result<> done = carry_out(call, by_courier);
  if (!done && !rooms_have_failed_) {
    // The others wait for what does not come.
    rooms_have_failed_ = true;
    rooms_->end();
    team_.area().header().gpu_failed.store(1, std::memory_order_release);
    team_.notify_all();
  }
  return MetOnGpu(std::move(done));
}

}  // namespace isthmus::coll
