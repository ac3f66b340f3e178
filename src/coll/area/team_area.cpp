#include "coll/area/team_area.hpp"

namespace isthmus::coll {

Result<std::byte*> memory_named_by_rank_0(const wire::RegionHeap& heap, std::uint64_t offset,
                                          std::uint64_t bytes) {
  const std::span<std::byte> memory = heap.at(offset, bytes);
  if (memory.empty() || reinterpret_cast<std::uintptr_t>(memory.data()) % wire::cache_line != 0)
    return fail(ErrorClass::intern, "rank 0 named memory for collectives outside of the shared region");
  return memory.data();
}

AreaLayout::AreaLayout(int ranks) noexcept : ranks_(ranks) {
  for (int level = ranks; level > 1 || nodes_ == 0;) {
    level = (level + arity - 1) / arity;
    nodes_ += level;
  }
  const auto n = static_cast<std::uint64_t>(ranks);
  const auto nodes = static_cast<std::uint64_t>(nodes_);
  lines_ = sizeof(AreaHeader);
  finished_ = lines_ + depth * n * sizeof(Line);
  presence_ = finished_ + n * sizeof(Finished);
  node_ = presence_ + n * sizeof(Presence);
  schedules_ = node_ + nodes * sizeof(Node);
  times_ = schedules_ + call_classes * sizeof(ScheduleWord);
  slots_ = times_ + n * timed_calls * sizeof(CallTime);
  static_assert(call_classes * sizeof(ScheduleWord) % wire::cache_line == 0 &&
                timed_calls * sizeof(CallTime) % wire::cache_line == 0);
  node_slots_ = slots_ + depth * n * slot_bytes;
  bytes_ = node_slots_ + 2 * nodes * slot_bytes;
}

}  // namespace isthmus::coll
