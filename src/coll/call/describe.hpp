#pragma once

#include <cstdint>

#include "coll/call/call.hpp"
#include "coll/call/local.hpp"
#include "comm/communicator.hpp"
#include "wire/wait.hpp"

namespace isthmus::coll {

/// The blocking collective that this process is in, for as long as this object lives: so that a wait that has
/// become long can tell which it is (`wire::WaitReport`). Three stores, in the communicator alone: an
/// allreduce of 8 bytes of 2 ranks took 1.007 times as long (quartiles of 40 pairs 0.975 and 1.024).
template <class Call>
class InCollective {
 public:
  InCollective(Communicator& comm, const Call& call) noexcept : current_(comm.current) {
    ++current_.number;
    current_.call = &call;
    current_.say = &say;
    if (MessageTrace* const trace = comm.engine().trace()) [[unlikely]]
      tell(*trace, comm, call);
  }
  ~InCollective() { current_.say = nullptr; }
  InCollective(const InCollective&) = delete;
  InCollective& operator=(const InCollective&) = delete;

 private:
  /// Only what has one length for all members: nothing of those with lists of counts.
  static std::uint64_t bytes(const Call& c) noexcept {
    const auto of = [](std::int64_t count, const Datatype* type) {
      return static_cast<std::uint64_t>(count) * static_cast<std::uint64_t>(type ? type->size() : 0);
    };
    if constexpr (requires { c.what.count; }) {
      return of(c.what.count, c.what.type);
    } else if constexpr (requires { c.count; }) {
      return of(c.count, c.type);
    } else if constexpr (requires {
                           c.send.count;
                           c.receive.count;
                         }) {
      // The root of a gather may have its part in place, and that of a scatter its result.
      if (c.send.buffer == in_place || !c.send.type) return of(c.receive.count, c.receive.type);
      return of(c.send.count, c.send.type);
    }
    return wire::wait_unknown_bytes;
  }
  static void tell(MessageTrace& trace, const Communicator& comm, const Call& c) noexcept {
    std::int32_t root = -1;
    if constexpr (requires { c.root; })
      if (c.root >= 0 && c.root < comm.remote_size()) root = static_cast<std::int32_t>(comm.peer(c.root));
    trace.collective(comm.context_id(), comm.current.number, root, bytes(c));
  }
  static void say(const void* call, const Communicator& comm, wire::WaitReport& report) noexcept {
    const Call& c = *static_cast<const Call*>(call);
    report.collective_context = comm.context_id();
    report.collective_number = comm.current.number;
    report.collective_bytes = bytes(c);
    if constexpr (requires { c.root; }) {
      if (c.root >= 0 && c.root < comm.remote_size()) {
        report.collective_root = c.root;
        report.root_process = static_cast<std::int32_t>(comm.peer(c.root));
      }
    }
  }

  CurrentCollective& current_;
};

}  // namespace isthmus::coll
