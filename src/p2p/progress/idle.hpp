#pragma once

#include <cstdint>

namespace isthmus {

class EngineLock;
class Links;
class LossWatch;
class PollList;

/// What the waits of an engine have in common.
struct Waiting {
  Links& links;
  EngineLock& lock;
  PollList& polled;
  LossWatch& losses;
  bool has_network = false;
};

/// What a waiting thread does between two fruitless looks: poll, let others run, sleep, by the job's policy.
/// One object per wait.
class Idle {
 public:
  explicit Idle(const Waiting& waiting) noexcept : waiting_(waiting) {}
  ~Idle() { reset(); }
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

  void withdraw() noexcept;
  /// After a while without news: it may be that who was to send it has died.
  void look_after_peers();
  /// The first fruitless look after something had happened.
  void count_news();
  /// Whether this wait has lasted as long as a rank polls before it yields (ISTHMUS_SPIN_MICROSECONDS).
  bool has_polled_enough() noexcept;

  const Waiting& waiting_;
  std::uint32_t looks_ = 0;
  bool polled_enough_ = false;
  std::int64_t began_ = 0;        ///< nanoseconds of the steady clock, from the first look that read it on
  std::int64_t waited_from_ = 0;  ///< the same, from the first time that it had polled enough
  std::uint32_t times_fed_ = 0;   ///< how often something else happened than what is waited for
  bool announced_ = false;        ///< peers have been told that this rank may sleep
};

}  // namespace isthmus
