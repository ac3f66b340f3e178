#include "p2p/protocol/network/links.hpp"

#include <cstring>
#include <string_view>
#include <utility>

#include "launch/beside_turns.hpp"

namespace isthmus {
namespace {

/// Key under which processes publish their port's address.
constexpr std::string_view port_key = "port";

}  // namespace

Result<> NetworkLinks::open(network::Events& events) {
  if (links_.job().lines()) {
    auto made =
        network::open_movable(links_.settings(), {links_.rank(), links_.size()}, events, *links_.job().turns);
    if (!made) return std::unexpected(std::move(made).error());
    movable_ = made->get();
    port_ = std::move(*made);
    return {};
  }
  auto port = network::open(links_.settings(), {links_.rank(), links_.size()}, events);
  if (!port)
    return fail(port.error().error_class(),
                "rank " + std::to_string(links_.rank()) +
                    (links_.job().on_one_host()
                         ? " is to send through the network's adapter (ISTHMUS_GPU_PATH=network) and cannot: "
                         : " shares no memory with some ranks of its job and cannot reach them over a "
                           "network: ") +
                    port.error().text());
  port_ = std::move(*port);
  return publish();
}

Result<> NetworkLinks::publish() {
  const auto address = port_->address();
  if (launch::KeyValues* const launcher = links_.job().launcher.get()) {
    ISTHMUS_TRY(launcher->put(port_key, {reinterpret_cast<const char*>(address.data()), address.size()}));
    return launch::beside_turns(links_.job().turns, [&] { return launcher->fence(); });
  }
  const std::uint64_t bytes = address.size();
  wire::RegionHeap heap = links_.region().heap();
  auto offset = heap.allocate(sizeof bytes + bytes);
  if (!offset) return std::unexpected(std::move(offset).error());
  std::byte* const to = heap.at(*offset, sizeof bytes + bytes).data();
  std::memcpy(to, &bytes, sizeof bytes);
  std::memcpy(to + sizeof bytes, address.data(), bytes);
  links_.region().block(links_.slot()).port.store(*offset + 1, std::memory_order_release);
  return {};
}

Result<std::vector<std::byte>> NetworkLinks::address_of(const Peer& peer) const {
  if (launch::KeyValues* const launcher = links_.job().launcher.get()) {
    auto text = launcher->get(peer.id, port_key);
    if (!text) return std::unexpected(std::move(text).error());
    const auto bytes = std::as_bytes(std::span(*text));
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  }
  const wire::RegionHeap heap = links_.region().heap();
  const std::uint64_t offset = links_.region().block(peer.slot).port.load(std::memory_order_acquire) - 1;
  std::uint64_t bytes = 0;
  const auto length = heap.at(offset, sizeof bytes);
  if (length.empty())
    return fail(ErrorClass::other, "rank " + std::to_string(peer.id) +
                                       " has no network port: ISTHMUS_GPU_PATH=network is for a whole job");
  std::memcpy(&bytes, length.data(), sizeof bytes);
  const auto address = heap.at(offset + sizeof bytes, bytes);
  return std::vector<std::byte>(address.begin(), address.end());
}

Result<> NetworkLinks::connect(Peer& peer) {
  if (peer.connected) return {};
  // It knows by itself where ranks are.
  auto address = movable_ ? Result<std::vector<std::byte>>() : address_of(peer);
  if (!address) return std::unexpected(std::move(address).error());
  ISTHMUS_TRY(port_->connect(peer.id, *address));
  peer.network_limit = static_cast<std::uint32_t>(port_->eager_limit(peer.id));
  peer.connected = true;
  links_.plan_again(peer);
  return {};
}

void NetworkLinks::decline(Peer& peer, network::OfferId offer) {
  [[maybe_unused]] const auto connected = connect(peer);
  port_->decline(offer);
}

}  // namespace isthmus
