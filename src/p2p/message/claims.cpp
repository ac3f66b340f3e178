#include "p2p/message/claims.hpp"

#include <cstddef>

namespace isthmus {
namespace {

/// A block, and the directory, are the least that the heap hands out.
constexpr std::uint64_t block_bytes = 4096;
constexpr std::size_t words_per_block = block_bytes / sizeof(std::uint64_t);

/// The number of the request in its pool.
std::size_t index_of(wire::Cookie send) noexcept {
  return static_cast<std::uint32_t>(send);
}

/// What a word holds while the message of `send` is offered; never 0.
std::uint64_t name_of(wire::Cookie send) noexcept {
  return send + 1;
}

/// `block_bytes` of words at an offset that may be a peer's; null where the heap has none there.
std::atomic<std::uint64_t>* words_at(const wire::RegionHeap& heap, std::uint64_t offset) noexcept {
  if (offset % block_bytes != 0) return nullptr;
  const auto memory = heap.at(offset, block_bytes);
  return memory.empty() ? nullptr : reinterpret_cast<std::atomic<std::uint64_t>*>(memory.data());
}

/// Entries of a directory are 1 + the offset of a block, 0 where there is none.
std::atomic<std::uint64_t>* words_of(const wire::RegionHeap& heap, std::uint64_t entry) noexcept {
  return entry == 0 ? nullptr : words_at(heap, entry - 1);
}

}  // namespace

Claims::Word* Claims::own_word(wire::Cookie send) const noexcept {
  const std::size_t number = index_of(send) / words_per_block;
  Word* const block = number < blocks_.size() ? blocks_[number].value_or(nullptr) : nullptr;
  return block ? block + index_of(send) % words_per_block : nullptr;
}

Claims::Word* Claims::make_block(std::size_t number) {
  if (number >= words_per_block) return nullptr;
  if (number >= blocks_.size()) blocks_.resize(number + 1);
  blocks_[number] = nullptr;
  wire::RegionHeap heap = region_.heap();
  const auto make = [&heap](Word& entry) -> Word* {
    const auto offset = heap.allocate(block_bytes);
    Word* const words = offset ? words_at(heap, *offset) : nullptr;
    if (!words) return nullptr;
    for (std::size_t i = 0; i < words_per_block; ++i)
      words[i].store(0, std::memory_order_relaxed);
    entry.store(*offset + 1, std::memory_order_release);
    return words;
  };
  if (!directory_) directory_ = make(region_.block(slot_).claims);
  if (directory_) blocks_[number] = make(directory_[number]);
  return *blocks_[number];
}

void Claims::offer(wire::Cookie send) {
  Word* word = own_word(send);
  if (!word) [[unlikely]] {
    // Asked for once: where the heap is full now, it stays so.
    const std::size_t number = index_of(send) / words_per_block;
    if (number < blocks_.size() && blocks_[number]) return;
    if (Word* const block = make_block(number)) word = block + index_of(send) % words_per_block;
    if (!word) return;
  }
  // The envelope, which is published later, orders it.
  word->store(name_of(send), std::memory_order_relaxed);
}

bool Claims::take_back(wire::Cookie send) noexcept {
  Word* const word = own_word(send);
  std::uint64_t expected = name_of(send);
  return word && word->compare_exchange_strong(expected, 0, std::memory_order_acq_rel);
}

void Claims::leave() noexcept {
  wire::RegionHeap heap = region_.heap();
  const auto give_back = [&heap](Word& entry) {
    if (const std::uint64_t held = entry.exchange(0, std::memory_order_acq_rel))
      heap.release(held - 1, block_bytes);
  };
  for (std::size_t number = 0; directory_ && number < blocks_.size(); ++number)
    give_back(directory_[number]);
  if (directory_) give_back(region_.block(slot_).claims);
  directory_ = nullptr;
  blocks_.clear();
}

Claims::Word* Claims::word_of(std::uint32_t sender, wire::Cookie send) const noexcept {
  const std::size_t number = index_of(send) / words_per_block;
  if (number >= words_per_block) return nullptr;
  const wire::RegionHeap heap = region_.heap();
  Word* const directory = words_of(heap, region_.block(sender).claims.load(std::memory_order_acquire));
  if (!directory) return nullptr;
  Word* const block = words_of(heap, directory[number].load(std::memory_order_acquire));
  return block ? block + index_of(send) % words_per_block : nullptr;
}

bool Claims::claim(std::uint32_t sender, wire::Cookie send) const noexcept {
  Word* const word = word_of(sender, send);
  std::uint64_t expected = name_of(send);
  return !word || word->compare_exchange_strong(expected, 0, std::memory_order_acq_rel);
}

bool Claims::is_offered(std::uint32_t sender, wire::Cookie send) const noexcept {
  const Word* const word = word_of(sender, send);
  return !word || word->load(std::memory_order_acquire) == name_of(send);
}

}  // namespace isthmus
