// MPI 5.0, section 3.9: persistent requests.

#include <mpi.h>

#include <fmt/format.h>

#include <utility>

#include "abi/core/entry.hpp"
#include "abi/core/transfer.hpp"
#include "abi/p2p/buffered.hpp"
#include "abi/request/completion.hpp"

namespace isthmus::abi {
namespace {

/// A message with all its arguments, and the request of the engine while it is under way.
class PersistentMessage : public Operation {
 public:
  PersistentMessage(Ref<Communicator> comm, const Payload& payload)
      : Operation(std::move(comm)), payload_(payload), type_(Ref<const Datatype>::share(payload.type)) {}

  [[nodiscard]] bool active() const noexcept final { return active_; }
  bool ready() final { return !part_ || part_->complete; }
  void say(WaitItems& items) const noexcept final {
    if (part_) items.add(*part_, wire::WaitItem::awaited);
  }

  Result<> start(Runtime& runtime) final {
    if (active_) return fail(ErrorClass::request, "request is active already");
    status_ = {};
    ISTHMUS_TRY(launch(runtime));
    active_ = true;
    return {};
  }
  Result<> report(MPI_Status& status) final {
    const Status& reported = part_ ? part_->status : status_;
    store_status(&status, reported);
    if (reported.error == MPI_SUCCESS) return {};
    return std::unexpected(explain_failure(reported.error, reported, payload_.bytes));
  }
  bool retire(Engine& engine) final {
    if (part_) engine.free(std::exchange(part_, nullptr));
    active_ = false;
    return true;
  }
  bool end_well(Engine& engine, MPI_Status* status) final {
    const Status& reported = part_ ? part_->status : status_;
    if (!active_ || !ready() || reported.error != MPI_SUCCESS) return false;
    store_status(status, reported);
    return retire(engine);
  }
  Result<> cancel(Engine& engine) final {
    if (part_) engine.cancel(*part_);
    return {};
  }
  bool abandon(Runtime& runtime, Request&) final {
    abandon_part(runtime, part_, *this);
    return true;
  }

 protected:
  /// Sets `part_`, or leaves it empty if the operation is complete, and `status_` then.
  virtual Result<> launch(Runtime& runtime) = 0;

  Payload payload_;
  Request* part_ = nullptr;
  Status status_;

 private:
  Ref<const Datatype> type_;
  bool active_ = false;
};

enum class Mode : std::uint8_t { standard, synchronous, buffered };

class PersistentSend final : public PersistentMessage {
 public:
  PersistentSend(Ref<Communicator> comm, const Outgoing& out, Mode mode)
      : PersistentMessage(std::move(comm), out.payload),
        target_(out.target),
        to_null_(out.to_null),
        mode_(mode) {}

 private:
  Result<> launch(Runtime& runtime) override {
    if (to_null_) return {};
    if (mode_ == Mode::buffered) {
      Result<SendBuffer*> buffer = buffer_for(runtime, *communicator());
      if (!buffer) return std::unexpected(std::move(buffer).error());
      return (*buffer)->send(target_, payload_);
    }
    part_ = runtime.engine->start_send(
        target_, payload_, mode_ == Mode::synchronous ? SendMode::synchronous : SendMode::standard);
    return {};
  }

  Target target_;
  bool to_null_;
  Mode mode_;
};

class PersistentReceive final : public PersistentMessage {
 public:
  PersistentReceive(Ref<Communicator> comm, const Incoming& in)
      : PersistentMessage(std::move(comm), in.payload),
        source_(in.source),
        tag_(in.tag),
        from_null_(in.from_null) {}

 private:
  Result<> launch(Runtime& runtime) override {
    if (from_null_)
      status_ = Status::from_null_process();
    else
      part_ = runtime.engine->start_receive(communicator()->context(), source_, tag_, payload_);
    return {};
  }

