#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/settings.hpp"
#include "route/lesson_word.hpp"
#include "wire/region.hpp"

namespace isthmus {

/// What the teams of a region have learned of the ways of their collectives, so that not each communicator
/// learns the same: for each kind the way that somebody has found the fastest last, and what it took.
///
/// Anybody may write anything there. A reader takes a lesson for a guess with which it begins, and measures
/// on: a wrong one costs time and nothing else.
class SharedCallLessons {
 public:
  static constexpr std::size_t collectives = 8;
  /// Calls of more bytes than that.
  static constexpr std::uint64_t above = 1024;
  static constexpr std::size_t size_classes = 32;
  static constexpr std::size_t ways = 8;

  /// What a lesson is of.
  struct Kind {
    std::size_t collective = 0;  ///< below `collectives`
    int members = 2;             ///< two are a kind, up to 4, up to 8, and more
    bool spread = false;         ///< the members are on several sockets
    std::size_t size_class = 0;  ///< below `size_classes`
  };

  /// Two classes between each power of two and the next, which belongs to the lower one. `bytes` are more
  /// than `above`; `size_classes` and more where they are too many.
  [[nodiscard]] static constexpr std::size_t size_class_of(std::uint64_t bytes) noexcept {
    constexpr std::size_t first_class = 2 * (std::bit_width(above) - 1);
    const std::uint64_t last = bytes - 1;
    const auto high = static_cast<std::size_t>(std::bit_width(last)) - 1;
    return 2 * high + (last >> (high - 1) & 1) - first_class;
  }

  SharedCallLessons() = default;
  /// `words` must outlive this; fewer than `wire::call_lesson_words` are as none.
  explicit SharedCallLessons(std::span<std::atomic<std::uint64_t>> words) noexcept
      : words_(words.size() < wire::call_lesson_words ? std::span<std::atomic<std::uint64_t>>() : words) {}

  /// Nothing where nobody has learned it yet, or what is there makes no sense.
  [[nodiscard]] std::optional<LessonWord> read(const Kind& kind) const noexcept;
  /// Of the same, the fastest of the ways that calls have too which do not block.
  [[nodiscard]] std::optional<std::uint8_t> read_in_lanes(const Kind& kind) const noexcept;
  /// What a table says that nobody has learned yet in this job.
  void take(std::span<const TaughtCall> calls) const noexcept;
  /// A cost that is none is not written.
  void write(const Kind& kind, const LessonWord& lesson,
             std::optional<std::uint8_t> in_lanes = {}) const noexcept;
  /// What calls have found that do not block, whose ways are fewer: what blocking ones have found stays.
  void write_in_lanes(const Kind& kind, std::uint8_t way) const noexcept;

 private:
  [[nodiscard]] std::atomic<std::uint64_t>* word_of(const Kind& kind) const noexcept;

  std::span<std::atomic<std::uint64_t>> words_;
};

}  // namespace isthmus
