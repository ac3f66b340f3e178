#include "coll/inter.hpp"

#include <vector>

#include "coll/algorithms.hpp"
#include "coll/local.hpp"
#include "coll/operands.hpp"

namespace isthmus::coll::inter {
namespace {

template <class Receive>
Result<> gather_from(const In& send, const Receive& receive, int root, Communicator& comm) {
  const Ranks remote(comm, Tag::gather);
  if (root == null_process) return {};
  if (root != root_here) return remote.send(root, whole(send));
  Batch batch(remote);
  for (int i = 0; i < remote.size(); ++i)
    batch.receive(i, block(receive, i));
  return batch.wait();
}

template <class Send>
Result<> scatter_to(const Send& send, const Out& receive, int root, Communicator& comm) {
  const Ranks remote(comm, Tag::scatter);
  if (root == null_process) return {};
  if (root != root_here) return remote.receive(root, whole(receive));
  Batch batch(remote);
  for (int i = 0; i < remote.size(); ++i)
    batch.send(i, block(send, i));
  return batch.wait();
}

/// The leader collects the other group's blocks and hands them out in its own.
template <class Receive>
Result<> allgather_from(const In& send, const Receive& receive, Communicator& comm) {
  const Ranks remote(comm, Tag::allgather);
  const Ranks own = Ranks::own_group(comm, Tag::allgather);
  Batch batch(remote);
  if (own.rank() == 0)
    for (int i = 0; i < remote.size(); ++i)
      batch.receive(i, block(receive, i));
  batch.send(0, whole(send));
  ISTHMUS_TRY(batch.wait());

  std::uint64_t bytes = 0;
  for (int i = 0; i < remote.size(); ++i)
    bytes += block(receive, i).bytes;
  Bytes packed(bytes);
  std::uint64_t position = 0;
  for (int i = 0; own.rank() == 0 && i < remote.size(); ++i) {
    pack(block(receive, i), packed.data() + position);
    position += block(receive, i).bytes;
  }
  ISTHMUS_TRY(bcast_binomial(own, Payload::of(packed.data(), bytes), 0));
  for (int i = 0; own.rank() != 0 && i < remote.size(); ++i) {
    unpack(packed.data() + position, block(receive, i));
    position += block(receive, i).bytes;
  }
  return {};
}

}  // namespace

Result<> barrier(Communicator& comm) {
  const Ranks own = Ranks::own_group(comm, Tag::barrier);
  ISTHMUS_TRY(barrier_dissemination(own));
  if (own.rank() == 0) ISTHMUS_TRY(Ranks(comm, Tag::barrier).exchange(0, {}, 0, {}));
  return bcast_binomial(own, {}, 0);
}

Result<> bcast(const Payload& data, int root, Communicator& comm) {
  if (root == null_process) return {};
  const Ranks remote(comm, Tag::bcast);
  if (root == root_here) return remote.send(0, data);
  const Ranks own = Ranks::own_group(comm, Tag::bcast);
  if (own.rank() == 0) ISTHMUS_TRY(remote.receive(root, data));
  return bcast_binomial(own, data, 0);
}

Result<> gather(const In& send, const Out& receive, int root, Communicator& comm) {
  return gather_from(send, receive, root, comm);
}
Result<> gather(const In& send, const OutV& receive, int root, Communicator& comm) {
  return gather_from(send, receive, root, comm);
}
Result<> scatter(const In& send, const Out& receive, int root, Communicator& comm) {
  return scatter_to(send, receive, root, comm);
}
Result<> scatter(const InV& send, const Out& receive, int root, Communicator& comm) {
  return scatter_to(send, receive, root, comm);
}
Result<> allgather(const In& send, const Out& receive, Communicator& comm) {
  return allgather_from(send, receive, comm);
}
Result<> allgather(const In& send, const OutV& receive, Communicator& comm) {
  return allgather_from(send, receive, comm);
}

Result<> reduce(const void* send, void* receive, const Reduction& what, int root, Communicator& comm) {
  if (root == null_process) return {};
  const Ranks remote(comm, Tag::reduce);
  if (root == root_here) return remote.receive(0, elements(receive, what));
  const Ranks own = Ranks::own_group(comm, Tag::reduce);
  Elements sum(own.rank() == 0 ? what.count : 0, *what.type);
  ISTHMUS_TRY(reduce_binomial(own, send, sum.buffer(), what, 0));
  if (own.rank() != 0) return {};
  return remote.send(root, elements(sum.buffer(), what));
}

Result<> allreduce(const void* send, void* receive, const Reduction& what, Communicator& comm) {
  const Ranks own = Ranks::own_group(comm, Tag::allreduce);
  Elements sum(own.rank() == 0 ? what.count : 0, *what.type);
  ISTHMUS_TRY(reduce_binomial(own, send, sum.buffer(), what, 0));
  const Payload result = elements(receive, what);
  if (own.rank() == 0)
    ISTHMUS_TRY(Ranks(comm, Tag::allreduce).exchange(0, elements(sum.buffer(), what), 0, result));
  return bcast_binomial(own, result, 0);
}

Result<> reduce_scatter(const void* send, void* receive, const Integers& counts, const Reduction& what,
                        Communicator& comm) {
  const Ranks own = Ranks::own_group(comm, Tag::reduce_scatter);
  std::vector<std::int64_t> begin(static_cast<std::size_t>(own.size()) + 1, 0);
  for (int i = 0; i < own.size(); ++i)
    begin[i + 1] = begin[i] + counts[i];
  const Reduction all{begin.back(), what.type, what.op};
  const std::int64_t space = own.rank() == 0 ? all.count : 0;
  Elements sum(space, *what.type);
  Elements result(space, *what.type);
  ISTHMUS_TRY(reduce_binomial(own, send, sum.buffer(), all, 0));
  if (own.rank() == 0)
    ISTHMUS_TRY(Ranks(comm, Tag::reduce_scatter)
                    .exchange(0, elements(sum.buffer(), all), 0, elements(result.buffer(), all)));
  return scatter_linear(own, InV{result.buffer(), counts, begin.data(), what.type},
                        Out{receive, counts[own.rank()], what.type}, 0);
}

}  // namespace isthmus::coll::inter
