#include "route/shared_call_lessons.hpp"

namespace isthmus {
namespace {

/// Two, up to 4, up to 8, more.
constexpr std::size_t team_sizes = 4;

std::size_t size_of_team(int members) noexcept {
  return members <= 2 ? 0 : members <= 4 ? 1 : members <= 8 ? 2 : 3;
}

static_assert(wire::call_lesson_words ==
              SharedCallLessons::collectives * team_sizes * 2 * SharedCallLessons::size_classes);

}  // namespace

std::atomic<std::uint64_t>* SharedCallLessons::word_of(const Kind& kind) const noexcept {
  if (words_.empty() || kind.collective >= collectives || kind.size_class >= size_classes) return nullptr;
  const std::size_t row =
      (kind.collective * team_sizes + size_of_team(kind.members)) * 2 + (kind.spread ? 1 : 0);
  return &words_[row * size_classes + kind.size_class];
}

std::optional<LessonWord> SharedCallLessons::read(const Kind& kind) const noexcept {
  const auto* const word = word_of(kind);
  return word ? LessonWord::read(word->load(std::memory_order_relaxed), ways) : std::nullopt;
}

void SharedCallLessons::write(const Kind& kind, const LessonWord& lesson) const noexcept {
  auto* const word = word_of(kind);
  if (const std::uint64_t packed = lesson.packed(); word && packed != 0)
    word->store(packed, std::memory_order_relaxed);
}

}  // namespace isthmus
