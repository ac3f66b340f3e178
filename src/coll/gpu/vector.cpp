// The forms with a length for each member. A block has no gaps; there may be any between blocks.
#include <algorithm>

#include "coll/gpu/between.hpp"
#include "coll/gpu/blocks.hpp"
#include "coll/gpu/collectives.hpp"

namespace isthmus::coll::gpu {

Tried gatherv(const In& send, const OutV& receive, int root, Communicator& comm) {
  const bool at_root = comm.rank() == root;
  const bool here = send.buffer == in_place;
  GpuBlocks blocks;
  return between_gpus(
      comm,
      [&] {
        GpuCall call{
            .collective = Collective::gather, .root = root, .send = {}, .receive = {}, .in_place = here};
        if (!here) call.send = {.payload = whole(send), .offered = !at_root};
        if (at_root) {
          blocks = GpuBlocks::of(receive, comm.size());
          call.receive.payload = blocks.run;
          call.barred = blocks.has_gaps;
        }
        call.longest = std::max(blocks.longest, call.send.payload.bytes);
        return call;
      },
      [&](GpuTeam& team, const GpuView& view, const GpuCall& call) -> Result<> {
        if (!at_root) return {};
        return fetch_blocks_gpu(team, view, blocks.each, here ? nullptr : call.send.payload.data);
      },
      [&](const GpuCall& call) {
        if (!at_root) return GpuPassage{.out = {GpuBlock{call.send.payload.data, call.send.payload.bytes}}};
        return GpuPassage{.in = blocks.each, .own = here ? nullptr : call.send.payload.data};
      });
}

Tried scatterv(const InV& send, const Out& receive, int root, Communicator& comm) {
  const bool at_root = comm.rank() == root;
  const bool here = receive.buffer == in_place;
  GpuBlocks blocks;
  return between_gpus(
      comm,
      [&] {
        GpuCall call{
            .collective = Collective::scatter, .root = root, .send = {}, .receive = {}, .in_place = here};
        if (at_root) {
          blocks = GpuBlocks::of(send, comm.size());
          call.send = {.payload = blocks.run, .offered = true};
          call.barred = blocks.has_gaps;
          call.begins = &blocks.begins;
        }
        if (!here) call.receive.payload = whole(receive);
        call.longest = std::max(blocks.longest, call.receive.payload.bytes);
        return call;
      },
      [&](GpuTeam& team, const GpuView& view, const GpuCall& call) {
        std::array<GpuBlock, flat_ranks> mine{};
        if (!here)
          mine[static_cast<std::size_t>(root)] = {call.receive.payload.data, call.receive.payload.bytes};
        return fetch_own_blocks_gpu(team, view, mine);
      },
      [&](const GpuCall& call) {
        GpuPassage passage{.out = blocks.each, .is_for_each = true};
        const auto at = static_cast<std::size_t>(root);
        passage.in[at] = {call.receive.payload.data, call.receive.payload.bytes};
        if (at_root && !here) passage.own = blocks.each[at].data;
        passage.out[at] = {};
        return passage;
      });
}

Tried allgatherv(const In& send, const OutV& receive, Communicator& comm) {
  const bool here = send.buffer == in_place;
  GpuBlocks blocks;
  return between_gpus(
      comm,
      [&] {
        blocks = GpuBlocks::of(receive, comm.size());
        return GpuCall{.collective = Collective::allgather,
                       .longest = blocks.longest,
                       .send = {.payload = here ? block(receive, comm.rank()) : whole(send), .offered = true},
                       .receive = {.payload = blocks.run},
                       .in_place = here,
                       .barred = blocks.has_gaps};
      },
      [&](GpuTeam& team, const GpuView& view, const GpuCall& call) {
        return fetch_blocks_gpu(team, view, blocks.each, here ? nullptr : call.send.payload.data);
      },
      [&](const GpuCall& call) {
        return GpuPassage{.out = {GpuBlock{call.send.payload.data, call.send.payload.bytes}},
                          .in = blocks.each,
                          .own = here ? nullptr : call.send.payload.data};
      });
}

namespace {

/// In place, what is sent is a copy of all blocks.
template <class Send, class Receive>
Tried exchange_blocks(const Send& send, const Receive& receive, Communicator& comm) {
  const bool here = send.buffer == in_place;
  GpuBlocks from;
  GpuBlocks to;
  return between_gpus(
      comm,
      [&] {
        to = GpuBlocks::of(receive, comm.size());
        from = here ? to : GpuBlocks::of(send, comm.size());
        return GpuCall{.collective = Collective::alltoall,
                       .longest = std::max(from.longest, to.longest),
                       .send = {.payload = from.run, .offered = true, .staged = here},
                       .receive = {.payload = to.run},
                       .in_place = here,
                       .begins = &from.begins,
                       .barred = from.has_gaps || to.has_gaps};
      },
      [&](GpuTeam& team, const GpuView& view, const GpuCall&) {
        return fetch_own_blocks_gpu(team, view, to.each);
      },
      [&](const GpuCall&) {
        GpuPassage passage{.out = from.each, .is_for_each = true, .in = to.each};
        GpuBlock& own = passage.out[static_cast<std::size_t>(comm.rank())];
        if (!here) passage.own = own.data;
        own = {};
        return passage;
      });
}

}  // namespace

Tried alltoallv(const InV& send, const OutV& receive, Communicator& comm) {
  return exchange_blocks(send, receive, comm);
}

Tried alltoallw(const InW& send, const OutW& receive, Communicator& comm) {
  return exchange_blocks(send, receive, comm);
}

}  // namespace isthmus::coll::gpu
