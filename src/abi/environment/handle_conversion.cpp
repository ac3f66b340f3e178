// MPI 5.0, section 20.4: handles as integers, where no other file owns their table. These functions cannot
// fail: what is no handle gives a number that is none, and the other way round.

#include <mpi.h>

#include "abi/core/call.hpp"
#include "abi/core/entry.hpp"
#include "abi/request/request.hpp"

namespace isthmus::abi {
namespace {

/// For kinds of which only the predefined handles exist so far.
template <class Handle>
Handle predefined_from_int(int number) {
  return reinterpret_cast<Handle>(static_cast<std::uintptr_t>(static_cast<std::uint32_t>(number)));
}

template <class Handle>
int low_word(Handle handle) {
  return static_cast<int>(static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(handle)));
}

}  // namespace

ISTHMUS_ENTRY(int, Errhandler_toint)(MPI_Errhandler errhandler) {
  return ErrhandlerTable::to_int(errhandler);
}
ISTHMUS_ENTRY(MPI_Errhandler, Errhandler_fromint)(int errhandler) {
  Runtime& runtime = Runtime::get();
  CallGuard guard(runtime);
  return runtime.errhandlers.from_int(errhandler);
}

ISTHMUS_ENTRY(int, Message_toint)(MPI_Message message) {
  return MessageTable::to_int(message);
}
ISTHMUS_ENTRY(MPI_Message, Message_fromint)(int message) {
  Runtime& runtime = Runtime::get();
  CallGuard guard(runtime);
  return runtime.messages.from_int(message);
}

ISTHMUS_ENTRY(int, Request_toint)(MPI_Request request) {
  return low_word(request);
}
ISTHMUS_ENTRY(MPI_Request, Request_fromint)(int request) {
  const auto value = static_cast<std::uint32_t>(request);
  if (HandleValue::predefined(value)) return predefined_from_int<MPI_Request>(request);
  for (auto* const constant : {complete_send(), complete_null_receive()})
    if (request == low_word(constant)) return constant;
  Runtime& runtime = Runtime::get();
  if (!runtime.running()) return MPI_REQUEST_NULL;
  CallGuard guard(runtime);
  const Request* found = runtime.engine->requests().at(HandleValue::index(value));
  return found ? handle_of(*found) : MPI_REQUEST_NULL;
}

ISTHMUS_ENTRY(int, File_toint)(MPI_File file) {
  return low_word(file);
}
ISTHMUS_ENTRY(MPI_File, File_fromint)(int file) {
  return predefined_from_int<MPI_File>(file);
}
ISTHMUS_ENTRY(int, Session_toint)(MPI_Session session) {
  return SessionTable::to_int(session);
}
ISTHMUS_ENTRY(MPI_Session, Session_fromint)(int session) {
  Runtime& runtime = Runtime::get();
  CallGuard guard(runtime);
  return runtime.sessions.from_int(session);
}
ISTHMUS_ENTRY(int, Win_toint)(MPI_Win win) {
  return low_word(win);
}
ISTHMUS_ENTRY(MPI_Win, Win_fromint)(int win) {
  return predefined_from_int<MPI_Win>(win);
}

}  // namespace isthmus::abi
