#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "base/error.hpp"
#include "base/ref.hpp"
#include "comm/communicator.hpp"
#include "stream/words.hpp"

namespace isthmus::stream {

/// What is enqueued: an operation of MPI that the proxy starts when the stream gets there; of a captured
/// graph at each launch. Called with the engine's lock held, which may be let go of by what waits.
class Operation {
 public:
  Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  virtual ~Operation() = default;

  /// Starts it; one that fails is over.
  virtual Result<> start() = 0;
  [[nodiscard]] virtual bool is_complete() const noexcept = 0;
  /// Ends it, once, when it is complete: what it came to.
  virtual Result<> finish() = 0;
};

/// An operation on a stream, and what programs have a request for.
struct Enqueued final : RefCounted {
  Enqueued(const char* the_function, Communicator& comm, std::unique_ptr<Operation> the_operation)
      : function(the_function),
        communicator(Ref<Communicator>::share(&comm)),
        operation(std::move(the_operation)) {}

  const char* const function;  ///< that the program called
  const Ref<Communicator> communicator;
  const std::unique_ptr<Operation> operation;

  // Of the stream that it is on.
  Words words;
  std::uint64_t number = 0;  ///< on its stream, from 1
  bool is_recorded = false;  ///< by a capture: may be launched again and again
};

}  // namespace isthmus::stream
