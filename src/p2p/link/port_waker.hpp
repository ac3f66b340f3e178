#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>

#include "base/error.hpp"
#include "base/unique_fd.hpp"

namespace isthmus {

/// Lets a rank sleep on one futex for its host and its network: a thread, asleep in the kernel, that wakes
/// the futex when the port's descriptor becomes readable. It touches neither port nor engine.
class PortWaker {
 public:
  /// `descriptor` and `sleeping` (1 while the rank sleeps on it) must outlive the waker.
  /// `wakes`: counted up and woken in its place, where several ranks of a process sleep on that; null: none.
  static Result<std::unique_ptr<PortWaker>> start(int descriptor, std::atomic<std::uint32_t>& sleeping,
                                                  std::atomic<std::uint32_t>* wakes = nullptr);
  PortWaker(const PortWaker&) = delete;
  PortWaker& operator=(const PortWaker&) = delete;
  ~PortWaker();

  /// The next time that the descriptor is readable, now included, the rank is woken, once.
  void arm() noexcept;

 private:
  PortWaker(int descriptor, std::atomic<std::uint32_t>& sleeping, std::atomic<std::uint32_t>* wakes)
      : descriptor_(descriptor), sleeping_(&sleeping), wakes_(wakes) {}
  void run() noexcept;

  int descriptor_;
  std::atomic<std::uint32_t>* sleeping_;
  std::atomic<std::uint32_t>* wakes_;
  UniqueFd events_;  ///< epoll
  UniqueFd end_;     ///< eventfd
  std::thread thread_;
};

}  // namespace isthmus
