#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "wire/region.hpp"

namespace isthmus::wire {

/// What a process has read in a roster: which ranks of the job share this memory. Reading costs a look at
/// each byte, so it is kept, and read again only where something may have changed: after a restart or a
/// migration (C-GDR paper, section III-A). A byte that no release of Isthmus writes counts as absent.
class Roster {
 public:
  struct Change {
    std::uint32_t rank;
    RosterState before, now;
    bool operator==(const Change&) const = default;
  };

  /// Reads `bytes`, one for each rank of the job, which must stay valid.
  explicit Roster(std::span<const std::atomic<RosterState>> bytes);

  /// Ranks of the job, present or not.
  [[nodiscard]] std::uint32_t world() const noexcept { return static_cast<std::uint32_t>(bytes_.size()); }
  [[nodiscard]] std::uint32_t count() const noexcept { return static_cast<std::uint32_t>(members_.size()); }
  /// Those that are here, ascending.
  [[nodiscard]] const std::vector<std::uint32_t>& members() const noexcept { return members_; }
  [[nodiscard]] RosterState state(std::uint32_t rank) const noexcept {
    return static_cast<RosterState>(cache_[rank / word_bytes] >> rank % word_bytes * 8 & 0xffU);
  }
  /// How many members come before `rank`; nothing if it is none.
  [[nodiscard]] std::optional<std::uint32_t> position(std::uint32_t rank) const noexcept;

  /// Reads the roster again, and tells what is different from the last time, by rank.
  std::vector<Change> refresh();

 private:
  static constexpr std::size_t word_bytes = 8;

  [[nodiscard]] std::uint64_t load(std::size_t word) const noexcept;
  void list_members();

  std::span<const std::atomic<RosterState>> bytes_;
  std::vector<std::uint64_t> cache_;  ///< the bytes as they were, zeros behind the last
  std::vector<std::uint32_t> members_;
};

}  // namespace isthmus::wire
