#pragma once

#include <mpi-ext.h>

#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "abi/coll/form.hpp"
#include "abi/core/entry.hpp"
#include "abi/stream/meet.hpp"
#include "stream/stream.hpp"

/// How an entry point puts its operation on the stream of its communicator, once its arguments have been
/// checked.
namespace isthmus::abi {

/// For people.
inline constexpr std::string_view enqueued_operations = "enqueued operations";

/// An error where it has none.
Result<stream::Stream*> find_stream_of(const Communicator& comm);

/// The communicator's stream for one more operation, or the error that it has not been told of yet; memory
/// that nobody uses any more is let go of where no stream waits.
Result<stream::Stream*> open_stream_of(Communicator& comm);

/// Lets go of memory that peers have freed, and of boards of communicators that are gone, when no stream
/// waits for a message: to close it may wait for all streams.
void close_what_is_gone(Runtime& runtime);

/// Puts an operation on the communicator's stream. Where one has failed that the program has not been told
/// of, that is the error, and nothing is enqueued. `request`: null, or where the program gets one.
Result<> enqueue(const char* function, Communicator& comm, std::unique_ptr<stream::Operation> operation,
                 stream::Then then, MPI_Request* request = nullptr);

/// A collective, which the stream's thread does as any thread would. What the program has freed meanwhile
/// lives as long as it does.
template <class Call>
class EnqueuedCollective final : public stream::Operation {
 public:
  EnqueuedCollective(const char* function, Communicator& comm, const Call& call)
      : form_{function}, comm_(comm), call_(call), kept_(call), lists_(call_, comm) {}

  Result<> start() override {
    outcome_ = form_.run(comm_, call_);
    return {};
  }
  [[nodiscard]] bool is_complete() const noexcept override { return true; }
  Result<> finish() override { return std::move(outcome_); }

 private:
  const Blocking form_;
  Communicator& comm_;  ///< which what is enqueued keeps
  Call call_;
  const KeptObjects kept_;
  const coll::KeptLists lists_;
  Result<> outcome_;
};

/// The form of a collective beside `Blocking`, `Nonblocking` and `Persistent`.
struct Enqueueing {
  const char* function;

  [[nodiscard]] static Result<> check() { return {}; }
  template <class Call>
  Result<> run(Communicator& comm, const Call& call) const {
    if (std::optional<Result<>> met = meet(function, comm, call)) return std::move(*met);
    return enqueue(function, comm, std::make_unique<EnqueuedCollective<Call>>(function, comm, call),
                   stream::Then::waits);
  }
  /// Communicators with a stream are no intercommunicators.
  template <class Call>
  static Result<> stay_out(Communicator&, const Call&) {
    return {};
  }
};

}  // namespace isthmus::abi
