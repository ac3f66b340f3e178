#pragma once

#include <string>
#include <utility>

#include "base/ref.hpp"
#include "comm/errhandler.hpp"
#include "comm/session_buffer.hpp"

namespace isthmus::abi {

/// What MPI_Session_init returns (MPI 5.0, section 11.3). While any is open, MPI is.
class Session final : public RefCounted {
 public:
  Session(Ref<Errhandler> handler, int level, std::string kinds)
      : errhandler(std::move(handler)), thread_level(level), memory_kinds(std::move(kinds)) {}

  Ref<Errhandler> errhandler;
  const int thread_level;          ///< as it was provided
  const std::string memory_kinds;  ///< that the program may use, as in the info key mpi_memory_alloc_kinds
  /// Shared with all groups that come from here.
  const Ref<SessionBuffer> send_buffer = make_ref<SessionBuffer>();
};

}  // namespace isthmus::abi
