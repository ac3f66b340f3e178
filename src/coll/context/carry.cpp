#include "coll/context/carry.hpp"

#include <utility>

#include "coll/context/footing.hpp"

namespace isthmus::coll {

Result<> carry(Communicator& comm, Result<> result) {
  if (result) result = std::unexpected(comm.why_broken());
  const bool is_lost = result.error().error_class() == ErrorClass::proc_aborted ||
                       result.error().error_class() == ErrorClass::revoked;
  if (!is_lost) return result;
  // A message fails a moment before its peer is known to be lost.
  comm.give_up();
  const auto* const footing = static_cast<const Footing*>(comm.collective_state.get());
  if (footing && footing->hierarchy()) footing->hierarchy()->local().revoke(result.error().error_class());
  return result;
}

}  // namespace isthmus::coll
