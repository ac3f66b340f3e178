// The collectives across hosts that only move data.
#include <algorithm>
#include <array>
#include <vector>

#include "coll/call/local.hpp"
#include "coll/gpu/hosts/across_hosts.hpp"
#include "coll/gpu/hosts/carrier_shares.hpp"
#include "coll/gpu/hosts/collectives.hpp"
#include "coll/gpu/hosts/conveyor.hpp"
#include "coll/nodes/domains.hpp"
#include "coll/nodes/way.hpp"

namespace isthmus::coll::gpu_hosts {
namespace {

std::uint64_t count_of(std::uint64_t bytes, std::uint64_t segment) {
  return (bytes + segment - 1) / segment;
}

/// The blocks of a host's members, as arguments of collectives among them: member i's own lies at `begins[i]`
/// bytes, of `counts[i]`.
struct ShareRow {
  std::vector<std::int64_t> counts, begins;

  [[nodiscard]] Result<> collect(const In& send, void* buffer, Communicator& local) const {
    return coll::allgatherv(send, OutV{buffer, counts.data(), begins.data(), &byte_type()}, local);
  }
};

In own_in_place() {
  return {in_place, 0, &byte_type()};
}

// --- broadcast

/// A carrier's share of a broadcast, from host to host.
Result<> carry_bcast(const AcrossHosts& all, std::byte* share, std::uint64_t bytes, int top) {
  const std::uint64_t segments = count_of(bytes, all.segment());
  const Way way(all.hosts().count(), all.hosts().own_domain(), top, static_cast<int>(segments));
  const Ranks ranks = all.between(Tag::bcast);
  const auto place = [&](const Segment& segment) {
    const std::uint64_t begin = segment.index() * all.segment();
    return Payload::of(share + begin, std::min(all.segment(), bytes - begin));
  };
  const std::array<Stage, 2> stages{
      [&](Segment& segment) {
        const Payload mine = place(segment);
        if (way.at_top())
          segment.add(all.to_host(segment.memory(), mine.data, mine.bytes));
        else
          segment.messages(ranks).receive(way.parent(), Payload::of(segment.memory(), mine.bytes));
      },
      [&](Segment& segment) {
        const Payload mine = place(segment);
        Batch& batch = segment.messages(ranks);
        way.for_children([&](int host) { batch.send(host, Payload::of(segment.memory(), mine.bytes)); });
        if (!way.at_top()) segment.add(all.from_host(mine.data, segment.memory(), mine.bytes));
      }};
  return convey(all, segments, stages);
}

Result<> run_bcast(const AcrossHosts& all, std::byte* data, std::uint64_t bytes, int root) {
  const Hierarchy& hosts = all.hosts();
  const int top = hosts.domain_of(root);
  const bool at_top = hosts.own_domain() == top;
  const auto length = static_cast<std::int64_t>(bytes);
  const CarrierShares shares(all, length, gpu_grain);
  FirstError error;
  if (at_top && all.local().size() > 1)
    error.add(coll::bcast(data, length, byte_type(), hosts.index_of(root), all.local()));
  const auto me = static_cast<std::size_t>(all.local().rank());
  if (all.carries())
    error.add(carry_bcast(all, data + shares.begins[me], static_cast<std::uint64_t>(shares.counts[me]), top));
  if (at_top || all.local().size() == 1) return error.take();
  error.add(ShareRow{shares.counts, shares.begins}.collect(own_in_place(), data, all.local()));
  return error.take();
}

// --- allgather

/// Blocks of all members: member i of a host has its block carried by carrier i, and where there are more
/// members than carriers, in a further layer the next ones.
class Blocks {
 public:
  Blocks(const AcrossHosts& all, std::byte* receive, std::uint64_t bytes)
      : all_(all), receive_(receive), bytes_(bytes) {}

  [[nodiscard]] int layers() const {
    int most = 0;
    for (int host = 0; host < all_.hosts().count(); ++host)
      most = std::max(most, all_.hosts().members(host));
    return (most + all_.carriers() - 1) / all_.carriers();
  }
  /// Where the block of `host` is that carrier `carrier` brings in `layer`; null where there is none.
  [[nodiscard]] std::byte* at(int host, int carrier, int layer) const {
    const int index = layer * all_.carriers() + carrier;
    if (index >= all_.hosts().members(host)) return nullptr;
    return receive_ + bytes_ * static_cast<std::uint64_t>(rank_of(host, index));
  }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  /// The blocks of `host`'s own members.
  [[nodiscard]] ShareRow own_row() const {
    ShareRow row;
    for (const int rank : all_.hosts().ranks_of(all_.hosts().own_domain())) {
      row.counts.push_back(static_cast<std::int64_t>(bytes_));
      row.begins.push_back(static_cast<std::int64_t>(bytes_) * rank);
    }
    return row;
  }
  /// What the carriers of this host have of another one.
  [[nodiscard]] ShareRow row(int host, int layer) const {
    ShareRow row;
    for (int i = 0; i < all_.local().size(); ++i) {
      const std::byte* const block = i < all_.carriers() ? at(host, i, layer) : nullptr;
      row.counts.push_back(block ? static_cast<std::int64_t>(bytes_) : 0);
      row.begins.push_back(block ? block - receive_ : 0);
    }
    return row;
  }

