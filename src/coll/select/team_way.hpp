#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/settings.hpp"
#include "coll/select/select.hpp"

namespace isthmus::coll {

/// How a team carries out a collective, as far as its result is the same either way, bit for bit.
enum class TeamWay : std::uint8_t {
  flat,
  staged,
  counted,
  direct,
  direct_both,
  direct_all,
  messages,  ///< as the table has it for members without memory in common
  tree,      ///< gather and scatter: over messages along a binomial tree, where `messages` is linear
};
inline constexpr std::size_t team_way_count = 8;
[[nodiscard]] std::string_view name(TeamWay way) noexcept;
/// None: as has turned out to be the fastest, or the table has it.
[[nodiscard]] std::optional<TeamWay> way_of(CollectiveWaySetting setting) noexcept;

class TeamWays {
 public:
  constexpr TeamWays() = default;
  constexpr explicit TeamWays(std::uint8_t bits) noexcept : bits_(bits) {}

  constexpr TeamWays& add(TeamWay way) noexcept {
    bits_ = static_cast<std::uint8_t>(bits_ | bit(way));
    return *this;
  }
  constexpr TeamWays& remove(TeamWay way) noexcept {
    bits_ = static_cast<std::uint8_t>(bits_ & ~bit(way));
    return *this;
  }
  [[nodiscard]] constexpr bool has(TeamWay way) const noexcept { return (bits_ & bit(way)) != 0; }
  [[nodiscard]] constexpr unsigned count() const noexcept {
    return static_cast<unsigned>(std::popcount(bits_));
  }
  /// The `index`-th of them, in their order; `index` is below `count()`.
  [[nodiscard]] constexpr TeamWay at(unsigned index) const noexcept {
    unsigned rest = bits_;
    for (; index > 0; --index)
      rest &= rest - 1;
    return static_cast<TeamWay>(std::countr_zero(rest));
  }
  [[nodiscard]] constexpr TeamWays and_of(TeamWays other) const noexcept {
    return TeamWays(static_cast<std::uint8_t>(bits_ & other.bits_));
  }
  [[nodiscard]] constexpr std::uint8_t bits() const noexcept { return bits_; }
  friend constexpr bool operator==(TeamWays, TeamWays) = default;

 private:
  static constexpr unsigned bit(TeamWay way) noexcept { return 1U << static_cast<unsigned>(way); }

  std::uint8_t bits_ = 0;
};

/// The ways that calls have too which do not block (`coll/lanes`).
inline constexpr TeamWays ways_in_lanes = TeamWays()
                                              .add(TeamWay::flat)
                                              .add(TeamWay::direct)
                                              .add(TeamWay::direct_both)
                                              .add(TeamWay::direct_all)
                                              .add(TeamWay::messages);

/// What else the ways of a reduction depend on; alike on all members.
struct Reducing {
  /// A predefined operation that treats each element alike, wherever in a vector it stands: all but products
  /// of complex numbers, which a compiler may round otherwise in a loop than alone.
  bool elementwise = false;
  /// Seats in the tree of counters are in the order of ranks.
  bool in_order = false;
};

/// The ways in which the call of `question` has the same result: all that carry it out of those that move
/// data alone, and of a reduction those that combine the operands of the same element from the last rank
/// down, one after the other: flat, staged, direct, `direct_all`, and counted where all members meet at one
/// counter. Over messages, and at several counters, operands are combined otherwise. `question.shared` holds.
[[nodiscard]] TeamWays ways_of(const Question& question, const Reducing& reducing) noexcept;

/// The way that `algorithm` is; none for those between domains.
[[nodiscard]] std::optional<TeamWay> way_of(Algorithm algorithm, Collective collective) noexcept;

/// What carries out the call of `question` on `way`, one of `ways_of`.
[[nodiscard]] Algorithm algorithm_of(TeamWay way, Question question) noexcept;

}  // namespace isthmus::coll
