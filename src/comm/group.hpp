#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/ref.hpp"
#include "comm/session_buffer.hpp"
#include "p2p/message/message.hpp"

namespace isthmus {

/// An ordered set of processes (MPI 5.0, section 7.3). Immutable.
class Group final : public RefCounted {
 public:
  /// `members[i]` is the process of rank i; no process twice. `session_buffer`: that of the session which the
  /// group comes from; null for groups of the World Model.
  explicit Group(std::vector<PeerId> members, Ref<SessionBuffer> session_buffer = {});

  [[nodiscard]] std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(members_.size()); }
  /// `rank` below `size()`.
  [[nodiscard]] PeerId process(std::uint32_t rank) const noexcept { return members_[rank]; }
  [[nodiscard]] std::span<const PeerId> members() const noexcept { return members_; }
  [[nodiscard]] std::optional<std::uint32_t> rank_of(PeerId process) const noexcept;
  [[nodiscard]] bool contains(PeerId process) const noexcept { return rank_of(process).has_value(); }
  [[nodiscard]] const Ref<SessionBuffer>& session_buffer() const noexcept { return session_buffer_; }

 private:
  std::vector<PeerId> members_;
  /// For `rank_of`, in order of process; empty where the members are in that order themselves.
  std::vector<std::pair<PeerId, std::uint32_t>> sorted_;
  Ref<SessionBuffer> session_buffer_;
};

/// How two groups or communicators compare, with the ABI's values (MPI 5.0, sections 7.3.1 and 7.4.1).
enum class Comparison : int { identical = 201, congruent = 202, similar = 203, unequal = 204 };

/// `identical` (same members, same order), `similar` (same members) or `unequal`.
[[nodiscard]] Comparison compare(const Group& first, const Group& second);

// The set operations of MPI 5.0, section 7.3.2. None takes more than O(n log n) for n members.

/// All of `first`, then those of `second` that are not in `first`.
[[nodiscard]] Ref<Group> unite(const Group& first, const Group& second);
/// Those of `first` that are in `second`.
[[nodiscard]] Ref<Group> intersect(const Group& first, const Group& second);
/// Those of `first` that are not in `second`.
[[nodiscard]] Ref<Group> subtract(const Group& first, const Group& second);

/// The members of `ranks`, in that order. `ErrorClass::rank` for one that is outside of the group or there
/// twice.
[[nodiscard]] Result<Ref<Group>> include(const Group& group, std::span<const int> ranks);
/// All but the members of `ranks`. Errors as `include`.
[[nodiscard]] Result<Ref<Group>> exclude(const Group& group, std::span<const int> ranks);

/// Ranks `first`, `first + stride`, ... as far as `last`.
struct RankRange {
  int first, last, stride;
};
/// The ranks that `ranges` name, one range after the other. `ErrorClass::arg` for a range that cannot reach
/// its end, `ErrorClass::rank` for a rank outside of the group.
[[nodiscard]] Result<std::vector<int>> expand(const Group& group, std::span<const RankRange> ranges);

/// Ranks in `to` of the processes that have `ranks` in `from`; MPI_UNDEFINED for those that are not there,
/// MPI_PROC_NULL for MPI_PROC_NULL. `ErrorClass::rank` for a rank outside of `from`. `result` is as long as
/// `ranks`.
[[nodiscard]] Result<> translate(const Group& from, std::span<const int> ranks, const Group& to,
                                 std::span<int> result);

/// The ABI's MPI_UNDEFINED.
inline constexpr int undefined = -32766;

}  // namespace isthmus
