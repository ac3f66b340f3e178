#include "coll/messages/inter.hpp"

#include <vector>

#include "coll/call/local.hpp"
#include "coll/call/operands.hpp"
#include "coll/messages/algorithms.hpp"

namespace isthmus::coll::inter {
namespace {

template <class Receive>
Flow gather_from(Ranks remote, In send, Receive receive, int root) {
  if (root == null_process) co_return;
  if (root != root_here) {
    co_await remote.send(root, whole(send));
    co_return;
  }
  Batch batch(remote);
  for (int i = 0; i < remote.size(); ++i)
    batch.receive(i, block(receive, i));
  co_await batch;
}

template <class Send>
Flow scatter_to(Ranks remote, Send send, Out receive, int root) {
  if (root == null_process) co_return;
  if (root != root_here) {
    co_await remote.receive(root, whole(receive));
    co_return;
  }
  Batch batch(remote);
  for (int i = 0; i < remote.size(); ++i)
    batch.send(i, block(send, i));
  co_await batch;
}

/// The leader collects the other group's blocks and hands them out in its own.
template <class Receive>
Flow allgather_from(Ranks remote, In send, Receive receive) {
  const Ranks own = remote.own_group();
  Batch batch(remote);
  if (own.rank() == 0)
    for (int i = 0; i < remote.size(); ++i)
      batch.receive(i, block(receive, i));
  batch.send(0, whole(send));
  co_await batch;

  std::uint64_t bytes = 0;
  for (int i = 0; i < remote.size(); ++i)
    bytes += block(receive, i).bytes;
  Bytes packed(bytes);
  std::uint64_t position = 0;
  for (int i = 0; own.rank() == 0 && i < remote.size(); ++i) {
    pack(block(receive, i), packed.data() + position);
    position += block(receive, i).bytes;
  }
  co_await bcast_binomial(own, Payload::of(packed.data(), bytes), 0);
  for (int i = 0; own.rank() != 0 && i < remote.size(); ++i) {
    unpack(packed.data() + position, block(receive, i));
    position += block(receive, i).bytes;
  }
}

}  // namespace

Flow barrier(Ranks remote) {
  const Ranks own = remote.own_group();
  co_await barrier_dissemination(own);
  if (own.rank() == 0) co_await remote.exchange(0, {}, 0, {});
  co_await bcast_binomial(own, {}, 0);
}

Flow bcast(Ranks remote, Payload data, int root) {
  if (root == null_process) co_return;
  if (root == root_here) {
    co_await remote.send(0, data);
    co_return;
  }
  const Ranks own = remote.own_group();
  if (own.rank() == 0) co_await remote.receive(root, data);
  co_await bcast_binomial(own, data, 0);
}

Flow gather(Ranks remote, In send, Out receive, int root) {
  return gather_from(remote, send, receive, root);
}
Flow gather(Ranks remote, In send, OutV receive, int root) {
  return gather_from(remote, send, receive, root);
}
Flow scatter(Ranks remote, In send, Out receive, int root) {
  return scatter_to(remote, send, receive, root);
}
Flow scatter(Ranks remote, InV send, Out receive, int root) {
  return scatter_to(remote, send, receive, root);
}
Flow allgather(Ranks remote, In send, Out receive) {
  return allgather_from(remote, send, receive);
}
Flow allgather(Ranks remote, In send, OutV receive) {
  return allgather_from(remote, send, receive);
}

Flow reduce(Ranks remote, const void* send, void* receive, Reduction what, int root) {
  if (root == null_process) co_return;
  if (root == root_here) {
    co_await remote.receive(0, elements(receive, what));
    co_return;
  }
  const Ranks own = remote.own_group();
  Elements sum(own.rank() == 0 ? what.count : 0, *what.type);
  co_await reduce_binomial(own, send, sum.buffer(), what, 0);
  if (own.rank() == 0) co_await remote.send(root, elements(sum.buffer(), what));
}

Flow allreduce(Ranks remote, const void* send, void* receive, Reduction what) {
  const Ranks own = remote.own_group();
  Elements sum(own.rank() == 0 ? what.count : 0, *what.type);
  co_await reduce_binomial(own, send, sum.buffer(), what, 0);
  const Payload result = elements(receive, what);
  if (own.rank() == 0) co_await remote.exchange(0, elements(sum.buffer(), what), 0, result);
  co_await bcast_binomial(own, result, 0);
}

Flow reduce_scatter(Ranks remote, const void* send, void* receive, Integers counts, Reduction what) {
  const Ranks own = remote.own_group();
  std::vector<std::int64_t> begin(static_cast<std::size_t>(own.size()) + 1, 0);
  for (int i = 0; i < own.size(); ++i)
    begin[i + 1] = begin[i] + counts[i];
  const Reduction all{begin.back(), what.type, what.op};
  const std::int64_t space = own.rank() == 0 ? all.count : 0;
  Elements sum(space, *what.type);
  Elements result(space, *what.type);
  co_await reduce_binomial(own, send, sum.buffer(), all, 0);
  if (own.rank() == 0)
    co_await remote.exchange(0, elements(sum.buffer(), all), 0, elements(result.buffer(), all));
  const InV results{result.buffer(), counts, begin.data(), what.type};
  co_await scatter_linear(own, results, Out{receive, counts[own.rank()], what.type}, 0);
}

}  // namespace isthmus::coll::inter
