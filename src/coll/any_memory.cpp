// The collectives for buffers in any memory: straight between GPUs where all members can, on one host or in
// two levels; else, where the program uses CUDA, arguments in GPU memory get stand-ins.
#include "coll/coll.hpp"
#include "coll/gpu_collectives.hpp"
#include "coll/gpu_hosts.hpp"
#include "coll/host.hpp"
#include "coll/stand_ins.hpp"

namespace isthmus::coll {
namespace {

/// Calls `run(stand_ins)`, which names its arguments to the stand-ins, has them fetched and calls the host's
/// form.
template <class Host, class Run>
Result<> in_any_memory(Communicator& comm, Host host, Run run) {
  if (!comm.engine().uses_cuda()) [[likely]]
    return host();
  GpuMessages* const gpu = comm.engine().gpu();
  if (!gpu) return host();
  StandIns stand_ins(*gpu);
  return run(stand_ins);
}

/// What the caller's role in a rooted collective is.
struct Role {
  bool root;   ///< its root
  bool apart;  ///< in the root's group of an intercommunicator, and not the root

  Role(const Communicator& comm, int root_rank)
      : root(comm.is_inter() ? root_rank == root_here : root_rank == comm.rank()),
        apart(comm.is_inter() && root_rank == null_process) {}
};

/// What is done with the receive buffer when `send` is `in_place` or not.
Use result_use(const void* send) {
  return send == in_place ? Use::both : Use::write;
}

std::int64_t sum(const Integers& counts, int n) {
  std::int64_t total = 0;
  for (int i = 0; i < n; ++i)
    total += counts[i];
  return total;
}

template <class Send, class Receive, class Host>
Result<> gather_any(const Send& send, const Receive& receive, int root, Communicator& comm, Host host) {
  return in_any_memory(
      comm, [&] { return host(send, receive, root, comm); },
      [&](StandIns& stand_ins) -> Result<> {
        const Role role(comm, root);
        if (role.apart) return host(send, receive, root, comm);
        const bool sends = !comm.is_inter() || !role.root;
        const Send from = sends ? stand_ins.of(send, 1) : send;
        const Receive to =
            role.root ? stand_ins.of(receive, comm.remote_size(), result_use(send.buffer)) : receive;
        stand_ins.fetch();
        return stand_ins.finish(host(from, to, root, comm));
      });
}

template <class Send, class Receive, class Host>
Result<> scatter_any(const Send& send, const Receive& receive, int root, Communicator& comm, Host host) {
  return in_any_memory(
      comm, [&] { return host(send, receive, root, comm); },
      [&](StandIns& stand_ins) -> Result<> {
        const Role role(comm, root);
        if (role.apart) return host(send, receive, root, comm);
        const bool receives = !comm.is_inter() || !role.root;
        const Send from = role.root ? stand_ins.of(send, comm.remote_size()) : send;
        const Receive to = receives ? stand_ins.of(receive, 1) : receive;
        stand_ins.fetch();
        return stand_ins.finish(host(from, to, root, comm));
      });
}

/// `send_blocks`: in the send buffer.
template <class Send, class Receive, class Host>
Result<> exchange_any(const Send& send, int send_blocks, const Receive& receive, Communicator& comm,
                      Host host) {
  return in_any_memory(
      comm, [&] { return host(send, receive, comm); },
      [&](StandIns& stand_ins) -> Result<> {
        const Send from = stand_ins.of(send, send_blocks);
        const Receive to = stand_ins.of(receive, comm.remote_size(), result_use(send.buffer));
        stand_ins.fetch();
        return stand_ins.finish(host(from, to, comm));
      });
}

/// A reduction of `count` elements, of which `result_count` come out, to all. `host(send, receive)`.
template <class Host>
Result<> reduce_any(const void* send, void* receive, std::int64_t count, std::int64_t result_count,
                    const Reduction& what, Communicator& comm, Host host) {
  return in_any_memory(
      comm, [&] { return host(send, receive); },
      [&](StandIns& stand_ins) -> Result<> {
        const bool here = send == in_place;
        const In from = stand_ins.of(In{send, count, what.type}, 1);
        const Out to =
            stand_ins.of(Out{receive, here ? count : result_count, what.type}, 1, result_use(send));
        stand_ins.fetch();
        return stand_ins.finish(host(from.buffer, to.buffer));
      });
}

}  // namespace

Result<> barrier(Communicator& comm) {
  return host::barrier(comm);
}

Result<> bcast(void* buffer, std::int64_t count, const Datatype& type, int root, Communicator& comm) {
  if (auto done = gpu::bcast(buffer, count, type, root, comm)) return std::move(*done);
  if (auto done = gpu_hosts::bcast(buffer, count, type, root, comm)) return std::move(*done);
  return in_any_memory(
      comm, [&] { return host::bcast(buffer, count, type, root, comm); },
      [&](StandIns& stand_ins) -> Result<> {
        const Role role(comm, root);
        if (role.apart) return {};
        const Out data = stand_ins.of(Out{buffer, count, &type}, 1, role.root ? Use::read : Use::write);
        stand_ins.fetch();
        return stand_ins.finish(host::bcast(data.buffer, count, type, root, comm));
      });
}

Result<> gather(const In& send, const Out& receive, int root, Communicator& comm) {
  if (auto done = gpu::gather(send, receive, root, comm)) return std::move(*done);
  return gather_any(send, receive, root, comm, host::gather);
}
Result<> gatherv(const In& send, const OutV& receive, int root, Communicator& comm) {
  if (auto done = gpu::gatherv(send, receive, root, comm)) return std::move(*done);
  return gather_any(send, receive, root, comm, host::gatherv);
}
Result<> scatter(const In& send, const Out& receive, int root, Communicator& comm) {
  if (auto done = gpu::scatter(send, receive, root, comm)) return std::move(*done);
  return scatter_any(send, receive, root, comm, host::scatter);
}
Result<> scatterv(const InV& send, const Out& receive, int root, Communicator& comm) {
  if (auto done = gpu::scatterv(send, receive, root, comm)) return std::move(*done);
  return scatter_any(send, receive, root, comm, host::scatterv);
}

Result<> allgather(const In& send, const Out& receive, Communicator& comm) {
  if (auto done = gpu::allgather(send, receive, comm)) return std::move(*done);
  if (auto done = gpu_hosts::allgather(send, receive, comm)) return std::move(*done);
  return exchange_any(send, 1, receive, comm, host::allgather);
}
Result<> allgatherv(const In& send, const OutV& receive, Communicator& comm) {
  if (auto done = gpu::allgatherv(send, receive, comm)) return std::move(*done);
  return exchange_any(send, 1, receive, comm, host::allgatherv);
}
Result<> alltoall(const In& send, const Out& receive, Communicator& comm) {
  if (auto done = gpu::alltoall(send, receive, comm)) return std::move(*done);
  if (auto done = gpu_hosts::alltoall(send, receive, comm)) return std::move(*done);
  return exchange_any(send, comm.remote_size(), receive, comm, host::alltoall);
}
Result<> alltoallv(const InV& send, const OutV& receive, Communicator& comm) {
  if (auto done = gpu::alltoallv(send, receive, comm)) return std::move(*done);
  return exchange_any(send, comm.remote_size(), receive, comm, host::alltoallv);
}
Result<> alltoallw(const InW& send, const OutW& receive, Communicator& comm) {
  if (auto done = gpu::alltoallw(send, receive, comm)) return std::move(*done);
  return exchange_any(send, comm.remote_size(), receive, comm, host::alltoallw);
}

Result<> reduce(const void* send, void* receive, const Reduction& what, int root, Communicator& comm) {
  if (auto done = gpu::reduce(send, receive, what, root, comm)) return std::move(*done);
  if (auto done = gpu_hosts::reduce(send, receive, what, root, comm)) return std::move(*done);
  return in_any_memory(
      comm, [&] { return host::reduce(send, receive, what, root, comm); },
      [&](StandIns& stand_ins) -> Result<> {
        const Role role(comm, root);
        if (role.apart) return host::reduce(send, receive, what, root, comm);
        const bool sends = !comm.is_inter() || !role.root;
        const In from = sends ? stand_ins.of(In{send, what.count, what.type}, 1) : In{send, 0, what.type};
        const Out to = role.root ? stand_ins.of(Out{receive, what.count, what.type}, 1, result_use(send))
                                 : Out{receive, 0, what.type};
        stand_ins.fetch();
        return stand_ins.finish(host::reduce(from.buffer, to.buffer, what, root, comm));
      });
}

Result<> allreduce(const void* send, void* receive, const Reduction& what, Communicator& comm) {
  if (auto done = gpu::allreduce(send, receive, what, comm)) return std::move(*done);
  if (auto done = gpu_hosts::allreduce(send, receive, what, comm)) return std::move(*done);
  return reduce_any(send, receive, what.count, what.count, what, comm,
                    [&](const void* from, void* to) { return host::allreduce(from, to, what, comm); });
}

Result<> reduce_scatter(const void* send, void* receive, const Integers& counts, const Reduction& what,
                        Communicator& comm) {
  if (auto done = gpu::reduce_scatter(send, receive, counts, what, comm)) return std::move(*done);
  if (!comm.engine().uses_cuda()) [[likely]]
    return host::reduce_scatter(send, receive, counts, what, comm);
  return reduce_any(
      send, receive, sum(counts, comm.size()), counts[comm.rank()], what, comm,
      [&](const void* from, void* to) { return host::reduce_scatter(from, to, counts, what, comm); });
}

Result<> reduce_scatter_block(const void* send, void* receive, const Reduction& what, Communicator& comm) {
  if (auto done = gpu::reduce_scatter(send, receive, Integers::same(what.count), what, comm))
    return std::move(*done);
  if (auto done = gpu_hosts::reduce_scatter_block(send, receive, what, comm)) return std::move(*done);
  return reduce_any(
      send, receive, what.count * comm.size(), what.count, what, comm,
      [&](const void* from, void* to) { return host::reduce_scatter_block(from, to, what, comm); });
}

Result<> scan(const void* send, void* receive, const Reduction& what, Communicator& comm) {
  if (auto done = gpu::scan(send, receive, what, comm)) return std::move(*done);
  return reduce_any(send, receive, what.count, what.count, what, comm,
                    [&](const void* from, void* to) { return host::scan(from, to, what, comm); });
}

Result<> exscan(const void* send, void* receive, const Reduction& what, Communicator& comm) {
  if (auto done = gpu::exscan(send, receive, what, comm)) return std::move(*done);
  // Rank 0 gets nothing.
  return reduce_any(send, receive, what.count, comm.rank() == 0 ? 0 : what.count, what, comm,
                    [&](const void* from, void* to) { return host::exscan(from, to, what, comm); });
}

}  // namespace isthmus::coll
