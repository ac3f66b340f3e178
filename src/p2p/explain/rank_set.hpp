#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace isthmus {

/// Ranks, kept as runs: sets of a job's ranks are few runs, however many ranks there are.
class RankSet {
 public:
  void add(std::uint32_t rank);
  [[nodiscard]] bool contains(std::uint32_t rank) const noexcept;
  [[nodiscard]] std::uint64_t size() const noexcept;
  /// The smallest that is not `other`; there is one.
  [[nodiscard]] std::uint32_t first_but(std::uint32_t other) const noexcept;
  template <class Do>
  void for_each(const Do& act) const {
    for (const Run& run : runs_)
      for (std::uint32_t rank = run.first; rank <= run.last; ++rank)
        act(rank);
  }
  /// Those of `0` to `all - 1` that are not in it.
  [[nodiscard]] RankSet complement(std::uint32_t all) const;
  /// "0, 1, 4-7", as `list_of`.
  [[nodiscard]] std::string text() const;
  /// What `text` has written, of ranks below `all`; nothing where it is not that.
  static std::optional<RankSet> parse(std::string_view text, std::uint32_t all);

  friend auto operator<=>(const RankSet&, const RankSet&) = default;

 private:
  /// Both ends are in it.
  struct Run {
    std::uint32_t first, last;
    friend auto operator<=>(const Run&, const Run&) = default;
  };
  std::vector<Run> runs_;  ///< ascending, with gaps between
};

}  // namespace isthmus
