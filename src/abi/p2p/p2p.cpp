// MPI 5.0, sections 3.2, 3.4 and 3.7.2: sends and receives, blocking and nonblocking.

#include <mpi.h>

#include "abi/core/entry.hpp"
#include "abi/core/transfer.hpp"
#include "abi/request/request.hpp"

// What a body is: inlined, although each is used by the two forms of its function.
#define ISTHMUS_INLINE __attribute__((always_inline))

namespace isthmus::abi {
namespace {

/// What `Engine::send` and `Engine::receive` return of a failure.
[[gnu::cold, gnu::noinline]] Result<> failed(int code, const Status& status, std::uint64_t room) {
  return std::unexpected(explain_failure(code, status, room));
}

/// A ready send may be treated as a standard one (MPI 5.0, section 3.4), so there are only two modes here.
template <SendMode mode>
[[gnu::always_inline]] inline int send(const char* function, const void* buf, MPI_Count count,
                                       MPI_Datatype datatype, int dest, int tag, MPI_Comm comm) noexcept {
  return call(function, comm, [&](Communicator& c) ISTHMUS_INLINE -> Result<> {
    Payload payload;
    if (!make_payload(Runtime::get(), buf, count, datatype, payload)) [[unlikely]]
      return std::unexpected(explain_payload(buf, count, datatype, send_names));
    if (!is_rank(c, dest) || !is_tag(tag)) [[unlikely]]
      return check_null_send(c, dest, tag);
    const int code = c.engine().send(c.target(dest, tag), payload, mode);
    if (code != MPI_SUCCESS) [[unlikely]]
      return failed(code, {}, 0);
    return {};
  });
}

[[gnu::always_inline]] inline int receive(const char* function, void* buf, MPI_Count count,
                                          MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
                                          MPI_Status* status) noexcept {
  return call(function, comm, [&](Communicator& c) ISTHMUS_INLINE -> Result<> {
    Payload payload;
    if (!make_payload(Runtime::get(), buf, count, datatype, payload)) [[unlikely]]
      return std::unexpected(explain_payload(buf, count, datatype, receive_names));
    if (!is_source(c, source) || !is_receive_tag(tag)) [[unlikely]] {
      ISTHMUS_TRY(check_null_receive(c, source, tag));
      store_status(status, Status::from_null_process());
      return {};
    }
    const Status received = c.engine().receive(c.context(), source, tag, payload);
    store_status(status, received);
    if (received.error != MPI_SUCCESS) [[unlikely]]
      return failed(received.error, received, payload.bytes);
    return {};
  });
}

template <SendMode mode>
[[gnu::always_inline]] inline int start_send(const char* function, const void* buf, MPI_Count count,
                                             MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
                                             MPI_Request* request) noexcept {
  return call(function, comm, [&](Communicator& c) ISTHMUS_INLINE -> Result<> {
    if (!request) [[unlikely]]
      return check_pointer(request, "request");
    Payload payload;
    if (!make_payload(Runtime::get(), buf, count, datatype, payload)) [[unlikely]]
      return std::unexpected(explain_payload(buf, count, datatype, send_names));
    if (!is_rank(c, dest) || !is_tag(tag)) [[unlikely]] {
      ISTHMUS_TRY(check_null_send(c, dest, tag));
      *request = complete_send();
      return {};
    }
    Request* started = c.engine().start_send(c.target(dest, tag), payload, mode);
    *request = started ? publish(*started, c) : complete_send();
    return {};
  });
}

[[gnu::always_inline]] inline int start_receive(const char* function, void* buf, MPI_Count count,
                                                MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
                                                MPI_Request* request) noexcept {
  return call(function, comm, [&](Communicator& c) ISTHMUS_INLINE -> Result<> {
    if (!request) [[unlikely]]
      return check_pointer(request, "request");
    Payload payload;
    if (!make_payload(Runtime::get(), buf, count, datatype, payload)) [[unlikely]]
      return std::unexpected(explain_payload(buf, count, datatype, receive_names));
    if (!is_source(c, source) || !is_receive_tag(tag)) [[unlikely]] {
      ISTHMUS_TRY(check_null_receive(c, source, tag));
      *request = complete_null_receive();
      return {};
    }
    *request = publish(*c.engine().start_receive(c.context(), source, tag, payload), c);
    return {};
  });
}

}  // namespace

ISTHMUS_ENTRY(int, Send)
(const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm) {
  return send<SendMode::standard>("MPI_Send", buf, count, datatype, dest, tag, comm);
}
ISTHMUS_ENTRY(int, Send_c)
(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm) {
  return send<SendMode::standard>("MPI_Send_c", buf, count, datatype, dest, tag, comm);
}
ISTHMUS_ENTRY(int, Ssend)
(const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm) {
  return send<SendMode::synchronous>("MPI_Ssend", buf, count, datatype, dest, tag, comm);
}
ISTHMUS_ENTRY(int, Ssend_c)
(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm) {
  return send<SendMode::synchronous>("MPI_Ssend_c", buf, count, datatype, dest, tag, comm);
}
ISTHMUS_ENTRY(int, Rsend)
(const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm) {
  return send<SendMode::standard>("MPI_Rsend", buf, count, datatype, dest, tag, comm);
}
ISTHMUS_ENTRY(int, Rsend_c)
(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm) {
  return send<SendMode::standard>("MPI_Rsend_c", buf, count, datatype, dest, tag, comm);
}

ISTHMUS_ENTRY(int, Recv)
(void* buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, MPI_Status* status) {
  return receive("MPI_Recv", buf, count, datatype, source, tag, comm, status);
}
ISTHMUS_ENTRY(int, Recv_c)
(void* buf, MPI_Count count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, MPI_Status* status) {
  return receive("MPI_Recv_c", buf, count, datatype, source, tag, comm, status);
}

ISTHMUS_ENTRY(int, Isend)
(const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm, MPI_Request* request) {
  return start_send<SendMode::standard>("MPI_Isend", buf, count, datatype, dest, tag, comm, request);
}
ISTHMUS_ENTRY(int, Isend_c)
(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
 MPI_Request* request) {
  return start_send<SendMode::standard>("MPI_Isend_c", buf, count, datatype, dest, tag, comm, request);
}
ISTHMUS_ENTRY(int, Issend)
(const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm, MPI_Request* request) {
  return start_send<SendMode::synchronous>("MPI_Issend", buf, count, datatype, dest, tag, comm, request);
}
ISTHMUS_ENTRY(int, Issend_c)
(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
 MPI_Request* request) {
  return start_send<SendMode::synchronous>("MPI_Issend_c", buf, count, datatype, dest, tag, comm, request);
}
ISTHMUS_ENTRY(int, Irsend)
(const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm, MPI_Request* request) {
  return start_send<SendMode::standard>("MPI_Irsend", buf, count, datatype, dest, tag, comm, request);
}
ISTHMUS_ENTRY(int, Irsend_c)
(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
 MPI_Request* request) {
  return start_send<SendMode::standard>("MPI_Irsend_c", buf, count, datatype, dest, tag, comm, request);
}

ISTHMUS_ENTRY(int, Irecv)
(void* buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, MPI_Request* request) {
  return start_receive("MPI_Irecv", buf, count, datatype, source, tag, comm, request);
}
ISTHMUS_ENTRY(int, Irecv_c)
(void* buf, MPI_Count count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
 MPI_Request* request) {
  return start_receive("MPI_Irecv_c", buf, count, datatype, source, tag, comm, request);
}

}  // namespace isthmus::abi
