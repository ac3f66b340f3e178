#include "p2p/remote.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/log.hpp"
#include "p2p/engine.hpp"
#include "p2p/network_chunks.hpp"
#include "p2p/network_header.hpp"
#include "p2p/pack.hpp"

namespace isthmus {
namespace {

/// Key under which processes publish their port's address.
constexpr std::string_view port_key = "port";

constexpr ContextId meeting_context = Engine::internal_context + 1;

std::span<const std::byte> bytes_of(const wire::NetworkHeader& header) {
  return std::as_bytes(std::span(&header, 1));
}

}  // namespace

Remote::Remote(Engine& engine) : engine_(engine), chunks_(std::make_unique<NetworkChunks>(engine, *this)) {}

Remote::~Remote() = default;

Result<std::unique_ptr<Remote>> Remote::open(Engine& engine) {
  std::unique_ptr<Remote> remote(new Remote(engine));
  auto port = network::open(engine.settings(), {engine.rank(), engine.size()}, *remote);
  if (!port)
    return fail(port.error().error_class(),
                "rank " + std::to_string(engine.rank()) +
                    (engine.job().on_one_host()
                         ? " is to send through the network's adapter (ISTHMUS_GPU_PATH=network) and cannot: "
                         : " shares no memory with some ranks of its job and cannot reach them over a "
                           "network: ") +
                    port.error().text());
  remote->port_ = std::move(*port);
  ISTHMUS_TRY(remote->publish());
  return remote;
}

Result<> Remote::publish() {
  const auto address = port_->address();
  if (launch::KeyValues* const launcher = engine_.job().launcher.get()) {
    ISTHMUS_TRY(launcher->put(port_key, {reinterpret_cast<const char*>(address.data()), address.size()}));
    return launcher->fence();
  }
  const std::uint64_t bytes = address.size();
  wire::RegionHeap heap = engine_.region_.heap();
  auto offset = heap.allocate(sizeof bytes + bytes);
  if (!offset) return std::unexpected(std::move(offset).error());
  std::byte* const to = heap.at(*offset, sizeof bytes + bytes).data();
  std::memcpy(to, &bytes, sizeof bytes);
  std::memcpy(to + sizeof bytes, address.data(), bytes);
  engine_.region_.block(engine_.slot_).port.store(*offset + 1, std::memory_order_release);
  return {};
}

Result<std::vector<std::byte>> Remote::address_of(const Peer& peer) const {
  if (launch::KeyValues* const launcher = engine_.job().launcher.get()) {
    auto text = launcher->get(peer.id, port_key);
    if (!text) return std::unexpected(std::move(text).error());
    const auto bytes = std::as_bytes(std::span(*text));
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  }
  const wire::RegionHeap heap = engine_.region_.heap();
  const std::uint64_t offset = engine_.region_.block(peer.slot).port.load(std::memory_order_acquire) - 1;
  std::uint64_t bytes = 0;
  const auto length = heap.at(offset, sizeof bytes);
  if (length.empty())
    return fail(ErrorClass::other, "rank " + std::to_string(peer.id) +
                                       " has no network port: ISTHMUS_GPU_PATH=network is for a whole job");
  std::memcpy(&bytes, length.data(), sizeof bytes);
  const auto address = heap.at(offset + sizeof bytes, bytes);
  return std::vector<std::byte>(address.begin(), address.end());
}

Result<> Remote::connect(Peer& peer) {
  if (peer.connected) return {};
  auto address = address_of(peer);
  if (!address) return std::unexpected(std::move(address).error());
  ISTHMUS_TRY(port_->connect(peer.id, *address));
  peer.connected = true;
  if (peer.is_local()) return {};
  peer.plan = Plan({.remote = true, .eager_limit = port_->eager_limit(peer.id)});
  return {};
}

Request* Remote::start_send(Peer& peer, const Target& target, const Payload& payload, SendMode mode) {
  Request* send = engine_.make_send(target, payload, mode);
  send->peer = &peer;
  const auto give_up = [&](const Error& error) {
    if (!peer.lost) lost(peer.id, error);
    send->status.error = static_cast<int>(ErrorClass::proc_aborted);
    engine_.finish(*send);
    return send;
  };
  if (const Result<> connected = connect(peer); !connected) return give_up(connected.error());
  wire::NetworkHeader header = network_header(wire::NetworkKind::message, target, payload.bytes, 0);
  const bool eager = payload.bytes <= port_->eager_limit(peer.id);
  peer.traffic.add_sent(eager ? Protocol::network_eager : Protocol::network_rendezvous, payload.bytes);
  const std::byte* data = payload.data;
  if (payload.type) {
    send->staging = std::make_unique_for_overwrite<std::byte[]>(payload.bytes);
    pack_into(payload, send->staging.get());
    data = send->staging.get();
  }
  send->limit = 1;  // what has to happen before it is complete
  if (!eager) header.sender = send->cookie();
  if (mode == SendMode::synchronous && eager) {
    header.flag = wire::CellFlag::synchronous;
    header.sender = send->cookie();
    send->limit = 2;
    unacknowledged_.push_back(send);
  }
  auto progress = port_->send(peer.id, bytes_of(header), {data, payload.bytes}, send->cookie());
  if (!progress) {
    std::erase(unacknowledged_, send);
    return give_up(progress.error());
  }
  if (*progress == network::Port::Progress::pending) return send;
  if (send->limit > 1) {
    --send->limit;
    return send;
  }
  engine_.finish(*send);
  if (mode != SendMode::standard) return send;
  engine_.requests_.give_back(send);
  return nullptr;
}

void Remote::fetch_chunks(Peer& peer, Request& receive, int source, int tag, std::uint64_t bytes,
                          wire::Cookie sender) {
  receive.assign(&peer, source, tag, bytes);
  chunks_->match(peer, receive, sender);
}

void Remote::decline_chunks(Peer& peer, wire::Cookie sender) {
  chunks_->decline(peer, sender);
}

bool Remote::is_copying() const noexcept {
  return chunks_ && chunks_->is_copying();
}

void Remote::acknowledge(Peer& peer, wire::Cookie sender) {
  if (!connect(peer)) return;
  const wire::NetworkHeader header =
      network_header(wire::NetworkKind::acknowledge, {peer.id, 0, 0, 0}, 0, sender);
  // Where it does not arrive, the peer hears of the loss.
  [[maybe_unused]] const auto progress = port_->send(peer.id, bytes_of(header), {}, 0);
}

void Remote::fetch(Peer& peer, Request& receive, int source, int tag, const RemoteOffer& offer) {
  receive.assign(&peer, source, tag, offer.bytes);
  if (receive.limit == 0) {
    decline(peer, offer.id);
    return engine_.finish(receive);
  }
  // Where that fails, the fetch reports it.
  [[maybe_unused]] const auto connected = connect(peer);
  if (try_fetch_direct(receive, offer.id))
    return peer.traffic.add_received(Protocol::network_gpu, receive.limit);
  if (receive.gpu && chunks_->try_fetch(peer, receive, offer)) return;
  peer.traffic.add_received(Protocol::network_rendezvous, receive.limit);
  std::byte* to = receive.landing().data;
  if (receive.payload.type) {
    receive.staging = std::make_unique_for_overwrite<std::byte[]>(receive.limit);
    to = receive.staging.get();
  }
  port_->fetch(offer.id, {to, receive.limit}, receive.cookie());
}

void Remote::decline(Peer& peer, network::OfferId offer) {
  // This process may never have sent anything there. Where it cannot, the sender hears of the loss.
  [[maybe_unused]] const auto connected = connect(peer);
  port_->decline(offer);
}

unsigned Remote::poll() {
  if (!port_) return 0;
  const unsigned happened = port_->poll();
  return happened + chunks_->poll();  // what has been offered just now, too
}

bool Remote::arm() {
  if (!port_) return true;
  if (!waker_) {
    auto waker = PortWaker::start(port_->wake_descriptor(), engine_.region_.block(engine_.slot_).sleeping);
    if (!waker) return false;
    waker_ = std::move(*waker);
  }
  if (!port_->arm()) return false;
  waker_->arm();
  return true;
}

void Remote::close() {
  waker_.reset();
  chunks_.reset();
  port_.reset();
}

void Remote::meet_all() {
  barrier();
  // Who comes out of the second one knows that all have come out of the first, and nobody wonders where it is
  // gone.
  ending_ = true;
  barrier();
  engine_.wait_for([this] { return idle(); });
}

void Remote::barrier() {
  MatchContext& context = engine_.open_context(meeting_context, engine_.size());
  const PeerId rank = engine_.rank();
  const PeerId size = engine_.size();
  for (PeerId distance = 1; distance < size; distance *= 2) {
    const PeerId to = (rank + distance) % size;
    const PeerId from = (rank + size - distance) % size;
    const Target target{to, meeting_context, static_cast<int>(rank), 0};
    // A context that is opened after the loss of a rank does not know of it.
    if (engine_.peer(from).lost)
      engine_.send(target, {});
    else
      engine_.send_receive(target, {}, context, static_cast<int>(from), 0, {});
  }
}

void Remote::arrived(PeerId from, std::span<const std::byte> header, std::span<const std::byte> bytes) {
  Peer& peer = engine_.peer(from);
  const auto read = wire::read_network_header(header);
  if (!read) return engine_.malformed(peer, "header of a message from another host");
  if (read->kind == wire::NetworkKind::acknowledge) return acknowledged(peer, read->sender);
  if (read->kind == wire::NetworkKind::chunked) return chunks_->announced(peer, *read);
  if (read->kind == wire::NetworkKind::chunk && read->bytes == 0)
    return chunks_->broken_off(peer, read->sender);
  if (read->kind == wire::NetworkKind::cut) return chunks_->cut(peer, read->sender);
  if (read->kind != wire::NetworkKind::message)
    return engine_.malformed(peer, "chunk that came without being fetched");
  if (read->bytes != bytes.size()) return engine_.malformed(peer, "message that is not as long as it says");
  deliver(peer, *read, bytes);
}

void Remote::deliver(Peer& peer, const wire::NetworkHeader& header, std::span<const std::byte> bytes) {
  MatchContext& context = engine_.matcher_.context(header.context);
  if (!context.is_source(header.source)) return engine_.malformed(peer, "source beyond its group");
  const bool synchronous = header.flag == wire::CellFlag::synchronous;
  peer.traffic.add_received(Protocol::network_eager, bytes.size());
  if (Request* receive = context.match(header.source, header.tag)) {
    if (synchronous) acknowledge(peer, header.sender);
    return engine_.deliver(*receive, header.source, header.tag, bytes.data(), bytes.size());
  }
  UnexpectedMessage* message =
      engine_.make_unexpected(peer, context, header.source, header.tag, bytes.size());
  message->acknowledge = synchronous;
  message->offer.sender = header.sender;
  if (!bytes.empty()) std::ranges::copy(bytes, message->data);
  context.add(message);
}

void Remote::offered(PeerId from, std::span<const std::byte> header, std::uint64_t bytes,
                     network::OfferId offer) {
  Peer& peer = engine_.peer(from);
  const auto read = wire::read_network_header(header);
  if (read && read->kind == wire::NetworkKind::chunk && read->bytes == bytes)
    return chunks_->offered(peer, *read, bytes, offer);
  if (read && read->kind == wire::NetworkKind::loop) return loop_offered(peer, *read, bytes, offer);
  if (!read || read->kind != wire::NetworkKind::message || read->bytes != bytes) {
    engine_.malformed(peer, "offer of a message from another host");
    return decline(peer, offer);
  }
  MatchContext& context = engine_.matcher_.context(read->context);
  if (!context.is_source(read->source)) {
    engine_.malformed(peer, "source beyond its group");
    return decline(peer, offer);
  }
  if (Request* receive = context.match(read->source, read->tag))
    return fetch(peer, *receive, read->source, read->tag, {bytes, offer, read->sender});
  UnexpectedMessage& message = engine_.keep_offer(peer, context, read->source, read->tag, bytes,
                                                  UnexpectedMessage::Content::remote_offer);
  message.offer.sender = read->sender;
  message.offer.address = offer;
}

void Remote::end_part(Request& send) {
  if (--send.limit == 0) engine_.finish(send);
}

void Remote::sent(network::Token token, const Error* error) {
  if (chunks_->sent(token, error)) return;
  Request* send = engine_.requests_.find(token);
  if (!send || send->complete) return;  // acknowledgements have no request
  if (error) send->status.error = static_cast<int>(ErrorClass::proc_aborted);
  end_part(*send);
}

void Remote::acknowledged(const Peer& peer, wire::Cookie sender) {
  Request* send = engine_.requests_.find(sender);
  const auto known = std::ranges::find(unacknowledged_, send);
  if (!send || known == unacknowledged_.end() || send->peer != &peer)
    return engine_.malformed(const_cast<Peer&>(peer), "answer to a send that is not pending");
  unacknowledged_.erase(known);
  end_part(*send);
}

void Remote::fetched(network::Token token, const Error* error) {
  if (chunks_->fetched(token, error)) return;
  Request* receive = engine_.requests_.find(token);
  if (!receive || receive->complete) return;
  if (error) {
    receive->status.error = static_cast<int>(ErrorClass::proc_aborted);
  } else if (receive->transfer == Request::Transfer::network) {
    receive->gpu->landed = true;
  } else if (receive->staging) {
    Cursor cursor(*receive->payload.type, receive->payload.data, receive->payload.count);
    cursor.unpack({receive->staging.get(), receive->limit});
  }
  engine_.finish(*receive);
}

void Remote::lost(PeerId id, const Error& why) {
  Peer& peer = engine_.peer(id);
  if (std::exchange(peer.lost, true)) return;
  if (peer.is_local() && !ending_) engine_.found_gone(peer);
  if (engine_.settings_.warn && !ending_)
    warn("rank " + std::to_string(engine_.rank_) + " has lost rank " + std::to_string(id) + ": " +
         why.text());
  const auto end_in_error = [this](Request& request) {
    request.status.error = static_cast<int>(ErrorClass::proc_aborted);
    engine_.finish(request);
  };
  chunks_->lost(peer);
  std::vector<Request*> unheard;
  std::erase_if(unacknowledged_, [&](Request* send) {
    const bool gone = send->peer == &peer;
    if (gone) unheard.push_back(send);
    return gone;
  });
  for (Request* send : unheard) {
    send->status.error = static_cast<int>(ErrorClass::proc_aborted);
    end_part(*send);
  }
  engine_.matcher_.for_each([&](MatchContext& context) {
    if (!context.has_process(id)) return;
    for (Request* receive : context.lose(id))
      end_in_error(*receive);
  });
}

}  // namespace isthmus
