#include "stream/prepared/errand_lines.hpp"

#include <new>
#include <utility>

namespace isthmus::stream {

Result<std::shared_ptr<ErrandLines>> ErrandLines::make(cuda::PrimaryContexts& contexts, cuda::Device device,
                                                       cuda::Context context) {
  auto pages = PinnedPages::make(contexts, device, count * sizeof(ErrandWords));
  if (!pages) return std::unexpected(std::move(pages).error());
  auto* const words = new ((*pages)->span().data()) ErrandWords[count];
  const cuda::ContextScope scope(contexts.functions(), context);
  // Where it has no address of its own there, the host's is the GPU's.
  cuda::Address address = 0;
  if (contexts.functions().host_device_pointer(&address, words, 0) != cuda::Status::success)
    address = reinterpret_cast<cuda::Address>(words);
  return std::shared_ptr<ErrandLines>(new ErrandLines(std::move(*pages), address));
}

void ErrandLines::release_streams() const noexcept {
  if (!has_ended_.load(std::memory_order_acquire)) return;
  for (std::size_t i = 0; i < count; ++i)
    word(i, &ErrandWords::done).store(1, std::memory_order_release);
}

}  // namespace isthmus::stream
