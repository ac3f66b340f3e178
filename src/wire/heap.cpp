#include "wire/heap.hpp"

#include <sched.h>

#include <bit>
#include <string>

namespace isthmus::wire {
namespace {

constexpr std::uint64_t smallest = 4096;

class Locked {
 public:
  explicit Locked(std::atomic<std::uint32_t>& word) : word_(word) {
    while (word_.exchange(1, std::memory_order_acquire) != 0)
      ::sched_yield();
  }
  ~Locked() { word_.store(0, std::memory_order_release); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  std::atomic<std::uint32_t>& word_;
};

unsigned size_class(std::uint64_t bytes) {
  if (bytes <= smallest) return 0;
  return static_cast<unsigned>(std::bit_width(bytes - 1) - std::bit_width(smallest - 1));
}

}  // namespace

Result<std::uint64_t> RegionHeap::allocate(std::uint64_t bytes) {
  const unsigned kind = bytes > memory_.size() ? HeapHeader::size_classes : size_class(bytes);
  if (kind >= HeapHeader::size_classes || smallest << kind > memory_.size())
    return fail(ErrorClass::no_mem,
                std::to_string(bytes) + " bytes of shared memory are more than the job's region holds");
  const std::uint64_t block = smallest << kind;
  Locked locked(header_->lock);
  const std::uint64_t first = header_->free[kind];
  if (first != 0) {
    const std::span<std::byte> memory = at(first - 1, block);
    if (!memory.empty()) {
      header_->free[kind] = *reinterpret_cast<const std::uint64_t*>(memory.data());
      return first - 1;
    }
    header_->free[kind] = 0;
  }
  const std::uint64_t used = header_->used;
  if (used > memory_.size() || block > memory_.size() - used)
    return fail(ErrorClass::no_mem,
                "the job's shared region is full: " + std::to_string(bytes) + " bytes wanted");
  header_->used = used + block;
  return used;
}

void RegionHeap::release(std::uint64_t offset, std::uint64_t bytes) noexcept {
  if (bytes > memory_.size()) return;
  const unsigned kind = size_class(bytes);
  const std::span<std::byte> memory = at(offset, smallest << kind);
  if (memory.empty() || offset % smallest != 0) return;
  Locked locked(header_->lock);
  *reinterpret_cast<std::uint64_t*>(memory.data()) = header_->free[kind];
  header_->free[kind] = offset + 1;
}

}  // namespace isthmus::wire
