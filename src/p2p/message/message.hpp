#pragma once

#include <cstddef>
#include <cstdint>

#include "datatype/datatype.hpp"

namespace isthmus {

/// Index of a process in the job (its rank in MPI_COMM_WORLD).
using PeerId = std::uint32_t;

/// Names one matching space in the whole job. A communicator owns two neighbours: `id` for point-to-point,
/// `id + 1` for collectives.
using ContextId = std::uint64_t;

/// The wildcards and the null process, with the ABI's values (MPI 5.0, sections 3.2.4 and 3.10).
inline constexpr int any_source = -1;
inline constexpr int any_tag = -2;
inline constexpr int null_process = -3;

/// What a receive or probe reports (MPI 5.0, section 3.2.5).
struct Status {
  int source = any_source;
  int tag = any_tag;
  int error = 0;  ///< an `ErrorClass` as int
  bool cancelled = false;
  std::uint64_t bytes = 0;

  /// What operations with the null process report.
  static constexpr Status from_null_process() { return {.source = null_process, .tag = any_tag}; }
};

/// Data in the caller's memory: a run of bytes, or `count` items of a datatype that is not contiguous. Owns
/// nothing: memory and datatype must outlive the operation (`Request` holds a reference to the datatype of a
/// pending one).
struct Payload {
  std::byte* data = nullptr;       ///< contiguous: first byte; otherwise: the address that MPI calls `buf`
  std::uint64_t bytes = 0;         ///< packed size
  const Datatype* type = nullptr;  ///< null where the data is contiguous
  std::int64_t count = 0;          ///< items of `type`

  static Payload of(void* data, std::uint64_t bytes) {
    return {static_cast<std::byte*>(data), bytes, nullptr, 0};
  }
  static Payload of(const void* data, std::uint64_t bytes) { return of(const_cast<void*>(data), bytes); }
  static Payload of(const void* buffer, std::int64_t count, const Datatype& type) {
    auto* data = static_cast<std::byte*>(const_cast<void*>(buffer));
    const auto bytes = static_cast<std::uint64_t>(count) * static_cast<std::uint64_t>(type.size());
    if (type.is_contiguous()) [[likely]]
      return {data, bytes, nullptr, 0};
    return {data, bytes, &type, count};
  }
};

/// Where a message goes: the process, the matching space, and the sender's rank there, which the envelope
/// carries.
struct Target {
  PeerId peer;
  ContextId context;
  int source;
  int tag;
};

enum class SendMode : std::uint8_t {
  standard,     ///< may complete before it is matched
  synchronous,  ///< completes only when matched (MPI_Ssend)
};

}  // namespace isthmus
