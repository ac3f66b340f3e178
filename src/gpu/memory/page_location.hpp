#pragma once

#include <cstddef>

#include "base/unique_fd.hpp"
#include "gpu/driver/cuda_api.hpp"
#include "gpu/memory/buffer.hpp"

namespace isthmus {

/// Finds where the pages of managed memory are, without moving them: those that the processor has touched
/// last are in this process's page table, which the kernel shows; of others CUDA knows the last prefetch.
/// One thread at a time.
class PageLocator {
 public:
  /// Sets `pages` and `device` of managed memory. Looks at the first and the last page: a buffer that is
  /// scattered over places is `unknown`.
  void locate(const cuda::Functions& functions, Buffer& buffer);

 private:
  /// Whether the kernel has a page there: 1, 0, or -1 where it does not tell.
  int present(const std::byte* address);

  UniqueFd map_;  ///< of the process that asked first: children of fork() cannot use CUDA
};

}  // namespace isthmus
