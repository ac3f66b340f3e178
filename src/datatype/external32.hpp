#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/error.hpp"
#include "datatype/datatype.hpp"

namespace isthmus {

// The portable representation "external32" (MPI 5.0, sections 5.3 and 14.5.2): big-endian, IEEE, without
// gaps, with the standard's sizes, which for MPI_LONG (4) and MPI_WCHAR (2) are smaller than this machine's.

/// Bytes that `count` elements take: MPI_Pack_external_size. Class `count` where that passes 2^63 - 1.
[[nodiscard]] Result<std::int64_t> external32_size(const Datatype& type, std::int64_t count);

/// Writes `count` elements at `base` to `out` and returns the bytes written. Class `truncate` if `out` is too
/// small, `conversion` if a value does not fit its external size; the part written is then undefined.
[[nodiscard]] Result<std::size_t> pack_external32(const Datatype& type, const void* base, std::int64_t count,
                                                  std::span<std::byte> out);

/// The inverse; returns the bytes read.
[[nodiscard]] Result<std::size_t> unpack_external32(const Datatype& type, void* base, std::int64_t count,
                                                    std::span<const std::byte> in);

}  // namespace isthmus
