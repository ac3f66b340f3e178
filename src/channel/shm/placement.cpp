#include "channel/shm/placement.hpp"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <climits>

#include "wire/ring.hpp"

namespace isthmus {
namespace {

/// The whole pages within `memory`.
std::span<std::byte> pages_of(std::span<std::byte> memory) noexcept {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto start = reinterpret_cast<std::uintptr_t>(memory.data());
  const std::uintptr_t first = (start + page - 1) / page * page;
  const std::uintptr_t last = (start + memory.size()) / page * page;
  return first < last ? memory.subspan(first - start, last - first) : std::span<std::byte>();
}

}  // namespace

bool prefer_node(std::span<std::byte> memory, std::int32_t node) noexcept {
  constexpr int mpol_preferred = 1;  // linux/mempolicy.h, which Debian keeps in a package of its own
  constexpr unsigned word_bits = sizeof(unsigned long) * CHAR_BIT;
  std::array<unsigned long, 16> nodes{};
  const auto number = static_cast<unsigned>(node);
  if (node < 0 || number >= nodes.size() * word_bits) return false;
  nodes[number / word_bits] = 1UL << number % word_bits;

  const std::span<std::byte> pages = pages_of(memory);
  if (pages.empty()) return false;
  // The kernel reads one bit less than it is told.
  return ::syscall(SYS_mbind, pages.data(), pages.size(), mpol_preferred, nodes.data(),
                   nodes.size() * word_bits + 1, 0) == 0;
}

void map_pages(std::span<std::byte> memory) noexcept {
  constexpr int populate_write = 23;  // MADV_POPULATE_WRITE: headers of older systems lack it
  const std::span<std::byte> pages = pages_of(memory);
  if (!pages.empty()) static_cast<void>(::madvise(pages.data(), pages.size(), populate_write));
}

void map_ring(const wire::RegionView& region, std::uint32_t from, std::uint32_t to,
              std::uint64_t bytes) noexcept {
  const std::uint32_t entry = region.directory(to)[from].load(std::memory_order_acquire);
  if (entry == 0 || entry > region.ring_capacity()) return;
  const std::span<std::byte> ring = region.ring(entry - 1);
  const std::uint64_t before = wire::byte_ring_offset(region.geometry());
  map_pages(ring.first(bytes < ring.size() - before ? before + bytes : ring.size()));
}

}  // namespace isthmus
