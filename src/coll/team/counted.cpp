#include "coll/team/counted.hpp"

#include "coll/call/operands.hpp"
#include "coll/team/flat.hpp"
#include "coll/team/step.hpp"

namespace isthmus::coll {

Result<> barrier_counted(Team& team) {
  if (!meet(team, [](const Meeting&) { return true; })) return team.loss();
  return {};
}

Result<> reduce_counted(Team& team, const void* send, void* receive, const Reduction& what, int root) {
  const Payload mine = elements(send, what);
  const bool to_all = root == everybody;
  const Step step(team, to_all ? Collective::allreduce : Collective::reduce, to_all ? 0 : root, mine.bytes);
  step.put(mine);
  step.publish_quietly();
  Result<> result;
  const bool met = meet(team, [&](const Meeting& meeting) {
    const auto contribution = [&](int i) -> const std::byte* {
      return meeting.of_seats ? step.heard(team.rank_at(i), mine.bytes)
                              : team.area().node_slot(meeting.number, i);
    };
    std::byte* value = team.area().node_slot(meeting.number, meeting.node);
    copy_bytes(value, contribution(meeting.last - 1), mine.bytes);
    for (int i = meeting.last - 1; i >= meeting.first && result; --i) {
      if (meeting.of_seats && i != team.seat()) result = step.check(team.rank_at(i));
      if (result && i < meeting.last - 1)
        result = what.op->reduce(contribution(i), value, what.count, *what.type);
    }
    return result.has_value();
  });
  if (team.has_left()) return team.loss();
  team.saw_all_begin(step.number());
  if (!result) return result;
  if (!met) return fail(ErrorClass::other, "ranks do not agree on root, count or collective");
  if (to_all || team.rank() == root)
    unpack(team.area().node_slot(team.meeting(), team.area().nodes() - 1), elements(receive, what));
  return {};
}

}  // namespace isthmus::coll
