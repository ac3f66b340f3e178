#include "coll/team/team.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "base/system/processor.hpp"
#include "coll/area/line_readers.hpp"
#include "coll/flow/ranks.hpp"
#include "coll/messages/algorithms.hpp"
#include "coll/team/flat.hpp"

namespace isthmus::coll {
namespace {

/// Looks at a line before the first progress: one to two microseconds. With shared cores, whoever is waited
/// for may need this one.
constexpr unsigned looks_with_own_core = 1000;
constexpr unsigned looks_on_shared_core = 1;

/// How rank 0 tells the others where memory is.
struct Place {
  static constexpr std::uint64_t none = ~std::uint64_t{0};
  std::uint64_t offset = none;
};

/// The same of the area, and how longer calls go there.
struct Beginning {
  static constexpr std::uint32_t by_table = 0, live = 1;
  Place place;
  std::uint32_t calls = by_table;
  std::uint32_t forced = 0;  ///< as `CollectiveWaySetting`
};

}  // namespace

bool measures_calls(const Engine& engine) {
  const Settings& settings = engine.settings();
  const bool has_cores = !engine.peers_sleep() || settings.origin("ISTHMUS_PLANS") == Origin::environment;
  return settings.plans == PlansSetting::live && has_cores && !engine.job().turns &&
         engine.region().header().idle != wire::IdlePolicy::nap;
}

bool is_on_several_sockets(const Communicator& comm) {
  const Engine& engine = comm.engine();
  const auto socket_of = [&](int rank) {
    const auto slot = engine.job().slot_of(comm.peer(rank));
    return slot ? engine.region().block(*slot).place.package : -1;
  };
  for (int rank = 1; rank < comm.size(); ++rank)
    if (socket_of(rank) != socket_of(0)) return true;
  return false;
}

Result<std::unique_ptr<Team>> Team::make(Communicator& comm) {
  const AreaLayout layout(comm.size());
  wire::RegionHeap heap = comm.engine().region().heap();
  Beginning beginning;
  Place& place = beginning.place;
  if (comm.rank() == 0) {
    beginning.calls = measures_calls(comm.engine()) ? Beginning::live : Beginning::by_table;
    beginning.forced = static_cast<std::uint32_t>(comm.engine().settings().collective_way);
    // Without room the collectives go over messages: slower, and as right.
    if (const auto offset = heap.allocate(layout.bytes())) {
      place.offset = *offset;
      std::memset(heap.at(*offset, layout.bytes()).data(), 0, layout.control_bytes());
    }
  }
  const Ranks ranks(comm, Tag::set_up);
  ISTHMUS_TRY(bcast_binomial(ranks, Payload::of(&beginning, sizeof beginning), 0).result());

  if (place.offset == Place::none) return nullptr;

  auto memory = memory_named_by_rank_0(heap, place.offset, layout.bytes());
  if (!memory) return std::unexpected(std::move(memory).error());
  const Area area(layout, *memory);
  area.header().members.fetch_add(1, std::memory_order_acq_rel);
  std::unique_ptr<LiveCalls> live;
  const bool is_forced = beginning.forced > 0 && beginning.forced <= team_way_count;
  if (is_forced || beginning.calls == Beginning::live)
    live = std::make_unique<LiveCalls>(LiveCalls::Member{
        .rank = comm.rank(),
        .size = comm.size(),
        .forced = is_forced ? way_of(static_cast<CollectiveWaySetting>(beginning.forced)) : std::nullopt,
        .shared = SharedCallLessons(comm.engine().region().header().call_lessons),
        .messages = SharedLessons(comm.engine().region().header().lessons),
        .eager_limit = comm.engine().eager_limit(),
        .map_rings = [&comm](std::uint64_t bytes) {
          for (int rank = 0; rank < comm.size(); ++rank)
            if (rank != comm.rank()) comm.engine().map_rings(comm.peer(rank), bytes);
        }});
  return std::unique_ptr<Team>(new Team(comm, area, place.offset, std::move(live)));
}

Team::Team(Communicator& comm, const Area& area, std::uint64_t offset, std::unique_ptr<LiveCalls> live)
    : comm_(comm),
      engine_(comm.engine()),
      area_(area),
      offset_(offset),
      rank_(comm.rank()),
      size_(comm.size()),
      seat_(rank_),
      sleeps_(engine_.peers_sleep()),
      hands_back_(hands_back_lines(engine_.settings().lines)),
      looks_(sleeps_ ? looks_on_shared_core : looks_with_own_core),
      live_(std::move(live)) {
  if (live_ && rank_ == 0) engine_.join_call_reports(*live_);
}

Team::~Team() {
  if (live_ && rank_ == 0) engine_.leave_call_reports(*live_);
  // Who has died does not count itself: then the area stays in the region's heap.
  if (has_left_) return;
  // Members come and go at their own pace: the last of all of them has counted up to the size twice.
  const auto everybody = 2 * static_cast<std::uint32_t>(size_);
  if (area_.header().members.fetch_add(1, std::memory_order_acq_rel) + 1 == everybody) {
    engine_.region().heap().release(offset_, AreaLayout(size_).bytes());
    if (stage_bytes_ != 0)
      engine_.region().heap().release(stage_offset_, stage_bytes_ * static_cast<unsigned>(size_));
  }
}

/// A member will not come any more. This one ends its step and touches the shared area no more: from now on
/// it talks to itself, so that algorithms may go on to their end without harm.
///
/// The others may not know yet, and may still be using memory that this member has named in its step. So it
/// takes back its line and waits for those who have read it.
void Team::leave() {
  if (std::exchange(has_left_, true)) return;
  Line& line = area_.line(step_, rank_);
  if (line.sequence.load(std::memory_order_relaxed) == step_)
    line.sequence.store(0, std::memory_order_relaxed);
  area_.finished(rank_).sequence.store(step_, std::memory_order_release);
  see_line_readers();
  notify_all();
  int other = 0;
  engine_.wait_for([&] {
    for (; other < size_; ++other) {
      const bool in_step = other != rank_ && !engine_.has_lost(peer(other)) &&
                           area_.line(step_, other).sequence.load(std::memory_order_acquire) == step_ &&
                           area_.finished(other).sequence.load(std::memory_order_acquire) < step_;
      if (in_step) return false;
    }
    return true;
  });
  const AreaLayout layout(size_);
  // Going on in the shared one would harm those that live, so that is what it waits for.
  engine_.wait_for([&] {
    own_area_.reset(new (std::nothrow) std::byte[layout.bytes() + wire::cache_line]);
    return own_area_ != nullptr;
  });
  const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(own_area_.get());
  std::byte* const aligned =
      own_area_.get() + (wire::cache_line - begin % wire::cache_line) % wire::cache_line;
  std::memset(aligned, 0, layout.control_bytes());
  area_ = Area(layout, aligned);
}

void Team::take_seats(std::span<const int> order) {
  if (std::ranges::is_sorted(order)) return;
  seats_.assign(order.begin(), order.end());
  seat_ = static_cast<int>(std::ranges::find(seats_, rank_) - seats_.begin());
}

Result<std::byte*> Team::stage(std::uint64_t bytes) {
  const auto all = [this](std::uint64_t each) { return each * static_cast<unsigned>(size_); };
  wire::RegionHeap heap = engine_.region().heap();
  if (stage_step_ > all_finished_) wait_for_readers(stage_step_);
  if (has_left_) return loss();
  ++stagings_;
  if (bytes > stage_bytes_) {
    Place place;
    if (rank_ == 0) {
      if (stage_bytes_ != 0) heap.release(stage_offset_, all(stage_bytes_));
      if (const auto offset = heap.allocate(all(bytes))) place.offset = *offset;
    }
    ISTHMUS_TRY(bcast_flat(*this, Payload::of(&place, sizeof place), 0));
    stage_bytes_ = place.offset == Place::none ? 0 : bytes;
    stage_offset_ = place.offset;
    if (stage_bytes_ == 0) return nullptr;
  }
  return memory_named_by_rank_0(heap, stage_offset_, all(stage_bytes_));
}

Result<bool> Team::direct() {
  if (direct_ == Direct::unknown) {
    // Who has come here has published what the others try. Asked before, a member that has not joined yet
    // would be out of reach, and the team would never copy directly.
    ISTHMUS_TRY(barrier_flat(*this));
    bool reach = true;
    for (int i = 0; i < size_ && reach; ++i)
      if (i != rank_)
        reach = engine_.pull_reach(peer(i)).has_value() && engine_.push_reach(peer(i)).has_value();
    Result<bool> everybody = agree(*this, reach);
    if (!everybody) return everybody;
    direct_ = *everybody ? Direct::yes : Direct::no;
    if (live_) live_->set_spread(is_on_several_sockets(comm_));
  }
  return direct_ == Direct::yes;
}

TeamWay Team::begin_call(const Question& question, TeamWay assumed, TeamWays possible) {
  const std::uint64_t next = step_ + 1;
  if (next > all_finished_ + depth) wait_for_readers(next - depth);
  if (has_left_) return assumed;
  return live_->begin(area_, {.next = next, .finished = all_finished_}, question, assumed, possible);
}

bool Team::ask_for_gpu() {
  if (gpu_since_ == 0) {
    gpu_since_ = gpu_call_;
    // Before the first look at the others: see `wake_gpu_members`.
    area_.header().gpu_members.fetch_add(1, std::memory_order_seq_cst);
    area_.presence(rank_).gpu_since.store(gpu_call_, std::memory_order_release);
    notify_all();
  }
  for (; gpu_known_ < size_; ++gpu_known_) {
    const Presence& other = area_.presence(gpu_known_);
    wait([&] {
      return other.gpu_since.load(std::memory_order_acquire) != 0 ||
             other.entered.load(std::memory_order_acquire) >= gpu_call_;
    });
    const std::uint64_t since = other.gpu_since.load(std::memory_order_acquire);
    if (since == 0 || since > gpu_call_) return false;
  }
  return true;
}

void Team::wake_gpu_members() noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (area_.header().gpu_members.load(std::memory_order_seq_cst) != 0) wake_all();
}

bool Team::look_for_readers(std::uint64_t step) noexcept {
  for (; next_reader_ < size_; ++next_reader_) {
    const std::uint64_t finished = area_.finished(next_reader_).sequence.load(std::memory_order_acquire);
    if (finished < step) return false;
    least_finished_ = std::min(least_finished_, finished);
  }
  return true;
}

void Team::wait_for_readers(std::uint64_t step) {
  next_reader_ = 0;
  least_finished_ = step_;
  if (!look_for_readers(step)) {
    // Announced before the look that decides to sleep: see `wake_writers`.
    std::atomic<std::uint32_t>& waiting = area_.header().waiting_writers;
    if (sleeps_) waiting.fetch_add(1, std::memory_order_seq_cst);
    wait([&] { return look_for_readers(step); });
    if (sleeps_) waiting.fetch_sub(1, std::memory_order_relaxed);
  }
  all_finished_ = least_finished_;
}

void Team::wake_all() noexcept {
  for (int i = 0; i < size_; ++i)
    if (i != rank_) engine_.notify(peer(i));
}

void Team::wake_writers() noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (area_.header().waiting_writers.load(std::memory_order_seq_cst) != 0) wake_all();
}

}  // namespace isthmus::coll
