#include "coll/team/flat.hpp"

#include "coll/call/combine.hpp"
#include "coll/call/local.hpp"
#include "coll/call/operands.hpp"
#include "coll/team/staged.hpp"
#include "coll/team/step.hpp"

namespace isthmus::coll {
namespace {

template <class Receive>
Result<> allgather(Team& team, const Payload& mine, const Receive& receive, bool in_place,
                   std::uint64_t agreed) {
  Step step(team, Collective::allgather, 0, agreed);
  step.put(mine);
  ISTHMUS_TRY(step.exchange());
  for (int i = 0; i < team.size(); ++i) {
    const Payload place = block(receive, i);
    if (i != team.rank())
      unpack(step.heard(i, place.bytes), place);
    else if (!in_place)
      copy(mine, place);
  }
  return {};
}

}  // namespace

Result<> barrier_flat(Team& team) {
  const Step step(team, Collective::barrier, 0, 0);
  return step.exchange();
}

Result<bool> agree(Team& team, bool yes) {
  const Step step(team, Collective::barrier, 0, 1);
  const auto mine = static_cast<std::byte>(yes);
  step.put(Payload::of(&mine, 1));
  if (auto exchanged = step.exchange(); !exchanged) return std::unexpected(std::move(exchanged).error());
  bool all = true;
  for (int i = 0; i < team.size(); ++i)
    all = all && *step.heard(i, 1) != std::byte{0};
  return all;
}

Result<> bcast_flat(Team& team, const Payload& data, int root) {
  if (data.bytes > Line::capacity) return bcast_staged(team, data, root);
  const Step step(team, Collective::bcast, root, data.bytes);
  if (team.rank() == root) {
    step.put(data);
    step.publish();
    return {};
  }
  step.publish_quietly();  // so that two who wait for each other notice
  ISTHMUS_TRY(step.hear(root));
  unpack(step.heard(root, data.bytes), data);
  return {};
}

Result<> gather_flat(Team& team, const In& send, const Out& receive, int root) {
  const bool at_root = team.rank() == root;
  const Payload mine = at_root ? block(receive, root) : whole(send);
  const Step step(team, Collective::gather, root, mine.bytes);
  if (!at_root) {
    step.put(mine);
    step.publish_to(root);
    return {};
  }
  step.publish_quietly();
  if (send.buffer != in_place) copy(whole(send), mine);
  for (int i = 0; i < team.size(); ++i) {
    if (i == root) continue;
    ISTHMUS_TRY(step.hear(i));
    unpack(step.heard(i, mine.bytes), block(receive, i));
    step.hand_back(i, mine.bytes);
  }
  return {};
}

Result<> scatter_flat(Team& team, const In& send, const Out& receive, int root) {
  const bool at_root = team.rank() == root;
  const std::uint64_t bytes = at_root ? block(send, root).bytes : whole(receive).bytes;
  const std::uint64_t total = bytes * static_cast<unsigned>(team.size());
  const Step step(team, Collective::scatter, root, bytes);
  if (at_root) {
    std::byte* room = step.room(total);
    for (int i = 0; i < team.size(); ++i)
      if (i != root) pack(block(send, i), room + bytes * static_cast<unsigned>(i));
    step.publish();
    if (receive.buffer != in_place) copy(block(send, root), whole(receive));
    return {};
  }
  step.publish_quietly();
  ISTHMUS_TRY(step.hear(root));
  const std::uint64_t own = bytes * static_cast<unsigned>(team.rank());
  unpack(step.heard(root, total) + own, whole(receive));
  if (total > Line::capacity) step.hand_back(root, bytes, own);
  return {};
}

Result<> allgather_flat(Team& team, const In& send, const Out& receive) {
  const bool here = send.buffer == in_place;
  const Payload mine = here ? block(receive, team.rank()) : whole(send);
  return allgather(team, mine, receive, here, mine.bytes);
}

Result<> allgather_flat(Team& team, const In& send, const OutV& receive) {
  const bool here = send.buffer == in_place;
  const Payload mine = here ? block(receive, team.rank()) : whole(send);
  return allgather(team, mine, receive, here, bytes_of_blocks(receive, team.size()));
}

Result<> alltoall_flat(Team& team, const In& send, const Out& receive) {
  const In source = send.buffer == in_place ? In{receive.buffer, receive.count, receive.type} : send;
  const auto n = static_cast<unsigned>(team.size());
  const std::uint64_t bytes = block(source, 0).bytes;
  const Step step(team, Collective::alltoall, 0, bytes);
  step.put(Payload::of(source.buffer, source.count * team.size(), *source.type));
  ISTHMUS_TRY(step.exchange());
  for (int i = 0; i < team.size(); ++i)
    unpack(step.heard(i, bytes * n) + bytes * static_cast<unsigned>(team.rank()), block(receive, i));
  return {};
}

Result<> reduce_flat(Team& team, const void* send, void* receive, const Reduction& what, int root) {
  const Payload mine = elements(send, what);
  const Step step(team, Collective::reduce, root, mine.bytes);
  step.put(mine);
  if (team.rank() != root) {
    step.publish_to(root);
    return {};
  }
  step.publish_quietly();
  for (int i = 0; i < team.size(); ++i)
    if (i != root) ISTHMUS_TRY(step.hear(i));
  return combine(step, 0, team.size() - 1, mine.bytes, receive, what);
}

Result<> allreduce_flat(Team& team, const void* send, void* receive, const Reduction& what) {
  const Payload mine = elements(send, what);
  const Step step(team, Collective::allreduce, 0, mine.bytes);
  step.put(mine);
  ISTHMUS_TRY(step.exchange());
  return combine(step, 0, team.size() - 1, mine.bytes, receive, what);
}

Result<> reduce_scatter_flat(Team& team, const void* send, void* receive, const Integers& counts,
                             const Reduction& what) {
  std::int64_t before = 0;
  std::int64_t total = 0;
  for (int i = 0; i < team.size(); ++i) {
    if (i == team.rank()) before = total;
    total += counts[i];
  }
  const Reduction mine{counts[team.rank()], what.type, what.op};
  const Payload all = elements(send, {total, what.type, what.op});
  const Step step(team, Collective::reduce_scatter, 0, all.bytes);
  step.put(all);
  ISTHMUS_TRY(step.exchange());
  if (mine.count == 0) return {};
  return combine(step, 0, team.size() - 1, all.bytes, receive, mine,
                 static_cast<std::uint64_t>(before) * static_cast<std::uint64_t>(what.type->size()));
}

Result<> scan_flat(Team& team, const void* send, void* receive, const Reduction& what) {
  const Payload mine = elements(send, what);
  const Step step(team, Collective::scan, 0, mine.bytes);
  step.put(mine);
  step.publish();
  for (int i = 0; i < team.rank(); ++i)
    ISTHMUS_TRY(step.hear(i));
  return combine(step, 0, team.rank(), mine.bytes, receive, what);
}

Result<> exscan_flat(Team& team, const void* send, void* receive, const Reduction& what) {
  const Payload mine = elements(send, what);
  const Step step(team, Collective::scan, 0, mine.bytes);
  step.put(mine);
  step.publish();
  if (team.rank() == 0) return {};
  for (int i = 0; i < team.rank(); ++i)
    ISTHMUS_TRY(step.hear(i));
  return combine(step, 0, team.rank() - 1, mine.bytes, receive, what);
}

}  // namespace isthmus::coll