 private:
  [[nodiscard]] int rank_of(int host, int index) const {
    return all_.hosts().ranks_of(host)[static_cast<std::size_t>(index)];
  }

  const AcrossHosts& all_;
  std::byte* const receive_;
  const std::uint64_t bytes_;
};

/// Each carrier's own blocks to all other hosts, and theirs to here.
Result<> carry_allgather(const AcrossHosts& all, const Blocks& blocks) {
  const int hosts = all.hosts().count();
  const int own = all.hosts().own_domain();
  const int me = all.local().rank();
  const std::uint64_t each = count_of(blocks.bytes(), all.segment());
  const Ranks ranks = all.between(Tag::allgather);
  /// A segment's part of a block of `host`, and the same in the slot.
  struct Part {
    std::byte* place;
    Payload in_slot;
  };
  const auto part = [&](const Segment& segment, int host) {
    const std::uint64_t begin = segment.index() % each * all.segment();
    std::byte* const block = blocks.at(host, me, static_cast<int>(segment.index() / each));
    const std::uint64_t bytes = block ? std::min(all.segment(), blocks.bytes() - begin) : 0;
    return Part{block + (block ? begin : 0),
                Payload::of(segment.memory() + all.segment() * static_cast<unsigned>(host), bytes)};
  };
  const std::array<Stage, 3> stages{
      [&](Segment& segment) {
        const Part mine = part(segment, own);
        if (mine.place) segment.add(all.to_host(mine.in_slot.data, mine.place, mine.in_slot.bytes));
      },
      [&](Segment& segment) {
        Batch& batch = segment.messages(ranks);
        const Part mine = part(segment, own);
        for (int k = 1; k < hosts; ++k) {
          const int from = (own - k + hosts) % hosts;
          if (const Part theirs = part(segment, from); theirs.place) batch.receive(from, theirs.in_slot);
          if (mine.place) batch.send((own + k) % hosts, mine.in_slot);
        }
      },
      [&](Segment& segment) {
        for (int host = 0; host < hosts; ++host) {
          const Part theirs = part(segment, host);
          if (host != own && theirs.place)
            segment.add(all.from_host(theirs.place, theirs.in_slot.data, theirs.in_slot.bytes));
        }
      }};
  return convey(all, each * static_cast<unsigned>(blocks.layers()), stages);
}

Result<> run_allgather(const AcrossHosts& all, const In& send, const Blocks& blocks, std::byte* receive) {
  FirstError error;
  if (all.local().size() > 1)
    error.add(blocks.own_row().collect(send, receive, all.local()));
  else if (send.buffer != in_place)
    error.add(all.copy(whole(send), Payload::of(blocks.at(all.hosts().own_domain(), 0, 0), blocks.bytes())));
  if (all.carries()) error.add(carry_allgather(all, blocks));
  if (all.local().size() == 1) return error.take();
  for (int host = 0; host < all.hosts().count(); ++host)
    for (int layer = 0; host != all.hosts().own_domain() && layer < blocks.layers(); ++layer)
      if (blocks.at(host, 0, layer))
        error.add(blocks.row(host, layer).collect(own_in_place(), receive, all.local()));
  return error.take();
}

}  // namespace

Tried bcast(void* buffer, std::int64_t count, const Datatype& type, int root, Communicator& comm) {
  const Payload data = Payload::of(buffer, count, type);
  return across_hosts(
      comm, data.bytes,
      [&] {
        return HostsCall{
            .send = data, .receive = {}, .slot_bytes = [](std::uint64_t segment, int) { return segment; }};
      },
      [&](const AcrossHosts& all) { return run_bcast(all, data.data, data.bytes, root); });
}

Tried allgather(const In& send, const Out& receive, Communicator& comm) {
  const Payload result = Payload::of(receive.buffer, receive.count * comm.size(), *receive.type);
  return across_hosts(
      comm, result.bytes,
      [&] {
        return HostsCall{.send = send.buffer == in_place ? Payload() : whole(send),
                         .receive = result,
                         .slot_bytes = [](std::uint64_t segment, int hosts) {
                           return segment * static_cast<unsigned>(hosts);
                         }};
      },
      [&](const AcrossHosts& all) {
        const Blocks blocks(all, result.data, block(receive, 0).bytes);
        return run_allgather(all, send, blocks, result.data);
      });
}

}  // namespace isthmus::coll::gpu_hosts
