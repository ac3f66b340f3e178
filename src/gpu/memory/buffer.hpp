#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "gpu/driver/cuda_types.hpp"

namespace isthmus::cuda {
class PrimaryContexts;
}  // namespace isthmus::cuda

namespace isthmus {

/// What the bytes of a message lie in. It decides who can copy them and how a peer can reach them.
enum class MemoryKind : std::uint8_t {
  pageable,  ///< the host's, of which CUDA knows nothing
  pinned,    ///< the host's, allocated by CUDA or registered with it
  device,    ///< cuMemAlloc, cudaMalloc
  vmm,       ///< cuMemCreate and cuMemMap
  pool,      ///< cudaMallocAsync
  managed,   ///< cudaMallocManaged: wherever its pages are
};

/// Where the pages of managed memory are, as far as one can know without touching them.
enum class PageLocation : std::uint8_t { unknown, host, device };

std::string_view name_of(MemoryKind kind);

/// A message's contiguous memory.
struct Buffer {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  MemoryKind kind = MemoryKind::pageable;
  PageLocation pages = PageLocation::unknown;  ///< of managed memory
  /// Whether this process may export it. False for what it has itself opened from a peer.
  bool is_own = true;
  /// The device that it lies on; of managed memory the one that has the pages, if that is known.
  cuda::Device device = cuda::no_device;
  /// Of the allocation around it, as CUDA numbers them: never used again in this process. 0: none.
  std::uint64_t allocation = 0;
  std::byte* base = nullptr;  ///< of the allocation
  std::size_t room = 0;       ///< bytes of the allocation; less than `bytes` from `data` on if it ends before
  cuda::Context context = nullptr;  ///< null for VMM and pool memory, which belong to none
  cuda::Pool pool = nullptr;

  /// Whether the processor can load and store there.
  [[nodiscard]] bool is_host_readable() const noexcept {
    return kind == MemoryKind::pageable || kind == MemoryKind::pinned || kind == MemoryKind::managed;
  }
  /// Whether a GPU is to copy it: its own memory, and managed memory whose pages it has, which a load by the
  /// processor would drag to the host.
  [[nodiscard]] bool is_on_gpu() const noexcept {
    return !is_host_readable() || (kind == MemoryKind::managed && pages == PageLocation::device);
  }
  [[nodiscard]] std::size_t offset() const noexcept { return static_cast<std::size_t>(data - base); }
  /// Whether all of it lies in its one allocation.
  [[nodiscard]] bool is_whole() const noexcept { return bytes <= room && offset() <= room - bytes; }
};

/// Whether kernels in the primary context of its device reach a buffer: not if it belongs to a context that
/// the program has made besides (cuCtxCreate). Copy engines do.
bool reaches(cuda::PrimaryContexts& contexts, const Buffer& buffer);

}  // namespace isthmus
