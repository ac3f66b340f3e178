#include "coll/gpu_collectives.hpp"

#include <utility>

#include "coll/footing.hpp"
#include "coll/gpu_moves.hpp"
#include "coll/gpu_reduce.hpp"
#include "coll/gpu_team.hpp"
#include "coll/local.hpp"

namespace isthmus::coll::gpu {
namespace {

Tried failed(Error error) {
  return Tried(std::in_place, std::unexpect, std::move(error));
}

bool is_here(GpuMessages* gpu, const GpuPart& part) {
  if (!gpu) return false;
  const auto found = gpu->find(part.payload);
  return found && *found;
}

/// Runs `body(team, view)` where all members know that the call can go between their GPUs. `bytes` are the
/// same on all members.
template <class Body>
Tried between_gpus(Communicator& comm, const GpuCall& call, Body body) {
  if (comm.is_inter() || comm.size() == 1 || comm.size() > flat_ranks || call.bytes == 0) return std::nullopt;
  auto footing = Footing::of(comm);
  if (!footing) [[unlikely]]
    return failed(std::move(footing).error());
  Team* const team = (*footing)->team();
  if (!team) return std::nullopt;
  bool here = false;
  if (comm.engine().uses_cuda() && !team->has_used_gpu()) {
    GpuMessages* const gpu = comm.engine().gpu();
    here = is_here(gpu, call.send) || is_here(gpu, call.receive);
  }
  if (!team->all_use_gpu(here)) [[likely]]
    return std::nullopt;
  GpuTeam& gpu_team = (*footing)->gpu_team(*comm.engine().gpu());
  auto view = gpu_team.begin(call);
  if (!view) return failed(std::move(view).error());
  if (!*view) return std::nullopt;
  ++gpu_team.gpu().collectives.between_gpus;
  return gpu_team.end(call, body(gpu_team, **view));
}

Payload payload_of(const void* buffer, std::int64_t count, const Datatype& type) {
  return Payload::of(buffer, count, type);
}

std::byte* bytes_at(void* buffer) {
  return static_cast<std::byte*>(buffer);
}

}  // namespace

Tried bcast(void* buffer, std::int64_t count, const Datatype& type, int root, Communicator& comm) {
  const Payload data = payload_of(buffer, count, type);
  const bool offered = comm.rank() == root || is_handed_on(comm.size(), data.bytes);
  const GpuCall call{.collective = Collective::bcast,
                     .root = root,
                     .bytes = data.bytes,
                     .send = {data, offered},
                     .receive = {}};
  return between_gpus(comm, call, [&](GpuTeam& team, const GpuView& view) {
    return bcast_gpu(team, view, data.data, data.bytes, root);
  });
}

Tried gather(const In& send, const Out& receive, int root, Communicator& comm) {
  if (comm.is_inter()) return std::nullopt;
  const bool at_root = comm.rank() == root;
  const bool here = send.buffer == in_place;
  GpuCall call{.collective = Collective::gather, .root = root, .send = {}, .receive = {}, .in_place = here};
  if (!here) call.send = {whole(send), !at_root};
  if (at_root) call.receive.payload = payload_of(receive.buffer, receive.count * comm.size(), *receive.type);
  call.bytes = at_root ? block(receive, 0).bytes : call.send.payload.bytes;
  return between_gpus(comm, call, [&](GpuTeam& team, const GpuView& view) -> Result<> {
    if (!at_root) return {};
    return gather_gpu(team, view, here ? nullptr : call.send.payload.data, bytes_at(receive.buffer),
                      call.bytes);
  });
}

Tried scatter(const In& send, const Out& receive, int root, Communicator& comm) {
  if (comm.is_inter()) return std::nullopt;
  const bool at_root = comm.rank() == root;
  const bool here = receive.buffer == in_place;
  GpuCall call{.collective = Collective::scatter, .root = root, .send = {}, .receive = {}, .in_place = here};
  if (at_root) call.send = {payload_of(send.buffer, send.count * comm.size(), *send.type), true};
  if (!here) call.receive.payload = whole(receive);
  call.bytes = at_root ? block(send, 0).bytes : call.receive.payload.bytes;
  return between_gpus(comm, call, [&](GpuTeam& team, const GpuView& view) {
    return scatter_gpu(team, view, here ? nullptr : call.receive.payload.data, call.bytes, root);
  });
}

Tried allgather(const In& send, const Out& receive, Communicator& comm) {
  if (comm.is_inter()) return std::nullopt;
  const bool here = send.buffer == in_place;
  const Payload mine = here ? block(receive, comm.rank()) : whole(send);
  const GpuCall call{
      .collective = Collective::allgather,
      .bytes = block(receive, 0).bytes,
      .send = {mine, true},
      .receive = {payload_of(receive.buffer, receive.count * comm.size(), *receive.type), false},
      .in_place = here};
  return between_gpus(comm, call, [&](GpuTeam& team, const GpuView& view) {
    return allgather_gpu(team, view, here ? nullptr : mine.data, bytes_at(receive.buffer), call.bytes);
  });
}

Tried alltoall(const In& send, const Out& receive, Communicator& comm) {
  if (comm.is_inter()) return std::nullopt;
  GpuCall call{.collective = Collective::alltoall,
               .bytes = block(receive, 0).bytes,
               .send = {},
               .receive = {},
               .in_place = send.buffer == in_place};
  // In place, blocks are overwritten while others still want them: without buffers, it takes no part.
  if (!call.in_place) {
    call.send = {payload_of(send.buffer, send.count * comm.size(), *send.type), true};
    call.receive.payload = payload_of(receive.buffer, receive.count * comm.size(), *receive.type);
  }
  return between_gpus(comm, call, [&](GpuTeam& team, const GpuView& view) {
    return alltoall_gpu(team, view, bytes_at(receive.buffer), call.bytes);
  });
}

namespace {

/// The call of a reduction; `receives`: this member gets a result, of `result_count` elements.
GpuCall reduction_call(Collective collective, const void* send, void* receive, const Reduction& what,
                       bool receives, std::int64_t result_count) {
  const bool here = send == in_place;
  const Payload operand = payload_of(here ? receive : send, what.count, *what.type);
  GpuCall call{.collective = collective,
               .bytes = operand.bytes,
               .send = {operand, true},
               .receive = {},
               .in_place = here,
               .needs_kernels = true};
  if (receives) call.receive.payload = payload_of(receive, result_count, *what.type);
  return call;
}

bool has_kernel(const Reduction& what, const Communicator& comm) {
  return !comm.is_inter() && static_cast<std::size_t>(comm.size()) <= GpuKernels::most_sources &&
         what.op->is_predefined() && GpuKernels::can_reduce(*what.op, *what.type);
}

}  // namespace

Tried reduce(const void* send, void* receive, const Reduction& what, int root, Communicator& comm) {
  if (!has_kernel(what, comm)) return std::nullopt;
  const bool at_root = comm.rank() == root;
  GpuCall call = reduction_call(Collective::reduce, send, receive, what, at_root, what.count);
  call.root = root;
  call.receive.offered = at_root;
  return between_gpus(comm, call, [&](GpuTeam& team, const GpuView& view) {
    return reduce_gpu(team, view, call.receive.payload.data, what, root);
  });
}

Tried allreduce(const void* send, void* receive, const Reduction& what, Communicator& comm) {
  if (!has_kernel(what, comm)) return std::nullopt;
  GpuCall call = reduction_call(Collective::allreduce, send, receive, what, true, what.count);
  call.receive.offered = true;
  return between_gpus(comm, call, [&](GpuTeam& team, const GpuView& view) {
    return allreduce_gpu(team, view, bytes_at(receive), what);
  });
}

Tried reduce_scatter(const void* send, void* receive, const Integers& counts, const Reduction& what,
                     Communicator& comm) {
  if (!has_kernel(what, comm)) return std::nullopt;
  std::int64_t total = 0;
  std::int64_t before = 0;
  for (int i = 0; i < comm.size(); ++i) {
    if (i == comm.rank()) before = total;
    total += counts[i];
  }
  const std::int64_t mine = counts[comm.rank()];
  GpuCall call =
      reduction_call(Collective::reduce_scatter, send, receive, {total, what.type, what.op}, true, mine);
  // In place, the result would lie in a part of the operand that another member wants: without buffers, it
  // takes no part.
  if (call.in_place) call.send = call.receive = {};
  return between_gpus(comm, call, [&](GpuTeam& team, const GpuView& view) {
    return reduce_part_gpu(team, view, bytes_at(receive), {mine, what.type, what.op}, before);
  });
}

}  // namespace isthmus::coll::gpu
