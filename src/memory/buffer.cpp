#include "memory/buffer.hpp"

#include <array>

namespace isthmus {

std::string_view name_of(MemoryKind kind) {
  constexpr std::array<std::string_view, 6> names{"pageable host memory", "pinned host memory",
                                                  "device memory",        "VMM memory",
                                                  "pool memory",          "managed memory"};
  return names[static_cast<std::size_t>(kind)];
}

}  // namespace isthmus
