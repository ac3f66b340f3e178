#include "coll/select/mismatch.hpp"

#include <string>

#include "coll/area/team_area.hpp"
#include "coll/select/select.hpp"

namespace isthmus::coll {
namespace {

/// Names what a member said; it may be anything.
std::string collective_name(std::uint64_t call) {
  const unsigned collective = Call::collective(call);
  if (collective >= named_collective_count) return "an unknown collective";
  return std::string(name(static_cast<Collective>(collective)));
}

}  // namespace

std::unexpected<Error> mismatch(std::uint64_t mine, int rank, std::uint64_t theirs) {
  const std::string who = "rank " + std::to_string(rank);
  const std::string my_name = collective_name(mine);
  if (Call::collective(theirs) != Call::collective(mine))
    return fail(ErrorClass::other,
                who + " is in another collective: " + collective_name(theirs) + ", here it is " + my_name);
  if (Call::root(theirs) != Call::root(mine))
    return fail(ErrorClass::root, who + " names root " + std::to_string(Call::root(theirs)) +
                                      ", here it is " + std::to_string(Call::root(mine)));
  return fail(Call::bytes(theirs) > Call::bytes(mine) ? ErrorClass::truncate : ErrorClass::other,
              who + " passes " + std::to_string(Call::bytes(theirs)) + " bytes, here it is " +
                  std::to_string(Call::bytes(mine)) + ": counts or datatypes do not match between ranks");
}

}  // namespace isthmus::coll
