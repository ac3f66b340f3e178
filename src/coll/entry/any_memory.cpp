// The collectives for buffers in any memory: straight between GPUs where all members can, on one host or in
// two levels; else, where the program uses CUDA, arguments in GPU memory get stand-ins.
#include <utility>

#include "coll/call/call.hpp"
#include "coll/call/coll.hpp"
#include "coll/call/host.hpp"
#include "coll/context/carry.hpp"
#include "coll/entry/stand_in_calls.hpp"
#include "coll/entry/start.hpp"
#include "coll/gpu/collectives.hpp"
#include "coll/gpu/hosts/collectives.hpp"

namespace isthmus::coll {
namespace {

/// Runs a collective on a communicator whose members may die. All blocking collectives pass here.
template <class Run>
Result<> carried(Communicator& comm, Run run) {
  if (comm.is_broken()) [[unlikely]]
    return std::unexpected(comm.why_broken());
  Result<> result = run();
  if (result && !comm.is_broken()) [[likely]]
    return result;
  return carry(comm, std::move(result));
}

Result<> on_host(const call::Bcast& c, Communicator& comm) {
  return host::bcast(c.buffer, c.count, *c.type, c.root, comm);
}
Result<> on_host(const call::Gather& c, Communicator& comm) {
  return host::gather(c.send, c.receive, c.root, comm);
}
Result<> on_host(const call::Gatherv& c, Communicator& comm) {
  return host::gatherv(c.send, c.receive, c.root, comm);
}
Result<> on_host(const call::Scatter& c, Communicator& comm) {
  return host::scatter(c.send, c.receive, c.root, comm);
}
Result<> on_host(const call::Scatterv& c, Communicator& comm) {
  return host::scatterv(c.send, c.receive, c.root, comm);
}
Result<> on_host(const call::Allgather& c, Communicator& comm) {
  return host::allgather(c.send, c.receive, comm);
}
Result<> on_host(const call::Allgatherv& c, Communicator& comm) {
  return host::allgatherv(c.send, c.receive, comm);
}
Result<> on_host(const call::Alltoall& c, Communicator& comm) {
  return host::alltoall(c.send, c.receive, comm);
}
Result<> on_host(const call::Alltoallv& c, Communicator& comm) {
  return host::alltoallv(c.send, c.receive, comm);
}
Result<> on_host(const call::Alltoallw& c, Communicator& comm) {
  return host::alltoallw(c.send, c.receive, comm);
}
Result<> on_host(const call::Reduce& c, Communicator& comm) {
  return host::reduce(c.send, c.receive, c.what, c.root, comm);
}
Result<> on_host(const call::Allreduce& c, Communicator& comm) {
  return host::allreduce(c.send, c.receive, c.what, comm);
}
Result<> on_host(const call::ReduceScatter& c, Communicator& comm) {
  return host::reduce_scatter(c.send, c.receive, c.counts, c.what, comm);
}
Result<> on_host(const call::ReduceScatterBlock& c, Communicator& comm) {
  return host::reduce_scatter_block(c.send, c.receive, c.what, comm);
}
Result<> on_host(const call::Scan& c, Communicator& comm) {
  return host::scan(c.send, c.receive, c.what, comm);
}
Result<> on_host(const call::Exscan& c, Communicator& comm) {
  return host::exscan(c.send, c.receive, c.what, comm);
}

/// With stand-ins for what lies in GPU memory.
template <class Call>
[[gnu::noinline]] Result<> stood_in(const Call& c, Communicator& comm, GpuMessages& gpu) {
  StandIns stand_ins(gpu);
  const Call in_host_memory = stand_in(c, stand_ins, comm);
  stand_ins.fetch();
  return stand_ins.finish(on_host(in_host_memory, comm));
}

template <class Call>
Result<> in_any_memory(const Call& c, Communicator& comm) {
  if (comm.engine().uses_cuda()) [[unlikely]]
    if (GpuMessages* const gpu = comm.engine().gpu())
      return carried(comm, [&] { return stood_in(c, comm, *gpu); });
  return carried(comm, [&] { return on_host(c, comm); });
}

}  // namespace

Result<> barrier(Communicator& comm) {
  return carried(comm, [&] { return host::barrier(comm); });
}

Result<> bcast(void* buffer, std::int64_t count, const Datatype& type, int root, Communicator& comm) {
  if (auto done = gpu::bcast(buffer, count, type, root, comm)) return std::move(*done);
  if (auto done = gpu_hosts::bcast(buffer, count, type, root, comm)) return std::move(*done);
  return in_any_memory(call::Bcast{buffer, count, &type, root}, comm);
}

Result<> gather(const In& send, const Out& receive, int root, Communicator& comm) {
  if (auto done = gpu::gather(send, receive, root, comm)) return std::move(*done);
  return in_any_memory(call::Gather{send, receive, root}, comm);
}
Result<> gatherv(const In& send, const OutV& receive, int root, Communicator& comm) {
  if (auto done = gpu::gatherv(send, receive, root, comm)) return std::move(*done);
  return in_any_memory(call::Gatherv{send, receive, root}, comm);
}
Result<> scatter(const In& send, const Out& receive, int root, Communicator& comm) {
  if (auto done = gpu::scatter(send, receive, root, comm)) return std::move(*done);
  return in_any_memory(call::Scatter{send, receive, root}, comm);
}
Result<> scatterv(const InV& send, const Out& receive, int root, Communicator& comm) {
  if (auto done = gpu::scatterv(send, receive, root, comm)) return std::move(*done);
  return in_any_memory(call::Scatterv{send, receive, root}, comm);
}

Result<> allgather(const In& send, const Out& receive, Communicator& comm) {
  if (auto done = gpu::allgather(send, receive, comm)) return std::move(*done);
  if (auto done = gpu_hosts::allgather(send, receive, comm)) return std::move(*done);
  return in_any_memory(call::Allgather{send, receive}, comm);
}
Result<> allgatherv(const In& send, const OutV& receive, Communicator& comm) {
  if (auto done = gpu::allgatherv(send, receive, comm)) return std::move(*done);
  return in_any_memory(call::Allgatherv{send, receive}, comm);
}
Result<> alltoall(const In& send, const Out& receive, Communicator& comm) {
  if (auto done = gpu::alltoall(send, receive, comm)) return std::move(*done);
  if (auto done = gpu_hosts::alltoall(send, receive, comm)) return std::move(*done);
  return in_any_memory(call::Alltoall{send, receive}, comm);
}
Result<> alltoallv(const InV& send, const OutV& receive, Communicator& comm) {
  if (auto done = gpu::alltoallv(send, receive, comm)) return std::move(*done);
  return in_any_memory(call::Alltoallv{send, receive}, comm);
}
Result<> alltoallw(const InW& send, const OutW& receive, Communicator& comm) {
  if (auto done = gpu::alltoallw(send, receive, comm)) return std::move(*done);
  return in_any_memory(call::Alltoallw{send, receive}, comm);
}

Result<> reduce(const void* send, void* receive, const Reduction& what, int root, Communicator& comm) {
  if (auto done = gpu::reduce(send, receive, what, root, comm)) return std::move(*done);
  if (auto done = gpu_hosts::reduce(send, receive, what, root, comm)) return std::move(*done);
  return in_any_memory(call::Reduce{send, receive, what, root}, comm);
}

Result<> allreduce(const void* send, void* receive, const Reduction& what, Communicator& comm) {
  if (auto done = gpu::allreduce(send, receive, what, comm)) return std::move(*done);
  if (auto done = gpu_hosts::allreduce(send, receive, what, comm)) return std::move(*done);
  return in_any_memory(call::Allreduce{send, receive, what}, comm);
}

Result<> reduce_scatter(const void* send, void* receive, const Integers& counts, const Reduction& what,
                        Communicator& comm) {
  if (auto done = gpu::reduce_scatter(send, receive, counts, what, comm)) return std::move(*done);
  return in_any_memory(call::ReduceScatter{send, receive, what, counts}, comm);
}

Result<> reduce_scatter_block(const void* send, void* receive, const Reduction& what, Communicator& comm) {
  if (auto done = gpu::reduce_scatter(send, receive, Integers::same(what.count), what, comm))
    return std::move(*done);
  if (auto done = gpu_hosts::reduce_scatter_block(send, receive, what, comm)) return std::move(*done);
  return in_any_memory(call::ReduceScatterBlock{send, receive, what}, comm);
}

Result<> scan(const void* send, void* receive, const Reduction& what, Communicator& comm) {
  if (auto done = gpu::scan(send, receive, what, comm)) return std::move(*done);
  return in_any_memory(call::Scan{send, receive, what}, comm);
}

Result<> exscan(const void* send, void* receive, const Reduction& what, Communicator& comm) {
  if (auto done = gpu::exscan(send, receive, what, comm)) return std::move(*done);
  return in_any_memory(call::Exscan{send, receive, what}, comm);
}

// Neighbourhoods have no quicker way than messages.
Result<> run(const call::NeighborAllgather& c, Communicator& comm) {
  return carried(comm, [&] { return start({comm, Tag::neighbor}, c).result(); });
}
Result<> run(const call::NeighborAllgatherv& c, Communicator& comm) {
  return carried(comm, [&] { return start({comm, Tag::neighbor}, c).result(); });
}
Result<> run(const call::NeighborAlltoall& c, Communicator& comm) {
  return carried(comm, [&] { return start({comm, Tag::neighbor}, c).result(); });
}
Result<> run(const call::NeighborAlltoallv& c, Communicator& comm) {
  return carried(comm, [&] { return start({comm, Tag::neighbor}, c).result(); });
}
Result<> run(const call::NeighborAlltoallw& c, Communicator& comm) {
  return carried(comm, [&] { return start({comm, Tag::neighbor}, c).result(); });
}

}  // namespace isthmus::coll
