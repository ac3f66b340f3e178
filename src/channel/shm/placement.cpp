#include "channel/shm/placement.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <climits>

namespace isthmus {

bool prefer_node(std::span<std::byte> memory, std::int32_t node) noexcept {
  constexpr int mpol_preferred = 1;  // linux/mempolicy.h, which Debian keeps in a package of its own
  constexpr unsigned word_bits = sizeof(unsigned long) * CHAR_BIT;
  std::array<unsigned long, 16> nodes{};
  const auto number = static_cast<unsigned>(node);
  if (node < 0 || number >= nodes.size() * word_bits) return false;
  nodes[number / word_bits] = 1UL << number % word_bits;

  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto start = reinterpret_cast<std::uintptr_t>(memory.data());
  const std::uintptr_t first = (start + page - 1) / page * page;
  const std::uintptr_t last = (start + memory.size()) / page * page;
  if (first >= last) return false;
  // The kernel reads one bit less than it is told.
  return ::syscall(SYS_mbind, first, last - first, mpol_preferred, nodes.data(), nodes.size() * word_bits + 1,
                   0) == 0;
}

}  // namespace isthmus
