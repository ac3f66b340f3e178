#include "channel/network/tcp/port.hpp"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace isthmus::network {
namespace {

/// The largest message that goes with its envelope: as UCX's over TCP, to within the pieces of its buffers.
constexpr std::uint64_t default_eager_limit = std::uint64_t{64} << 10;
/// Reads of one peer before others have their turn.
constexpr int most_reads = 16;

std::string text_of(int error) {
  return std::generic_category().message(error);
}

Error gone() {
  return Error(ErrorClass::proc_aborted, "the line to its process is closed");
}

}  // namespace

Result<std::unique_ptr<MovablePort>> open_movable(const Settings& settings, Identity self, Events& events,
                                                  RankTurns& turns) {
  if (settings.transport != TransportSetting::automatic && settings.transport != TransportSetting::tcp)
    return fail(ErrorClass::arg,
                "ranks that go to other hosts (mpiexec --migratable --hosts) talk over TCP, "
                "and ISTHMUS_TRANSPORT=" +
                    std::string(name_of(settings.transport)) + " asks for something else");
  const std::uint64_t limit =
      settings.network_eager_limit != 0 ? settings.network_eager_limit : default_eager_limit;
  auto port = std::make_unique<TcpPort>(self, events, turns, limit);
  ISTHMUS_TRY(port->open());
  return port;
}

Result<> TcpPort::open() {
  return open_events();
}

Result<> TcpPort::open_events() {
  if (events_fd_ >= 0) return {};
  auto made = turns_.lines()->open_events(self_.rank);
  if (!made) return std::unexpected(std::move(made).error());
  events_fd_ = *made;
  return {};
}

TcpPort::Peer& TcpPort::peer(PeerId rank) {
  if (!peers_[rank]) peers_[rank] = std::make_unique<Peer>();
  return *peers_[rank];
}

/// So that no end is lost for want of memory.
void TcpPort::make_room_for_ends() {
  const std::size_t most = ends_.size() + queued_ + own_offers_.size() + fetches_.size() + 2;
  if (ends_.capacity() < most) ends_.reserve(2 * most);
  if (losses_.capacity() < self_.ranks) losses_.reserve(self_.ranks);
}

// --- sockets

Result<> TcpPort::connect(PeerId rank, std::span<const std::byte> /*address*/) {
  Peer& to = peer(rank);
  if (to.lost) return std::unexpected(gone());
  if (to.out.socket >= 0) return {};
  ISTHMUS_TRY(open_events());
  auto made = turns_.lines()->call(self_.rank, rank, epoch_);
  if (!made) return std::unexpected(std::move(made).error());
  to.out.socket = *made;
  epoll_event event{.events = EPOLLRDHUP, .data = {.u64 = std::uint64_t{rank} << 1 | 1}};
  if (::epoll_ctl(events_fd_, EPOLL_CTL_ADD, to.out.socket, &event) != 0) {
    const int error = errno;
    hang_up(to.out.socket);
    return fail(ErrorClass::other, "epoll: " + text_of(error));
  }
  return {};
}

/// It is heard of when the socket takes more, while something waits for that.
void TcpPort::watch_out(PeerId rank) noexcept {
  Peer& to = *peers_[rank];
  if (to.is_out_watched != to.out.empty()) return;
  to.is_out_watched = !to.out.empty();
  epoll_event event{.events = EPOLLRDHUP | (to.is_out_watched ? std::uint32_t{EPOLLOUT} : std::uint32_t{0}),
                    .data = {.u64 = std::uint64_t{rank} << 1 | 1}};
  ::epoll_ctl(events_fd_, EPOLL_CTL_MOD, to.out.socket, &event);
}

void TcpPort::hang_up(int& socket) noexcept {
  if (socket >= 0) turns_.lines()->close(std::exchange(socket, -1));
}

void TcpPort::hang_up(Peer& from) noexcept {
  hang_up(from.out.socket);
  hang_up(from.in.socket);
  from.in.begin = from.in.end = 0;
  from.is_out_watched = false;
}

void TcpPort::close_lines() noexcept {
  for (const auto& each : peers_)
    if (each) hang_up(*each);
  hang_up(events_fd_);
  ++epoch_;
}

