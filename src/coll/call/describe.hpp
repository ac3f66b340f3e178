#pragma once

#include <cstdint>
#include <type_traits>

#include "coll/call/call.hpp"
#include "coll/call/local.hpp"
#include "comm/communicator.hpp"
#include "wire/wait.hpp"

namespace isthmus::coll {

/// The bytes of a call where they are of one length for all members; nothing of those with lists of counts.
template <class Call>
std::uint64_t bytes_of(const Call& c) noexcept {
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

/// The root's process; -1 where there is none, or the group of this process has it.
template <class Call>
std::int32_t root_process_of(const Call& c, const Communicator& comm) noexcept {
  if constexpr (requires { c.root; })
    if (c.root >= 0 && c.root < comm.remote_size()) return static_cast<std::int32_t>(comm.peer(c.root));
  return -1;
}

template <class Call>
constexpr trace::Needs needs_of() noexcept {
  const auto is_one_of = []<class... Type>(std::type_identity<Type>...) {
    return (std::is_same_v<Call, Type> || ...);
  };
  if (is_one_of(std::type_identity<call::Bcast>(), std::type_identity<call::Scatter>(),
                std::type_identity<call::Scatterv>()))
    return trace::Needs::root;
  if (is_one_of(std::type_identity<call::Reduce>(), std::type_identity<call::Gather>(),
                std::type_identity<call::Gatherv>()))
    return trace::Needs::for_root;
  if (is_one_of(std::type_identity<call::Scan>(), std::type_identity<call::Exscan>()))
    return trace::Needs::before;
  if (is_one_of(std::type_identity<call::NeighborAllgather>(), std::type_identity<call::NeighborAllgatherv>(),
                std::type_identity<call::NeighborAlltoall>(), std::type_identity<call::NeighborAlltoallv>(),
                std::type_identity<call::NeighborAlltoallw>()))
    return trace::Needs::neighbours;
  return trace::Needs::all;
}

/// What `isthmus trace` is told of a call. `number`, `tag`: as in `trace::Collective`.
template <class Call>
trace::Collective traced(const Call& c, const Communicator& comm, trace::Form form, std::uint64_t number,
                         std::int32_t tag) noexcept {
  return {.number = number,
          .bytes = bytes_of(c),
          .context = comm.context_id(),
          .root = root_process_of(c, comm),
          .member = comm.rank(),
          .tag = tag,
          .needs = needs_of<Call>(),
          .form = form};
}

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
      trace->collective_begins(traced(call, comm, trace::Form::blocking, current_.number, 0));
  }
  ~InCollective() { current_.say = nullptr; }
  InCollective(const InCollective&) = delete;
  InCollective& operator=(const InCollective&) = delete;

 private:
  static void say(const void* call, const Communicator& comm, wire::WaitReport& report) noexcept {
    const Call& c = *static_cast<const Call*>(call);
    report.collective_context = comm.context_id();
    report.collective_number = comm.current.number;
    report.collective_bytes = bytes_of(c);
    if constexpr (requires { c.root; })
      if (const std::int32_t process = root_process_of(c, comm); process >= 0) {
        report.collective_root = c.root;
        report.root_process = process;
      }
  }

  CurrentCollective& current_;
};

}  // namespace isthmus::coll
