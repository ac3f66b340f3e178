#include "gpu/memory/mapping_cache.hpp"

#include <algorithm>
#include <utility>

namespace isthmus {

std::shared_ptr<const Mapping> MappingCache::find(const Export& what, cuda::Device local) {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    // Who says something else of it now has not told the truth once: `open` has the driver find out when.
    return entry.allocation == what.allocation && entry.exporter == what.exporter && entry.local == local &&
           entry.room == what.room;
  });
  if (found == entries_.end()) return nullptr;
  if (found->mapping->is_over()) {
    bytes_ -= found->room;
    entries_.erase(found);
    return nullptr;
  }
  if (!found->mapping->at(what)) return nullptr;
  entries_.splice(entries_.begin(), entries_, found);
  return found->mapping;
}

Result<std::shared_ptr<const Mapping>> MappingCache::open(const Export& what, cuda::Device local,
                                                          int descriptor) {
  for (const std::uint64_t gone : overlapping(what))
    forget(what.exporter, gone);
  make_room(what.room);
  const Opening with{
      .contexts = contexts_, .gpus = gpus_, .self = self_, .local = local, .descriptor = descriptor};
  auto mapping = what.kind == ExportKind::pool ? open_in_pool(what, with) : Mapping::open(what, with);
  close_idle_pools();
  if (!mapping) return mapping;
  entries_.push_front({.exporter = what.exporter,
                       .allocation = what.allocation,
                       .base = what.base,
                       .room = what.room,
                       .local = local,
                       .mapping = *mapping});
  bytes_ += what.room;
  return mapping;
}

Result<std::shared_ptr<const Mapping>> MappingCache::open_in_pool(const Export& what, Opening with) {
  const PoolKey key{what.exporter, what.pool};
  // Importing a pool costs 8.6 ms. One that was destroyed may have had the same number: then it is imported
  // anew.
  if (const auto known = std::ranges::find(pools_, key, &Pool::key); known != pools_.end()) {
    with.pool = known->imported;
    if (auto mapping = Mapping::open(what, with)) return mapping;
    pools_.erase(known);
  }
  auto pool = ImportedPool::open(contexts_.functions(), with.descriptor);
  if (!pool) return std::unexpected(std::move(pool).error());
  with.pool = *pool;
  auto mapping = Mapping::open(what, with);
  if (mapping) pools_.push_front({.key = key, .imported = std::move(*pool)});
  return mapping;
}

/// A pool that the peer has destroyed keeps 32 MiB of its GPU for as long as it is open here.
void MappingCache::close_idle_pools() {
  std::size_t idle = 0;
  std::erase_if(pools_, [&](const Pool& pool) {
    return pool.imported.use_count() == 1 && ++idle > limits_.idle_pools;
  });
}

std::vector<std::uint64_t> MappingCache::overlapping(const Export& what) const {
  std::vector<std::uint64_t> found;
  for (const Entry& entry : entries_)
    if (entry.exporter == what.exporter && entry.allocation != what.allocation &&
        entry.base < what.base + what.room && what.base < entry.base + entry.room)
      found.push_back(entry.allocation);
  return found;
}

void MappingCache::let_go(Entry& entry) {
  if (holds_ > 0) kept_.push_back(std::move(entry.mapping));
  bytes_ -= entry.room;
}

void MappingCache::make_room(std::uint64_t bytes) {
  while (!entries_.empty() &&
         (entries_.size() >= limits_.mappings || bytes_ + bytes > std::max(limits_.bytes, bytes))) {
    let_go(entries_.back());
    entries_.pop_back();
  }
}

void MappingCache::forget(std::uint64_t exporter, std::uint64_t allocation) {
  std::erase_if(entries_, [&](Entry& entry) {
    const bool is_it = entry.exporter == exporter && entry.allocation == allocation;
    if (is_it) let_go(entry);
    return is_it;
  });
  close_idle_pools();
}

void MappingCache::forget(std::uint64_t exporter) {
  std::erase_if(entries_, [&](Entry& entry) {
    if (entry.exporter == exporter) let_go(entry);
    return entry.exporter == exporter;
  });
  std::erase_if(pools_, [&](const Pool& pool) { return pool.key.exporter == exporter; });
}

}  // namespace isthmus
