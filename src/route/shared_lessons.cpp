#include "route/shared_lessons.hpp"

#include "route/lesson_word.hpp"

namespace isthmus {
namespace {

/// Classes of less than 256 bytes are never asked for.
constexpr std::size_t first_class = 16;
constexpr std::size_t classes = wire::lesson_words / 8;

}  // namespace

std::atomic<std::uint64_t>* SharedLessons::word_of(const Kind& kind) const noexcept {
  if (words_.empty() || kind.size_class < first_class || kind.size_class >= first_class + classes)
    return nullptr;
  const std::size_t row = (kind.far ? 4U : 0U) + (kind.all_ways ? 2U : 0U) + (kind.many ? 1U : 0U);
  return &words_[row * classes + kind.size_class - first_class];
}

std::optional<SharedLessons::Lesson> SharedLessons::read(const Kind& kind) const noexcept {
  return read_lesson<Lesson>(word_of(kind), long_way_count);
}

void SharedLessons::write(const Kind& kind, const Lesson& lesson) const noexcept {
  write_lesson(word_of(kind), lesson);
}

std::atomic<std::uint64_t>* SharedEagerLessons::word_of(const Kind& kind) const noexcept {
  if (words_.empty() || kind.size_class >= size_classes) return nullptr;
  const std::size_t row = (kind.far ? 4U : 0U) + (kind.nonblocking ? 2U : 0U) + (kind.several ? 1U : 0U);
  return &words_[row * size_classes + kind.size_class];
}

std::optional<SharedEagerLessons::Lesson> SharedEagerLessons::read(const Kind& kind) const noexcept {
  return read_lesson<Lesson>(word_of(kind), eager_way_count);
}

void SharedEagerLessons::write(const Kind& kind, const Lesson& lesson) const noexcept {
  write_lesson(word_of(kind), lesson);
}

}  // namespace isthmus
