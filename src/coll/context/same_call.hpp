#pragma once

#include <cstdint>

#include "coll/context/footing.hpp"
#include "coll/team/step.hpp"

namespace isthmus::coll {

/// A message of so many bytes may wait for its receiver; a shorter one leaves, unless a setting says
/// otherwise (ISTHMUS_EAGER_LIMIT).
inline constexpr std::uint64_t most_sent_ahead = 16 * 1024;

/// For collectives over messages whose lengths only their two ends know, so that members cannot choose alike
/// to go through shared memory. Says which call this member is in, and looks what those are in whose messages
/// it will wait for, or who must take its own (`awaits(rank)`): an error if that is another one, where both
/// would wait for ever. Nothing where the members do not share memory.
template <class Awaits>
Result<> meet_in_call(Communicator& comm, Collective collective, int root, Awaits awaits) {
  const auto footing = Footing::of(comm);
  if (!footing) [[unlikely]]
    return fail(footing.error().error_class(), footing.error().text());
  Team* const team = (*footing)->team();
  if (!team) return {};
  const Step step(*team, collective, root, 0);
  step.publish();
  for (int rank = 0; rank < team->size(); ++rank)
    if (rank != team->rank() && awaits(rank)) ISTHMUS_TRY(step.hear(rank));
  return {};
}

}  // namespace isthmus::coll
