#pragma once

#include <functional>
#include <vector>

#include "base/error.hpp"
#include "base/ref.hpp"
#include "comm/communicator.hpp"
#include "p2p/agreement.hpp"

/// What the members of a communicator agree on when some of them are no more (MPI Forum, "User-Level Failure
/// Mitigation"). Collective over those who live; deaths meanwhile are got over. Guarded by the engine's lock.
namespace isthmus::coll {

/// Members of either group that this process knows to be dead, in the order in which it has learned of them.
std::vector<PeerId> failed_members(const Communicator& comm);

/// Joins an agreement: `done` gets the and of all members' flags, and `failed`: whether a member is dead that
/// not all have `acknowledged`.
void join_agree(Communicator& comm, int flag, const std::vector<PeerId>& acknowledged,
                std::function<void(const Agreements::Value&)> done);
/// Joins an agreement on who lives, of whose outcome `make_shrunk` makes a communicator.
void join_shrink(Communicator& comm, std::function<void(const Agreements::Value&)> done);
/// A communicator of those who live, in their order.
Result<Ref<Communicator>> make_shrunk(Communicator& comm, const Agreements::Value& outcome);

/// The same two, with waiting. `agree`: true where all members live, as far as any knows, and all say yes.
Result<Ref<Communicator>> shrink(Communicator& comm);
bool agree(Communicator& comm, bool yes);

}  // namespace isthmus::coll
