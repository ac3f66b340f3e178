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
  ~Awake() override { list_.remove(*this); }

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

template <class Body>
Result<> GpuTeam::on_first_queue(Body body) {
  cuda::PrimaryContexts& contexts = gpu_->copies().contexts();
  auto context = contexts.of(device_);
  if (!context) return std::unexpected(std::move(context).error());
  const cuda::ContextScope scope(contexts.functions(), *context);
  auto first = queue(0);
  if (!first) return std::unexpected(std::move(first).error());
  return body(**first);
}

Result<> GpuTeam::make_own_room() {
  return on_first_queue([&](GpuQueue& where) -> Result<> {
    if (!pool_) pool_ = std::make_unique<DevicePool>(gpu_->copies().contexts(), DevicePool::Limits{});
    auto made = GpuRooms::make(*gpu_, *pool_, where, device_, team_.rank(), team_.size());
    if (!made) return std::unexpected(std::move(made).error());
    rooms_ = std::move(*made);
    return {};
  });
}

Result<> GpuTeam::open_rooms(const GpuView& view) {
  for (int i = 0; i < team_.size(); ++i) {
    if (i == team_.rank()) continue;
    auto here = send_of(view, i, rooms_->own().bytes);
    if (!here) return std::unexpected(std::move(here).error());
    const std::uint8_t entry = view.offers[static_cast<std::size_t>(i)].send.entry;
    rooms_->open(i, *here, tables_[static_cast<std::size_t>(i)][entry].mapping);
  }
  return on_first_queue([&](GpuQueue& where) { return rooms_->complete(where); });
}

bool GpuTeam::make_rooms() {
  if (gpu_->may_meet() && device_ != cuda::no_device)
    if (auto made = make_own_room(); !made) gpu_->note(team_.peer(team_.rank()), made.error());
  GpuCall call{.collective = Collective::barrier, .send = {}, .receive = {}};
  if (rooms_) call.send = {rooms_->own(), true};
  call.barred = !rooms_;
  auto view = begin(call);
  if (!view || !*view) return false;
  // All have handed theirs over, or a window in its place.
  const bool is_of_use = !(*view)->by_window && (*view)->all_send && (*view)->has_kernels;
  if (!end(call, is_of_use ? open_rooms(**view) : Result<>())) return false;
  auto all = all_say(team_, call, is_of_use && gpu_->has_to_itself(device_) ? said_can : 0);
  return all && *all == said_can;
}

void GpuTeam::saw_short(const GpuCall& call) {
  if (call.order.bytes == 0 || rooms_ || short_calls_ >= most_calls_before_rooms) return;
  ++short_calls_;
  // The 3rd, 6th, 12th one and so on.
  if (short_calls_ % calls_before_rooms != 0 || !std::has_single_bit(short_calls_ / calls_before_rooms))
    return;
  ++rooms_made_;
  if (!make_rooms()) rooms_.reset();
}

// --- orders

bool GpuTeam::can_obey(const GpuCall& call) {
  std::array<Buffer, 2> buffers;
  if (rooms_have_failed_ || !rooms_->is_alive() || !locate(call, buffers)) return false;
  for (const Buffer& buffer : buffers)
    if (buffer.bytes != 0 && (buffer.device != rooms_->device() || buffer.is_host_readable())) return false;
  return true;
}

Result<> GpuTeam::carry_out(const GpuCall& call, bool by_courier, GpuQueue& where) {
  ISTHMUS_TRY(rooms_->begin(call.order, by_courier, where));
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
    if (!has_ended && (team_.is_broken() || failed.load(std::memory_order_acquire) == rooms_made_)) {
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
  Patience& patience = call.is_for_couriers ? courier_patience_ : room_patience_;
  if (!rooms_ || call.order.bytes == 0 || !patience.asks()) return std::nullopt;
  const bool can = can_obey(call);
  const bool by_courier = can && rooms_->may_use_courier(call.order.bytes);
  auto all =
      all_say(team_, call, static_cast<std::uint8_t>((can ? said_can : 0) | (by_courier ? said_courier : 0)));
  if (!all) return MetOnGpu(std::in_place, std::unexpect, std::move(all).error());
  const std::uint8_t needed = call.is_for_couriers ? said_can | said_courier : said_can;
  const bool goes = (*all & needed) == needed;
  patience.heard(goes);
  if (!goes) return std::nullopt;
  Result<> done = on_first_queue([&](GpuQueue& where) { return carry_out(call, by_courier, where); });
  if (!done && !rooms_have_failed_) {
    // The others wait for what does not come.
    rooms_have_failed_ = true;
    rooms_->end();
    team_.area().header().gpu_failed.store(rooms_made_, std::memory_order_release);
    team_.notify_all();
  }
  return MetOnGpu(std::move(done));
}

}  // namespace isthmus::coll
