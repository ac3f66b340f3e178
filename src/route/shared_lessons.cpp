#include "route/shared_lessons.hpp"

#include <bit>
#include <cmath>

namespace isthmus {
namespace {

/// Classes of less than 256 bytes are never asked for.
constexpr std::size_t first_class = 16;
constexpr std::size_t classes = wire::lesson_words / 8;

/// The cost as a float, then this, then 1 + the way.
constexpr std::uint64_t stamp = 0x4c65'7300;
constexpr std::uint64_t way_mask = 0xff;

/// False for what is no number, too.
bool is_cost(double ticks_per_byte) noexcept {
  return ticks_per_byte > 0 && ticks_per_byte <= SharedLessons::slowest;
}

}  // namespace

std::atomic<std::uint64_t>* SharedLessons::word_of(const Kind& kind) const noexcept {
  if (words_.empty() || kind.size_class < first_class || kind.size_class >= first_class + classes)
    return nullptr;
  const std::size_t row = (kind.far ? 4U : 0U) + (kind.all_ways ? 2U : 0U) + (kind.many ? 1U : 0U);
  return &words_[row * classes + kind.size_class - first_class];
}

std::optional<SharedLessons::Lesson> SharedLessons::read(const Kind& kind) const noexcept {
  const auto* const word = word_of(kind);
  if (!word) return std::nullopt;
  const std::uint64_t value = word->load(std::memory_order_relaxed);
  const std::uint64_t way = value & way_mask;
  if ((value & 0xffff'ffff & ~way_mask) != stamp || way == 0 || way > long_way_count) return std::nullopt;
  const double cost = std::bit_cast<float>(static_cast<std::uint32_t>(value >> 32));
  if (!is_cost(cost)) return std::nullopt;
  return Lesson{.way = static_cast<LongWay>(way - 1), .ticks_per_byte = cost};
}

void SharedLessons::write(const Kind& kind, const Lesson& lesson) const noexcept {
  auto* const word = word_of(kind);
  const auto cost = static_cast<float>(lesson.ticks_per_byte);
  if (!word || !is_cost(cost)) return;
  word->store(std::uint64_t{std::bit_cast<std::uint32_t>(cost)} << 32 | stamp |
                  (static_cast<std::uint64_t>(lesson.way) + 1),
              std::memory_order_relaxed);
}

}  // namespace isthmus
