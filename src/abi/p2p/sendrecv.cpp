// MPI 5.0, section 3.10: send and receive in one call, blocking and nonblocking.

#include <mpi.h>

#include <memory>
#include <utility>

#include "abi/core/entry.hpp"
#include "abi/core/transfer.hpp"
#include "abi/request/request.hpp"
#include "datatype/cursor.hpp"

namespace isthmus::abi {
namespace {

/// The bytes of a message, out of the way of what is received into its buffer.
struct PackedCopy {
  std::unique_ptr<std::byte[]> bytes;

  /// Makes `payload` refer to the copy.
  Result<> take(Engine& engine, Payload& payload) {
    bytes = std::make_unique_for_overwrite<std::byte[]>(payload.bytes);
    ISTHMUS_TRY(engine.pack(payload, bytes.get()));
    payload = Payload::of(bytes.get(), payload.bytes);
    return {};
  }
};

/// MPI_Isendrecv: complete when both its messages are. Reports the receive.
class Exchange final : public Operation {
 public:
  using Operation::Operation;

  void start(Engine& engine, Communicator& comm, const Outgoing& out, const Incoming& in, PackedCopy copy) {
    copy_ = std::move(copy);
    if (in.from_null)
      status_ = Status::from_null_process();
    else
      receive_ = engine.start_receive(comm.context(), in.source, in.tag, in.payload);
    room_ = in.payload.bytes;
    if (out.to_null) return;
    try {
      send_ = engine.start_send(out.target, out.payload);
    } catch (...) {
      if (receive_) engine.withdraw(std::exchange(receive_, nullptr));
      throw;
    }
  }

  bool ready() override { return (!send_ || send_->complete) && (!receive_ || receive_->complete); }
  Result<> report(MPI_Status& status) override {
    const Status& received = receive_ ? receive_->status : status_;
    store_status(&status, received);
    const int error = send_ && send_->error() != MPI_SUCCESS ? send_->error() : received.error;
    if (error != MPI_SUCCESS) return std::unexpected(explain_failure(error, received, room_));
    return {};
  }
  bool retire(Engine& engine) override {
    for (Request** part : {&send_, &receive_})
      if (*part) engine.free(std::exchange(*part, nullptr));
    return false;
  }
  bool abandon(Runtime& runtime, Request&) override {
    abandon_part(runtime, send_, *this);
    abandon_part(runtime, receive_, *this);
    return true;
  }

