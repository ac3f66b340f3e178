#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace isthmus::vrank {

/// Memory for a program's allocations in a range of addresses of its own. All that it knows lies in the heap
/// and in this object, which may lie in front of it: the bytes of both are the heap, wherever they are copied
/// to the same address.
///
/// Blocks know the size of the block before them, and free ones are in lists by size: 16 lists for each power
/// of two. So each call is a few steps, whatever has been done before. Any thread may call.
///
/// It has no constructor that does anything: zeros are a heap that has not been opened.
class Heap {
 public:
  static constexpr std::size_t alignment = 16;

  /// Takes [begin, end) for blocks, both multiples of 64 KiB; what is not needed yet is not mapped.
  void open(std::uintptr_t begin, std::uintptr_t end) noexcept;
  [[nodiscard]] bool is_open() const noexcept { return begin_ != 0; }

  /// At least `bytes`, aligned to `to`, a power of two. Null without memory.
  [[nodiscard]] void* allocate(std::size_t bytes, std::size_t to = alignment) noexcept;
  /// The same, all 0.
  [[nodiscard]] void* allocate_zeros(std::size_t bytes) noexcept;
  /// `memory` is of this heap.
  void free(void* memory) noexcept;
  /// `memory` with `bytes`, here or elsewhere in this heap. Null, and nothing done, without memory.
  [[nodiscard]] void* resize(void* memory, std::size_t bytes) noexcept;
  [[nodiscard]] static std::size_t usable(const void* memory) noexcept;
  /// Up to where addresses have been mapped.
  [[nodiscard]] std::uintptr_t top() const noexcept { return top_; }
  [[nodiscard]] std::uintptr_t begin() const noexcept { return begin_; }

  /// Calls `visit(begin, bytes)` for what has to be copied: all but the inside of long free blocks. Nobody
  /// else may use the heap meanwhile.
  template <class Visit>
  void for_each_range(Visit visit) const {
    if (top_ == begin_) return;
    std::uintptr_t from = begin_;
    for (const Block* block = first(); block->bytes() != 0; block = block->after()) {
      if (!block->is_free() || block->bytes() < least_gap) continue;
      visit(from, reinterpret_cast<std::uintptr_t>(block) + sizeof(FreeBlock) - from);
      from = reinterpret_cast<std::uintptr_t>(block->after());
    }
    if (top_ > from) visit(from, top_ - from);
  }
  /// For the child of a fork, which has no other threads.
  void lock() noexcept;
  void unlock() noexcept;

 private:
  struct Block {
    std::size_t before;  ///< bytes of the block before it, 0 for the first
    std::size_t size;    ///< in bytes with this, a multiple of 16; and `free_mark`

    static constexpr std::size_t free_mark = 1;
    [[nodiscard]] std::size_t bytes() const noexcept { return size & ~free_mark; }
    [[nodiscard]] bool is_free() const noexcept { return (size & free_mark) != 0; }
    [[nodiscard]] Block* after() const noexcept {
      return reinterpret_cast<Block*>(reinterpret_cast<std::uintptr_t>(this) + bytes());
    }
    [[nodiscard]] Block* ahead() const noexcept {
      return reinterpret_cast<Block*>(reinterpret_cast<std::uintptr_t>(this) - before);
    }
    [[nodiscard]] void* memory() noexcept { return this + 1; }
    static Block* of(const void* memory) noexcept {
      return reinterpret_cast<Block*>(reinterpret_cast<std::uintptr_t>(memory)) - 1;
    }
  };
  struct FreeBlock : Block {
    FreeBlock* next;
    FreeBlock* previous;
  };
  struct Place {
    unsigned power, part;
  };
  class Guard;

  static constexpr unsigned powers = 48, parts = 16, part_bits = 4, first_power = 5;
  static constexpr std::size_t least_block = sizeof(FreeBlock);
  static constexpr std::size_t least_gap = std::size_t{16} << 10;
  static constexpr std::size_t most_bytes = std::size_t{1} << 46;

  [[nodiscard]] Block* first() const noexcept { return reinterpret_cast<Block*>(begin_); }
  static Place place_of(std::size_t bytes) noexcept;
  static std::size_t block_bytes(std::size_t bytes) noexcept;
  void put(Block* block) noexcept;
  void take_out(FreeBlock* block) noexcept;
  [[nodiscard]] FreeBlock* find(std::size_t bytes) noexcept;
  [[nodiscard]] bool grow(std::size_t bytes) noexcept;
  [[nodiscard]] Block* take(std::size_t bytes) noexcept;
  void cut(Block* block, std::size_t bytes) noexcept;
  void give_back(Block* block) noexcept;

  std::uintptr_t begin_ = 0, end_ = 0, top_ = 0;
  std::uint64_t has_power_ = 0;
  std::array<std::uint16_t, powers> has_part_{};
  std::array<std::array<FreeBlock*, parts>, powers> lists_{};
  std::atomic<std::uint32_t> lock_{0};
};

}  // namespace isthmus::vrank
