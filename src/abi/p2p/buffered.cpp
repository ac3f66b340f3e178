// MPI 5.0, section 3.6: buffers for buffered mode, and sends in that mode.

#include "abi/p2p/buffered.hpp"

#include <mpi.h>

#include <string>
#include <utility>

#include "abi/core/entry.hpp"
#include "abi/core/transfer.hpp"
#include "abi/environment/session_call.hpp"
#include "abi/request/request.hpp"

namespace isthmus::abi {

Result<SendBuffer*> buffer_for(Runtime& runtime, const Communicator& comm) {
  if (comm.send_buffer) return comm.send_buffer.get();
  const Ref<SessionBuffer>& session = comm.group()->session_buffer();
  if (session && session->buffer) return session->buffer.get();
  if (runtime.send_buffer) return runtime.send_buffer.get();
  return fail(ErrorClass::buffer, "no buffer is attached (MPI_Buffer_attach) for messages of buffered mode");
}

namespace {

/// MPI_Buffer_iflush: complete when all messages that were in the buffer have been sent.
class Flush final : public Operation {
 public:
  Flush(Ref<Communicator> comm, Ref<SendBuffer> buffer)
      : Operation(std::move(comm)), buffer_(std::move(buffer)), mark_(buffer_->mark()) {}

  bool ready() override { return buffer_->sent(mark_); }
  Result<> report(MPI_Status& status) override {
    store_empty_status(&status);
    return {};
  }
  bool retire(Engine&) override { return false; }
  bool abandon(Runtime&, Request&) override { return true; }

