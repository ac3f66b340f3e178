#pragma once

#include <cstddef>
#include <span>

#include "base/error.hpp"
#include "gpu/driver/cuda_context.hpp"

namespace isthmus {

/// A run of bytes to be copied between any two kinds of memory that a GPU reaches.
struct CopyPiece {
  std::byte* to;
  const std::byte* from;
  std::size_t bytes;
};

/// Pieces that one call of the driver starts, at most.
inline constexpr std::size_t most_in_batch = 16;

/// Puts copies between memories of GPUs, not managed, on a stream: by one call of the driver where it has
/// such a call, in any order or at the same time. 16 of 1 MiB to a peer at 340 GB/s, each by itself at 205,
/// both ways at 676 and 396 (2 x H200). None of no bytes; `most_in_batch` at most. If it fails, some may have
/// been started.
Result<> copy_batch(const cuda::Functions& functions, cuda::Stream stream, std::span<const CopyPiece> pieces);

}  // namespace isthmus
