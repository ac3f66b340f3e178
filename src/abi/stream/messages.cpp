// Messages in the order of a stream, by the convention of MPICH (MPIX_Send_enqueue).

#include <algorithm>
#include <vector>

#include "abi/core/transfer.hpp"
#include "abi/request/request.hpp"
#include "abi/stream/enqueue.hpp"
#include "abi/stream/mail.hpp"

namespace isthmus::abi {
namespace {

/// A send or receive of the engine, once or at each launch.
class EnqueuedMessage : public stream::Operation {
 public:
  explicit EnqueuedMessage(Communicator& comm, const Payload& payload, bool is_null)
      : comm_(comm), payload_(payload), type_(Ref<const Datatype>::share(payload.type)), is_null_(is_null) {}

  /// Where the program wants to be told, from now on; at once where it has ended.
  void report_to(MPI_Status* status, bool with_error) noexcept {
    status_ = status;
    tells_error_ = with_error;
    if (ended_) tell(*ended_);
  }

  Result<> start() final {
    if (comm_.is_revoked()) return std::unexpected(comm_.why_broken());
    request_ = is_null_ ? nullptr : start_message(comm_);
    return {};
  }
  [[nodiscard]] bool is_complete() const noexcept final { return !request_ || request_->complete; }
  Result<> finish() final {
    Status ended = is_null_ ? Status::from_null_process() : Status{};
    if (request_) {
      ended = request_->status;
      comm_.engine().free(request_);
      request_ = nullptr;
    }
    ended_ = ended;
    tell(ended);
    if (ended.error == MPI_SUCCESS) return {};
    return std::unexpected(explain_failure(ended.error, ended, payload_.bytes));
  }

 protected:
  /// Null where it is complete already.
  virtual Request* start_message(Communicator& comm) = 0;
  [[nodiscard]] const Payload& payload() const noexcept { return payload_; }

 private:
  void tell(const Status& ended) const noexcept {
    store_status(status_, ended);
    if (tells_error_ && status_ != MPI_STATUS_IGNORE) status_->MPI_ERROR = ended.error;
  }

  Communicator& comm_;  ///< which what is enqueued keeps
  const Payload payload_;
  const Ref<const Datatype> type_;
  const bool is_null_;
  MPI_Status* status_ = MPI_STATUS_IGNORE;
  bool tells_error_ = false;
  Request* request_ = nullptr;
  std::optional<Status> ended_;
};

class EnqueuedSend final : public EnqueuedMessage {
 public:
  EnqueuedSend(Communicator& comm, const Outgoing& out)
      : EnqueuedMessage(comm, out.payload, out.to_null), target_(out.target) {}

 private:
  Request* start_message(Communicator& comm) override { return comm.engine().start_send(target_, payload()); }

  const Target target_;
};

class EnqueuedReceive final : public EnqueuedMessage {
 public:
  EnqueuedReceive(Communicator& comm, const Incoming& in)
      : EnqueuedMessage(comm, in.payload, in.from_null), source_(in.source), tag_(in.tag) {}

 private:
  Request* start_message(Communicator& comm) override {
    return comm.engine().start_receive(comm.context(), source_, tag_, payload());
  }

