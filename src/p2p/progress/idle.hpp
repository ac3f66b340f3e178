#pragma once

#include <cstdint>

#include "p2p/progress/wait_telling.hpp"

namespace isthmus {

class EngineLock;
class Links;
class LossWatch;
class PollList;
class RankTurns;

/// What the waits of an engine have in common.
struct Waiting {
  Links& links;
  EngineLock& lock;
  PollList& polled;
  LossWatch& losses;
  WaitTelling& telling;
  bool has_network = false;
  RankTurns* turns = nullptr;  ///< of this rank, where its process has several; null: it is one
};

/// What a waiting thread does between two fruitless looks: poll, let others run, sleep, by the job's policy.
/// One object per wait.
class Idle {
 public:
  /// `subject`: what is waited for, should it take long. Without one nothing is told of this wait.
  explicit Idle(const Waiting& waiting, WaitSubject subject = {}) noexcept
      : waiting_(waiting), subject_(subject) {}
  ~Idle() {
    reset();
    if (told_) [[unlikely]]
      waiting_.telling.end(*this);
  }
  Idle(const Idle&) = delete;
  Idle& operator=(const Idle&) = delete;

  /// Something happened: begin again with polling.
  void reset() noexcept {
    looks_ = 0;
    polled_enough_ = false;
    if (announced_) withdraw();
  }
  /// Nothing happened. Returns after a moment with the engine's lock held again; may sleep until a peer or
  /// thread has news.
  void pause();

 private:
  void pause_spinning();
  void pause_sharing();
  void pause_napping();
  void pause_taking_turns();

  void withdraw() noexcept;
  /// After a while without news: it may be that who was to send it has died.
  void look_after_peers();
  /// What this wait is for, in the region.
  void tell(std::int64_t now);
  /// The first fruitless look after something had happened.
  void count_news();
  /// Whether this wait has lasted as long as a rank polls before it yields (ISTHMUS_SPIN_MICROSECONDS).
  bool has_polled_enough() noexcept;

  const Waiting& waiting_;
  const WaitSubject subject_;
  std::uint32_t looks_ = 0;
  bool polled_enough_ = false;
  std::int64_t began_ = 0;         ///< nanoseconds of the steady clock, from the first look that read it on
  std::int64_t waited_from_ = 0;   ///< the same, from the first time that it had polled enough
  std::uint32_t times_fed_ = 0;    ///< how often something else happened than what is waited for
  bool announced_ = false;         ///< peers have been told that this rank may sleep
  std::uint32_t sleeps_seen_ = 0;  ///< of the worker, where its process has several ranks
  bool told_ = false;              ///< this wait has become long
  std::int64_t tell_at_ = 0;       ///< when it is to be told (again)
  const char* call_ = nullptr;     ///< the MPI function that it belongs to, once it has been told
};

}  // namespace isthmus
