#include "launch/visit/broker.hpp"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/system/blocked_signals.hpp"

namespace isthmus::launch {
namespace {

/// What the broker waits for when it cannot take another guest for want of descriptors.
constexpr int retry_milliseconds = 50;

}  // namespace

Result<std::unique_ptr<Broker>> Broker::open(std::uint64_t socket, std::uint32_t rank, Limits limits) {
  std::unique_ptr<Broker> broker(new Broker(socket, rank, limits));
  broker->wake_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!broker->wake_) return fail(ErrorClass::other, "eventfd: " + std::generic_category().message(errno));
  auto listener = listen_at(BrokerAddress::abstract(socket));
  if (!listener) return std::unexpected(std::move(listener).error());
  broker->listeners_.push_back(std::move(*listener));
  const BlockedSignals blocked;
  try {
    broker->thread_ = std::thread([b = broker.get()] { b->run(); });
  } catch (const std::system_error& error) {
    return fail(ErrorClass::other, std::string("cannot start the broker's thread: ") + error.what());
  }
  return broker;
}

Broker::~Broker() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  wake();
  if (thread_.joinable()) thread_.join();
  for (const std::string& path : paths_)
    ::unlink(path.c_str());
}

Result<> Broker::open_folder(const std::string& folder) {
  sweep_folder(folder);
  auto address = BrokerAddress::in_folder(folder, socket_);
  if (!address) return std::unexpected(std::move(address).error());
  auto listener = listen_at(*address);
  if (!listener) return std::unexpected(std::move(listener).error());
  {
    const std::lock_guard lock(mutex_);
    listeners_.push_back(std::move(*listener));
    paths_.push_back(address->path());
  }
  wake();
  return {};
}

void Broker::admit(const wire::JobKey& key) {
  {
    const std::lock_guard lock(mutex_);
    key_ = key;
  }
  wake();
}

void Broker::offer_region(UniqueFd region, UniqueFd box) {
  {
    const std::lock_guard lock(mutex_);
    region_ = std::move(region);
    box_ = std::move(box);
  }
  wake();
}

void Broker::offer_nothing() {
  {
    const std::lock_guard lock(mutex_);
    has_nothing_ = true;
  }
  wake();
}

std::vector<Broker::Visitor> Broker::visitors() const {
  const std::lock_guard lock(mutex_);
  return visitors_;
}

void Broker::wake() noexcept {
  const std::uint64_t one = 1;
  if (wake_) static_cast<void>(::write(wake_.get(), &one, sizeof one) == sizeof one);
}

/// Milliseconds until the next silent guest is cut off, -1 for none.
int Broker::patience() const {
  auto next = Clock::time_point::max();
  for (const Guest& guest : guests_)
    if (!guest.reception.has_request()) next = std::min(next, guest.arrival + silence());
  if (next == Clock::time_point::max()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now()).count();
  return static_cast<int>(std::clamp<long long>(left, 0, limits_.silence.count()));
}

void Broker::run() {
  std::vector<pollfd> watched;
  bool starved = false;  // of descriptors
  while (true) {
    watched.assign(1, {wake_.get(), POLLIN, 0});
    std::size_t listeners = 0;
    {
      const std::lock_guard lock(mutex_);
      if (closing_) return;
      if (!starved && has_room())
        for (const UniqueFd& listener : listeners_)
          watched.push_back({listener.get(), POLLIN, 0});
      listeners = watched.size() - 1;
    }
    for (const Guest& guest : guests_)
      watched.push_back({guest.socket.get(), POLLIN, 0});
    const int ready = ::poll(watched.data(), watched.size(), starved ? retry_milliseconds : patience());
    starved = false;
    if (ready < 0) continue;
    std::uint64_t count = 0;
    while (::read(wake_.get(), &count, sizeof count) > 0) {
    }
    for (std::size_t i = 0; i < guests_.size(); ++i)
      if (watched[1 + listeners + i].revents != 0) hear(guests_[i]);
    const auto now = Clock::now();
    {
      const std::lock_guard lock(mutex_);
      for (Guest& guest : guests_)
        serve(guest);
    }
    const auto limit = silence();  // of before some of them leave
    std::erase_if(guests_, [&](const Guest& g) {
      return g.leaves || (!g.reception.has_request() && g.arrival + limit <= now);
    });
    for (std::size_t i = 0; i < listeners && !starved; ++i)
      if (watched[1 + i].revents != 0) {
        errno = 0;
        let_in(watched[1 + i].fd);
        starved = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
      }
  }
}

/// Takes all who wait at the door; leaves errno as an `accept4` that has failed has set it.
void Broker::let_in(int listener) {
  while (has_room()) {
    UniqueFd socket(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) return;
    if (auto reception = Reception::greet(socket.get()))
      guests_.push_back({std::move(socket), Clock::now(), std::move(*reception)});
  }
}

void Broker::hear(Guest& guest) const {
  if (!guest.reception.hear(guest.socket.get(), socket_)) guest.leaves = true;  // its end, too
}

void Broker::serve(Guest& guest) {
  if (guest.leaves || !guest.reception.has_request() || !key_) return;
  if (!guest.admitted) {
    if (!guest.reception.is_proved(*key_)) {
      guest.leaves = true;
      return;
    }
    guest.admitted = true;
    visitors_.push_back({guest.reception.rank(), credentials_of(guest.socket.get())});
  }
  if (has_nothing_) guest.leaves = true;
  if (!region_) return;
  guest.reception.answer(*key_, rank_, region_.get(), box_.get());
  guest.leaves = true;
}

}  // namespace isthmus::launch
