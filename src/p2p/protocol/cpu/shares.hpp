#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "wire/heap.hpp"
#include "wire/ring.hpp"

namespace isthmus {

/// The `wire::Share`s of what a rank receives: in blocks of the region's heap, which it keeps, as many as it
/// has once needed at the same time. Guarded by the engine's lock.
class Shares {
 public:
  explicit Shares(const wire::RegionHeap& heap) noexcept : heap_(heap) {}

  /// One that nobody uses, as a copy begins with it; null where there is no memory for more.
  [[nodiscard]] wire::Share* take() noexcept;
  /// The receiver is done with it. It rests until its sender has let go, too.
  void give_back(wire::Share& share) noexcept;

  /// This rank goes to another region: none is in use, and all go back to the heap.
  void leave() noexcept;

  /// What a peer is told of one of these.
  [[nodiscard]] std::uint32_t place_of(const wire::Share& share) const noexcept;
  /// One of a peer's, where that has said it is; null where none can be.
  [[nodiscard]] wire::Share* at(std::uint32_t place) const noexcept;

 private:
  bool make_more();

  wire::RegionHeap heap_;
  std::vector<wire::Share*> resting_;  ///< with room for all there are
  std::size_t made_ = 0;
  std::vector<std::uint64_t> blocks_;  ///< where they lie in the heap
};

}  // namespace isthmus
