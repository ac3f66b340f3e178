// MPI 5.0, section 3.8: probe and matched probe.

#include <mpi.h>

#include "abi/core/entry.hpp"
#include "abi/core/transfer.hpp"
#include "abi/request/request.hpp"

namespace isthmus::abi {
namespace {

/// The arguments of a probe: true if it is one of MPI_PROC_NULL, false if of a process.
Result<bool> probes_null(const Communicator& comm, int source, int tag) {
  if (is_source(comm, source) && is_receive_tag(tag)) [[likely]]
    return false;
  ISTHMUS_TRY(check_null_receive(comm, source, tag));
  return true;
}

/// Takes the oldest message that would match out of matching, and names it; null if there is none now. The
/// name is made first, so that no message is matched and then lost for want of memory.
const UnexpectedMessage* match(Communicator& comm, int source, int tag, MPI_Message* message) {
  Engine& engine = comm.engine();
  if (!engine.probe(comm.context(), source, tag)) return nullptr;
  MessageTable& messages = Runtime::get().messages;
  const auto named = make_ref<MatchedMessage>(Ref<Communicator>::share(&comm));
  MPI_Message handle = messages.add(named);
  try {
    named->set_message(engine.matched_probe(comm.context(), source, tag));
  } catch (...) {
    messages.remove(handle);
    throw;
  }
  // Its sender may have taken it back.
  if (!named->message())
    messages.remove(handle);
  else
    *message = handle;
  return named->message();
}

Error lost_source(const Communicator& comm) {
  if (comm.is_revoked()) return comm.why_broken();
  return Error(ErrorClass::proc_aborted, "a process that might have sent a message is no more");
}

/// Waits for a message that would match, and leaves it where it is.
Result<Status> wait_for_message(Communicator& comm, int source, int tag) {
  if (const UnexpectedMessage* message = comm.engine().wait_for_message(comm.context(), source, tag))
    return Engine::status_of(*message);
  if (comm.context().is_broken(source, tag)) return std::unexpected(lost_source(comm));
  return fail(ErrorClass::no_mem,
              "the messages before it, which are not received, have used up their memory "
              "(ISTHMUS_UNEXPECTED_LIMIT)");
}

/// Without a message: an error if none will come.
Result<> check_source(const Communicator& comm, int source, int tag, const UnexpectedMessage* message) {
  if (message || !comm.context().is_broken(source, tag)) return {};
  return std::unexpected(lost_source(comm));
}

}  // namespace

ISTHMUS_ENTRY(int, Probe)(int source, int tag, MPI_Comm comm, MPI_Status* status) {
  return call("MPI_Probe", comm, [&](Communicator& c) -> Result<> {
    Result<bool> null = probes_null(c, source, tag);
    if (!null) return std::unexpected(std::move(null).error());
    const Result<Status> found = *null ? Status::from_null_process() : wait_for_message(c, source, tag);
    if (!found) return isthmus::fail(found.error().error_class(), found.error().text());
    store_status(status, *found);
    return {};
  });
}

ISTHMUS_ENTRY(int, Iprobe)(int source, int tag, MPI_Comm comm, int* flag, MPI_Status* status) {
  return call("MPI_Iprobe", comm, [&](Communicator& c) -> Result<> {
    ISTHMUS_TRY(check_pointer(flag, "flag"));
    Result<bool> null = probes_null(c, source, tag);
    if (!null) return std::unexpected(std::move(null).error());
    if (*null) {
      *flag = 1;
      store_status(status, Status::from_null_process());
      return {};
    }
    const UnexpectedMessage* message = c.engine().probe(c.context(), source, tag);
    *flag = message ? 1 : 0;
    if (message) store_status(status, Engine::status_of(*message));
    return check_source(c, source, tag, message);
  });
}

ISTHMUS_ENTRY(int, Mprobe)(int source, int tag, MPI_Comm comm, MPI_Message* message, MPI_Status* status) {
  return call("MPI_Mprobe", comm, [&](Communicator& c) -> Result<> {
    ISTHMUS_TRY(check_pointer(message, "message"));
    Result<bool> null = probes_null(c, source, tag);
    if (!null) return std::unexpected(std::move(null).error());
    if (*null) {
      *message = MPI_MESSAGE_NO_PROC;
      store_status(status, Status::from_null_process());
      return {};
    }
    // The sender may take back between the two what the first has found.
    const UnexpectedMessage* matched = nullptr;
    while (!matched) {
      ISTHMUS_TRY(wait_for_message(c, source, tag));
      matched = match(c, source, tag, message);
    }
    store_status(status, Engine::status_of(*matched));
    return {};
  });
}

ISTHMUS_ENTRY(int, Improbe)
(int source, int tag, MPI_Comm comm, int* flag, MPI_Message* message, MPI_Status* status) {
  return call("MPI_Improbe", comm, [&](Communicator& c) -> Result<> {
    ISTHMUS_TRY(check_pointer(flag, "flag"));
    ISTHMUS_TRY(check_pointer(message, "message"));
    Result<bool> null = probes_null(c, source, tag);
    if (!null) return std::unexpected(std::move(null).error());
    if (*null) {
      *flag = 1;
      *message = MPI_MESSAGE_NO_PROC;
      store_status(status, Status::from_null_process());
      return {};
    }
    const UnexpectedMessage* matched = match(c, source, tag, message);
    *flag = matched ? 1 : 0;
    if (!matched) *message = MPI_MESSAGE_NULL;
    if (matched) store_status(status, Engine::status_of(*matched));
    return check_source(c, source, tag, matched);
  });
}

namespace {

/// Starts to receive a matched message and goes on with `receive(Communicator&, Request&)`, or, for the
/// message of MPI_PROC_NULL, with `receive_null()`. Errors are raised on the communicator of the probe.
template <class Receive, class ReceiveNull>
int receive_matched(const char* function, void* buf, MPI_Count count, MPI_Datatype datatype,
                    MPI_Message* message, Receive&& receive, ReceiveNull&& receive_null) noexcept {
  return enter(function, [&](Runtime& runtime) -> int {
    if (!message) return raise(function, Error(ErrorClass::arg, "message is a null pointer"));
    MatchedMessage* matched = runtime.messages.find(*message);
    if (!matched && *message != MPI_MESSAGE_NO_PROC)
      return raise(function, bad_handle(ErrorClass::request, "message", *message, HandleKind::message));
    Communicator* comm = matched ? &matched->communicator() : nullptr;
    Payload payload;
    if (!make_payload(runtime, buf, count, datatype, payload))
      return raise(function, comm, explain_payload(buf, count, datatype, receive_names));
    if (!matched) {
      *message = MPI_MESSAGE_NULL;
      receive_null();
      return MPI_SUCCESS;
    }
    // The receive is started before the message's name is forgotten: where there is no memory for it, the
    // message can still be received.
    Request* started = nullptr;
    try {
      started = comm->engine().start_matched_receive(matched->message(), payload);
    } catch (...) {
      return raise_exception(function, comm);
    }
    const Ref<MatchedMessage> taken = runtime.messages.remove(*message);
    *message = MPI_MESSAGE_NULL;
    Result<> result = receive(*comm, *started);
    return result ? MPI_SUCCESS : raise(function, comm, result.error());
  });
}

int mrecv(const char* function, void* buf, MPI_Count count, MPI_Datatype datatype, MPI_Message* message,
          MPI_Status* status) noexcept {
  return receive_matched(
      function, buf, count, datatype, message,
      [&](Communicator& comm, Request& request) -> Result<> {
        Engine& engine = comm.engine();
        const std::uint64_t room = request.payload.bytes;
        engine.wait(request);
        const Status received = request.status;
        engine.free(&request);
        store_status(status, received);
        if (received.error != MPI_SUCCESS)
          return std::unexpected(explain_failure(received.error, received, room));
        return {};
      },
      [&] { store_status(status, Status::from_null_process()); });
}

int imrecv(const char* function, void* buf, MPI_Count count, MPI_Datatype datatype, MPI_Message* message,
           MPI_Request* request) noexcept {
  if (!request) return call(function, [&](Runtime&) { return check_pointer(request, "request"); });
  return receive_matched(
      function, buf, count, datatype, message,
      [&](Communicator& comm, Request& started) -> Result<> {
        *request = publish(started, comm);
        return {};
      },
      [&] { *request = complete_null_receive(); });
}

}  // namespace

ISTHMUS_ENTRY(int, Mrecv)
(void* buf, int count, MPI_Datatype datatype, MPI_Message* message, MPI_Status* status) {
  return mrecv("MPI_Mrecv", buf, count, datatype, message, status);
}
ISTHMUS_ENTRY(int, Mrecv_c)
(void* buf, MPI_Count count, MPI_Datatype datatype, MPI_Message* message, MPI_Status* status) {
  return mrecv("MPI_Mrecv_c", buf, count, datatype, message, status);
}
ISTHMUS_ENTRY(int, Imrecv)
(void* buf, int count, MPI_Datatype datatype, MPI_Message* message, MPI_Request* request) {
  return imrecv("MPI_Imrecv", buf, count, datatype, message, request);
}
ISTHMUS_ENTRY(int, Imrecv_c)
(void* buf, MPI_Count count, MPI_Datatype datatype, MPI_Message* message, MPI_Request* request) {
  return imrecv("MPI_Imrecv_c", buf, count, datatype, message, request);
}

}  // namespace isthmus::abi
