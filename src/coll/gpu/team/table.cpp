#include "coll/gpu/team/table.hpp"

#include <algorithm>

namespace isthmus::coll {

std::optional<std::uint8_t> GpuTable::find(const Buffer& buffer) {
  for (std::uint8_t i = 0; i < size; ++i) {
    Entry& entry = entries_[i];
    if (entry.allocation != buffer.allocation || entry.room != buffer.room) continue;
    entry.used = ++clock_;
    return i;
  }
  return std::nullopt;
}

std::uint8_t GpuTable::pick(const Buffer& buffer) const {
  const auto oldest = std::ranges::min_element(entries_, {}, [&](const Entry& entry) {
    const bool is_gone = entry.base == reinterpret_cast<std::uint64_t>(buffer.base);
    return is_gone ? 0 : entry.used;
  });
  return static_cast<std::uint8_t>(oldest - entries_.begin());
}

GpuTable::Entry& GpuTable::name(std::uint8_t index, const Export& what) {
  for (Entry& entry : entries_)
    if (entry.exporter == what.exporter && entry.base < what.base + what.room &&
        what.base < entry.base + entry.room)
      entry = {};
  entries_[index] = {.exporter = what.exporter,
                     .allocation = what.allocation,
                     .base = what.base,
                     .room = what.room,
                     .here = nullptr,
                     .mapping = {},
                     .refused = false,
                     .used = ++clock_};
  return entries_[index];
}

void GpuTable::forget(std::uint64_t exporter, std::uint64_t allocation) {
  for (Entry& entry : entries_)
    if (entry.exporter == exporter && entry.allocation == allocation) entry = {};
}

}  // namespace isthmus::coll