 private:
  Request* send_ = nullptr;
  Request* receive_ = nullptr;
  Status status_;
  std::uint64_t room_ = 0;
  PackedCopy copy_;
};

/// The arguments of one side of an exchange.
template <class Pointer>
struct Half {
  Pointer buffer;
  MPI_Count count;
  MPI_Datatype datatype;
  int rank;
  int tag;
};
using SendHalf = Half<const void*>;
using ReceiveHalf = Half<void*>;

Result<> exchange(Communicator& comm, const Outgoing& out, const Incoming& in, MPI_Status* status) {
  Engine& engine = comm.engine();
  Status received = Status::from_null_process();
  int send_error = MPI_SUCCESS;
  if (!out.to_null && !in.from_null)
    received = engine.send_receive(out.target, out.payload, comm.context(), in.source, in.tag, in.payload);
  else if (!in.from_null)
    received = engine.receive(comm.context(), in.source, in.tag, in.payload);
  else if (!out.to_null)
    send_error = engine.send(out.target, out.payload);
  store_status(status, received);
  const int error = send_error != MPI_SUCCESS ? send_error : received.error;
  if (error != MPI_SUCCESS) return std::unexpected(explain_failure(error, received, in.payload.bytes));
  return {};
}

/// Both sides with their checks; then `run(comm, out, in)`.
template <class Run>
int checked_exchange(const char* function, const SendHalf& send, const ReceiveHalf& receive, MPI_Comm comm,
                     bool one_buffer, Run&& run) noexcept {
  return call(function, comm, [&](Communicator& c) -> Result<> {
    const Runtime& runtime = Runtime::get();
    ArgumentNames out_names = send_half_names, in_names = receive_half_names;
    if (one_buffer) {
      out_names = {.tag = "sendtag"};
      in_names = {.rank = "source", .tag = "recvtag"};
    }
    auto out =
        make_outgoing(runtime, c, send.buffer, send.count, send.datatype, send.rank, send.tag, out_names);
    if (!out) return std::unexpected(std::move(out).error());
    auto in = make_incoming(runtime, c, receive.buffer, receive.count, receive.datatype, receive.rank,
                            receive.tag, in_names);
    if (!in) return std::unexpected(std::move(in).error());
    return run(c, *out, *in);
  });
}

int sendrecv(const char* function, const SendHalf& send, const ReceiveHalf& receive, MPI_Comm comm,
             MPI_Status* status) noexcept {
  return checked_exchange(
      function, send, receive, comm, false,
      [&](Communicator& c, const Outgoing& out, const Incoming& in) { return exchange(c, out, in, status); });
}

int sendrecv_replace(const char* function, const ReceiveHalf& buffer, int dest, int sendtag, MPI_Comm comm,
                     MPI_Status* status) noexcept {
  const SendHalf send{buffer.buffer, buffer.count, buffer.datatype, dest, sendtag};
  return checked_exchange(function, send, buffer, comm, true,
                          [&](Communicator& c, Outgoing& out, const Incoming& in) -> Result<> {
                            PackedCopy copy;
                            if (!out.to_null) ISTHMUS_TRY(copy.take(c.engine(), out.payload));
                            return exchange(c, out, in, status);
                          });
}

Result<> start(Communicator& comm, const Outgoing& out, const Incoming& in, PackedCopy copy,
               MPI_Request* request) {
  ISTHMUS_TRY(check_pointer(request, "request"));
  auto operation = make_ref<Exchange>(Ref<Communicator>::share(&comm));
  operation->start(comm.engine(), comm, out, in, std::move(copy));
  *request = publish(Runtime::get(), operation, Request::Kind::generalized);
  return {};
}

int isendrecv(const char* function, const SendHalf& send, const ReceiveHalf& receive, MPI_Comm comm,
              MPI_Request* request) noexcept {
  return checked_exchange(function, send, receive, comm, false,
                          [&](Communicator& c, const Outgoing& out, const Incoming& in) {
                            return start(c, out, in, {}, request);
                          });
}

int isendrecv_replace(const char* function, const ReceiveHalf& buffer, int dest, int sendtag, MPI_Comm comm,
                      MPI_Request* request) noexcept {
  const SendHalf send{buffer.buffer, buffer.count, buffer.datatype, dest, sendtag};
  return checked_exchange(function, send, buffer, comm, true,
                          [&](Communicator& c, Outgoing& out, const Incoming& in) -> Result<> {
                            PackedCopy copy;
                            if (!out.to_null) ISTHMUS_TRY(copy.take(c.engine(), out.payload));
                            return start(c, out, in, std::move(copy), request);
                          });
}

}  // namespace

ISTHMUS_ENTRY(int, Sendrecv)
(const void* sendbuf, int sendcount, MPI_Datatype sendtype, int dest, int sendtag, void* recvbuf,
 int recvcount, MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm, MPI_Status* status) {
  return sendrecv("MPI_Sendrecv", {sendbuf, sendcount, sendtype, dest, sendtag},
                  {recvbuf, recvcount, recvtype, source, recvtag}, comm, status);
}
ISTHMUS_ENTRY(int, Sendrecv_c)
(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, int dest, int sendtag, void* recvbuf,
 MPI_Count recvcount, MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm, MPI_Status* status) {
  return sendrecv("MPI_Sendrecv_c", {sendbuf, sendcount, sendtype, dest, sendtag},
                  {recvbuf, recvcount, recvtype, source, recvtag}, comm, status);
}
ISTHMUS_ENTRY(int, Sendrecv_replace)
(void* buf, int count, MPI_Datatype datatype, int dest, int sendtag, int source, int recvtag, MPI_Comm comm,
 MPI_Status* status) {
  return sendrecv_replace("MPI_Sendrecv_replace", {buf, count, datatype, source, recvtag}, dest, sendtag,
                          comm, status);
}
ISTHMUS_ENTRY(int, Sendrecv_replace_c)
(void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int sendtag, int source, int recvtag,
 MPI_Comm comm, MPI_Status* status) {
  return sendrecv_replace("MPI_Sendrecv_replace_c", {buf, count, datatype, source, recvtag}, dest, sendtag,
                          comm, status);
}
ISTHMUS_ENTRY(int, Isendrecv)
(const void* sendbuf, int sendcount, MPI_Datatype sendtype, int dest, int sendtag, void* recvbuf,
 int recvcount, MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm, MPI_Request* request) {
  return isendrecv("MPI_Isendrecv", {sendbuf, sendcount, sendtype, dest, sendtag},
                   {recvbuf, recvcount, recvtype, source, recvtag}, comm, request);
}
ISTHMUS_ENTRY(int, Isendrecv_c)
(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, int dest, int sendtag, void* recvbuf,
 MPI_Count recvcount, MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm, MPI_Request* request) {
  return isendrecv("MPI_Isendrecv_c", {sendbuf, sendcount, sendtype, dest, sendtag},
                   {recvbuf, recvcount, recvtype, source, recvtag}, comm, request);
}
ISTHMUS_ENTRY(int, Isendrecv_replace)
(void* buf, int count, MPI_Datatype datatype, int dest, int sendtag, int source, int recvtag, MPI_Comm comm,
 MPI_Request* request) {
  return isendrecv_replace("MPI_Isendrecv_replace", {buf, count, datatype, source, recvtag}, dest, sendtag,
                           comm, request);
}
ISTHMUS_ENTRY(int, Isendrecv_replace_c)
(void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int sendtag, int source, int recvtag,
 MPI_Comm comm, MPI_Request* request) {
  return isendrecv_replace("MPI_Isendrecv_replace_c", {buf, count, datatype, source, recvtag}, dest, sendtag,
                           comm, request);
}

}  // namespace isthmus::abi
