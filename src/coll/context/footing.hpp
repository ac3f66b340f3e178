#pragma once

#include <memory>

#include "base/error.hpp"
#include "coll/area/patience.hpp"
#include "coll/context/hierarchy.hpp"
#include "coll/gpu/team/gpu_team.hpp"
#include "coll/team/team.hpp"
#include "comm/communicator.hpp"

namespace isthmus::coll {

/// Whether all members of an intracommunicator share a region, now and for as long as it lives. True for one
/// member exactly if it is for all.
[[nodiscard]] bool on_one_host(const Communicator& comm);

/// On what footing the members of an intracommunicator work together; found out at its first collective. All
/// members know the same.
class Footing final : public CollectiveState {
 public:
  static Result<Footing*> of(Communicator& comm) {
    if (comm.collective_state) [[likely]]
      return static_cast<Footing*>(comm.collective_state.get());
    return make(comm);
  }

  /// Where all members share memory; null where they do not, or there was no room.
  [[nodiscard]] Team* team() const noexcept { return team_.get(); }
  /// Where they are on several hosts, and on some of them several; with a team, on several sockets, and on
  /// some of them several.
  [[nodiscard]] const Hierarchy* hierarchy() const noexcept {
    return hierarchy_ && !hierarchy_->is_flat() ? hierarchy_.get() : nullptr;
  }
  /// Where they are on several hosts, even if each is alone on its own.
  [[nodiscard]] const Hierarchy* hosts() const noexcept { return team_ ? nullptr : hierarchy_.get(); }
  /// When members on several hosts ask each other whether all have their data in GPU memory.
  [[nodiscard]] Patience& patience() noexcept { return patience_; }
  /// The GPUs of this member's host have not reached each other in such a collective: this member is to say
  /// no for some questions.
  void avoid_hosts() noexcept { avoid_ = 64; }
  /// Counts a question: whether this one is among them.
  [[nodiscard]] bool avoids_hosts() noexcept {
    if (avoid_ == 0) return false;
    --avoid_;
    return true;
  }
  /// What the team's members know of each other's GPU memory. Only with a team.
  [[nodiscard]] GpuTeam& gpu_team(GpuMessages& gpu) {
    if (!gpu_team_) gpu_team_ = std::make_unique<GpuTeam>(*team_, gpu);
    return *gpu_team_;
  }

 private:
  Footing(std::unique_ptr<Team> team, std::unique_ptr<Hierarchy> hierarchy)
      : team_(std::move(team)), hierarchy_(std::move(hierarchy)) {}
  static Result<Footing*> make(Communicator& comm);

  std::unique_ptr<Team> team_;
  std::unique_ptr<Hierarchy> hierarchy_;
  std::unique_ptr<GpuTeam> gpu_team_;
  Patience patience_;
  int avoid_ = 0;
};

}  // namespace isthmus::coll
