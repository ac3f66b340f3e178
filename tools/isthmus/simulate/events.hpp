#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

namespace isthmus::simulate {

/// What happens, in the order of time, in microseconds; what happens at one time in the order in which it was
/// said. So a run gives the same answer each time.
class Events {
 public:
  using Action = std::function<void()>;

  [[nodiscard]] double now() const noexcept { return now_; }
  /// `time` is not before now.
  void at(double time, Action action) {
    queue_.push({.time = std::max(time, now_), .number = made_++, .action = std::move(action)});
  }
  /// Until nothing is left to happen. Returns how much has.
  std::uint64_t run() {
    std::uint64_t done = 0;
    for (; !queue_.empty(); ++done) {
      // The queue gives out what it holds only to look at.
      const Action action = std::move(const_cast<Event&>(queue_.top()).action);
      now_ = queue_.top().time;
      queue_.pop();
      action();
    }
    return done;
  }

 private:
  struct Event {
    double time;
    std::uint64_t number;
    Action action;
    friend bool operator<(const Event& a, const Event& b) noexcept {
      return a.time != b.time ? a.time > b.time : a.number > b.number;
    }
  };

  double now_ = 0;
  std::uint64_t made_ = 0;
  std::priority_queue<Event> queue_;
};

/// Something that carries one message at a time, in the order of coming: a port of a GPU, an adapter.
class Link {
 public:
  /// When a message that comes at `time`, and wants it for `duration`, gets it.
  double take(double time, double duration) noexcept {
    const double begin = std::max(time, free_);
    free_ = begin + duration;
    return begin;
  }

 private:
  double free_ = 0;
};

}  // namespace isthmus::simulate
