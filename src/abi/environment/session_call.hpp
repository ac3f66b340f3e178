#pragma once

#include "abi/core/call.hpp"
#include "abi/core/session.hpp"

namespace isthmus::abi {

/// Runs the error handler of a session, or the one that MPI_Session_init was given; the code to return.
int raise_on(const Errhandler& errhandler, std::uintptr_t session, const char* function, const Error& error);

/// For functions with a session, which owns the error handler. `body`: `Result<>(Runtime&, Session&)`.
template <class Body>
int call_session(const char* function, MPI_Session session, Body&& body) noexcept {
  return enter(function, [&](Runtime& runtime) -> int {
    Session* found = runtime.sessions.find(session);
    if (!found)
      return raise(function, bad_handle(ErrorClass::session, "session", session, HandleKind::session));
    const auto alive = Ref<Session>::share(found);
    Result<> result = body(runtime, *found);
    return result ? MPI_SUCCESS : raise_on(*alive->errhandler, found->handle, function, result.error());
  });
}

}  // namespace isthmus::abi
