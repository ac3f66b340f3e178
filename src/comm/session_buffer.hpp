#pragma once

#include "base/ref.hpp"
#include "p2p/buffered.hpp"

namespace isthmus {

/// Where the buffer of MPI_Session_attach_buffer hangs, for the session and for all groups and communicators
/// that come from it (MPI 5.0, section 3.6). Guarded by the engine's lock.
struct SessionBuffer final : RefCounted {
  Ref<SendBuffer> buffer;  ///< null while there is none
};

}  // namespace isthmus
