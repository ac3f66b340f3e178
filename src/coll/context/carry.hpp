#pragma once

#include "base/error.hpp"
#include "comm/communicator.hpp"

namespace isthmus::coll {

/// How a collective on `comm` ends at this member that has failed with `result`, or that has succeeded
/// although the communicator was broken meanwhile: in an error, of which the members learn who wait for this
/// one.
///
/// A collective in two levels fails at a leader, whose neighbours have nothing to do with what it has lost,
/// and wait for it. So what belongs to them together is revoked; they fail, and tell those below them.
[[nodiscard]] Result<> carry(Communicator& comm, Result<> result);

}  // namespace isthmus::coll
