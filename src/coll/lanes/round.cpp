#include "coll/lanes/round.hpp"

#include "coll/area/line_readers.hpp"

namespace isthmus::coll {

std::unexpected<Error> Round::Hear::differs(int rank) const {
  round_.is_over_ = true;
  std::uint64_t theirs = round_.line(rank).call;
  if (theirs == Call::differing) {
    Differing told;
    std::memcpy(&told, round_.line(rank).data.data(), sizeof told);
    const Differing::Member& named = told.one.call != round_.call_ ? told.one : told.other;
    rank = static_cast<int>(named.rank);
    theirs = named.call;
  }
  round_.differing_rank_ = rank;
  round_.differing_call_ = theirs;
  return mismatch(round_.call_, rank, theirs);
}

void Round::take_back() noexcept {
  line_.sequence.store(0, std::memory_order_relaxed);
  is_finished_ = true;
  team().finish(place_.stripe(), place_.step());
  see_line_readers();
  team().notify_all();
}

}  // namespace isthmus::coll
