#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "p2p/link/links.hpp"

namespace isthmus {

/// Finds out which processes of the job are no more. What a loss ends is its listener's to do. Guarded by the
/// engine's lock.
class LossWatch {
 public:
  class Listener {
   public:
    /// What needs the process `id` ends in `ErrorClass::proc_aborted`, now and from now on. `warns`: says
    /// `why`. A loss is final; one that is known already changes nothing.
    virtual void lose(PeerId id, const std::string& why, bool warns) = 0;

   protected:
    ~Listener() = default;
  };

  LossWatch(const Links& links, Listener& listener) noexcept : links_(links), listener_(listener) {}
  LossWatch(const LossWatch&) = delete;
  LossWatch& operator=(const LossWatch&) = delete;

  /// From now on processes of other hosts are looked for, too.
  void watch_other_hosts() noexcept { other_hosts_ = true; }
  /// Looks which processes have ended, and says so to the listener and to the others of the region.
  void look();
  /// The same at most every 100 ms; for who waits in vain. Without memory, the next time.
  void look_after_peers() noexcept;
  /// Whether the process in that slot is no more, without having finalized.
  [[nodiscard]] bool has_ended(std::uint32_t slot) const noexcept;
  /// The same if another process of the region has found a loss.
  void look_if_told() {
    if (deaths_told() != deaths_seen_) look();
  }
  /// The launcher ends the job, and says which rank was killed by what. It is given the time to, once, before
  /// this rank complains about what is but a consequence: returns when it has had it.
  void wait_for_launcher();

 private:
  /// How often others have said that there is something to look for: the processes of the region, and the
  /// launcher.
  [[nodiscard]] std::uint32_t deaths_told() const noexcept;
  /// Adds those of whom the launcher says so, because they are, for it, on other hosts.
  void find_dead_elsewhere(std::vector<PeerId>& found);
  /// As `wait_for_launcher`, without waiting: what goes on without the dead goes on meanwhile.
  [[nodiscard]] bool launcher_had_time() noexcept;
  void announce_losses() noexcept;

  const Links& links_;
  Listener& listener_;
  bool other_hosts_ = false;
  std::uint32_t deaths_seen_ = 0;
  std::int64_t next_look_ = 0;            ///< for processes that have ended; nanoseconds of the steady clock
  std::int64_t launcher_known_from_ = 0;  ///< since when a loss is known that it may act upon; 0: none is
  struct Dying {
    PeerId id;
    std::int64_t since;  ///< nanoseconds of the steady clock
  };
  std::vector<Dying> dying_;  ///< have ended on other hosts; what they have sent may still be on its way
};

}  // namespace isthmus
