#include "coll/messages/algorithms.hpp"
#include "coll/nodes/domains.hpp"

namespace isthmus::coll {

Result<> barrier_leaders(const Spread& all) {
  Communicator& local = all.domains.local();
  // In two halves: only the leader waits for the others of its domain before it goes on, and they for it.
  std::vector<std::byte> arrived(static_cast<std::size_t>(local.size()));
  ISTHMUS_TRY(gather({arrived.data(), 1, &byte_type()}, {arrived.data(), 1, &byte_type()}, 0, local));
  if (all.leads())
    ISTHMUS_TRY(barrier_dissemination(all.between(Tag::barrier, all.domains.leaders())).result());
  return bcast(arrived.data(), 1, byte_type(), 0, local);
}

}  // namespace isthmus::coll
