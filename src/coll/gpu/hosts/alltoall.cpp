// The alltoall across hosts: blocks for the own host from GPU to GPU, the others in segments through pinned
// memory, each member its own.
#include <algorithm>
#include <array>
#include <vector>

#include "coll/call/local.hpp"
#include "coll/gpu/hosts/across_hosts.hpp"
#include "coll/gpu/hosts/collectives.hpp"
#include "coll/gpu/hosts/conveyor.hpp"
#include "coll/nodes/domains.hpp"

namespace isthmus::coll::gpu_hosts {
namespace {

/// Shorter blocks are better packed into one message for each host, as the host's algorithm does it.
constexpr std::uint64_t least_block = 64 * 1024;

/// In turn k a member sends to the one k ranks behind it and receives from the one k before it.
Result<> carry_alltoall(const AcrossHosts& all, const std::byte* send, std::byte* receive,
                        std::uint64_t bytes) {
  const Hierarchy& hosts = all.hosts();
  const int n = all.comm().size();
  const int rank = all.comm().rank();
  std::vector<int> turns;
  const auto is_away = [&](int other) { return hosts.domain_of(other) != hosts.own_domain(); };
  const auto behind = [&](int k) { return (rank + k) % n; };
  const auto before = [&](int k) { return (rank - k + n) % n; };
  for (int k = 1; k < n; ++k)
    if (is_away(behind(k)) || is_away(before(k))) turns.push_back(k);
  const std::uint64_t each = (bytes + all.segment() - 1) / all.segment();
  const Ranks ranks(all.comm(), Tag::alltoall);
  const auto turn = [&](const Segment& segment) {
    return turns[static_cast<std::size_t>(segment.index() / each)];
  };
  const auto begin = [&](const Segment& segment) { return segment.index() % each * all.segment(); };
  /// Half a slot: 0 for what leaves, 1 for what comes.
  const auto half = [&](const Segment& segment, unsigned which) {
    return Payload::of(segment.memory() + which * all.segment(),
                       std::min(all.segment(), bytes - begin(segment)));
  };
  const auto block = [&](int other) { return bytes * static_cast<std::uint64_t>(other); };
  const std::array<Stage, 3> stages{
      [&](Segment& segment) {
        const int to = behind(turn(segment));
        const Payload leaving = half(segment, 0);
        if (is_away(to))
          segment.add(all.to_host(leaving.data, send + block(to) + begin(segment), leaving.bytes));
      },
      [&](Segment& segment) {
        Batch& batch = segment.messages(ranks);
        if (const int from = before(turn(segment)); is_away(from)) batch.receive(from, half(segment, 1));
        if (const int to = behind(turn(segment)); is_away(to)) batch.send(to, half(segment, 0));
      },
      [&](Segment& segment) {
        const int from = before(turn(segment));
        const Payload coming = half(segment, 1);
        if (is_away(from))
          segment.add(all.from_host(receive + block(from) + begin(segment), coming.data, coming.bytes));
      }};
  return convey(all, each * turns.size(), stages);
}

Result<> run_alltoall(const AcrossHosts& all, const std::byte* send, std::byte* receive,
                      std::uint64_t bytes) {
  FirstError error;
  std::vector<std::int64_t> begins;
  for (const int rank : all.hosts().ranks_of(all.hosts().own_domain()))
    begins.push_back(static_cast<std::int64_t>(bytes) * rank);
  if (all.local().size() == 1) {
    error.add(
        all.copy(Payload::of(send + begins.front(), bytes), Payload::of(receive + begins.front(), bytes)));
  } else {
    const Integers same = Integers::same(static_cast<std::int64_t>(bytes));
    error.add(coll::alltoallv(InV{send, same, begins.data(), &byte_type()},
                              OutV{receive, same, begins.data(), &byte_type()}, all.local()));
  }
  error.add(carry_alltoall(all, send, receive, bytes));
  return error.take();
}

}  // namespace

Tried alltoall(const In& send, const Out& receive, Communicator& comm) {
  const std::uint64_t bytes = block(receive, 0).bytes;
  if (bytes < least_block) [[likely]]
    return std::nullopt;
  const Payload to = Payload::of(receive.buffer, receive.count * comm.size(), *receive.type);
  const bool here = send.buffer == in_place;
  const Payload from = here ? to : Payload::of(send.buffer, send.count * comm.size(), *send.type);
  return across_hosts(
      comm, to.bytes,
      [&] {
        return HostsCall{.send = from,
                         .receive = to,
                         .all_carry = true,
                         .barred = here,
                         .slot_bytes = [](std::uint64_t segment, int) { return 2 * segment; }};
      },
      [&](const AcrossHosts& all) { return run_alltoall(all, from.data, to.data, bytes); });
}

}  // namespace isthmus::coll::gpu_hosts
