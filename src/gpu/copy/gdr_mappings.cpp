#include "gpu/copy/gdr_mappings.hpp"

#include <algorithm>
#include <utility>

namespace isthmus {

const GdrMapping* GdrMappings::find(const Buffer& buffer) {
  if (!std::exchange(has_looked_, true)) {
    auto opened = GdrDriver::open();
    if (opened)
      driver_ = std::move(*opened);
    else
      trouble_ = opened.error().text();
  }
  const bool can_be = driver_ && buffer.kind == MemoryKind::device && buffer.is_own && buffer.is_whole();
  if (!can_be || buffer.allocation == 0) return nullptr;
  // Allocations are never numbered alike, so that what is found by its number is not freed memory.
  const auto found = std::ranges::find_if(entries_, [&buffer](const Entry& entry) {
    return entry.allocation == buffer.allocation && entry.mapping->covers(buffer.data, buffer.bytes);
  });
  if (found != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, found);
    return entries_.front().mapping.get();
  }
  if (refused_.contains(buffer.allocation)) return nullptr;
  auto mapping = GdrMapping::open(*driver_, buffer);
  if (!mapping) {
    if (refused_.size() == most_refused) refused_.clear();
    refused_.insert(buffer.allocation);
    trouble_ = mapping.error().text();
    return nullptr;
  }
  if (entries_.size() == most_mappings) entries_.pop_back();
  entries_.push_front({.allocation = buffer.allocation, .mapping = std::move(*mapping)});
  return entries_.front().mapping.get();
}

bool GdrMappings::load(void* to, const Buffer& from) {
  const GdrMapping* const mapping = find(from);
  if (!mapping) return false;
  mapping->load(to, from.data, from.bytes);
  ++counts_.loads;
  return true;
}

bool GdrMappings::store(const Buffer& to, const void* from) {
  const GdrMapping* const mapping = find(to);
  if (!mapping) return false;
  mapping->store(to.data, from, to.bytes);
  ++counts_.stores;
  return true;
}

void GdrMappings::close_freed() {
  std::erase_if(entries_, [](const Entry& entry) { return entry.mapping->is_stale(); });
}

}  // namespace isthmus