  const int source_;
  const int tag_;
};

int enqueue_send(const char* function, const void* buf, MPI_Count count, MPI_Datatype datatype, int dest,
                 int tag, MPI_Comm comm, stream::Then then, MPI_Request* request) {
  return call(function, comm, [&](Communicator& c) -> Result<> {
    if (then == stream::Then::goes_on) ISTHMUS_TRY(check_pointer(request, "request"));
    Result<Outgoing> out = make_outgoing(Runtime::get(), c, buf, count, datatype, dest, tag);
    if (!out) return std::unexpected(std::move(out).error());
    if (has_mail(c) && !out->to_null) return send_mail(function, c, *out, request);
    return enqueue(function, c, std::make_unique<EnqueuedSend>(c, *out), then, request);
  });
}

int enqueue_receive(const char* function, void* buf, MPI_Count count, MPI_Datatype datatype, int source,
                    int tag, MPI_Comm comm, stream::Then then, MPI_Status* status, MPI_Request* request) {
  return call(function, comm, [&](Communicator& c) -> Result<> {
    if (then == stream::Then::goes_on) ISTHMUS_TRY(check_pointer(request, "request"));
    Result<Incoming> in = make_incoming(Runtime::get(), c, buf, count, datatype, source, tag);
    if (!in) return std::unexpected(std::move(in).error());
    if (has_mail(c) && !in->from_null)
      return request ? post_mail(function, c, *in, request) : receive_mail(function, c, *in, {status, false});
    auto receive = std::make_unique<EnqueuedReceive>(c, *in);
    receive->report_to(status, false);
    return enqueue(function, c, std::move(receive), then, request);
  });
}

/// Of the requests that are not null, in the order of the program.
struct Waited {
  std::vector<Ref<stream::Enqueued>> operations;
  std::vector<int> places;
};

Result<Waited> find_waited(Runtime& runtime, int count, const MPI_Request* requests) {
  Waited waited;
  for (int i = 0; i < count; ++i) {
    if (requests[i] == MPI_REQUEST_NULL) continue;
    stream::Enqueued* const found = runtime.enqueued.find(requests[i]);
    if (!found)
      return std::unexpected(bad_handle(ErrorClass::request, "request", requests[i], HandleKind::enqueued));
    if (!waited.operations.empty() &&
        found->communicator->stream != waited.operations.front()->communicator->stream)
      return fail(ErrorClass::request, "the requests are of several streams");
    waited.operations.push_back(Ref<stream::Enqueued>::share(found));
    waited.places.push_back(i);
  }
  return waited;
}

/// What is waited for.
struct WaitCall {
  int count;
  MPI_Request* requests;
  MPI_Status* statuses;  ///< null for none
  bool with_errors;
};

/// `comm` becomes the communicator of whatever fails.
Result<> enqueue_waits(Runtime& runtime, const WaitCall& what, Ref<Communicator>& comm) {
  Result<Waited> waited = find_waited(runtime, what.count, what.requests);
  if (!waited) return std::unexpected(std::move(waited).error());
  for (int i = 0; what.statuses && i < what.count; ++i)
    if (what.requests[i] == MPI_REQUEST_NULL) store_empty_status(&what.statuses[i]);
  const auto& [operations, places] = *waited;
  if (operations.empty()) return {};
  comm = operations.front()->communicator;
  Result<stream::Stream*> stream = find_stream_of(*comm);
  if (!stream) return std::unexpected(std::move(stream).error());
  std::vector<Ref<stream::Enqueued>> of_thread;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    if (is_mail(*operations[i])) continue;
    of_thread.push_back(operations[i]);
    if (what.statuses)
      static_cast<EnqueuedMessage&>(*operations[i]->operation)
          .report_to(&what.statuses[places[i]], what.with_errors);
  }
  ISTHMUS_TRY((*stream)->wait(of_thread));
  for (std::size_t i = 0; i < operations.size(); ++i)
    if (is_mail(*operations[i])) {
      comm = operations[i]->communicator;
      const MailStatus status{what.statuses ? &what.statuses[places[i]] : MPI_STATUS_IGNORE,
                              what.with_errors};
      ISTHMUS_TRY(wait_for_mail(*operations[i], status));
    }
  for (const int place : places) {
    static_cast<void>(runtime.enqueued.remove(what.requests[place]));
    what.requests[place] = MPI_REQUEST_NULL;
  }
  for (const Ref<stream::Enqueued>& each : operations) {
    comm = each->communicator;
    if (std::optional<Error> failure = (*stream)->take_failure(comm.get()))
      return std::unexpected(std::move(*failure));
  }
  return {};
}

/// Raised on the communicator of an operation, where there is one.
int wait_for_several(const char* function, const WaitCall& what) {
  return enter(function, [&](Runtime& runtime) -> int {
    Ref<Communicator> comm;
    Result<> result = check_count(what.count);
    if (result && what.count > 0) result = check_pointer(what.requests, "requests");
    if (result) result = enqueue_waits(runtime, what, comm);
    if (result) return MPI_SUCCESS;
    return raise(function, comm && comm->handle != 0 ? comm.get() : nullptr, result.error());
  });
}

}  // namespace

ISTHMUS_EXTENSION(int, Send_enqueue)
(const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm) {
  return enqueue_send("MPIX_Send_enqueue", buf, count, datatype, dest, tag, comm, stream::Then::waits,
                      nullptr);
}
ISTHMUS_EXTENSION(int, Isend_enqueue)
(const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm, MPI_Request* request) {
  return enqueue_send("MPIX_Isend_enqueue", buf, count, datatype, dest, tag, comm, stream::Then::goes_on,
                      request);
}

ISTHMUS_EXTENSION(int, Recv_enqueue)
(void* buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, MPI_Status* status) {
  return enqueue_receive("MPIX_Recv_enqueue", buf, count, datatype, source, tag, comm, stream::Then::waits,
                         status, nullptr);
}
ISTHMUS_EXTENSION(int, Irecv_enqueue)
(void* buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, MPI_Request* request) {
  return enqueue_receive("MPIX_Irecv_enqueue", buf, count, datatype, source, tag, comm, stream::Then::goes_on,
                         MPI_STATUS_IGNORE, request);
}

ISTHMUS_EXTENSION(int, Wait_enqueue)(MPI_Request* request, MPI_Status* status) {
  return wait_for_several("MPIX_Wait_enqueue", {1, request, status, false});
}
ISTHMUS_EXTENSION(int, Waitall_enqueue)
(int count, MPI_Request array_of_requests[], MPI_Status array_of_statuses[]) {
  return wait_for_several("MPIX_Waitall_enqueue", {count, array_of_requests, array_of_statuses, true});
}

}  // namespace isthmus::abi
