#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "p2p/message/matcher.hpp"
#include "p2p/message/message.hpp"
#include "p2p/message/request.hpp"
#include "trace/writer.hpp"

namespace isthmus {

/// What a rank does, in records for `isthmus trace`. Guarded by the engine's lock.
///
/// Records carry no number of the message: the n-th send of a process to another on a context with a tag is
/// what the n-th receive gets that began there and matched that envelope (MPI 5.0, section 3.5). So the
/// order of records is enough, and cells carry nothing more.
class MessageTrace {
 public:
  MessageTrace(std::unique_ptr<trace::Writer> writer, PeerId rank) noexcept
      : writer_(std::move(writer)), rank_(rank) {}

  // Names must live as long as the process: they are known by their addresses.
  void call_begins(const char* function, std::int64_t time) noexcept;
  void call_ends() noexcept;
  /// Once for each communicator that calls name.
  void names_comm(ContextId context, std::string_view name, std::uint32_t size) noexcept;
  void collective_begins(const trace::Collective& collective) noexcept;
  /// Of one that does not block, in the call that completes it.
  void collective_ends(const trace::Collective& collective) noexcept;

  /// A send that began at `time`. `send`: null where it is complete.
  void sent(const Target& target, std::uint64_t bytes, const Request* send, std::int64_t time) noexcept;
  /// A receive begins: to be called before it can match.
  void receives(Request& receive) noexcept;
  void takes(const UnexpectedMessage& message) noexcept;
  void receives_taken(Request& receive, const UnexpectedMessage& message) noexcept;
  void carries(const Request& receive) noexcept;
  void completed(const Request& request) noexcept;

 private:
  std::uint16_t name_of_function(const char* function) noexcept;

  std::unique_ptr<trace::Writer> writer_;
  PeerId rank_;
  std::unordered_map<const char*, std::uint16_t> functions_;
  std::unordered_map<ContextId, std::size_t> comms_;  ///< and the length of the name that was told
};

}  // namespace isthmus
