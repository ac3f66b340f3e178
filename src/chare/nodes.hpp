#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace isthmus::chare {

/// The nodes of those processes that have chares: who shares memory is of one node. Nodes are numbered in the
/// order of their lowest ranks; the process of the lowest rank *leads* it, and has the node's chares.
class Nodes {
 public:
  Nodes() = default;
  /// `keys`: by process, equal for those of one node. The first `used` processes have chares.
  Nodes(std::span<const std::uint32_t> keys, std::uint32_t used);

  [[nodiscard]] std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(leaders_.size()); }
  /// `node` below `size()`.
  [[nodiscard]] std::uint32_t leader(std::uint64_t node) const noexcept { return leaders_[node]; }
  /// Of a process that has chares.
  [[nodiscard]] std::uint32_t of(std::uint32_t rank) const noexcept { return numbers_[rank]; }
  [[nodiscard]] bool leads(std::uint32_t rank) const noexcept {
    return rank < numbers_.size() && leaders_[numbers_[rank]] == rank;
  }
  [[nodiscard]] std::span<const std::uint32_t> numbers() const noexcept { return numbers_; }
  /// To whom `rank`, a leader or `root`, hands on what `root` tells all leaders: a tree.
  [[nodiscard]] std::vector<std::uint32_t> below(std::uint32_t rank, std::uint32_t root) const;

 private:
  std::vector<std::uint32_t> leaders_;  ///< by node
  std::vector<std::uint32_t> numbers_;  ///< by process
};

}  // namespace isthmus::chare
