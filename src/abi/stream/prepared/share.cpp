// Memory that processes of a port share.

#include "abi/stream/prepared/prepared.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "p2p/protocol/gpu/messages.hpp"

namespace isthmus::abi {
namespace {

/// Where a process's words are out of reach, so is its memory: the words are to come behind the bytes.
void open_part(const stream::Port& port, const Members& members, std::size_t at, const Told& told,
               Part& part) {
  open_shared(members, at, told, part);
  if (const stream::Port::Peer& peer = port.peers[at]; !peer.lines)
    part = {.data = nullptr, .bytes = part.bytes, .mapping = {}, .why = peer.why};
}

bool is_carried(const Part& part) {
  return !part.data && part.bytes > 0;
}

/// Nobody's carrier is asked for what it does not know: all meet again afterwards.
Result<> show_to_carriers(isthmus_stream_share& share) {
  isthmus_stream_port& of = *share.of;
  of.shared[share.number] = share.own;
  ISTHMUS_TRY(start_carrier(of, std::ranges::any_of(share.parts, is_carried)));
  if (of.carrier) of.carrier->set_share(share.number, share.own.data, share.own.bytes);
  for (std::size_t i = 0; i < share.parts.size(); ++i)
    if (is_carried(share.parts[i])) of.detours[i] = true;
  return {};
}

void forget(isthmus_stream_share& share) {
  share.of->shared[share.number] = {};
  if (share.of->carrier) share.of->carrier->forget_share(share.number);
}

Result<> make_share(isthmus_stream_share& share, void* address, std::size_t bytes) {
  const stream::Port& port = *share.of->port;
  // Counted where it fails, too: it fails everywhere.
  share.number = static_cast<std::uint32_t>(share.of->shared.size());
  share.of->shared.emplace_back();
  const std::vector<PeerId> ids = ids_of(port);
  const Members members{ids, port.rank, port.device()};
  Told told;
  UniqueFd descriptor;
  Result<> mine;
  {
    const CallGuard guard(Runtime::get());
    auto looked = look_at_shared(address, bytes);
    if (looked) {
      share.own = *looked;
      share.is_reached =
          looked->is_host_readable() || (looked->device == port.device() &&
                                         reaches(Runtime::get().engine->gpu()->copies().contexts(), *looked));
      offer_shared(members, share.own, descriptor, told);
    } else {
      mine = std::unexpected(std::move(looked).error());
    }
  }
  auto all = exchange(share.of->comm, told);
  if (!all) return std::unexpected(std::move(all).error());
  share.parts.resize(all->size());
  {
    const CallGuard guard(Runtime::get());
    for (std::size_t i = 0; i < all->size(); ++i)
      if (static_cast<int>(i) == port.rank)
        share.parts[i] = {.data = static_cast<std::byte*>(address),
                          .bytes = bytes,
                          .mapping = {},
                          .why = {},
                          .is_linked = true};
      else
        open_part(port, members, i, (*all)[i], share.parts[i]);
  }
  ISTHMUS_TRY(agree(share.of->comm, std::move(mine)));
  return agree(share.of->comm, show_to_carriers(share));
}

}  // namespace

Result<const Part*> find_part(const isthmus_stream_share& share, int rank) {
  if (rank < 0 || static_cast<std::size_t>(rank) >= share.parts.size())
    return fail(ErrorClass::rank,
                fmt::format("rank is {}, not one of the {} of the port", rank, share.parts.size()));
  return &share.parts[static_cast<std::size_t>(rank)];
}

ISTHMUS_STREAM_EXPORT(int)
isthmus_stream_share_make(isthmus_stream_port* port, void* address, std::size_t bytes,
                          isthmus_stream_share** share) {
  return guarded_stream_call(port, "port", [&]() -> Result<> {
    auto made = std::make_unique<isthmus_stream_share>();
    made->of = port;
    Result<> outcome = make_share(*made, address, bytes);
    if (!outcome) {
      forget(*made);
      const CallGuard guard(Runtime::get());
      made.reset();
      return outcome;
    }
    ++port->shares;
    *share = made.release();
    return {};
  });
}
ISTHMUS_STREAM_EXPORT(int) isthmus_stream_share_free(isthmus_stream_share* share) {
  return guarded_stream_call(share, "share", [&]() -> Result<> {
    if (share->descriptors > 0)
      return fail(ErrorClass::pending,
                  fmt::format("share is in use: {} descriptors of it are not freed", share->descriptors));
    --share->of->shares;
    forget(*share);
    const CallGuard guard(Runtime::get());
    delete share;
    return {};
  });
}
ISTHMUS_STREAM_EXPORT(int) isthmus_stream_share_reach(const isthmus_stream_share* share, int rank) {
  return guarded_stream_call(share, "share", [&]() -> Result<> {
    auto part = find_part(*share, rank);
    if (!part) return outcome_of(part);
    if ((*part)->why.empty()) return {};
    return fail(
        ErrorClass::unsupported_operation,
        fmt::format("no stream reaches what rank {} shares, a proxy carries it: {}", rank, (*part)->why));
  });
}

}  // namespace isthmus::abi
