#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "route/lesson_word.hpp"
#include "route/way_choice.hpp"
#include "wire/region.hpp"

namespace isthmus {

/// What the ranks of a region have learned of the ways of long messages, so that not each learns the same:
/// for each kind of messages the way that somebody has found the fastest last, and what it took.
///
/// Anybody may write anything there. A reader takes a lesson for a guess with which it begins, and measures
/// on: a wrong one costs time and nothing else.
class SharedLessons {
 public:
  /// What a lesson is of.
  struct Kind {
    bool far = false;       ///< from ranks of other sockets
    bool all_ways = false;  ///< both sides may copy
    bool many = false;      ///< several messages are under way together
    std::size_t size_class = 0;
  };
  struct Lesson {
    LongWay way{};
    /// Of `ticks()`, whose unit the ranks of a machine have in common; above 0, and no more than `slowest`.
    double ticks_per_byte = 0;
    bool is_tuned = false;
  };
  static constexpr double slowest = LessonWord::slowest;

  SharedLessons() = default;
  /// `words` must outlive this; fewer than `wire::lesson_words` are as none.
  explicit SharedLessons(std::span<std::atomic<std::uint64_t>> words) noexcept
      : words_(words.size() < wire::lesson_words ? std::span<std::atomic<std::uint64_t>>() : words) {}

  /// Nothing where nobody has learned it yet, or what is there makes no sense.
  [[nodiscard]] std::optional<Lesson> read(const Kind& kind) const noexcept;
  void write(const Kind& kind, const Lesson& lesson) const noexcept;

 private:
  [[nodiscard]] std::atomic<std::uint64_t>* word_of(const Kind& kind) const noexcept;

  std::span<std::atomic<std::uint64_t>> words_;
};

/// The same of whether messages go with their envelope.
class SharedEagerLessons {
 public:
  struct Kind {
    bool far = false;            ///< to ranks of other sockets
    bool nonblocking = false;    ///< of sends that do not block
    bool several = false;        ///< several are under way together
    std::size_t size_class = 0;  ///< below `size_classes`
  };
  struct Lesson {
    EagerWay way{};
    double ticks_per_byte = 0;  ///< as of `SharedLessons`
    bool is_tuned = false;
  };
  static constexpr std::size_t size_classes = wire::eager_lesson_words / 8;

  SharedEagerLessons() = default;
  /// As those of `SharedLessons`.
  explicit SharedEagerLessons(std::span<std::atomic<std::uint64_t>> words) noexcept
      : words_(words.size() < wire::eager_lesson_words ? std::span<std::atomic<std::uint64_t>>() : words) {}

  [[nodiscard]] std::optional<Lesson> read(const Kind& kind) const noexcept;
  void write(const Kind& kind, const Lesson& lesson) const noexcept;

 private:
  [[nodiscard]] std::atomic<std::uint64_t>* word_of(const Kind& kind) const noexcept;

  std::span<std::atomic<std::uint64_t>> words_;
};

}  // namespace isthmus
