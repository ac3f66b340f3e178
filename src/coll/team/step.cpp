#include "coll/team/step.hpp"

#include "coll/select/mismatch.hpp"

namespace isthmus::coll {

Result<> Step::hear_all() const {
  const int n = team_.size();
  Result<> result;
  if (n <= flat_ranks) [[likely]] {
    for (int i = 0; i < n; ++i) {
      if (i == team_.rank()) continue;
      if (auto heard = hear(i); !heard && result) [[unlikely]]
        result = std::move(heard);
    }
  } else {
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
