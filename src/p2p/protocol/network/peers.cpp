#include "p2p/protocol/network/peers.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "p2p/active/cpu_destination.hpp"
#include "p2p/message/pack.hpp"
#include "p2p/protocol/network/header.hpp"

namespace isthmus {
namespace {

Probed ask_of_eager(const PairFacts& facts) noexcept {
  if (!facts.remote) return std::unexpected("both are on one host");
  return Serves{.up_to = facts.eager_limit};
}

Probed ask_of_rendezvous(const PairFacts& facts) noexcept {
  if (!facts.remote) return std::unexpected("both are on one host");
  return Serves{};
}

}  // namespace

constinit const Probe NetworkPeers::probe_of_eager{Protocol::network_eager, ChannelId::network,
                                                   Cost::with_envelope, &ask_of_eager};
constinit const Probe NetworkPeers::probe_of_rendezvous{Protocol::network_rendezvous, ChannelId::network,
                                                        Cost::one_copies, &ask_of_rendezvous};

NetworkPeers::NetworkPeers(const Surroundings& around)
    : links_(around.links),
      completion_(around.completion),
      gpu_(around.gpu),
      matcher_(around.matcher),
      unexpected_(around.unexpected),
      access_(around.access),
      losses_(around.losses),
      network_(around.links),
      sends_(around.completion),
      heard_(around.links.size()),
      chunks_(std::make_unique<NetworkChunks>(NetworkChunks::Surroundings{around.links, around.completion,
                                                                          around.matcher, around.unexpected,
                                                                          around.gpu, network_, sends_})) {
  links_.probes().add(probe_of_eager);
  links_.probes().add(probe_of_rendezvous);
}

NetworkPeers::~NetworkPeers() = default;

Result<std::unique_ptr<NetworkPeers>> NetworkPeers::open(const Surroundings& around) {
  std::unique_ptr<NetworkPeers> made(new NetworkPeers(around));
  ISTHMUS_TRY(made->network_.open(*made));
  return made;
}

Request* NetworkPeers::start_send(Peer& peer, const Target& target, const Payload& payload, SendMode mode) {
  Request* send = completion_.make_send(target, payload, mode);
  send->peer = &peer;
  try {
    return start(peer, target, payload, mode, send);
  } catch (...) {
    std::erase(sends_.unacknowledged, send);
    completion_.drop(send);
    throw;
  }
}

Request* NetworkPeers::start(Peer& peer, const Target& target, const Payload& payload, SendMode mode,
                             Request* send) {
  const auto give_up = [&](const Error& error) {
    if (!peer.lost) lose(peer.id, error);
    send->status.error = static_cast<int>(ErrorClass::proc_aborted);
    completion_.finish(*send);
    return send;
  };
  if (peer.lost) return give_up(Error(ErrorClass::proc_aborted, "its process has ended"));
  if (const Result<> connected = network_.connect(peer); !connected) return give_up(connected.error());
  wire::NetworkHeader header = network_header(wire::NetworkKind::message, target, payload.bytes, 0);
  const Protocol way = peer.plan().step(payload.bytes).protocol;
  const bool eager = way == Protocol::network_eager;
  peer.traffic.add_sent(way, payload.bytes);
  const std::byte* data = payload.data;
  if (payload.type) {
    send->staging = std::make_unique_for_overwrite<std::byte[]>(payload.bytes);
    pack_into(payload, send->staging.get());
    data = send->staging.get();
  }
  send->parts_left = 1;
  if (!eager) header.sender = send->cookie();
  if (mode == SendMode::synchronous && eager) {
    header.flag = wire::CellFlag::synchronous;
    header.sender = send->cookie();
    send->parts_left = 2;
    sends_.unacknowledged.push_back(send);
  }
  auto progress = network_.send(peer.id, header, {data, payload.bytes}, send->cookie());
  if (!progress) {
    std::erase(sends_.unacknowledged, send);
    return give_up(progress.error());
  }
  if (*progress == network::Port::Progress::pending) return send;
  if (send->parts_left > 1) {
    --send->parts_left;
    return send;
  }
  completion_.finish(*send);
  if (mode != SendMode::standard) return send;
  completion_.pool().give_back(send);
  return nullptr;
}

void NetworkPeers::prepare_answer(Peer& peer) {
  if (peer.lost) return;
  // Where that fails, so will the answer.
  [[maybe_unused]] const auto connected = network_.connect(peer);
  network_.port()->make_room();
}

void NetworkPeers::acknowledge(Peer& peer, wire::Cookie sender) {
  if (peer.lost || !network_.connect(peer)) return;
  const wire::NetworkHeader header =
      network_header(wire::NetworkKind::acknowledge, {peer.id, 0, 0, 0}, 0, sender);
  // Where it does not arrive, the peer hears of the loss.
  [[maybe_unused]] const auto progress = network_.send(peer.id, header, {}, 0);
}

void NetworkPeers::fetch(Peer& peer, Request& receive, int source, int tag, const NetworkOffer& offer) {
  receive.assign(&peer, source, tag, offer.bytes);
  completion_.carry(receive);
  try {
    begin_fetch(peer, receive, offer);
  } catch (const std::bad_alloc&) {
    // It has been matched, so it ends here, and its sender goes on.
    receive.status.bytes = 0;
    completion_.end_in_error(receive, ErrorClass::no_mem);
    decline(peer, offer.id);
  }
}

/// Fails, if it does, before anything has begun.
void NetworkPeers::begin_fetch(Peer& peer, Request& receive, const NetworkOffer& offer) {
  if (receive.limit == 0) {
    decline(peer, offer.id);
    return completion_.finish(receive);
  }
  // Where that fails, the fetch reports it.
  [[maybe_unused]] const auto connected = network_.connect(peer);
  if (receive.gpu && fetch_to_gpu(peer, receive, offer)) return;
  count_received(peer, receive, Protocol::network_rendezvous, receive.limit);
  std::byte* to = receive.cpu_destination().data;
  if (receive.payload.type) {
    receive.staging = std::make_unique_for_overwrite<std::byte[]>(receive.limit);
    to = receive.staging.get();
  }
  network_.port()->fetch(offer.id, {to, receive.limit}, receive.cookie());
}

unsigned NetworkPeers::poll() {
  if (!network_.port()) return 0;
  const unsigned happened = network_.port()->poll();
  return happened + chunks_->poll();  // what has been offered just now, too
}

bool NetworkPeers::arm() {
  try {
    return try_arm();
  } catch (const std::bad_alloc&) {
    return false;
  }
}

bool NetworkPeers::try_arm() {
  if (!network_.port()) return true;
  if (network_.movable()) return network_.port()->arm();
  if (!waker_) {
    const auto& region = links_.region();
    auto waker = PortWaker::start(network_.port()->wake_descriptor(),
                                  [region, slot = links_.slot()] { region.wake(slot); });
    if (!waker) return false;
    waker_ = std::move(*waker);
  }
  if (!network_.port()->arm()) return false;
  waker_->arm();
  return true;
}

void NetworkPeers::close() {
  waker_.reset();
  chunks_.reset();
  network_.close();
}

void NetworkPeers::arrived(PeerId from, std::span<const std::byte> header, std::span<const std::byte> bytes) {
  Peer& peer = links_.peer(from);
  const auto read = wire::read_network_header(header);
  if (!read) return links_.malformed(peer, "header of a message from another host");
  if (read->kind == wire::NetworkKind::acknowledge) return acknowledged(peer, read->sender);
  if (read->kind == wire::NetworkKind::chunked) {
    heard_[from] = Heard::messages;
    return chunks_->announced(peer, *read);
  }
  if (read->kind == wire::NetworkKind::chunk && read->bytes == 0)
    return chunks_->broken_off(peer, read->sender);
  if (read->kind == wire::NetworkKind::cut) return chunks_->cut(peer, read->sender);
  if (read->kind == wire::NetworkKind::leaving) return leaves(peer);
  if (read->kind == wire::NetworkKind::seen_off) {
    std::erase(unanswered_, from);
    return;
  }
  if (read->kind == wire::NetworkKind::cancel) return asked_to_cancel(peer, read->sender);
  if (read->kind == wire::NetworkKind::cancelled)
    return answered_cancel(peer, read->sender, read->bytes != 0);
  if (read->kind != wire::NetworkKind::message)
    return links_.malformed(peer, "chunk that came without being fetched");
  if (read->bytes != bytes.size()) return links_.malformed(peer, "message that is not as long as it says");
  deliver(peer, *read, bytes);
}

void NetworkPeers::deliver(Peer& peer, const wire::NetworkHeader& header, std::span<const std::byte> bytes) {
  heard_[peer.id] = Heard::messages;
  if (peer.held) return;  // more than there is memory for: nothing is taken of it any more
  MatchContext& context = matcher_.context(header.context);
  if (!context.is_source(header.source) && !unexpected_.may_be_early(peer, context, header.source)) return;
  const bool synchronous = header.flag == wire::CellFlag::synchronous;
  if (synchronous) prepare_answer(peer);
  peer.traffic.add_received(Protocol::network_eager, bytes.size());
  if (Request* receive = matcher_.match(context, header.source, header.tag)) {
    receive->way = Protocol::network_eager;
    if (synchronous) acknowledge(peer, header.sender);
    return isthmus::deliver(completion_, *receive, header.source, header.tag, bytes.data(), bytes.size());
  }
  if (unexpected_.refuse(
          peer, context, {header.context, header.source, header.tag, bytes.size()},
          {.content = UnexpectedMessage::Content::bytes, .sender = header.sender, .is_awaited = synchronous}))
    return;
  UnexpectedMessage* message = unexpected_.make(peer, header.source, header.tag, bytes.size());
  message->is_awaited = synchronous;
  message->sender = header.sender;
  if (!bytes.empty()) std::ranges::copy(bytes, message->data);
  unexpected_.keep(context, header.context, message);
}

void NetworkPeers::offered(PeerId from, std::span<const std::byte> header, std::uint64_t bytes,
                           network::OfferId offer) {
  Peer& peer = links_.peer(from);
  heard_[from] = Heard::messages;
  const auto read = wire::read_network_header(header);
  if (read && read->kind == wire::NetworkKind::chunk && read->bytes == bytes)
    return chunks_->offered(peer, *read, bytes, offer);
  if (read && read->kind == wire::NetworkKind::loop) return loop_offered(peer, *read, bytes, offer);
  if (!read || read->kind != wire::NetworkKind::message || read->bytes != bytes) {
    links_.malformed(peer, "offer of a message from another host");
    return decline(peer, offer);
  }
  MatchContext& context = matcher_.context(read->context);
  if (peer.held ||
      (!context.is_source(read->source) && !unexpected_.may_be_early(peer, context, read->source)))
    return decline(peer, offer);
  prepare_answer(peer);
  if (Request* receive = matcher_.match(context, read->source, read->tag))
    return fetch(peer, *receive, read->source, read->tag, {bytes, offer, read->sender});
  constexpr auto content = UnexpectedMessage::Content::remote_offer;
  const UnexpectedMessages::Envelope envelope{read->context, read->source, read->tag, bytes};
  const UnexpectedMessages::Awaited awaited{.content = content, .sender = read->sender, .offer = offer};
  if (unexpected_.refuse(peer, context, envelope, awaited)) return;
  unexpected_.keep_offer(peer, context, envelope, awaited, offer);
}

void NetworkPeers::sent(network::Token token, const Error* error) {
  if (chunks_->sent(token, error)) return;
  Request* send = completion_.find(token);
  if (!send || send->complete) return;  // acknowledgements have no request
  if (error) send->status.error = static_cast<int>(ErrorClass::proc_aborted);
  sends_.end_part(*send);
}

void NetworkPeers::acknowledged(Peer& peer, wire::Cookie sender) {
  Request* send = completion_.find(sender);
  const auto known = std::ranges::find(sends_.unacknowledged, send);
  if (!send || known == sends_.unacknowledged.end() || send->peer != &peer)
    return links_.malformed(peer, "answer to a send that is not pending");
  sends_.unacknowledged.erase(known);
  sends_.end_part(*send);
}

void NetworkPeers::fetched(network::Token token, const Error* error) {
  if (chunks_->fetched(token, error)) return;
  Request* receive = completion_.find(token);
  if (!receive || receive->complete) return;
  if (error) return completion_.end_in_error(*receive, ErrorClass::proc_aborted);
  if (receive->transfer == Request::Transfer::network) {
    receive->gpu->landed = true;
  } else if (receive->staging) {
    Cursor cursor(*receive->payload.type, receive->payload.data, receive->payload.count);
    cursor.unpack({receive->staging.get(), receive->limit});
  }
  completion_.finish(*receive);
}

void NetworkPeers::lost(PeerId id, const Error& why) {
  std::erase(unanswered_, id);
  // What was pending with it ends by itself; a program that has more to say to it loses it then.
  if (heard_[id] != Heard::that_it_leaves) lose(id, why);
}

void NetworkPeers::lose(PeerId id, const Error& why) {
  const Peer& peer = links_.peer(id);
  if (peer.is_local() && !peer.lost && !ending_) access_.note_gone(links_.peer(id));
  losses_.lose(id, why.text(), !ending_);
}

void NetworkPeers::forget(Peer& peer) {
  std::erase(unanswered_, peer.id);
  if (network_.port()) network_.port()->give_up(peer.id);
  if (chunks_) chunks_->lost(peer);
  // Each is out of its list before it ends; who ends it may look there.
  const auto end_those_of = [&peer](std::vector<Request*>& list, auto end) {
    for (std::size_t i = 0; i < list.size();) {
      Request* const send = list[i];
      if (send->peer != &peer) {
        ++i;
        continue;
      }
      list.erase(list.begin() + static_cast<std::ptrdiff_t>(i));
      end(*send);
    }
  };
  end_those_of(sends_.asked, [this](Request& send) {
    if (send.parts_left == 0) completion_.end_in_error(send, ErrorClass::proc_aborted);
  });
  end_those_of(sends_.unacknowledged, [this](Request& send) {
    send.status.error = static_cast<int>(ErrorClass::proc_aborted);
    sends_.end_part(send);
  });
}

}  // namespace isthmus
