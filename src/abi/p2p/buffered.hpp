#pragma once

#include "abi/core/runtime.hpp"
#include "base/error.hpp"
#include "comm/communicator.hpp"
#include "p2p/buffered.hpp"

namespace isthmus::abi {

/// The buffer that buffered sends over `comm` use (MPI 5.0, section 3.6): the communicator's own, else that
/// of the session which it comes from, else that of the process. `ErrorClass::buffer` if none is attached.
Result<SendBuffer*> buffer_for(Runtime& runtime, const Communicator& comm);

}  // namespace isthmus::abi
