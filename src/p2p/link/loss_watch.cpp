#include "p2p/link/loss_watch.hpp"

#include <algorithm>
#include <chrono>
#include <new>
#include <thread>

namespace isthmus {
namespace {

constexpr std::int64_t nanoseconds_between_looks = 100'000'000;
/// For what a process of another host has sent before its end.
constexpr std::int64_t nanoseconds_to_arrive = 500'000'000;
/// For a launcher to end a job that has lost a rank.
constexpr std::int64_t nanoseconds_for_launcher = 500'000'000;

std::int64_t steady_now() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

void LossWatch::look_after_peers() noexcept {
  const std::int64_t time = steady_now();
  if (time < next_look_) return;
  next_look_ = time + nanoseconds_between_looks;
  try {
    look();
  } catch (const std::bad_alloc&) {
    return;  // they are found the next time
  }
}

bool LossWatch::has_ended(std::uint32_t slot) const noexcept {
  const launch::Job& job = links_.job();
  const wire::Life life = links_.region().block(slot).life.load(std::memory_order_acquire);
  if (life != wire::Life::ended && (life != wire::Life::locked || !job.life || !job.life->is_free(slot)))
    return false;
  // Read after the lock: who has finalized may end as it likes.
  return links_.region().roster(job.members[slot]).load(std::memory_order_acquire) !=
         wire::RosterState::finalized;
}

std::uint32_t LossWatch::deaths_told() const noexcept {
  const launch::Job& job = links_.job();
  std::uint32_t told = job.region.header().deaths.load(std::memory_order_acquire);
  if (job.inherited) told += job.inherited->header().deaths.load(std::memory_order_acquire);
  return told;
}

void LossWatch::look() {
  deaths_seen_ = deaths_told();
  std::vector<PeerId> found;
  for (std::uint32_t slot = 0; slot < links_.job().members.size(); ++slot) {
    const PeerId id = links_.job().members[slot];
    if (slot != links_.slot() && !links_.has_lost(id) && has_ended(slot)) found.push_back(id);
  }
  find_dead_elsewhere(found);
  if (found.empty() || !launcher_had_time()) return;
  const bool launcher_tells = links_.job().notices().header().outlives != 0;
  for (const PeerId id : found)
    listener_.lose(id, "its process has ended", !launcher_tells);
  announce_losses();
}

void LossWatch::find_dead_elsewhere(std::vector<PeerId>& found) {
  const launch::Job& job = links_.job();
  // The launcher has a host for each of its agents, also where several are on one, and their ranks have met.
  if (!other_hosts_ && !job.inherited) return;
  const auto roster = job.notices().roster();
  for (PeerId id = 0; id < links_.size(); ++id) {
    const bool is_dead = roster[id].load(std::memory_order_acquire) == wire::RosterState::dead;
    if (!is_dead || id == links_.rank() || links_.has_lost(id)) continue;
    // Who has finalized may end as it likes.
    if (job.slot_of(id) &&
        job.region.roster(id).load(std::memory_order_acquire) == wire::RosterState::finalized)
      continue;
    const auto known = std::ranges::find(dying_, id, &Dying::id);
    if (known == dying_.end())
      dying_.push_back({id, steady_now()});
    else if (steady_now() - known->since >= nanoseconds_to_arrive)
      found.push_back(id);
  }
}

void LossWatch::announce_losses() noexcept {
  const wire::RegionView& region = links_.region();
  region.header().deaths.fetch_add(1, std::memory_order_acq_rel);
  ++deaths_seen_;
  for (std::uint32_t slot = 0; slot < links_.job().members.size(); ++slot) {
    if (slot == links_.slot()) continue;
    region.block(slot).connections.fetch_add(1, std::memory_order_acq_rel);
    if (links_.peers_sleep()) links_.wake(slot);
  }
}

bool LossWatch::launcher_had_time() noexcept {
  const launch::Job& job = links_.job();
  if (job.singleton || job.in_process || job.notices().header().outlives != 0) return true;
  if (launcher_known_from_ == 0) launcher_known_from_ = steady_now();
  return steady_now() - launcher_known_from_ >= nanoseconds_for_launcher;
}

void LossWatch::wait_for_launcher() {
  if (launcher_had_time()) return;
  std::this_thread::sleep_for(
      std::chrono::nanoseconds(launcher_known_from_ + nanoseconds_for_launcher - steady_now()));
}

}  // namespace isthmus