void TcpPort::take_calls() {
  while (const auto caller = turns_.lines()->take_call(self_.rank, epoch_)) {
    int socket = caller->socket;
    if (caller->from >= self_.ranks || caller->from == self_.rank) {
      hang_up(socket);
      continue;
    }
    Peer& from = peer(caller->from);
    epoll_event event{.events = EPOLLIN, .data = {.u64 = std::uint64_t{caller->from} << 1}};
    if (from.lost || from.in.socket >= 0 || !open_events() ||
        ::epoll_ctl(events_fd_, EPOLL_CTL_ADD, socket, &event) != 0) {
      hang_up(socket);
      continue;
    }
    from.in.socket = socket;
  }
}

// --- sending

Result<Port::Progress> TcpPort::send(PeerId rank, std::span<const std::byte> header,
                                     std::span<const std::byte> bytes, Token token) {
  ISTHMUS_TRY(connect(rank, {}));
  make_room_for_ends();
  OutLine& out = peer(rank).out;
  if (bytes.size() > eager_limit_) return send_from_gpu(rank, header, bytes, token);
  const bool was_empty = out.empty();
  out.add(OutLine::item({.kind = Frame::Kind::message,
                         .head = static_cast<std::uint32_t>(header.size()),
                         .id = 0,
                         .bytes = bytes.size()},
                        header, bytes, token));
  ++queued_;
  ++counts_.sent;
  if (!was_empty) return Progress::pending;
  const std::size_t before = ends_.size();
  push(rank);
  if (ends_.size() != before + 1 || ends_.back().has_failed) return Progress::pending;
  ends_.pop_back();
  return Progress::complete;
}

/// Offered, however short.
Result<Port::Progress> TcpPort::send_from_gpu(PeerId rank, std::span<const std::byte> header,
                                              std::span<const std::byte> bytes, Token token) {
  ISTHMUS_TRY(connect(rank, {}));
  make_room_for_ends();
  const std::uint64_t id = ++last_offer_;
  const auto made = own_offers_.emplace(id, OwnOffer{rank, bytes, token}).first;
  try {
    peer(rank).out.add(OutLine::item({.kind = Frame::Kind::offer,
                                      .head = static_cast<std::uint32_t>(header.size()),
                                      .id = id,
                                      .bytes = bytes.size()},
                                     header, {}, std::nullopt));
  } catch (...) {
    own_offers_.erase(made);
    throw;
  }
  ++counts_.sent;
  push(rank);
  return Progress::pending;
}

void TcpPort::push(PeerId rank) {
  OutLine& out = peer(rank).out;
  if (out.socket < 0) return;
  const int error = out.push([this](Token token) {
    --queued_;
    ends_.push_back({token, false, false});
  });
  if (error != 0) return lose(rank, "the connection to it has broken: " + text_of(error));
  watch_out(rank);
}

void TcpPort::fetch(OfferId id, std::span<std::byte> to, Token token) {
  make_room_for_ends();
  const auto found = their_offers_.find(id);
  if (found == their_offers_.end() || to.empty() || to.size() > found->second.bytes) {
    if (found != their_offers_.end()) decline(id);
    ends_.push_back({token, true, true});
    return;
  }
  const TheirOffer offer = found->second;
  if (const auto connected = connect(offer.peer, {}); !connected) {
    their_offers_.erase(found);
    ends_.push_back({token, true, true});
    return;
  }
  const auto made = fetches_.emplace(Key{offer.peer, offer.id}, Fetch{to, token}).first;
  try {
    peer(offer.peer)
        .out.add(OutLine::item({.kind = Frame::Kind::fetch, .head = 0, .id = offer.id, .bytes = to.size()},
                               {}, {}, std::nullopt));
  } catch (...) {
    fetches_.erase(made);
    throw;
  }
  their_offers_.erase(found);
  ++counts_.sent;
  push(offer.peer);
}

void TcpPort::decline(OfferId id) {
  make_room_for_ends();
  const auto found = their_offers_.find(id);
  if (found == their_offers_.end()) return;
  const TheirOffer offer = found->second;
  if (connect(offer.peer, {})) {
    peer(offer.peer)
        .out.add(OutLine::item({.kind = Frame::Kind::decline, .head = 0, .id = offer.id, .bytes = 0}, {}, {},
                               std::nullopt));
    ++counts_.sent;
  }
  their_offers_.erase(id);
  if (!peer(offer.peer).lost) push(offer.peer);
}

// --- receiving

void TcpPort::read(PeerId rank) {
  retried_ = rank;
  for (int i = 0; i < most_reads && read_some(rank); ++i) {
  }
  retried_.reset();
}