  int source_;
  int tag_;
  bool from_null_;
};

template <Mode mode>
int send_init(const char* function, const void* buf, MPI_Count count, MPI_Datatype datatype, int dest,
              int tag, MPI_Comm comm, MPI_Request* request) noexcept {
  return call(function, comm, [&](Communicator& c) -> Result<> {
    ISTHMUS_TRY(check_pointer(request, "request"));
    Runtime& runtime = Runtime::get();
    auto out = make_outgoing(runtime, c, buf, count, datatype, dest, tag);
    if (!out) return std::unexpected(std::move(out).error());
    *request = publish(runtime, make_ref<PersistentSend>(Ref<Communicator>::share(&c), *out, mode),
                       Request::Kind::persistent);
    return {};
  });
}

int recv_init(const char* function, void* buf, MPI_Count count, MPI_Datatype datatype, int source, int tag,
              MPI_Comm comm, MPI_Request* request) noexcept {
  return call(function, comm, [&](Communicator& c) -> Result<> {
    ISTHMUS_TRY(check_pointer(request, "request"));
    Runtime& runtime = Runtime::get();
    auto in = make_incoming(runtime, c, buf, count, datatype, source, tag);
    if (!in) return std::unexpected(std::move(in).error());
    *request = publish(runtime, make_ref<PersistentReceive>(Ref<Communicator>::share(&c), *in),
                       Request::Kind::persistent);
    return {};
  });
}

/// Starts one request; `argument` is its name in sentences.
[[gnu::always_inline]] inline int start(Runtime& runtime, const char* function, MPI_Request handle,
                                        const char* argument) {
  Request* request = find_request(runtime, handle);
  if (!request || request->orphan) return raise(function, bad_request(handle, argument));
  if (is_plain(*request))
    return raise(function, Error(ErrorClass::request, fmt::format("{} is not persistent", argument)));
  Operation& operation = *operation_of(*request);
  keep(runtime, operation);
  Result<> started = operation.start(runtime);
  return started ? MPI_SUCCESS : raise(function, operation.communicator(), started.error());
}

}  // namespace

ISTHMUS_ENTRY(int, Send_init)
(const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm, MPI_Request* request) {
  return send_init<Mode::standard>("MPI_Send_init", buf, count, datatype, dest, tag, comm, request);
}
ISTHMUS_ENTRY(int, Send_init_c)
(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
 MPI_Request* request) {
  return send_init<Mode::standard>("MPI_Send_init_c", buf, count, datatype, dest, tag, comm, request);
}
ISTHMUS_ENTRY(int, Bsend_init)
(const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm, MPI_Request* request) {
  return send_init<Mode::buffered>("MPI_Bsend_init", buf, count, datatype, dest, tag, comm, request);
}
ISTHMUS_ENTRY(int, Bsend_init_c)
(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
 MPI_Request* request) {
  return send_init<Mode::buffered>("MPI_Bsend_init_c", buf, count, datatype, dest, tag, comm, request);
}
ISTHMUS_ENTRY(int, Ssend_init)
(const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm, MPI_Request* request) {
  return send_init<Mode::synchronous>("MPI_Ssend_init", buf, count, datatype, dest, tag, comm, request);
}
ISTHMUS_ENTRY(int, Ssend_init_c)
(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
 MPI_Request* request) {
  return send_init<Mode::synchronous>("MPI_Ssend_init_c", buf, count, datatype, dest, tag, comm, request);
}
ISTHMUS_ENTRY(int, Rsend_init)
(const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm, MPI_Request* request) {
  return send_init<Mode::standard>("MPI_Rsend_init", buf, count, datatype, dest, tag, comm, request);
}
ISTHMUS_ENTRY(int, Rsend_init_c)
(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
 MPI_Request* request) {
  return send_init<Mode::standard>("MPI_Rsend_init_c", buf, count, datatype, dest, tag, comm, request);
}
ISTHMUS_ENTRY(int, Recv_init)
(void* buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, MPI_Request* request) {
  return recv_init("MPI_Recv_init", buf, count, datatype, source, tag, comm, request);
}
ISTHMUS_ENTRY(int, Recv_init_c)
(void* buf, MPI_Count count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
 MPI_Request* request) {
  return recv_init("MPI_Recv_init_c", buf, count, datatype, source, tag, comm, request);
}

ISTHMUS_ENTRY(int, Start)(MPI_Request* request) {
  return enter("MPI_Start", [&](Runtime& runtime) {
    if (!request) [[unlikely]]
      return check_outputs("MPI_Start", {{request, "request"}});
    return start(runtime, "MPI_Start", *request, "request");
  });
}

ISTHMUS_ENTRY(int, Startall)(int count, MPI_Request array_of_requests[]) {
  return enter("MPI_Startall", [&](Runtime& runtime) {
    constexpr const char* function = "MPI_Startall";
    if (int code = check_array(function, count, array_of_requests)) return code;
    for (int i = 0; i < count; ++i) {
      const std::string name = fmt::format("array_of_requests[{}]", i);
      if (int code = start(runtime, function, array_of_requests[i], name.c_str())) return code;
    }
    return MPI_SUCCESS;
  });
}

}  // namespace isthmus::abi
