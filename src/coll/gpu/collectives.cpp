#include "coll/gpu/collectives.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "coll/call/local.hpp"
#include "coll/gpu/between.hpp"
#include "coll/gpu/moves.hpp"
#include "coll/gpu/reduce.hpp"
#include "kernels/body/order.hpp"

namespace isthmus::coll::gpu {
namespace {

Payload payload_of(const void* buffer, std::int64_t count, const Datatype& type) {
  return Payload::of(buffer, count, type);
}

std::byte* bytes_at(void* buffer) {
  return static_cast<std::byte*>(buffer);
}

using Blocks = std::array<GpuBlock, flat_ranks>;

GpuBlock block_of(const Payload& payload) {
  return {payload.data, payload.bytes};
}

/// One behind the other, of `bytes` bytes each; those that there are.
Blocks blocks_from(std::byte* data, std::uint64_t bytes, int members) {
  Blocks blocks{};
  for (int i = 0; data && i < members; ++i)
    blocks[static_cast<std::size_t>(i)] = {data + bytes * static_cast<unsigned>(i), bytes};
  return blocks;
}

/// The block of one member alone.
Blocks only(int member, const GpuBlock& block) {
  Blocks blocks{};
  blocks[static_cast<std::size_t>(member)] = block;
  return blocks;
}

/// Each member's bit.
std::uint8_t bit(int member) {
  return static_cast<std::uint8_t>(1U << static_cast<unsigned>(member));
}
std::uint8_t bits_below(int member) {
  return static_cast<std::uint8_t>((1U << static_cast<unsigned>(member)) - 1);
}

kernel::Byte* place(const void* data) {
  return static_cast<kernel::Byte*>(const_cast<void*>(data));
}

/// An order for blocks of `bytes` bytes of the call's buffers, of which none is for anybody yet; without
/// bytes where they are none, too long, or too many.
kernel::MeetOrder order_of(const Communicator& comm, const GpuCall& call, std::uint64_t bytes) {
  kernel::MeetOrder order{};
  order.send = place(call.send.payload.data);
  order.receive = place(call.receive.payload.data);
  if (comm.size() <= static_cast<int>(kernel::most_order_members) && bytes <= kernel::most_order_bytes)
    order.bytes = static_cast<std::uint32_t>(bytes);
  return order;
}

}  // namespace

Tried bcast(void* buffer, std::int64_t count, const Datatype& type, int root, Communicator& comm) {
  return between_gpus(
      comm,
      [&] {
        const Payload data = payload_of(buffer, count, type);
        const bool at_root = comm.rank() == root;
        const bool offered = at_root || is_dealt_out(comm.size(), data.bytes);
        GpuCall call{.collective = Collective::bcast,
                     .root = root,
                     .bytes = data.bytes,
                     .longest = data.bytes,
                     .send = {data, offered},
                     .receive = {},
                     .root_is_enough = true,
                     .is_for_couriers = true};
        call.order = order_of(comm, call, call.bytes);
        call.order.receive = call.order.send;
        if (at_root)
          call.order.send_to = bits_below(comm.size());
        else
          call.order.take_from = bit(root);
        return call;
      },
      [&](GpuTeam& team, const GpuView& view, const GpuCall& call) {
        return bcast_gpu(team, view, call.send.payload.data, call.bytes, root);
      },
      [&](const GpuCall& call) {
        const Blocks data = only(root, block_of(call.send.payload));
        if (comm.rank() == root) return GpuPassage{.out = {block_of(call.send.payload)}};
        return GpuPassage{.in = data};
      });
}

Tried gather(const In& send, const Out& receive, int root, Communicator& comm) {
  const bool at_root = comm.rank() == root;
  const bool here = send.buffer == in_place;
  return between_gpus(
      comm,
      [&] {
        GpuCall call{
            .collective = Collective::gather, .root = root, .send = {}, .receive = {}, .in_place = here};
        if (!here) call.send = {whole(send), !at_root};
        if (at_root)
          call.receive.payload = payload_of(receive.buffer, receive.count * comm.size(), *receive.type);
        call.longest = call.bytes = at_root ? block(receive, 0).bytes : call.send.payload.bytes;
        call.order = order_of(comm, call, call.bytes);
        call.order.take_differs = true;
        call.is_for_couriers = true;
        if (!at_root)
          call.order.send_to = bit(root);
        else
          call.order.take_from = here ? static_cast<std::uint8_t>(bits_below(comm.size()) & ~bit(root))
                                      : bits_below(comm.size());
        return call;
      },
      [&](GpuTeam& team, const GpuView& view, const GpuCall& call) -> Result<> {
        if (!at_root) return {};
        return gather_gpu(team, view, here ? nullptr : call.send.payload.data, bytes_at(receive.buffer),
                          call.bytes);
      },
      [&](const GpuCall& call) {
        if (!at_root) return GpuPassage{.out = {block_of(call.send.payload)}};
        return GpuPassage{.in = blocks_from(bytes_at(receive.buffer), call.bytes, comm.size()),
                          .own = here ? nullptr : call.send.payload.data};
      });
}

Tried scatter(const In& send, const Out& receive, int root, Communicator& comm) {
  const bool at_root = comm.rank() == root;
  const bool here = receive.buffer == in_place;
  return between_gpus(
      comm,
      [&] {
        GpuCall call{
            .collective = Collective::scatter, .root = root, .send = {}, .receive = {}, .in_place = here};
        if (at_root) call.send = {payload_of(send.buffer, send.count * comm.size(), *send.type), true};
        if (!here) call.receive.payload = whole(receive);
        call.longest = call.bytes = at_root ? block(send, 0).bytes : call.receive.payload.bytes;
        call.order = order_of(comm, call, call.bytes);
        call.order.send_differs = true;
        call.is_for_couriers = true;
        if (at_root) call.order.send_to = bits_below(comm.size());
        if (!here) call.order.take_from = bit(root);
        return call;
      },
      [&](GpuTeam& team, const GpuView& view, const GpuCall& call) {
        return scatter_gpu(team, view, here ? nullptr : call.receive.payload.data, call.bytes, root);
      },
      [&](const GpuCall& call) {
        GpuPassage passage{.is_for_each = true, .in = only(root, block_of(call.receive.payload))};
        if (!at_root) return passage;
        passage.out = blocks_from(call.send.payload.data, call.bytes, comm.size());
        if (!here) passage.own = passage.out[static_cast<std::size_t>(root)].data;
        passage.out[static_cast<std::size_t>(root)] = {};
        return passage;
      });
}

Tried allgather(const In& send, const Out& receive, Communicator& comm) {
  const bool here = send.buffer == in_place;
  return between_gpus(
      comm,
      [&] {
        GpuCall call{
            .collective = Collective::allgather,
            .bytes = block(receive, 0).bytes,
            .longest = block(receive, 0).bytes,
            .send = {here ? block(receive, comm.rank()) : whole(send), true},
            .receive = {payload_of(receive.buffer, receive.count * comm.size(), *receive.type), false},
            .in_place = here};
        call.order = order_of(comm, call, call.bytes);
        call.order.take_differs = true;
        call.order.send_to = call.order.take_from = bits_below(comm.size());
        return call;
      },
      [&](GpuTeam& team, const GpuView& view, const GpuCall& call) {
        return allgather_gpu(team, view, here ? nullptr : call.send.payload.data, bytes_at(receive.buffer),
                             call.bytes);
      },
      [&](const GpuCall& call) {
        return GpuPassage{.out = {block_of(call.send.payload)},
                          .in = blocks_from(bytes_at(receive.buffer), call.bytes, comm.size()),
                          .own = here ? nullptr : call.send.payload.data};
      });
}

Tried alltoall(const In& send, const Out& receive, Communicator& comm) {
  return between_gpus(
      comm,
      [&] {
        const Payload all = payload_of(receive.buffer, receive.count * comm.size(), *receive.type);
        GpuCall call{.collective = Collective::alltoall,
                     .bytes = block(receive, 0).bytes,
                     .longest = block(receive, 0).bytes,
                     .send = {.payload = all, .offered = true, .staged = true},
                     .receive = {.payload = all},
                     .in_place = send.buffer == in_place};
        if (!call.in_place) call.send = {payload_of(send.buffer, send.count * comm.size(), *send.type), true};
        call.order = order_of(comm, call, call.bytes);
        call.order.send_differs = call.order.take_differs = true;
        call.order.send_to = call.order.take_from = bits_below(comm.size());
        return call;
      },
      [&](GpuTeam& team, const GpuView& view, const GpuCall& call) {
        return alltoall_gpu(team, view, bytes_at(receive.buffer), call.bytes);
      },
      [&](const GpuCall& call) {
        GpuPassage passage{.out = blocks_from(call.send.payload.data, call.bytes, comm.size()),
                           .is_for_each = true,
                           .in = blocks_from(bytes_at(receive.buffer), call.bytes, comm.size())};
        GpuBlock& own = passage.out[static_cast<std::size_t>(comm.rank())];
        if (!call.in_place) passage.own = own.data;
        own = {};
        return passage;
      });
}

namespace {

/// Nothing where no kernel combines what so many members have.
std::optional<std::uint16_t> combiner_for(const Reduction& what, const Communicator& comm) {
  if (static_cast<std::size_t>(comm.size()) > GpuKernels::most_sources || !what.op->is_predefined())
    return std::nullopt;
  return GpuKernels::combiner(*what.op, *what.type);
}

/// The call of a reduction. `receives`: this member gets a result, of `result_count` elements.
GpuCall reduction_call(const Communicator& comm, Collective collective, const void* send, void* receive,
                       const Reduction& what, std::int64_t result_count, bool receives) {
  const bool here = send == in_place;
  const Payload operand = payload_of(here ? receive : send, what.count, *what.type);
  const auto combiner = combiner_for(what, comm);
  GpuCall call{.collective = collective,
               .bytes = operand.bytes,
               .longest = operand.bytes,
               .send = {operand, true},
               .receive = {},
               .in_place = here,
               .needs_kernels = true,
               .barred = !combiner};
  if (receives) call.receive.payload = payload_of(receive, result_count, *what.type);
  if (call.barred) return call;
  call.order = order_of(comm, call, operand.bytes);
  call.order.combine = *combiner;
  return call;
}

/// The operands of the first `operands` members combined for this one; 0: it gets no result.
GpuPassage combined(const GpuCall& call, const Reduction& what, int operands) {
  return {.out = {block_of(call.send.payload)},
          .combined = GpuPassage::Combined{what, operands, call.receive.payload.data}};
}

}  // namespace

Tried reduce(const void* send, void* receive, const Reduction& what, int root, Communicator& comm) {
  const bool at_root = comm.rank() == root;
  return between_gpus(
      comm,
      [&] {
        GpuCall call = reduction_call(comm, Collective::reduce, send, receive, what, what.count, at_root);
        call.root = root;
        call.receive.offered = at_root;
        call.order.send_to = bit(root);
        call.is_for_couriers = true;
        if (at_root) call.order.take_from = bits_below(comm.size());
        return call;
      },
      [&](GpuTeam& team, const GpuView& view, const GpuCall& call) {
        return reduce_gpu(team, view, call.receive.payload.data, what, root);
      },
      [&](const GpuCall& call) { return combined(call, what, at_root ? comm.size() : 0); });
}

Tried allreduce(const void* send, void* receive, const Reduction& what, Communicator& comm) {
  return between_gpus(
      comm,
      [&] {
        GpuCall call = reduction_call(comm, Collective::allreduce, send, receive, what, what.count, true);
        call.receive.offered = true;
        call.order.send_to = call.order.take_from = bits_below(comm.size());
        return call;
      },
      [&](GpuTeam& team, const GpuView& view, const GpuCall&) {
        return allreduce_gpu(team, view, bytes_at(receive), what);
      },
      [&](const GpuCall& call) { return combined(call, what, comm.size()); });
}

Tried reduce_scatter(const void* send, void* receive, const Integers& counts, const Reduction& what,
                     Communicator& comm) {
  std::int64_t total = 0;
  std::int64_t before = 0;
  std::int64_t longest = 0;
  const auto add_up = [&] {
    for (int i = 0; i < comm.size(); ++i) {
      if (i == comm.rank()) before = total;
      total += counts[i];
      longest = std::max<std::int64_t>(longest, counts[i]);
    }
  };
  return between_gpus(
      comm,
      [&] {
        add_up();
        GpuCall call = reduction_call(comm, Collective::reduce_scatter, send, receive,
                                      {total, what.type, what.op}, counts[comm.rank()], true);
        call.send.staged = call.in_place;  // the result lies in a part of the operand that another wants
        call.longest = static_cast<std::uint64_t>(longest * what.type->size());
        // Blocks are alike, or it goes otherwise.
        const bool is_even = longest * comm.size() == total;
        call.order.bytes = call.barred || !is_even ? 0 : order_of(comm, call, call.longest).bytes;
        call.order.send_differs = true;
        call.order.send_to = call.order.take_from = bits_below(comm.size());
        return call;
      },
      [&](GpuTeam& team, const GpuView& view, const GpuCall&) {
        return reduce_part_gpu(team, view, bytes_at(receive), {counts[comm.rank()], what.type, what.op},
                               before);
      },
      [&](const GpuCall& call) {
        GpuPassage passage = combined(call, {counts[comm.rank()], what.type, what.op}, comm.size());
        passage.is_for_each = true;
        std::byte* next = call.send.payload.data;
        for (int i = 0; i < comm.size(); ++i) {
          const auto bytes = static_cast<std::uint64_t>(counts[i] * what.type->size());
          passage.out[static_cast<std::size_t>(i)] = {next, bytes};
          next += bytes;
        }
        return passage;
      });
}

namespace {

Tried scan_any(const void* send, void* receive, const Reduction& what, bool inclusive, Communicator& comm) {
  return between_gpus(
      comm,
      [&] {
        const bool receives = inclusive || comm.rank() > 0;
        GpuCall call = reduction_call(comm, Collective::scan, send, receive, what, what.count, receives);
        call.send.staged = call.in_place;  // members behind this one read its operand
        const int rank = comm.rank();
        const auto up_to_this = bits_below(rank + 1);
        call.order.send_to = static_cast<std::uint8_t>(bits_below(comm.size()) & ~up_to_this);
        call.order.take_from = inclusive ? up_to_this : bits_below(rank);
        return call;
      },
      [&](GpuTeam& team, const GpuView& view, const GpuCall&) {
        return scan_gpu(team, view, bytes_at(receive), what, inclusive);
      },
      [&](const GpuCall& call) { return combined(call, what, comm.rank() + (inclusive ? 1 : 0)); });
}

}  // namespace

Tried scan(const void* send, void* receive, const Reduction& what, Communicator& comm) {
  return scan_any(send, receive, what, true, comm);
}

Tried exscan(const void* send, void* receive, const Reduction& what, Communicator& comm) {
  return scan_any(send, receive, what, false, comm);
}

}  // namespace isthmus::coll::gpu
