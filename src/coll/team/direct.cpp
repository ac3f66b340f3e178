#include "coll/team/direct.hpp"

#include <algorithm>
#include <cstring>

#include "coll/call/local.hpp"
#include "coll/call/operands.hpp"
#include "coll/call/part_reduction.hpp"
#include "coll/team/step.hpp"

namespace isthmus::coll {
namespace {

/// Names `data` to all others; afterwards `hear` says when a member has named its own.
Result<> name_buffer(Step& step, const void* data) {
  step.put_address(data);
  if (step.team().size() > flat_ranks) return step.exchange();
  step.publish();
  return {};
}

template <class Receive>
Result<> allgather(Team& team, const In& send, const Receive& receive, std::uint64_t agreed) {
  const bool here = send.buffer == in_place;
  const Payload mine = here ? block(receive, team.rank()) : whole(send);
  const PackedIn packed(mine);
  Step step(team, Collective::allgather, 0, agreed);
  Result<> result = name_buffer(step, packed.data());
  if (!here) copy(mine, block(receive, team.rank()));
  keep_first(result, for_others(team, [&](int i) -> Result<> {
               ISTHMUS_TRY(step.hear(i));
               const PackedOut place(block(receive, i));
               ISTHMUS_TRY(pull(step, i, 0, place.data(), block(receive, i).bytes));
               place.finish();
               return {};
             }));
  step.finish_together();
  return result;
}

}  // namespace

Result<> bcast_direct(Team& team, const Payload& data, int root) {
  const bool at_root = team.rank() == root;
  const PackedOut packed(data, at_root);
  Step step(team, Collective::bcast, root, data.bytes);
  step.put_address(packed.data());
  if (at_root) {
    step.publish();
    step.finish_last();
    return {};
  }
  step.publish_quietly();
  ISTHMUS_TRY(step.hear(root));
  ISTHMUS_TRY(pull(step, root, 0, packed.data(), data.bytes));
  packed.finish();
  return {};
}

Result<> bcast_direct_both(Team& team, const Payload& data, int root) {
  const bool at_root = team.rank() == root;
  const int other = 1 - team.rank();
  const PackedOut packed(data, at_root);
  Step step(team, Collective::bcast, root, data.bytes);
  step.put_address(packed.data());
  step.publish();
  Result<> result = step.hear(other);
  if (result) {
    const std::uint64_t middle = data.bytes / 2 / wire::cache_line * wire::cache_line;
    result = at_root ? team.engine().push(team.peer(other), step.heard_address(other) + middle,
                                          packed.data() + middle, data.bytes - middle)
                     : pull(step, root, 0, packed.data(), middle);
  }
  step.finish_together();
  if (!at_root) packed.finish();
  return result;
}

Result<> allgather_direct(Team& team, const In& send, const Out& receive) {
  return allgather(team, send, receive, block(receive, 0).bytes);
}

Result<> allgather_direct(Team& team, const In& send, const OutV& receive) {
  return allgather(team, send, receive, bytes_of_blocks(receive, team.size()));
}

Result<> alltoall_direct(Team& team, const In& send, const Out& receive) {
  const int n = team.size();
  const int rank = team.rank();
  const bool here = send.buffer == in_place;
  const In source = here ? In{receive.buffer, receive.count, receive.type} : send;
  const Payload all = Payload::of(source.buffer, source.count * n, *source.type);
  const std::uint64_t bytes = all.bytes / static_cast<unsigned>(n);
  // In place, blocks are overwritten while others still want them.
  Bytes leaving(here ? all.bytes : 0);
  if (here) pack(all, leaving.data());
  const PackedIn packed(here ? Payload::of(leaving.data(), all.bytes) : all);

  Step step(team, Collective::alltoall, 0, bytes);
  Result<> result = name_buffer(step, packed.data());
  if (!here) copy(block(source, rank), block(receive, rank));
  keep_first(result, for_others(team, [&](int i) -> Result<> {
               ISTHMUS_TRY(step.hear(i));
               const PackedOut place(block(receive, i));
               ISTHMUS_TRY(pull(step, i, bytes * static_cast<unsigned>(rank), place.data(), bytes));
               place.finish();
               return {};
             }));
  step.finish_together();
  return result;
}

Result<> allreduce_direct_all(Team& team, const void* send, void* receive, const Reduction& what) {
  const Payload mine = elements(send, what);
  const FetchedOperand operand(mine, send == receive);
  ReductionSpace space(what.count, what);
  Step step(team, Collective::allreduce, 0, mine.bytes);
  step.put_address(operand.data());
  Result<> result = step.exchange();
  if (result) result = PartReduction(step, operand.data(), what, space).run(0, what.count, receive);
  step.finish_together();
  return result;
}

// An owner is the only one who reads its share of the operands, so that it may overwrite that in the others'
// memory as soon as it has it, even where they reduce in place.

Result<> allreduce_direct(Team& team, const void* send, void* receive, const Reduction& what) {
  const Shares shares(what.count, team.size());
  const int rank = team.rank();
  ReductionSpace space(shares.size(rank), what);
  Step step(team, Collective::allreduce, 0, elements(send, what).bytes);
  step.put_address(send);
  step.put_address(receive, result_index);
  Result<> result = step.exchange();
  if (result)
    result = PartReduction(step, send, what, space)
                 .run(shares.begin(rank), shares.size(rank), element(receive, shares.begin(rank), *what.type),
                      [&](std::uint64_t offset, const std::byte* chunk, std::uint64_t bytes) {
                        return for_others(team, [&](int i) { return push(step, i, offset, chunk, bytes); });
                      });
  step.finish_together();
  return result;
}

Result<> reduce_direct(Team& team, const void* send, void* receive, const Reduction& what, int root) {
  const Shares shares(what.count, team.size());
  const int rank = team.rank();
  Elements apart(rank == root ? 0 : shares.size(rank), *what.type);
  void* share = rank == root ? element(receive, shares.begin(rank), *what.type) : apart.buffer();
  ReductionSpace space(shares.size(rank), what);
  Step step(team, Collective::reduce, root, elements(send, what).bytes);
  step.put_address(send);
  step.put_address(receive, result_index);
  Result<> result = step.exchange();
  if (result)
    result = PartReduction(step, send, what, space)
                 .run(shares.begin(rank), shares.size(rank), share,
                      [&](std::uint64_t offset, const std::byte* chunk, std::uint64_t bytes) {
                        return rank == root ? Result<>() : push(step, root, offset, chunk, bytes);
                      });
  step.finish_together();
  return result;
}

Result<> reduce_scatter_direct(Team& team, const void* send, void* receive, const Integers& counts,
                               const Reduction& what) {
  std::int64_t before = 0;
  std::int64_t total = 0;
  for (int i = 0; i < team.size(); ++i) {
    if (i == team.rank()) before = total;
    total += counts[i];
  }
  const Reduction mine{counts[team.rank()], what.type, what.op};
  // In place, the result would lie in a part of the operand that another rank wants.
  Elements apart(send == receive ? mine.count : 0, *what.type);
  void* result_at = send == receive ? apart.buffer() : receive;
  ReductionSpace space(mine.count, what);
  Step step(team, Collective::reduce_scatter, 0, elements(send, {total, what.type, what.op}).bytes);
  step.put_address(send);
  Result<> result = step.exchange();
  if (result) result = PartReduction(step, send, what, space).run(before, mine.count, result_at);
  step.finish_together();
  copy(elements(result_at, mine), elements(receive, mine));
  return result;
}

}  // namespace isthmus::coll
