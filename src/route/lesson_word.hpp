#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace isthmus {

/// What somebody has learned of one class, in a word that anybody may write: a way, as a number, and what it
/// took. A reader takes it for a guess with which it begins.
struct LessonWord {
  std::uint8_t way = 0;
  /// Of `ticks()`, whose unit the ranks of a machine have in common; above 0, and no more than `slowest`.
  double ticks_per_byte = 0;
  bool is_tuned = false;  ///< from a table, and learned by nobody in this job

  static constexpr double slowest = 1e6;
  /// The cost as a float, then this, then 1 + the way.
  static constexpr std::uint64_t stamp = 0x4c65'7300;
  static constexpr std::uint64_t stamp_of_tuned = 0x4c65'7400;
  static constexpr std::uint64_t way_mask = 0xff;

  /// False for what is no number, too.
  static constexpr bool is_cost(double ticks_per_byte) noexcept {
    return ticks_per_byte > 0 && ticks_per_byte <= slowest;
  }
  /// Nothing where nobody has learned it yet, or what is there makes no sense. `ways`: how many there are.
  static std::optional<LessonWord> read(std::uint64_t word, std::uint64_t ways) noexcept {
    const std::uint64_t way = word & way_mask;
    const std::uint64_t stamped = word & 0xffff'ffff & ~way_mask;
    if ((stamped != stamp && stamped != stamp_of_tuned) || way == 0 || way > ways) return std::nullopt;
    const double cost = std::bit_cast<float>(static_cast<std::uint32_t>(word >> 32));
    if (!is_cost(cost)) return std::nullopt;
    return LessonWord{.way = static_cast<std::uint8_t>(way - 1),
                      .ticks_per_byte = cost,
                      .is_tuned = stamped == stamp_of_tuned};
  }
  /// 0 for a cost that is none.
  [[nodiscard]] std::uint64_t packed() const noexcept {
    const auto cost = static_cast<float>(ticks_per_byte);
    if (!is_cost(cost)) return 0;
    return std::uint64_t{std::bit_cast<std::uint32_t>(cost)} << 32 | (is_tuned ? stamp_of_tuned : stamp) |
           (std::uint64_t{way} + 1);
  }
};

/// A lesson with these three fields from a word; null: of a kind of which nothing is kept.
template <class Lesson>
std::optional<Lesson> read_lesson(const std::atomic<std::uint64_t>* word, std::size_t ways) noexcept {
  if (!word) return std::nullopt;
  const auto found = LessonWord::read(word->load(std::memory_order_relaxed), ways);
  if (!found) return std::nullopt;
  return Lesson{.way = static_cast<decltype(Lesson::way)>(found->way),
                .ticks_per_byte = found->ticks_per_byte,
                .is_tuned = found->is_tuned};
}

template <class Lesson>
void write_lesson(std::atomic<std::uint64_t>* word, const Lesson& lesson) noexcept {
  const LessonWord said{.way = static_cast<std::uint8_t>(lesson.way),
                        .ticks_per_byte = lesson.ticks_per_byte,
                        .is_tuned = lesson.is_tuned};
  if (const std::uint64_t packed = said.packed(); word && packed != 0)
    word->store(packed, std::memory_order_relaxed);
}

}  // namespace isthmus
