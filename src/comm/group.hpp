#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/error.hpp"
#include "base/ref.hpp"
#include "p2p/message.hpp"

namespace isthmus {

/// An ordered set of processes (MPI 5.0, section 7.3). Immutable.
class Group final : public RefCounted {
 public:
  /// `members[i]` is the process of rank i; no process twice.
  explicit Group(std::vector<PeerId> members);

  [[nodiscard]] std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(members_.size()); }
  /// `rank` below `size()`.
  [[nodiscard]] PeerId process(std::uint32_t rank) const noexcept { return members_[rank]; }
  [[nodiscard]] std::span<const PeerId> members() const noexcept { return members_; }
  [[nodiscard]] std::optional<std::uint32_t> rank_of(PeerId process) const noexcept;

 private:
  std::vector<PeerId> members_;
  std::vector<std::pair<PeerId, std::uint32_t>> sorted_;  ///< for `rank_of`; empty where rank i is process i
};

}  // namespace isthmus
