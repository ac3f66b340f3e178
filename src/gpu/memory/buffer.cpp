#include "gpu/memory/buffer.hpp"

#include <array>

#include "gpu/driver/cuda_context.hpp"

namespace isthmus {

std::string_view name_of(MemoryKind kind) {
  constexpr std::array<std::string_view, 6> names{"pageable host memory", "pinned host memory",
                                                  "device memory",        "VMM memory",
                                                  "pool memory",          "managed memory"};
  return names[static_cast<std::size_t>(kind)];
}

bool reaches(cuda::PrimaryContexts& contexts, const Buffer& buffer) {
  if (!buffer.context || buffer.is_host_readable()) return true;
  const auto primary = contexts.of(buffer.device);
  return primary && *primary == buffer.context;
}

}  // namespace isthmus
