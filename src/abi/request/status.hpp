#pragma once

#include <mpi.h>

#include <cstdint>
#include <cstring>

#include "p2p/message/message.hpp"

/// How this library uses the words of MPI_Status that are its own: whether the operation was cancelled, then
/// the number of bytes. A status of zeros means no bytes, not cancelled.
namespace isthmus::abi {

static_assert(any_source == MPI_ANY_SOURCE && any_tag == MPI_ANY_TAG && null_process == MPI_PROC_NULL);

[[nodiscard]] inline std::uint64_t status_bytes(const MPI_Status& status) noexcept {
  std::uint64_t bytes;
  std::memcpy(&bytes, &status.MPI_internal[1], sizeof bytes);
  return bytes;
}
inline void set_status_bytes(MPI_Status& status, std::uint64_t bytes) noexcept {
  std::memcpy(&status.MPI_internal[1], &bytes, sizeof bytes);
}

[[nodiscard]] inline bool status_cancelled(const MPI_Status& status) noexcept {
  return status.MPI_internal[0] != 0;
}
inline void set_status_cancelled(MPI_Status& status, bool cancelled) noexcept {
  status.MPI_internal[0] = cancelled ? 1 : 0;
}

/// Fills in what an operation reports, unless the program asked for nothing. Leaves MPI_ERROR alone, which
/// only functions with several statuses set (MPI 5.0, section 3.2.5).
inline void store_status(MPI_Status* to, const Status& from) noexcept {
  if (to == MPI_STATUS_IGNORE) return;
  to->MPI_SOURCE = from.source;
  to->MPI_TAG = from.tag;
  set_status_cancelled(*to, from.cancelled);
  set_status_bytes(*to, from.bytes);
}

/// The empty status of null and inactive requests (MPI 5.0, section 3.7.3).
inline void store_empty_status(MPI_Status* to) noexcept {
  if (to == MPI_STATUS_IGNORE) return;
  store_status(to, Status{});
  to->MPI_ERROR = MPI_SUCCESS;
}

}  // namespace isthmus::abi
