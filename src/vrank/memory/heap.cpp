#include "vrank/memory/heap.hpp"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace isthmus::vrank {
namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t least_growth = std::size_t{1} << 20, growth_unit = std::size_t{64} << 10;
/// Of what is freed: pages inside go back to the kernel from this size on.
constexpr std::size_t bytes_to_return = std::size_t{8} << 20;
/// Zeros that are asked for: pages inside are taken anew instead of written.
constexpr std::size_t bytes_of_new_pages = std::size_t{1} << 20;

constexpr std::size_t round_up(std::size_t value, std::size_t to) noexcept {
  return (value + to - 1) / to * to;
}

/// Whole pages in [begin, end) become zeros that take no memory.
void drop_pages(std::uintptr_t begin, std::uintptr_t end) noexcept {
  begin = round_up(begin, page);
  end = end / page * page;
  if (begin < end)
    ::madvise(reinterpret_cast<void*>(begin), end - begin,
              MADV_DONTNEED);  // NOLINT(performance-no-int-to-ptr)
}

}  // namespace

class Heap::Guard {
 public:
  explicit Guard(Heap& heap) noexcept : heap_(heap) { heap.lock(); }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;
  ~Guard() { heap_.unlock(); }

 private:
  Heap& heap_;
};

// 0: free, 1: held, 2: held, and somebody waits.
void Heap::lock() noexcept {
  std::uint32_t expected = 0;
  if (lock_.compare_exchange_strong(expected, 1, std::memory_order_acquire)) return;
  while (lock_.exchange(2, std::memory_order_acquire) != 0)
    ::syscall(SYS_futex, &lock_, FUTEX_WAIT_PRIVATE, 2, nullptr, nullptr, 0);
}

