#pragma once

#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "base/unique_fd.hpp"

namespace isthmus {

/// Lets a rank sleep on one futex for its host and its network: a thread, asleep in the kernel, that wakes
/// the rank when the port's descriptor becomes readable. It touches neither port nor engine.
class PortWaker {
 public:
  /// `descriptor` must outlive the waker. `wake`, called by its thread, wakes the rank if it sleeps.
  static Result<std::unique_ptr<PortWaker>> start(int descriptor, std::function<void()> wake);
  PortWaker(const PortWaker&) = delete;
  PortWaker& operator=(const PortWaker&) = delete;
  ~PortWaker();

  /// The next time that the descriptor is readable, now included, the rank is woken, once.
  void arm() noexcept;

 private:
  PortWaker(int descriptor, std::function<void()> wake) : descriptor_(descriptor), wake_(std::move(wake)) {}
  void run() noexcept;

  int descriptor_;
  std::function<void()> wake_;
  UniqueFd events_;  ///< epoll
  UniqueFd end_;     ///< eventfd
  std::thread thread_;
};

}  // namespace isthmus
