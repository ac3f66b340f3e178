// MPI 5.0, section 3.8: probe and matched probe.

#include <mpi.h>

#include "abi/entry.hpp"
#include "abi/request.hpp"
#include "abi/transfer.hpp"

namespace isthmus::abi {
namespace {

/// The arguments of a probe: true if it is one of MPI_PROC_NULL, false if of a process.
Result<bool> probes_null(const Communicator& comm, int source, int tag) {
  if (is_source(comm, source) && is_receive_tag(tag)) [[likely]]
    return false;
  ISTHMUS_TRY(check_null_receive(comm, source, tag));
  return true;
}

MPI_Message publish(Communicator& comm, UnexpectedMessage* message) {
  return Runtime::get().messages.add(make_ref<MatchedMessage>(Ref<Communicator>::share(&comm), message));
}

/// Waits for a message that would match, and leaves it where it is.
const UnexpectedMessage& wait_for_message(Communicator& comm, int source, int tag) {
  const UnexpectedMessage* message = nullptr;
  comm.engine().wait_for([&] { return (message = comm.context().find(source, tag)) != nullptr; });
  return *message;
}

}  // namespace

ISTHMUS_ENTRY(int, Probe)(int source, int tag, MPI_Comm comm, MPI_Status* status) {
  return call("MPI_Probe", comm, [&](Communicator& c) -> Result<> {
    Result<bool> null = probes_null(c, source, tag);
    if (!null) return std::unexpected(std::move(null).error());
    store_status(status,
                 *null ? Status::from_null_process() : Engine::status_of(wait_for_message(c, source, tag)));
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
    return {};
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
    wait_for_message(c, source, tag);
    UnexpectedMessage* matched = c.engine().matched_probe(c.context(), source, tag);
    store_status(status, Engine::status_of(*matched));
    *message = publish(c, matched);
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
    UnexpectedMessage* matched = c.engine().matched_probe(c.context(), source, tag);
    *flag = matched ? 1 : 0;
    *message = matched ? publish(c, matched) : MPI_MESSAGE_NULL;
    if (matched) store_status(status, Engine::status_of(*matched));
    return {};
  });
}

namespace {

/// Receives a matched message: `receive(Communicator&, UnexpectedMessage*, const Payload&)`, or, for the
/// message of MPI_PROC_NULL, `receive_null()`. Errors are raised on the communicator of the probe.
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
    const Ref<MatchedMessage> taken = runtime.messages.remove(*message);
    *message = MPI_MESSAGE_NULL;
    Result<> result = receive(*comm, taken->message(), payload);
    return result ? MPI_SUCCESS : raise(function, comm, result.error());
  });
}

int mrecv(const char* function, void* buf, MPI_Count count, MPI_Datatype datatype, MPI_Message* message,
          MPI_Status* status) noexcept {
  return receive_matched(
      function, buf, count, datatype, message,
      [&](Communicator& comm, UnexpectedMessage* matched, const Payload& payload) -> Result<> {
        Engine& engine = comm.engine();
        Request* request = engine.start_matched_receive(matched, payload);
        engine.wait(*request);
        const Status received = request->status;
        engine.free(request);
        store_status(status, received);
        if (received.error != MPI_SUCCESS)
          return std::unexpected(explain_failure(received.error, received, payload.bytes));
        return {};
      },
      [&] { store_status(status, Status::from_null_process()); });
}

int imrecv(const char* function, void* buf, MPI_Count count, MPI_Datatype datatype, MPI_Message* message,
           MPI_Request* request) noexcept {
  if (!request) return call(function, [&](Runtime&) { return check_pointer(request, "request"); });
  return receive_matched(
      function, buf, count, datatype, message,
      [&](Communicator& comm, UnexpectedMessage* matched, const Payload& payload) -> Result<> {
        *request = abi::publish(*comm.engine().start_matched_receive(matched, payload), comm);
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