void Heap::unlock() noexcept {
  if (lock_.exchange(0, std::memory_order_release) == 2)
    ::syscall(SYS_futex, &lock_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

void Heap::open(std::uintptr_t begin, std::uintptr_t end) noexcept {
  begin_ = top_ = begin;
  end_ = end;
}

Heap::Place Heap::place_of(std::size_t bytes) noexcept {
  const auto power = static_cast<unsigned>(std::bit_width(bytes)) - 1;
  return {power, static_cast<unsigned>(bytes >> (power - part_bits)) & (parts - 1)};
}

std::size_t Heap::block_bytes(std::size_t bytes) noexcept {
  return std::max(round_up(bytes + sizeof(Block), alignment), least_block);
}

void Heap::put(Block* block) noexcept {
  auto* const free = static_cast<FreeBlock*>(block);
  const Place place = place_of(block->bytes());
  FreeBlock*& head = lists_[place.power][place.part];
  free->next = head;
  free->previous = nullptr;
  if (head) head->previous = free;
  head = free;
  has_part_[place.power] = static_cast<std::uint16_t>(has_part_[place.power] | 1U << place.part);
  has_power_ |= std::uint64_t{1} << place.power;
}

void Heap::take_out(FreeBlock* block) noexcept {
  const Place place = place_of(block->bytes());
  if (block->next) block->next->previous = block->previous;
  if (block->previous) {
    block->previous->next = block->next;
    return;
  }
  lists_[place.power][place.part] = block->next;
  if (block->next) return;
  has_part_[place.power] = static_cast<std::uint16_t>(has_part_[place.power] & ~(1U << place.part));
  if (has_part_[place.power] == 0) has_power_ &= ~(std::uint64_t{1} << place.power);
}

/// One that has `bytes` for sure: all of a list have at least what the next smaller list's have at most.
Heap::FreeBlock* Heap::find(std::size_t bytes) noexcept {
  const auto power = static_cast<unsigned>(std::bit_width(bytes)) - 1;
  const Place from = place_of(bytes + (std::size_t{1} << (power - part_bits)) - 1);
  if (from.power >= powers) return nullptr;
  if (const unsigned here = has_part_[from.power] & ~0U << from.part)
    return lists_[from.power][static_cast<unsigned>(std::countr_zero(here))];
  const std::uint64_t larger = has_power_ & ~((std::uint64_t{2} << from.power) - 1);
  if (larger == 0) return nullptr;
  const auto next = static_cast<unsigned>(std::countr_zero(larger));
  return lists_[next][static_cast<unsigned>(std::countr_zero(has_part_[next]))];
}

bool Heap::grow(std::size_t bytes) noexcept {
  // Room for the block behind all others, which is never free, and for what `find` rounds up.
  const std::size_t more = round_up(std::max(bytes + bytes / parts + page, least_growth), growth_unit);
  if (more > end_ - top_) return false;
  auto* const wanted = reinterpret_cast<void*>(top_);  // NOLINT(performance-no-int-to-ptr)
  const long got = ::syscall(SYS_mmap, wanted, more, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (got != static_cast<long>(top_)) {
    if (got > 0 || got < -4095) ::syscall(SYS_munmap, got, more);
    return false;
  }
  const bool is_first = top_ == begin_;
  auto* const block = reinterpret_cast<Block*>(is_first ? top_ : top_ - sizeof(Block));  // NOLINT
  if (is_first) block->before = 0;
  top_ += more;
  block->size = is_first ? more - sizeof(Block) : more;
  Block* const last = block->after();
  *last = {.before = block->bytes(), .size = 0};
  give_back(block);
  return true;
}

/// What `block` has beyond `bytes` becomes free.
void Heap::cut(Block* block, std::size_t bytes) noexcept {
  const std::size_t rest = block->bytes() - bytes;
  if (rest < least_block) return;
  block->size = bytes;
  Block* const behind = block->after();
  *behind = {.before = bytes, .size = rest};
  behind->after()->before = rest;
  give_back(behind);
}

/// With its neighbours, where they are free.
void Heap::give_back(Block* block) noexcept {
  std::size_t bytes = block->bytes();
  if (Block* const after = block->after(); after->is_free()) {
    take_out(static_cast<FreeBlock*>(after));
    bytes += after->bytes();
  }
  if (block->before != 0 && block->ahead()->is_free()) {
    block = block->ahead();
    take_out(static_cast<FreeBlock*>(block));
    bytes += block->bytes();
  }
  block->size = bytes | Block::free_mark;
  block->after()->before = bytes;
  put(block);
}

Heap::Block* Heap::take(std::size_t bytes) noexcept {
  FreeBlock* found = find(bytes);
  if (!found && grow(bytes)) found = find(bytes);
  if (!found) return nullptr;
  take_out(found);
  found->size = found->bytes();
  cut(found, bytes);
  return found;
}

void* Heap::allocate(std::size_t bytes, std::size_t to) noexcept {
  if (bytes > most_bytes || to > most_bytes) return nullptr;
  const Guard guard(*this);
  if (to <= alignment) {
    Block* const block = take(block_bytes(bytes));
    return block ? block->memory() : nullptr;
  }
  Block* block = take(block_bytes(bytes + to + least_block));
  if (!block) return nullptr;
  const auto begin = reinterpret_cast<std::uintptr_t>(block->memory());
  if (begin % to != 0) {
    // What is in front becomes a block of its own, large enough to be free.
    const std::uintptr_t aligned = round_up(begin + least_block, to);
    const std::size_t ahead = aligned - begin, all = block->bytes();
    block->size = ahead;
    Block* const behind = block->after();
    *behind = {.before = ahead, .size = all - ahead};
    behind->after()->before = all - ahead;
    give_back(block);
    block = behind;
  }
  cut(block, block_bytes(bytes));
  return block->memory();
}

void* Heap::allocate_zeros(std::size_t bytes) noexcept {
  void* const memory = allocate(bytes);
  if (!memory) return nullptr;
  const auto begin = reinterpret_cast<std::uintptr_t>(memory), end = begin + bytes;
  if (bytes < bytes_of_new_pages) return std::memset(memory, 0, bytes);
  drop_pages(begin, end);
  std::memset(memory, 0, round_up(begin, page) - begin);
  std::memset(reinterpret_cast<void*>(end / page * page), 0,
              end % page);  // NOLINT(performance-no-int-to-ptr)
  return memory;
}

void Heap::free(void* memory) noexcept {
  Block* const block = Block::of(memory);
  const Guard guard(*this);
  if (block->bytes() >= bytes_to_return)
    drop_pages(reinterpret_cast<std::uintptr_t>(block) + sizeof(FreeBlock),
               reinterpret_cast<std::uintptr_t>(block->after()));
  give_back(block);
}

void* Heap::resize(void* memory, std::size_t bytes) noexcept {
  if (bytes > most_bytes) return nullptr;
  Block* const block = Block::of(memory);
  const std::size_t wanted = block_bytes(bytes);
  {
    const Guard guard(*this);
    Block* const after = block->after();
    if (wanted > block->bytes() && after->is_free() && block->bytes() + after->bytes() >= wanted) {
      take_out(static_cast<FreeBlock*>(after));
      block->size = block->bytes() + after->bytes();
      block->after()->before = block->bytes();
    }
    if (wanted <= block->bytes()) {
      cut(block, wanted);
      return memory;
    }
  }
  void* const moved = allocate(bytes);
  if (!moved) return nullptr;
  std::memcpy(moved, memory, usable(memory));
  free(memory);
  return moved;
}

std::size_t Heap::usable(const void* memory) noexcept {
  return Block::of(memory)->bytes() - sizeof(Block);
}

}  // namespace isthmus::vrank
