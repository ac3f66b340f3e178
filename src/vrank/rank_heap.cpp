#include "vrank/rank_heap.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <system_error>
#include <utility>

#include "base/log.hpp"
#include "vrank/rank_space.hpp"

namespace isthmus::vrank {
namespace {

constexpr const char* whose = "the heap of a rank";
/// By which memory grows that there is for the heap: no more is taken before, since a limit of addresses
/// (`ulimit -v`) counts those that nobody uses, too.
constexpr std::size_t commit_step = std::size_t{16} << 20;
/// Of memory that becomes vacant, from which on its pages go back to the system: as the C library's greatest.
constexpr std::size_t fewest_returned = std::size_t{32} << 20;
constexpr std::size_t heap_page = 4096;

/// Up to 128 bytes a size every 16, then 4 for each power of 2.
constexpr std::size_t smallest_of_powers = 128, sizes_below = smallest_of_powers / RankHeap::alignment;

constexpr std::size_t whole(std::size_t bytes, std::size_t unit) noexcept {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

struct RankHeap::Header {
  std::size_t bytes;      ///< of all addresses
  std::size_t committed;  ///< from the first on
  std::byte* data;        ///< the first granule; the table of granules is before it
  std::size_t granules;   ///< that there can be
  std::size_t top;        ///< those from here on have never been used
  std::uint32_t bins_in_use;
  std::array<Vacant*, bins> vacant_spans;  ///< by the power of 2 of their granules
  std::array<Size, sizes> small_sizes;
  std::atomic<Free*> released;  ///< by other threads
};

std::uint32_t RankHeap::size_index(std::size_t bytes) noexcept {
  if (bytes <= smallest_of_powers)
    return static_cast<std::uint32_t>((std::max<std::size_t>(bytes, 1) - 1) / alignment);
  const auto power =
      static_cast<std::uint32_t>(std::bit_width(bytes - 1)) - 1;  // bytes in (2^power, 2^(power + 1)]
  const auto quarter = static_cast<std::uint32_t>((bytes - 1) >> (power - 2)) & 3;
  return static_cast<std::uint32_t>(sizes_below) + (power - 7) * 4 + quarter;
}

std::size_t RankHeap::size_of(std::uint32_t index) noexcept {
  if (index < sizes_below) return (index + 1) * alignment;
  const std::size_t power = (index - sizes_below) / 4 + 7, quarter = (index - sizes_below) % 4;
  return (std::size_t{1} << power) + (quarter + 1) * (std::size_t{1} << (power - 2));
}

RankHeap::Granule& RankHeap::at(std::size_t index) const noexcept {
  return reinterpret_cast<Granule*>(header_ + 1)[index];
}

std::byte* RankHeap::address(std::size_t index) const noexcept {
  return header_->data + index * granule;
}

std::size_t RankHeap::index_of(const void* memory) const noexcept {
  return static_cast<std::size_t>(static_cast<const std::byte*>(memory) - header_->data) / granule;
}

std::size_t RankHeap::top() const noexcept {
  return header_->top;
}

std::size_t RankHeap::committed() const noexcept {
  return header_->committed;
}

std::span<std::byte> RankHeap::tables() const noexcept {
  auto* const begin = reinterpret_cast<std::byte*>(header_);
  const auto* const end = reinterpret_cast<const std::byte*>(&at(header_->top));
  return {begin, whole(static_cast<std::size_t>(end - begin), heap_page)};
}

bool RankHeap::holds(const void* memory) const noexcept {
  const auto* const at = static_cast<const std::byte*>(memory);
  return at >= header_->data && at < address(header_->top);
}

Result<RankHeap> RankHeap::make(std::uint64_t begin, std::size_t bytes) {
  const std::size_t granules = bytes / granule;
  const std::size_t before_data = whole(sizeof(Header) + granules * sizeof(Granule), granule);
  const std::size_t committed = before_data + commit_step;
  auto memory = map_before(begin + committed, committed, whose);
  if (!memory) return std::unexpected(std::move(memory).error());
  auto* const header = new (memory->data()) Header{.bytes = bytes,
                                                   .committed = committed,
                                                   .data = memory->data() + before_data,
                                                   .granules = (bytes - before_data) / granule,
                                                   .top = 0,
                                                   .bins_in_use = 0,
                                                   .vacant_spans = {},
                                                   .small_sizes = {},
                                                   .released = nullptr};
  return RankHeap(header);
}

Result<RankHeap> RankHeap::make_room(std::uint64_t begin, std::size_t committed) {
  auto memory = map_before(begin + committed, committed, whose);
  if (!memory) return std::unexpected(std::move(memory).error());
  return RankHeap(reinterpret_cast<Header*>(memory->data()));
}

void* RankHeap::allocate(std::size_t bytes, std::size_t aligned) noexcept {
  if (aligned > alignment) bytes = std::max(bytes, aligned);
  if (bytes > largest_small || aligned > largest_small) {
    bool is_new = false;
    return allocate_large(bytes, aligned, is_new);
  }
  // Sizes that are powers of 2 begin at multiples of themselves.
  if (aligned > alignment) bytes = std::bit_ceil(bytes);
  const std::uint32_t index = size_index(bytes);
  Size& size = header_->small_sizes[index];
  if (Free* const first = size.free) [[likely]] {
    size.free = first->next;
    return first;
  }
  return refill(index);
}

void* RankHeap::refill(std::uint32_t index) noexcept {
  Size& size = header_->small_sizes[index];
  if (size.uncut == size.end && header_->released.load(std::memory_order_relaxed)) {
    take_back();
    if (Free* const first = size.free) {
      size.free = first->next;
      return first;
    }
  }
  const std::size_t bytes = size_of(index);
  if (size.uncut == size.end) {
    bool is_new = false;
    const std::size_t first = take_span(1, alignment, is_new);
    if (first == header_->granules) return nullptr;
    at(first) = {.kind = static_cast<std::uint8_t>(small + index), .count = 1};
    size.uncut = address(first);
    size.end = size.uncut + granule / bytes * bytes;
  }
  return std::exchange(size.uncut, size.uncut + bytes);
}

void* RankHeap::allocate_large(std::size_t bytes, std::size_t aligned, bool& is_new) noexcept {
  if (bytes > header_->bytes) return nullptr;
  if (header_->released.load(std::memory_order_relaxed)) take_back();
  const std::size_t count = (bytes + granule - 1) / granule;
  const std::size_t first = take_span(std::max<std::size_t>(count, 1), aligned, is_new);
  if (first == header_->granules) return nullptr;
  at(first).kind = large;
  return address(first);
}

void* RankHeap::allocate_zeros(std::size_t bytes) noexcept {
  if (bytes <= largest_small) {
    void* const memory = allocate(bytes);
    if (memory) std::memset(memory, 0, bytes);
    return memory;
  }
  bool is_new = false;
  void* const memory = allocate_large(bytes, alignment, is_new);
  if (memory && !is_new) std::memset(memory, 0, bytes);
  return memory;
}

/// Makes `count` more granules, the vacant ones from the old top on, that can be written to.
bool RankHeap::advance(std::size_t count) noexcept {
  if (count > header_->granules - header_->top) return false;
  auto* const begin = reinterpret_cast<std::byte*>(header_);
  const auto needed = static_cast<std::size_t>(address(header_->top + count) - begin);
  if (needed > header_->committed) {
    const std::size_t committed = std::min(whole(needed, commit_step), header_->bytes);
    const auto end = reinterpret_cast<std::uint64_t>(begin) + committed;
    if (!map_before(end, committed - header_->committed, whose)) return false;
    header_->committed = committed;
  }
  header_->top += count;
  return true;
}

std::size_t RankHeap::take_span(std::size_t count, std::size_t aligned, bool& is_new) noexcept {
  // What is aligned to more than granules are is cut out of a longer span.
  const std::size_t step = aligned > granule ? aligned / granule : 1;
  const std::size_t most = count + step - 1;
  if (most < count || most > header_->granules) return header_->granules;
  std::size_t first = take_vacant(most);
  is_new = first == header_->granules;
  if (is_new) {
    first = header_->top;
    if (!advance(most)) return header_->granules;
  }
  const std::size_t taken = is_new ? most : at(first).count;
  const auto misaligned = reinterpret_cast<std::uintptr_t>(address(first)) / granule % step;
  const std::size_t skipped = misaligned == 0 ? 0 : step - misaligned;
  at(first + skipped) = {.kind = large, .count = static_cast<std::uint32_t>(count) & 0xffffff};
  if (skipped > 0) give_span(first, skipped);
  if (taken > skipped + count) give_span(first + skipped + count, taken - skipped - count);
  return first + skipped;
}

/// One of `count` granules or more, which is not vacant any more; `granules` where there is none.
std::size_t RankHeap::take_vacant(std::size_t count) noexcept {
  const auto fits = [&](const Vacant* span) { return at(index_of(span)).count >= count; };
  const auto bin = static_cast<std::uint32_t>(std::bit_width(count)) - 1;
  Vacant* found = nullptr;
  for (Vacant* each = header_->vacant_spans[bin]; each && !found; each = each->next)
    if (fits(each)) found = each;
  const std::uint32_t greater = bin + 1 < bins ? header_->bins_in_use >> (bin + 1) << (bin + 1) : 0;
  if (!found && greater != 0)
    found = header_->vacant_spans[static_cast<std::uint32_t>(std::countr_zero(greater))];
  if (!found) return header_->granules;
  const std::size_t first = index_of(found);
  unlink(first);
  return first;
}

void RankHeap::link(std::size_t first, std::size_t count) noexcept {
  const auto bin = static_cast<std::uint32_t>(std::bit_width(count)) - 1;
  const Granule marked{.kind = vacant, .count = static_cast<std::uint32_t>(count) & 0xffffff};
  at(first) = at(first + count - 1) = marked;
  Vacant*& head = header_->vacant_spans[bin];
  head = new (address(first)) Vacant{.next = head, .before = nullptr};
  if (head->next) head->next->before = head;
  header_->bins_in_use |= std::uint32_t{1} << bin;
}

void RankHeap::unlink(std::size_t first) noexcept {
  const std::size_t count = at(first).count;
  const auto bin = static_cast<std::uint32_t>(std::bit_width(count)) - 1;
  auto* const span = reinterpret_cast<Vacant*>(address(first));
  (span->before ? span->before->next : header_->vacant_spans[bin]) = span->next;
  if (span->next) span->next->before = span->before;
  if (!header_->vacant_spans[bin]) header_->bins_in_use &= ~(std::uint32_t{1} << bin);
  at(first + count - 1).kind = none;
  at(first).kind = none;
}

/// They become one with vacant ones beside them.
void RankHeap::give_span(std::size_t first, std::size_t count) noexcept {
  if (count * granule >= fewest_returned) ::madvise(address(first), count * granule, MADV_DONTNEED);
  at(first).kind = none;
  if (const std::size_t behind = first + count; behind < header_->top && at(behind).kind == vacant) {
    const std::size_t more = at(behind).count;
    unlink(behind);
    count += more;
  }
  if (first > 0 && at(first - 1).kind == vacant) {
    const std::size_t more = at(first - 1).count;
    first -= more;
    unlink(first);
    count += more;
  }
  link(first, count);
}

bool RankHeap::resize_in_place(std::size_t first, std::size_t count) noexcept {
  const std::size_t before = at(first).count;
  const std::size_t behind = first + before;
  if (count > before) {
    const std::size_t lacking = count - before;
    if (behind == header_->top) {
      if (!advance(lacking)) return false;
    } else if (at(behind).kind == vacant && at(behind).count >= lacking) {
      const std::size_t there = at(behind).count;
      unlink(behind);
      if (there > lacking) link(behind + lacking, there - lacking);
    } else {
      return false;
    }
  }
  at(first).count = static_cast<std::uint32_t>(count) & 0xffffff;
  if (count < before) give_span(first + count, before - count);
  return true;
}

std::size_t RankHeap::usable(const void* memory) const noexcept {
  const Granule there = at(index_of(memory));
  if (there.kind >= small) return size_of(there.kind - small);
  return there.kind == large ? there.count * granule : 0;
}

void* RankHeap::resize(void* memory, std::size_t bytes) noexcept {
  const std::size_t has = usable(memory);
  if (bytes > header_->bytes) return nullptr;
  const bool stays_small = has <= largest_small && bytes <= has && size_of(size_index(bytes)) == has;
  if (stays_small) return memory;
  if (has > largest_small && bytes > largest_small &&
      resize_in_place(index_of(memory), (bytes + granule - 1) / granule))
    return memory;
  void* const other = allocate(bytes);
  if (!other) return nullptr;
  std::memcpy(other, memory, std::min(has, bytes));
  release(memory);
  return other;
}

void RankHeap::release(void* memory) noexcept {
  const std::size_t index = index_of(memory);
  const Granule there = at(index);
  if (there.kind >= small) [[likely]] {
    Size& size = header_->small_sizes[there.kind - small];
    size.free = new (memory) Free{size.free};
    return;
  }
  if (there.kind != large || memory != address(index)) {
    warn("memory is released that has not been allocated, or is released twice");
    std::abort();
  }
  give_span(index, there.count);
}

void RankHeap::release_elsewhere(void* memory) noexcept {
  auto* const released = new (memory) Free{header_->released.load(std::memory_order_relaxed)};
  while (!header_->released.compare_exchange_weak(released->next, released, std::memory_order_release,
                                                  std::memory_order_relaxed)) {
  }
}

void RankHeap::take_back() noexcept {
  Free* next = header_->released.exchange(nullptr, std::memory_order_acquire);
  while (next)
    release(std::exchange(next, next->next));
}

}  // namespace isthmus::vrank
