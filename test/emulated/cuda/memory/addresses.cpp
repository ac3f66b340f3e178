#include "memory/addresses.hpp"

#include <sys/mman.h>

#include <algorithm>

namespace isthmus::emulated {
namespace {

constexpr std::size_t arena_bytes = std::size_t{64} << 30;
constexpr std::size_t arena_alignment = std::size_t{2} << 20;
constexpr std::size_t unit = 4096;

constexpr std::size_t round_up(std::size_t value, std::size_t to) {
  return (value + to - 1) / to * to;
}

/// What a piece takes: a page behind it stays without memory, so that nobody who goes on beyond it finds
/// another's.
constexpr std::size_t room_of(std::size_t bytes) {
  return round_up(std::max(bytes, unit), unit) + unit;
}

}  // namespace

AddressSpace::AddressSpace() {
  void* arena = ::mmap(nullptr, arena_bytes + arena_alignment, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (arena == MAP_FAILED) return;
  begin_ = round_up(reinterpret_cast<cuda::Address>(arena), arena_alignment);
  end_ = begin_ + arena_bytes;
  free_.add(begin_, arena_bytes);
}

cuda::Address AddressSpace::reserve(std::size_t bytes, std::size_t alignment) {
  return free_.take(room_of(bytes), std::max(alignment, unit)).value_or(0);
}

void AddressSpace::release(cuda::Address address, std::size_t bytes) {
  const std::size_t room = room_of(bytes);
  // What the program could read there, managed memory, it no longer can. If that fails, it stays readable.
  [[maybe_unused]] const void* gone = ::mmap(reinterpret_cast<void*>(address), room, PROT_NONE,
                                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  free_.add(address, room);
}

void AddressSpace::add(std::shared_ptr<Allocation> allocation) {
  const cuda::Address base = allocation->base;
  allocations_.emplace(base, std::move(allocation));
}

std::shared_ptr<Allocation> AddressSpace::remove(cuda::Address base) {
  auto node = allocations_.extract(base);
  return node ? std::move(node.mapped()) : nullptr;
}

std::shared_ptr<Allocation> AddressSpace::find(cuda::Address address) const {
  auto next = allocations_.upper_bound(address);
  if (next == allocations_.begin()) return nullptr;
  const auto& candidate = std::prev(next)->second;
  return address - candidate->base < candidate->bytes ? candidate : nullptr;
}

bool AddressSpace::overlaps(cuda::Address address, std::size_t bytes) const {
  const auto next = allocations_.lower_bound(address);
  return find(address) || (next != allocations_.end() && next->first < address + bytes);
}

}  // namespace isthmus::emulated
