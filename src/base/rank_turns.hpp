#pragma once

#include <atomic>
#include <cstdint>
#include <span>

namespace isthmus {

/// Where others write to a rank that shares its process with further ones.
struct RankPost {
  std::span<const std::atomic<std::uint64_t>> doorbells;  ///< not all 0: somebody has written to it
  /// Who wakes a rank of this process counts this word up, and wakes who sleeps on it. All ranks of the
  /// process give the same one.
  std::atomic<std::uint32_t>* wakes = nullptr;
};

/// The ranks of a process that has several: they share one thread, and the one that waits gives way to
/// another (src/vrank). But for `wake`, called by that thread alone.
class RankTurns {
 public:
  RankTurns(const RankTurns&) = delete;
  RankTurns& operator=(const RankTurns&) = delete;

  /// Whether `rank` of the job is one of this process.
  [[nodiscard]] virtual bool is_here(std::uint32_t rank) const noexcept = 0;
  /// The rank whose turn it is has joined the job. `post` must outlive its turns.
  virtual void joined(const RankPost& post) = 0;
  /// The rank whose turn it is has looked in vain, and lets others have theirs. Returns at its next turn.
  /// `had_news`: something has happened since its last turn. `may_sleep`: it has announced, after `announces`
  /// has become true, that it may sleep: the process may, once all of its ranks have, and have looked again.
  virtual void give_way(bool had_news, bool may_sleep) noexcept = 0;
  /// Something has happened that a rank of this process waits for: it looks again, if it sleeps. From any
  /// thread.
  virtual void wake() noexcept = 0;
  /// Whether who waits has to announce now that it may sleep.
  [[nodiscard]] bool announces() const noexcept { return announces_; }
  /// How often the process has slept.
  [[nodiscard]] std::uint32_t sleeps() const noexcept { return sleeps_; }

 protected:
  RankTurns() = default;
  ~RankTurns() = default;
  bool announces_ = false;
  std::uint32_t sleeps_ = 0;
};

}  // namespace isthmus