 private:
  Ref<SendBuffer> buffer_;
  std::uint64_t mark_;
};

// `slot`: where the buffer of the process or communicator hangs.

Result<> attach(Engine& engine, Ref<SendBuffer>& slot, void* buffer, MPI_Count size) {
  if (slot) return fail(ErrorClass::buffer, "a buffer is attached already; detach it first");
  if (buffer == MPI_BUFFER_AUTOMATIC) {
    slot = make_ref<SendBuffer>(engine);
    return {};
  }
  if (size < 0) return fail(ErrorClass::arg, "size " + std::to_string(size) + " is negative");
  if (!buffer && size > 0) return fail(ErrorClass::buffer, "buffer is a null pointer");
  slot = make_ref<SendBuffer>(engine, buffer, static_cast<std::size_t>(size));
  return {};
}

template <class Count>
Result<> detach(Ref<SendBuffer>& slot, void* buffer_addr, Count* size) {
  ISTHMUS_TRY(check_pointer(buffer_addr, "buffer_addr"));
  ISTHMUS_TRY(check_pointer(size, "size"));
  if (!slot) return fail(ErrorClass::buffer, "no buffer is attached");
  const Ref<SendBuffer> buffer = slot;
  buffer->flush();
  slot = {};
  *static_cast<void**>(buffer_addr) = buffer->automatic() ? MPI_BUFFER_AUTOMATIC : buffer->memory();
  const auto bytes = static_cast<MPI_Count>(buffer->size());
  *size = std::in_range<Count>(bytes) ? static_cast<Count>(bytes) : MPI_UNDEFINED;
  return {};
}

Result<> flush(const Ref<SendBuffer>& slot) {
  // A reference of its own: progress may run callbacks that detach the buffer.
  // NOLINTNEXTLINE(performance-unnecessary-copy-initialization)
  if (const Ref<SendBuffer> buffer = slot) buffer->flush();
  return {};
}

Result<> start_flush(Runtime& runtime, Communicator* comm, const Ref<SendBuffer>& slot,
                     MPI_Request* request) {
  ISTHMUS_TRY(check_pointer(request, "request"));
  *request = slot ? publish(runtime, make_ref<Flush>(Ref<Communicator>::share(comm), slot),
                            Request::Kind::generalized)
                  : complete_send();
  return {};
}

Result<> send(Communicator& comm, const void* buf, MPI_Count count, MPI_Datatype datatype, int dest,
              int tag) {
  Runtime& runtime = Runtime::get();
  auto out = make_outgoing(runtime, comm, buf, count, datatype, dest, tag);
  if (!out) return std::unexpected(std::move(out).error());
  if (out->to_null) return {};
  Result<SendBuffer*> buffer = buffer_for(runtime, comm);
  if (!buffer) return std::unexpected(std::move(buffer).error());
  return (*buffer)->send(out->target, out->payload);
}

int bsend(const char* function, const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
          MPI_Comm comm) noexcept {
  return call(function, comm, [&](Communicator& c) { return send(c, buf, count, datatype, dest, tag); });
}

int ibsend(const char* function, const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
           MPI_Comm comm, MPI_Request* request) noexcept {
  return call(function, comm, [&](Communicator& c) -> Result<> {
    ISTHMUS_TRY(check_pointer(request, "request"));
    ISTHMUS_TRY(send(c, buf, count, datatype, dest, tag));
    *request = complete_send();
    return {};
  });
}

}  // namespace

ISTHMUS_ENTRY(int, Bsend)
(const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm) {
  return bsend("MPI_Bsend", buf, count, datatype, dest, tag, comm);
}
ISTHMUS_ENTRY(int, Bsend_c)
(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm) {
  return bsend("MPI_Bsend_c", buf, count, datatype, dest, tag, comm);
}
ISTHMUS_ENTRY(int, Ibsend)
(const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm, MPI_Request* request) {
  return ibsend("MPI_Ibsend", buf, count, datatype, dest, tag, comm, request);
}
ISTHMUS_ENTRY(int, Ibsend_c)
(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
 MPI_Request* request) {
  return ibsend("MPI_Ibsend_c", buf, count, datatype, dest, tag, comm, request);
}

ISTHMUS_ENTRY(int, Buffer_attach)(void* buffer, int size) {
  return call("MPI_Buffer_attach",
              [&](Runtime& runtime) { return attach(*runtime.engine, runtime.send_buffer, buffer, size); });
}
ISTHMUS_ENTRY(int, Buffer_attach_c)(void* buffer, MPI_Count size) {
  return call("MPI_Buffer_attach_c",
              [&](Runtime& runtime) { return attach(*runtime.engine, runtime.send_buffer, buffer, size); });
}
ISTHMUS_ENTRY(int, Buffer_detach)(void* buffer_addr, int* size) {
  return call("MPI_Buffer_detach",
              [&](Runtime& runtime) { return detach(runtime.send_buffer, buffer_addr, size); });
}
ISTHMUS_ENTRY(int, Buffer_detach_c)(void* buffer_addr, MPI_Count* size) {
  return call("MPI_Buffer_detach_c",
              [&](Runtime& runtime) { return detach(runtime.send_buffer, buffer_addr, size); });
}
ISTHMUS_ENTRY(int, Buffer_flush)() {
  return call("MPI_Buffer_flush", [&](Runtime& runtime) { return flush(runtime.send_buffer); });
}
ISTHMUS_ENTRY(int, Buffer_iflush)(MPI_Request* request) {
  return call("MPI_Buffer_iflush", [&](Runtime& runtime) {
    return start_flush(runtime, runtime.self, runtime.send_buffer, request);
  });
}

ISTHMUS_ENTRY(int, Comm_attach_buffer)(MPI_Comm comm, void* buffer, int size) {
  return call("MPI_Comm_attach_buffer", comm,
              [&](Communicator& c) { return attach(c.engine(), c.send_buffer, buffer, size); });
}
ISTHMUS_ENTRY(int, Comm_attach_buffer_c)(MPI_Comm comm, void* buffer, MPI_Count size) {
  return call("MPI_Comm_attach_buffer_c", comm,
              [&](Communicator& c) { return attach(c.engine(), c.send_buffer, buffer, size); });
}
ISTHMUS_ENTRY(int, Comm_detach_buffer)(MPI_Comm comm, void* buffer_addr, int* size) {
  return call("MPI_Comm_detach_buffer", comm,
              [&](Communicator& c) { return detach(c.send_buffer, buffer_addr, size); });
}
ISTHMUS_ENTRY(int, Comm_detach_buffer_c)(MPI_Comm comm, void* buffer_addr, MPI_Count* size) {
  return call("MPI_Comm_detach_buffer_c", comm,
              [&](Communicator& c) { return detach(c.send_buffer, buffer_addr, size); });
}
ISTHMUS_ENTRY(int, Comm_flush_buffer)(MPI_Comm comm) {
  return call("MPI_Comm_flush_buffer", comm, [&](Communicator& c) { return flush(c.send_buffer); });
}
ISTHMUS_ENTRY(int, Comm_iflush_buffer)(MPI_Comm comm, MPI_Request* request) {
  return call("MPI_Comm_iflush_buffer", comm,
              [&](Communicator& c) { return start_flush(Runtime::get(), &c, c.send_buffer, request); });
}

ISTHMUS_ENTRY(int, Session_attach_buffer)(MPI_Session session, void* buffer, int size) {
  return call_session("MPI_Session_attach_buffer", session, [&](Runtime& runtime, Session& s) {
    return attach(*runtime.engine, s.send_buffer->buffer, buffer, size);
  });
}
ISTHMUS_ENTRY(int, Session_attach_buffer_c)(MPI_Session session, void* buffer, MPI_Count size) {
  return call_session("MPI_Session_attach_buffer_c", session, [&](Runtime& runtime, Session& s) {
    return attach(*runtime.engine, s.send_buffer->buffer, buffer, size);
  });
}
ISTHMUS_ENTRY(int, Session_detach_buffer)(MPI_Session session, void* buffer_addr, int* size) {
  return call_session("MPI_Session_detach_buffer", session,
                      [&](Runtime&, Session& s) { return detach(s.send_buffer->buffer, buffer_addr, size); });
}
ISTHMUS_ENTRY(int, Session_detach_buffer_c)(MPI_Session session, void* buffer_addr, MPI_Count* size) {
  return call_session("MPI_Session_detach_buffer_c", session,
                      [&](Runtime&, Session& s) { return detach(s.send_buffer->buffer, buffer_addr, size); });
}
ISTHMUS_ENTRY(int, Session_flush_buffer)(MPI_Session session) {
  return call_session("MPI_Session_flush_buffer", session,
                      [&](Runtime&, Session& s) { return flush(s.send_buffer->buffer); });
}
ISTHMUS_ENTRY(int, Session_iflush_buffer)(MPI_Session session, MPI_Request* request) {
  return call_session("MPI_Session_iflush_buffer", session, [&](Runtime& runtime, Session& s) {
    return start_flush(runtime, runtime.self, s.send_buffer->buffer, request);
  });
}

}  // namespace isthmus::abi
