#include "wire/wait.hpp"

#include <algorithm>
#include <bit>
#include <span>

namespace isthmus::wire {
namespace {

constexpr int most_attempts = 100;

/// Zero-terminated, of printable ASCII: what a terminal takes for a command must not get there.
template <std::size_t size>
void make_printable(std::array<char, size>& text) noexcept {
  text.back() = '\0';
  for (char& each : text) {
    if (each == '\0') break;
    if (each < ' ' || each > '~') each = '?';
  }
  const auto end = std::ranges::find(text, '\0');
  std::fill(end, text.end(), '\0');
}

/// Puts those that `makes_sense` to the front, of the first `count`; how many they are.
template <class Each, std::size_t size, class MakesSense>
std::uint32_t keep(std::array<Each, size>& list, std::uint32_t count, MakesSense makes_sense) noexcept {
  const auto all = std::span(list).first(std::min<std::size_t>(count, size));
  const auto end =
      std::remove_if(all.begin(), all.end(), [&](const Each& each) { return !makes_sense(each); });
  std::fill(list.begin() + (end - all.begin()), list.end(), Each{});
  return static_cast<std::uint32_t>(end - all.begin());
}

}  // namespace

void WaitBoard::write(const WaitReport& report) noexcept {
  const auto source = std::bit_cast<std::array<std::uint64_t, words>>(report);
  const std::uint64_t version = version_.load(std::memory_order_relaxed) | 1;
  version_.store(version, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  for (std::size_t i = 0; i < words; ++i)
    words_[i].store(source[i], std::memory_order_relaxed);
  version_.store(version + 1, std::memory_order_release);
}

void WaitBoard::clear() noexcept {
  static_assert(offsetof(WaitReport, waits) == 0);
  words_[0].store(0, std::memory_order_relaxed);
  version_.store((version_.load(std::memory_order_relaxed) | 1) + 1, std::memory_order_release);
}

std::optional<WaitReport> WaitBoard::read() const noexcept {
  for (int attempt = 0; attempt < most_attempts; ++attempt) {
    const std::uint64_t version = version_.load(std::memory_order_acquire);
    if (version % 2 != 0) continue;
    std::array<std::uint64_t, words> copy;
    for (std::size_t i = 0; i < words; ++i)
      copy[i] = words_[i].load(std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (version_.load(std::memory_order_relaxed) == version) return std::bit_cast<WaitReport>(copy);
  }
  return std::nullopt;
}

WaitReport checked(const WaitReport& report, std::uint32_t world) noexcept {
  WaitReport safe = report;
  const auto is_rank = [&](std::int32_t peer) {
    return peer >= 0 && static_cast<std::uint32_t>(peer) < world;
  };
  safe.waits = report.waits == 1 ? 1 : 0;
  make_printable(safe.call);
  safe.comms = keep(safe.comm, report.comms, [](const WaitComm&) { return true; });
  for (WaitComm& comm : safe.comm)
    make_printable(comm.name);
  safe.ranges = keep(safe.range, report.ranges, [&](const WaitRange& range) {
    return range.count > 0 && range.count <= world && range.stride > 0 && range.stride <= world &&
           range.first + std::uint64_t{range.count - 1} * range.stride < world;
  });
  safe.items = keep(safe.item, report.items, [&](const WaitItem& item) {
    const bool is_kind = item.kind >= WaitItem::Kind::receive && item.kind <= WaitItem::Kind::collective;
    return is_kind && (item.peer == wait_any_peer || is_rank(item.peer));
  });
  if (safe.items < report.items && safe.left_out == 0) safe.left_out = 1;
  if (safe.ranges != report.ranges) safe.knows_members = 0;
  if (!is_rank(safe.root_process)) safe.root_process = -1;
  if (safe.collective_root < 0) safe.collective_root = safe.root_process = -1;
  safe.any = report.any == 1 ? 1 : 0;
  safe.knows_members = safe.knows_members == 1 ? 1 : 0;
  return safe;
}

}  // namespace isthmus::wire
