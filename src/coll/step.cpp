#include "coll/step.hpp"

#include <string>

#include "coll/mismatch.hpp"

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

Result<> Step::exchange() const {
  const int n = team_.size();
  Result<> result;
  if (n <= flat_ranks) [[likely]] {
    publish();
    for (int i = 0; i < n; ++i) {
      if (i == team_.rank()) continue;
      if (auto heard = hear(i); !heard && result) [[unlikely]]
        result = std::move(heard);
    }
  } else {
    publish_quietly();
    if (!meet(team_, [](const Meeting&) { return true; })) return team_.loss();
    for (int i = 0; i < n && result; ++i)
      result = check(i);
  }
  team_.saw_all_begin(number_);
  return result;
}

void Step::finish_together() {
  finish();
  if (team_.size() <= flat_ranks) {
    team_.wait_until_all_finished(number_);
  } else {
    meet(team_, [](const Meeting&) { return true; });
    team_.saw_all_begin(number_ + 1);
  }
}

void Step::leave() {
  // What has been named may be read and written until all others have finished.
  if (line_.sequence.load(std::memory_order_relaxed) == number_)
    finish_together();
  else
    team_.finish_step(number_);
}

std::unexpected<Error> Step::mismatch(int rank, std::uint64_t theirs) const {
  return coll::mismatch(call_, rank, theirs);
}

}  // namespace isthmus::coll
