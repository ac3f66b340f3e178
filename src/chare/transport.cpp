#include "chare/transport.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <mutex>
#include <utility>

namespace isthmus::chare {

Transport::Transport(Ref<Communicator> comm, Receiver& receiver, MessagePool& pool, Fail fail)
    : comm_(std::move(comm)),
      engine_(comm_->engine()),
      receiver_(receiver),
      pool_(pool),
      fail_(fail),
      peers_(size()) {
  post_all();
}

Transport::~Transport() {
  abandon();
}

void Transport::abandon() {
  const std::lock_guard guard(engine_.lock());
  for (Posted& each : posted_)
    if (each.request) engine_.withdraw(each.request);
  for (Sending& each : sending_) {
    engine_.withdraw(each.request);
    if (each.large) pool_.give_back(each.large);
  }
  posted_.clear();
  sending_.clear();
  gathering_.clear();
  peers_.clear();
}

void Transport::open(Ref<Communicator> comm) {
  comm_ = std::move(comm);
  peers_.resize(size());
  is_broken_ = false;
  post_all();
}

void Transport::post_all() {
  const std::lock_guard guard(engine_.lock());
  posted_.resize(size() > 1 ? posted_ahead : 0);
  next_ = 0;
  for (Posted& each : posted_) {
    each.buffer = take_buffer();
    post(each);
  }
}

bool Transport::note(int error) noexcept {
  if (!tells_of_loss(error)) return false;
  return is_broken_ = true;
}

std::unique_ptr<std::byte[]> Transport::take_buffer() {
  if (free_.empty()) return std::make_unique_for_overwrite<std::byte[]>(batch_bytes);
  std::unique_ptr<std::byte[]> buffer = std::move(free_.back());
  free_.pop_back();
  return buffer;
}

void Transport::give_up(std::uint32_t peer, std::string_view why) {
  fail_(fmt::format("a message of rank {} is no message of chares: {}", peer, why));
  std::abort();  // `fail_` does not return
}

void Transport::post(Posted& posted) {
  posted.request = engine_.start_receive(comm_->context(), any_source, short_tag,
                                         Payload::of(posted.buffer.get(), batch_bytes));
}

std::byte* Transport::begin(std::uint32_t to, const Record& record, std::uint64_t bytes) {
  if (begun_) fail_("an invocation was begun while the arguments of another were being written");
  if (bytes > largest_payload)
    fail_(fmt::format("the arguments of an invocation have {} bytes, more than {}", bytes, largest_payload));
  begun_ = true;
  to_ = to;
  const std::uint64_t size = record_size(record, bytes);
  if (size > batch_bytes) {
    long_ = pool_.take(size);
    long_bytes_ = size;
    return write_record(long_->data(), record, bytes);
  }
  Peer& peer = peers_[to];
  if (peer.used + size > batch_bytes) send(to);
  if (!peer.open) peer.open = take_buffer();
  std::byte* const at = peer.open.get() + peer.used;
  peer.used += static_cast<std::uint32_t>(size);
  return write_record(at, record, bytes);
}

void Transport::end(bool now) {
  begun_ = false;
  if (long_) return send_long();
  if (now) return send(to_);
  Peer& peer = peers_[to_];
  if (!std::exchange(peer.listed, true)) gathering_.push_back(to_);
}

void Transport::send(std::uint32_t to) {
  Peer& peer = peers_[to];
  if (peer.used == 0) return;
  const std::lock_guard guard(engine_.lock());
  Request* const request = engine_.start_send(comm_->target(static_cast<int>(to), short_tag),
                                              Payload::of(peer.open.get(), peer.used));
  peer.used = 0;
  if (request) sending_.push_back({request, std::exchange(peer.open, nullptr), nullptr});
}

void Transport::send_long() {
  const std::lock_guard guard(engine_.lock());
  ++peers_[to_].long_sent;
  Request* const request = engine_.start_send(comm_->target(static_cast<int>(to_), long_tag),
                                              Payload::of(long_->data(), long_bytes_));
  if (request)
    sending_.push_back({request, nullptr, std::exchange(long_, nullptr)});
  else
    pool_.give_back(std::exchange(long_, nullptr));
}

bool Transport::flush() {
  if (gathering_.empty()) return false;
  for (const std::uint32_t to : gathering_) {
    peers_[to].listed = false;
    send(to);
  }
  gathering_.clear();
  return true;
}

bool Transport::settle_sends() {
  bool any = false;
  for (std::size_t i = 0; i < sending_.size();) {
    Sending& each = sending_[i];
    if (!each.request->complete) {
      ++i;
      continue;
    }
    if (const int error = each.request->error(); error != 0 && !note(error))
      fail_(fmt::format("chares cannot send to a process (error class {})", error));
    engine_.free(each.request);
    if (each.large)
      pool_.give_back(each.large);
    else
      free_.push_back(std::move(each.batch));
    each = std::move(sending_.back());
    sending_.pop_back();
    any = true;
  }
  return any;
}

void Transport::read(std::uint32_t source, std::span<const std::byte> message) {
  while (!message.empty()) {
    const Result<Record> record = read_record(message);
    if (!record) give_up(source, record.error().text());
    if (record->kind == RecordKind::last) {
      peers_[source].has_ended = true;
      peers_[source].long_wanted = record->index.low;
      continue;
    }
    receiver_.came(source, *record);
  }
}

bool Transport::take_short() {
  bool any = false;
  while (!posted_.empty() && posted_[next_].request && posted_[next_].request->complete) {
    Posted& oldest = posted_[next_];
    const Status status = oldest.request->status;
    if (status.error != 0) {
      if (note(status.error)) return any;  // it stays as it is
      const bool is_long = status.error == static_cast<int>(ErrorClass::truncate);
      if (is_long) give_up(static_cast<std::uint32_t>(status.source), "it is longer than they are");
      fail_(fmt::format("chares cannot receive (error class {})", status.error));
    }
    next_ = (next_ + 1) % posted_.size();
    engine_.free(std::exchange(oldest.request, nullptr));
    read(static_cast<std::uint32_t>(status.source), {oldest.buffer.get(), status.bytes});
    post(oldest);
    any = true;
  }
  return any;
}

void Transport::receive_long(const UnexpectedMessage& found) {
  const auto source = static_cast<std::uint32_t>(found.source);
  const std::uint64_t bytes = found.bytes;
  if (bytes < sizeof(RecordHeader) || bytes > largest_payload)
    give_up(source, fmt::format("a long one of {} bytes", bytes));
  Message* const message = pool_.take(bytes);
  Request* const request =
      engine_.start_receive(comm_->context(), found.source, long_tag, Payload::of(message->data(), bytes));
  engine_.wait(*request);
  const int error = request->error();
  engine_.free(request);
  if (error != 0) {
    if (!note(error))
      fail_(fmt::format("a long message of rank {} has failed (error class {})", source, error));
    return pool_.give_back(message);
  }
  ++peers_[source].long_came;
  std::span<const std::byte> rest(message->data(), bytes);
  const Result<Record> record = read_record(rest);
  if (!record) give_up(source, record.error().text());
  if (!rest.empty() || record->kind == RecordKind::last)
    give_up(source, "a long one with more than a record");
  message->skip = static_cast<std::uint32_t>(record->payload.data() - message->data());
  receiver_.came(source, *record, message);
}

bool Transport::take_long() {
  bool any = false;
  while (!is_broken_ && comm_->context().has_unexpected()) {
    const UnexpectedMessage* const found = engine_.find_unexpected(comm_->context(), any_source, any_tag);
    if (!found) break;
    if (found->tag != long_tag) break;  // short ones wait for a receive to be posted again
    receive_long(*found);
    any = true;
  }
  return any;
}

bool Transport::has_news() const {
  return is_broken_ || (!posted_.empty() && posted_[next_].request->complete) ||
         comm_->context().has_unexpected() ||
         std::ranges::any_of(sending_, [](const Sending& each) { return each.request->complete; });
}

bool Transport::poll() {
  if (posted_.empty() || is_broken_) return false;
  const std::lock_guard guard(engine_.lock());
  engine_.progress();
  bool any = take_short();
  if (comm_->context().has_unexpected()) [[unlikely]]
    any |= take_long();
  if (!sending_.empty()) [[unlikely]]
    settle_sends();
  return any;
}

void Transport::wait() {
  wait_or([] { return false; });
}

/// Nothing more comes of those who are no more, and nothing is to be sent to them: they have ended too.
void Transport::pass_over_losses() {
  const std::lock_guard guard(engine_.lock());
  for (std::uint32_t rank = 0; rank < size(); ++rank)
    if (engine_.has_lost(comm_->peer(static_cast<int>(rank)))) {
      peers_[rank].has_ended = true;
      peers_[rank].long_wanted = 0;
    }
  comm_->context().acknowledge_losses();
  // Those that are posted anew are the youngest.
  std::ranges::rotate(posted_, posted_.begin() + static_cast<std::ptrdiff_t>(next_));
  next_ = 0;
  const auto ended = std::ranges::stable_partition(posted_, [](const Posted& each) {
    return !each.request->complete || !tells_of_loss(each.request->error());
  });
  for (Posted& each : ended) {
    engine_.free(each.request);
    post(each);
  }
  is_broken_ = false;
}

bool Transport::finish() {
  const Record last{.kind = RecordKind::last};
  for (std::uint32_t to = 0; to < size(); ++to) {
    if (to == rank()) continue;
    Record record = last;
    record.index.low = peers_[to].long_sent;
    begin(to, record, 0);
    end(true);
  }
  flush();
  const auto is_over = [this](const Peer& peer) {
    const auto number = static_cast<std::uint32_t>(&peer - peers_.data());
    return number == rank() || (peer.has_ended && peer.long_came >= peer.long_wanted);
  };
  for (;;) {
    poll();
    if (is_broken_) {
      if (comm_->is_revoked()) return false;
      pass_over_losses();
      continue;
    }
    if (sending_.empty() && std::ranges::all_of(peers_, is_over)) return true;
    wait();
  }
}

}  // namespace isthmus::chare
