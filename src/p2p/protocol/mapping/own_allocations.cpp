#include "p2p/protocol/mapping/own_allocations.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace isthmus {

bool OwnAllocations::has_room() const noexcept {
  if (last_number_ == std::numeric_limits<std::uint32_t>::max()) return false;
  return used_ < most || std::ranges::any_of(all_, [](const Entry& each) { return each.number == 0; });
}

OwnAllocations::Entry& OwnAllocations::add(SharedMemory memory) {
  std::vector<bool> nobody(slots_);
  Entry& place = *std::ranges::find(all_, 0U, &Entry::number);
  place.memory = std::move(memory);
  place.told = std::move(nobody);
  place.is_freed = false;
  place.number = ++last_number_;
  used_ = std::max(used_, static_cast<std::size_t>(&place - all_.data()) + 1);
  return place;
}

OwnAllocations::Entry* OwnAllocations::find(const void* data, std::uint64_t bytes) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  for (std::size_t i = 0; i < used_; ++i) {
    const MappedRange& range = all_[i].memory.range;
    const std::uintptr_t offset = address - reinterpret_cast<std::uintptr_t>(range.data());
    if (range && offset < range.bytes() && bytes <= range.bytes() - offset) return &all_[i];
  }
  return nullptr;
}

OwnAllocations::Entry* OwnAllocations::find(std::uint32_t number) noexcept {
  if (number == 0) return nullptr;
  const auto found = std::ranges::find(all_, number, &Entry::number);
  return found == all_.end() ? nullptr : &*found;
}

void OwnAllocations::free(Entry& entry) noexcept {
  entry.is_freed = true;
  entry.memory = {};
}

void OwnAllocations::part_from_parent() const noexcept {
  for (const Entry& each : all_)
    each.memory.part_from_parent();
}

}  // namespace isthmus
