#include "wire/heap.hpp"

#include <sched.h>

#include <bit>
#include <string>

namespace isthmus::wire {
namespace {

constexpr std::uint64_t smallest = 4096;

/// The heap's lock, held if `held()`: a peer that died with it, or keeps it, must not hang this rank.
class Locked {
 public:
  Locked(std::atomic<std::uint32_t>& word, std::chrono::milliseconds patience) : word_(word) {
    std::uint32_t found = take();
    for (const auto end = std::chrono::steady_clock::now() + patience;
         found == HeapHeader::held && std::chrono::steady_clock::now() < end; found = take())
      ::sched_yield();
    held_ = found == HeapHeader::open;
    if (found == HeapHeader::held)
      word_.compare_exchange_strong(found, HeapHeader::given_up, std::memory_order_relaxed);
  }
  ~Locked() {
    if (held_) word_.store(HeapHeader::open, std::memory_order_release);
  }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

  [[nodiscard]] bool held() const noexcept { return held_; }

 private:
  /// What was there before; held from now on where that was `open`.
  std::uint32_t take() noexcept {
    std::uint32_t found = HeapHeader::open;
    word_.compare_exchange_strong(found, HeapHeader::held, std::memory_order_acquire,
                                  std::memory_order_relaxed);
    return found;
  }

  std::atomic<std::uint32_t>& word_;
  bool held_ = false;
};

unsigned size_class(std::uint64_t bytes) {
  if (bytes <= smallest) return 0;
  return static_cast<unsigned>(std::bit_width(bytes - 1) - std::bit_width(smallest - 1));
}

/// The word of a free block that names the next one. `block` begins at a page.
std::atomic_ref<std::uint64_t> next_of(std::span<std::byte> block) {
  return std::atomic_ref(*reinterpret_cast<std::uint64_t*>(block.data()));
}

}  // namespace

Result<std::uint64_t> RegionHeap::allocate(std::uint64_t bytes) {
  const unsigned kind = bytes > memory_.size() ? HeapHeader::size_classes : size_class(bytes);
  if (kind >= HeapHeader::size_classes || smallest << kind > memory_.size())
    return fail(ErrorClass::no_mem,
                std::to_string(bytes) + " bytes of shared memory are more than the job's region holds");
  const std::uint64_t block = smallest << kind;
  const Locked locked(header_->lock, patience_);
  if (!locked.held())
    return fail(ErrorClass::intern, "a rank of the job does not let go of the shared region's heap");
  const std::uint64_t first = header_->free[kind].load(std::memory_order_relaxed);
  if (first != 0) {
    const std::span<std::byte> memory = at(first - 1, block);
    if (!memory.empty() && (first - 1) % smallest == 0) {
      header_->free[kind].store(next_of(memory).load(std::memory_order_relaxed), std::memory_order_relaxed);
      return first - 1;
    }
    header_->free[kind].store(0, std::memory_order_relaxed);
  }
  const std::uint64_t used = header_->used.load(std::memory_order_relaxed);
  if (used > memory_.size() || block > memory_.size() - used || used % smallest != 0)
    return fail(ErrorClass::no_mem,
                "the job's shared region is full: " + std::to_string(bytes) + " bytes wanted");
  header_->used.store(used + block, std::memory_order_relaxed);
  return used;
}

void RegionHeap::release(std::uint64_t offset, std::uint64_t bytes) noexcept {
  if (bytes > memory_.size()) return;
  const unsigned kind = size_class(bytes);
  const std::span<std::byte> memory = at(offset, smallest << kind);
  if (memory.empty() || offset % smallest != 0) return;
  const Locked locked(header_->lock, patience_);
  if (!locked.held() || offset + memory.size() > header_->used.load(std::memory_order_relaxed)) return;
  next_of(memory).store(header_->free[kind].load(std::memory_order_relaxed), std::memory_order_relaxed);
  header_->free[kind].store(offset + 1, std::memory_order_relaxed);
}

}  // namespace isthmus::wire
