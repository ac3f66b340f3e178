#include "stream/prepared/lines.hpp"

#include <sys/mman.h>

namespace isthmus::stream {

Result<Lines> Lines::map(cuda::PrimaryContexts& contexts, cuda::Device device, int file, std::size_t count) {
  constexpr std::size_t page = 4096;
  const std::size_t bytes = (count * line + page - 1) / page * page;
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) return fail(ErrorClass::no_mem, "the words of a port cannot be mapped");
  Lines made(static_cast<std::byte*>(memory), bytes);
  auto pinned = PinnedRange::pin(contexts, device, {made.memory_, bytes});
  if (!pinned) return std::unexpected(std::move(pinned).error());
  made.pinned_.emplace(std::move(*pinned));
  // Where it has no address of its own there, the host's is the GPU's.
  if (contexts.functions().host_device_pointer(&made.address_, memory, 0) != cuda::Status::success)
    made.address_ = reinterpret_cast<cuda::Address>(memory);
  return made;
}

Lines::~Lines() {
  pinned_.reset();
  if (memory_) ::munmap(memory_, bytes_);
}

}  // namespace isthmus::stream
