#include "p2p/link/port_waker.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

#include "base/system/blocked_signals.hpp"

namespace isthmus {

Result<std::unique_ptr<PortWaker>> PortWaker::start(int descriptor, std::function<void()> wake) {
  std::unique_ptr<PortWaker> waker(new PortWaker(descriptor, std::move(wake)));
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
    wake_();
  }
}

}  // namespace isthmus
