#include "coll/area/lane_area.hpp"

namespace isthmus::coll {

StripeMemory LaneArea::nonblocking() const noexcept {
  StripeMemory found = stripe(stripes_at(), nonblocking_depth);
  found.short_slots = memory_ + control_bytes();
  found.long_slots = found.short_slots + ranks_ * nonblocking_depth * short_slot_bytes;
  return found;
}

StripeMemory LaneArea::persistent(std::uint32_t number) const noexcept {
  const std::uint64_t first = stripes_at() + stripe_bytes(nonblocking_depth);
  StripeMemory found = stripe(first + number * stripe_bytes(persistent_depth), persistent_depth);
  found.short_slots = memory_ + control_bytes() +
                      ranks_ * (nonblocking_depth * short_slot_bytes + long_depth * slot_bytes +
                                number * persistent_depth * short_slot_bytes);
  return found;
}

}  // namespace isthmus::coll