bool TcpPort::read_some(PeerId rank) {
  take_frames(rank);  // for which there was no memory before
  InLine& in = peer(rank).in;
  if (in.socket < 0) return false;
  if (in.left != 0) {
    const ssize_t received = ::recv(in.socket, in.to, in.left, MSG_DONTWAIT);
    if (!has_come(rank, received)) return false;
    take_content(rank, static_cast<std::size_t>(received));
    return true;
  }
  if (!in.buffer) in.buffer = std::make_unique_for_overwrite<std::byte[]>(buffer_bytes());
  if (in.begin != 0) {
    std::memmove(in.buffer.get(), in.buffer.get() + in.begin, in.end - in.begin);
    in.end -= std::exchange(in.begin, 0);
  }
  const ssize_t received = ::recv(in.socket, in.buffer.get() + in.end, buffer_bytes() - in.end, MSG_DONTWAIT);
  if (!has_come(rank, received)) return false;
  in.end += static_cast<std::size_t>(received);
  take_frames(rank);
  return true;
}

bool TcpPort::has_come(PeerId rank, std::int64_t received) {
  if (received > 0) return true;
  if (received < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  lose(rank, received == 0 ? "its process has closed the connection"
                           : "the connection has broken: " + text_of(errno));
  return false;
}

/// Of what has come, as far as it is whole.
void TcpPort::take_frames(PeerId rank) {
  InLine& in = peer(rank).in;
  while (in.end > in.begin) {
    const std::byte* const at = in.buffer.get() + in.begin;
    const std::size_t there = in.end - in.begin;
    if (in.left != 0) {
      const std::size_t bytes = std::min<std::uint64_t>(in.left, there);
      std::memcpy(in.to, at, bytes);
      in.begin += bytes;
      take_content(rank, bytes);
      continue;
    }
    Frame frame;
    if (there < sizeof frame) return;
    std::memcpy(&frame, at, sizeof frame);
    const std::uint64_t behind = frame.kind == Frame::Kind::message ? frame.bytes : 0;
    if (frame.head > header_limit || behind > eager_limit_)
      return lose(rank, "what has come from it is longer than it may be");
    if (there < sizeof frame + frame.head + behind) return;
    make_room_for_ends();
    if (const char* const wrong = take_frame(rank, frame, {at + sizeof frame, frame.head + behind}))
      return lose(rank, std::string("what has come from it cannot be: ") + wrong);
    if (in.socket < 0) return;  // it has been lost meanwhile
    in.begin += sizeof frame + frame.head + behind;
  }
}

void TcpPort::take_content(PeerId rank, std::size_t bytes) noexcept {
  InLine& in = peers_[rank]->in;
  in.to += bytes;
  in.left -= bytes;
  if (in.left != 0) return;
  const auto fetched = fetches_.find({rank, in.id});
  ends_.push_back({fetched->second.token, true, false});
  fetches_.erase(fetched);
}

const char* TcpPort::take_frame(PeerId rank, const Frame& frame, std::span<const std::byte> behind) {
  switch (frame.kind) {
    case Frame::Kind::message:
      events_.arrived(rank, behind.first(frame.head), behind.subspan(frame.head));
      ++delivered_;
      ++counts_.received;
      return nullptr;
    case Frame::Kind::offer:
      return take_offer(rank, frame, behind);
    case Frame::Kind::fetch:
      return answer_fetch(rank, frame);
    case Frame::Kind::decline:
      return take_decline(rank, frame);
    case Frame::Kind::content:
      return begin_content(rank, frame);
  }
  return "a frame of no kind";
}

const char* TcpPort::take_offer(PeerId rank, const Frame& frame, std::span<const std::byte> header) {
  const OfferId id = ++last_offer_;
  their_offers_.emplace(id, TheirOffer{rank, frame.id, frame.bytes});
  try {
    events_.offered(rank, header, frame.bytes, id);
  } catch (...) {
    their_offers_.erase(id);
    throw;
  }
  ++delivered_;
  ++counts_.received;
  return nullptr;
}

const char* TcpPort::answer_fetch(PeerId rank, const Frame& frame) {
  const auto found = own_offers_.find(frame.id);
  if (found == own_offers_.end() || found->second.peer != rank || frame.bytes > found->second.bytes.size())
    return "an answer to no offer";
  // Where that fails, the peer hears of it by the end of its line.
  if (!connect(rank, {})) return "a line that cannot be answered";
  const OwnOffer offer = found->second;
  peer(rank).out.add(
      OutLine::item({.kind = Frame::Kind::content, .head = 0, .id = frame.id, .bytes = frame.bytes}, {},
                    offer.bytes.first(frame.bytes), offer.token));
  ++queued_;
  own_offers_.erase(found);
  ++counts_.received;
  push(rank);
  return nullptr;
}

const char* TcpPort::take_decline(PeerId rank, const Frame& frame) {
  const auto found = own_offers_.find(frame.id);
  if (found == own_offers_.end() || found->second.peer != rank) return "an answer to no offer";
  ends_.push_back({found->second.token, false, false});
  own_offers_.erase(found);
  ++counts_.received;
  return nullptr;
}

const char* TcpPort::begin_content(PeerId rank, const Frame& frame) {
  const auto found = fetches_.find({rank, frame.id});
  if (found == fetches_.end() || frame.bytes != found->second.to.size()) return "what nobody has asked for";
  InLine& in = peer(rank).in;
  in.id = frame.id;
  in.left = frame.bytes;
  in.to = found->second.to.data();
  return nullptr;
}

// --- ends

void TcpPort::end_all_of(PeerId rank) noexcept {
  Peer& gone_peer = *peers_[rank];
  gone_peer.lost = true;
  hang_up(gone_peer);
  gone_peer.in.left = 0;
  gone_peer.out.clear([this](Token token) {
    --queued_;
    ends_.push_back({token, false, true});
  });
  std::erase_if(own_offers_, [&](const auto& each) {
    if (each.second.peer != rank) return false;
    ends_.push_back({each.second.token, false, true});
    return true;
  });
  std::erase_if(their_offers_, [&](const auto& each) { return each.second.peer == rank; });
  std::erase_if(fetches_, [&](const auto& each) {
    if (each.first.first != rank) return false;
    ends_.push_back({each.second.token, true, true});
    return true;
  });
}

void TcpPort::lose(PeerId rank, const std::string& why) {
  if (peer(rank).lost) return;
  make_room_for_ends();
  end_all_of(rank);
  losses_.emplace_back(rank, why);
}

void TcpPort::give_up(PeerId rank) noexcept {
  try {
    if (peer(rank).lost) return;
    make_room_for_ends();
  } catch (const std::bad_alloc&) {
    return;  // its connection breaks by itself
  }
  end_all_of(rank);
}

/// Each is forgotten when it has been told: where there is no memory, it is told again.
void TcpPort::tell_ends() {
  if (ends_.empty() && losses_.empty()) return;
  const Error why = gone();
  while (!ends_.empty()) {
    const End end = ends_.front();
    const Error* const error = end.has_failed ? &why : nullptr;
    if (end.is_fetch)
      events_.fetched(end.token, error);
    else
      events_.sent(end.token, error);
    ends_.erase(ends_.begin());
    ++delivered_;
  }
  while (!losses_.empty()) {
    const auto [rank, why] = losses_.front();
    losses_.erase(losses_.begin());
    events_.lost(rank, Error(ErrorClass::proc_aborted, why));
    ++delivered_;
  }
}

unsigned TcpPort::poll() {
  delivered_ = 0;
  if (retried_) read(*retried_);
  tell_ends();
  take_calls();
  std::array<epoll_event, 64> events;
  const int count =
      events_fd_ < 0 ? 0 : ::epoll_wait(events_fd_, events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    const std::uint64_t which = events[static_cast<std::size_t>(i)].data.u64;
    const auto rank = static_cast<PeerId>(which >> 1);
    const Peer& other = peer(rank);
    if ((which & 1) == 0) {
      if (other.in.socket >= 0) read(rank);
    } else if (other.out.socket >= 0) {
      if ((events[static_cast<std::size_t>(i)].events & (EPOLLRDHUP | EPOLLERR | EPOLLHUP)) != 0) {
        // What it has said before its end comes first.
        if (other.in.socket >= 0) read(rank);
        if (!other.lost) lose(rank, "its process has closed the connection");
      } else {
        make_room_for_ends();
        push(rank);
      }
    }
  }
  tell_ends();
  return delivered_;
}

bool TcpPort::arm() {
  if (!ends_.empty() || !losses_.empty() || retried_ || !open_events()) return false;
  return turns_.lines()->wake_when(self_.rank, events_fd_);
}

std::string TcpPort::describe(PeerId /*rank*/) const {
  return "tcp, by Isthmus itself";
}

bool TcpPort::idle() {
  return ends_.empty() && fetches_.empty() &&
         std::ranges::all_of(peers_, [](const auto& each) { return !each || each->out.empty(); });
}

}  // namespace isthmus::network
