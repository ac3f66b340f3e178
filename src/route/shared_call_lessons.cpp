#include "route/shared_call_lessons.hpp"

namespace isthmus {
namespace {

/// Two, up to 4, up to 8, more.
constexpr std::size_t team_sizes = 4;

std::size_t size_of_team(int members) noexcept {
  return members <= 2 ? 0 : members <= 4 ? 1 : members <= 8 ? 2 : 3;
}

/// Of the word's part that names a way: 1 + the fastest one, and 1 + the fastest one in lanes.
constexpr std::uint64_t fastest_mask = 0x0f;
constexpr unsigned in_lanes_at = 4;
static_assert(SharedCallLessons::ways < fastest_mask && LessonWord::way_mask == 0xff);

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
  if (!word) return std::nullopt;
  return LessonWord::read(word->load(std::memory_order_relaxed) & ~(fastest_mask << in_lanes_at), ways);
}

std::optional<std::uint8_t> SharedCallLessons::read_in_lanes(const Kind& kind) const noexcept {
  const auto* const word = word_of(kind);
  if (!word) return std::nullopt;
  const std::uint64_t found = word->load(std::memory_order_relaxed);
  const std::uint64_t number = found >> in_lanes_at & fastest_mask;
  const std::uint64_t rest = found & ~(fastest_mask << in_lanes_at);
  // Without the rest, only calls have learned that do not block.
  if ((rest != 0 && !LessonWord::read(rest, ways)) || number == 0 || number > ways) return std::nullopt;
  return static_cast<std::uint8_t>(number - 1);
}

void SharedCallLessons::write(const Kind& kind, const LessonWord& lesson,
                              std::optional<std::uint8_t> in_lanes) const noexcept {
  auto* const word = word_of(kind);
  const std::uint64_t packed = lesson.packed();
  if (!word || packed == 0) return;
  const std::uint64_t second = in_lanes ? 1 + std::uint64_t{*in_lanes} : 0;
  word->store(packed | second << in_lanes_at, std::memory_order_relaxed);
}

void SharedCallLessons::write_in_lanes(const Kind& kind, std::uint8_t way) const noexcept {
  auto* const word = word_of(kind);
  if (!word || way >= ways) return;
  // Another one may write meanwhile: then one of the two lessons is lost, and learned again.
  const std::uint64_t rest = word->load(std::memory_order_relaxed) & ~(fastest_mask << in_lanes_at);
  word->store(rest | (1 + std::uint64_t{way}) << in_lanes_at, std::memory_order_relaxed);
}

void SharedCallLessons::take(std::span<const TaughtCall> calls) const noexcept {
  for (const TaughtCall& each : calls) {
    if (each.up_to <= above || (each.way && *each.way >= ways) || (each.in_lanes && *each.in_lanes >= ways))
      continue;
    const Kind kind{.collective = each.collective,
                    .members = each.members,
                    .spread = each.far,
                    .size_class = size_class_of(each.up_to)};
    // Several of a table's entries may be of one kind here.
    const auto in_lanes = read_in_lanes(kind);
    if (each.way && !read(kind))
      write(kind, {.way = *each.way, .ticks_per_byte = each.ticks_per_byte, .is_tuned = true}, in_lanes);
    if (each.in_lanes && !in_lanes) write_in_lanes(kind, *each.in_lanes);
  }
}

}  // namespace isthmus
