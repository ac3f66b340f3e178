#include "p2p/link/port_waker.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <system_error>

#include "base/futex.hpp"
#include "base/system/blocked_signals.hpp"

namespace isthmus {

Result<std::unique_ptr<PortWaker>> PortWaker::start(int descriptor, std::atomic<std::uint32_t>& sleeping,
                                                    std::atomic<std::uint32_t>* wakes) {
  std::unique_ptr<PortWaker> waker(new PortWaker(descriptor, sleeping, wakes));
  waker->events_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  waker->end_ = UniqueFd(::eventfd(0, EFD_CLOEXEC));
  epoll_event end{.events = EPOLLIN, .data = {.fd = waker->end_.get()}};
  epoll_event port{.events = EPOLLONESHOT, .data = {.fd = descriptor}};
  if (::epoll_ctl(waker->events_.get(), EPOLL_CTL_ADD, waker->end_.get(), &end) != 0 ||
      ::epoll_ctl(waker->events_.get(), EPOLL_CTL_ADD, descriptor, &port) != 0)
    return fail(ErrorClass::other, "epoll: " + std::generic_category().message(errno));
  const BlockedSignals blocked;
  try {
    waker->thread_ = std::thread([w = waker.get()] { w->run(); });
  } catch (const std::system_error& error) {
    return fail(ErrorClass::other, error.what());
  }
  return waker;
}

PortWaker::~PortWaker() {
  if (!thread_.joinable()) return;
  const std::uint64_t one = 1;
  static_cast<void>(::write(end_.get(), &one, sizeof one) == sizeof one);
  thread_.join();
}

void PortWaker::arm() noexcept {
  epoll_event event{.events = EPOLLIN | EPOLLONESHOT, .data = {.fd = descriptor_}};
  ::epoll_ctl(events_.get(), EPOLL_CTL_MOD, descriptor_, &event);
}

void PortWaker::run() noexcept {
  while (true) {
    epoll_event event{};
    if (::epoll_wait(events_.get(), &event, 1, -1) <= 0) continue;
    if (event.data.fd != descriptor_) return;
    if (sleeping_->exchange(0, std::memory_order_seq_cst) == 0) continue;
    if (wakes_) wakes_->fetch_add(1, std::memory_order_seq_cst);
    futex_wake(wakes_ ? *wakes_ : *sleeping_);
  }
}

}  // namespace isthmus
