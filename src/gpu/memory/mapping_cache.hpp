#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "gpu/memory/mapping.hpp"

namespace isthmus {

/// Peers' allocations that are open in this process. Opening one costs 0.1 to 9 ms, by its kind, so they stay
/// open, the last used ones, until the exporter frees them, goes, or uses their addresses for another
/// allocation. What is still in use when the cache lets go of it closes with its last user. One thread at a
/// time.
class MappingCache {
 public:
  struct Limits {
    std::size_t mappings = 256;
    std::uint64_t bytes = std::uint64_t{256} << 30U;  ///< of address space
    std::size_t idle_pools = 4;  ///< open though none of their memory is: the peer may have destroyed them
  };

  MappingCache(cuda::PrimaryContexts& contexts, const GpuList& gpus, const ProcessIdentity& self,
               Limits limits)
      : contexts_(contexts), gpus_(gpus), self_(self), limits_(limits) {}

  /// The open mapping for copies by the device `local`, null if `open` has to make it, which may need a
  /// descriptor.
  std::shared_ptr<const Mapping> find(const Export& what, cuda::Device local);
  /// Opens what `find` has not found. `descriptor` stays the caller's.
  Result<std::shared_ptr<const Mapping>> open(const Export& what, cuda::Device local, int descriptor);

  /// Allocations that are open and must be gone, because `what` lies where they did. `open` forgets them, but
  /// whoever has one of their mappings has to let go of it first: the driver opens nothing over it.
  [[nodiscard]] std::vector<std::uint64_t> overlapping(const Export& what) const;
  /// The exporter has freed an allocation.
  void forget(std::uint64_t exporter, std::uint64_t allocation);
  /// The exporter is gone.
  void forget(std::uint64_t exporter);
  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }

  /// From now on, nothing is closed: that may wait for all that the GPU has to do, and a stream of the
  /// program waits for a message. What the cache lets go of is kept, until all who asked for this have taken
  /// it back.
  void hold() noexcept { ++holds_; }
  void release() noexcept {
    if (--holds_ == 0) kept_.clear();
  }
  [[nodiscard]] bool has_kept() const noexcept { return !kept_.empty(); }
  /// For who knows that no stream waits.
  void close_kept() noexcept { kept_.clear(); }

 private:
  struct Entry {
    std::uint64_t exporter = 0, allocation = 0, base = 0, room = 0;
    cuda::Device local = 0;
    std::shared_ptr<const Mapping> mapping;
  };
  struct PoolKey {
    std::uint64_t exporter = 0, pool = 0;
    auto operator<=>(const PoolKey&) const = default;
  };
  struct Pool {
    PoolKey key;
    std::shared_ptr<const ImportedPool> imported;
  };

  /// Of an entry that is about to go.
  void let_go(Entry& entry);
  void make_room(std::uint64_t bytes);
  Result<std::shared_ptr<const Mapping>> open_in_pool(const Export& what, Opening with);
  void close_idle_pools();

  cuda::PrimaryContexts& contexts_;
  const GpuList& gpus_;
  const ProcessIdentity& self_;
  const Limits limits_;
  std::list<Pool> pools_;     ///< the last opened first
  std::list<Entry> entries_;  ///< the last used first; few, and searched from there
  std::uint64_t bytes_ = 0;
  unsigned holds_ = 0;
  std::vector<std::shared_ptr<const Mapping>> kept_;
};

}  // namespace isthmus
