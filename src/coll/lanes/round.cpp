#include "coll/lanes/round.hpp"

#include "coll/area/line_readers.hpp"

namespace isthmus::coll {

void Round::take_back() noexcept {
  line_.sequence.store(0, std::memory_order_relaxed);
  place_.finish();
  see_line_readers();
  team().notify_all();
}

}  // namespace isthmus::coll
