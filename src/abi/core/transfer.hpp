#pragma once

#include <mpi.h>

#include <cstdint>

#include "abi/core/call.hpp"
#include "abi/core/runtime.hpp"
#include "p2p/message/message.hpp"

/// The checks that every message passes, made so that a right call takes a few branches and no call: each
/// `make_*` or `is_*` only says no, and the matching `explain_*` or `check_*` finds out why.
namespace isthmus::abi {

/// Nothing is ever mapped there: null, MPI_IN_PLACE and MPI_BUFFER_AUTOMATIC are no buffers, unless a
/// datatype of absolute addresses leads elsewhere.
inline bool in_first_page(const void* buffer, const Datatype& type) noexcept {
  constexpr std::uintptr_t page = 4096;
  return reinterpret_cast<std::uintptr_t>(buffer) + static_cast<std::uintptr_t>(type.true_lb()) < page;
}

inline bool is_rank(const Communicator& comm, int rank) noexcept {
  return static_cast<unsigned>(rank) < static_cast<unsigned>(comm.ranks_in_reach());
}
inline bool is_source(const Communicator& comm, int source) noexcept {
  return is_rank(comm, source) || source == MPI_ANY_SOURCE;
}
inline bool is_tag(int tag) noexcept {
  return static_cast<unsigned>(tag) <= static_cast<unsigned>(coll::maximum_tag);
}
inline bool is_receive_tag(int tag) noexcept {
  return is_tag(tag) || tag == MPI_ANY_TAG;
}

/// Sets `payload` if buffer, count and datatype go together.
inline bool make_payload(const Runtime& runtime, const void* buffer, MPI_Count count, MPI_Datatype datatype,
                         Payload& payload) noexcept {
  const Datatype* type = runtime.datatypes.find(datatype);
  if (!type || !type->committed()) [[unlikely]]
    return false;
  std::int64_t bytes = 0;
  if (count < 0 || __builtin_mul_overflow(count, type->size(), &bytes)) [[unlikely]]
    return false;
  if (in_first_page(buffer, *type) && bytes != 0) [[unlikely]]
    return false;
  auto* data = static_cast<std::byte*>(const_cast<void*>(buffer));
  payload = type->is_contiguous() ? Payload{data, static_cast<std::uint64_t>(bytes), nullptr, 0}
                                  : Payload{data, static_cast<std::uint64_t>(bytes), type, count};
  return true;
}

/// Names of the arguments that describe one side of a transfer, as the standard has them.
struct ArgumentNames {
  const char* buffer = "buf";
  const char* count = "count";
  const char* datatype = "datatype";
  const char* rank = "dest";
  const char* tag = "tag";
};
inline constexpr ArgumentNames send_names{};
inline constexpr ArgumentNames receive_names{.rank = "source"};
inline constexpr ArgumentNames send_half_names{"sendbuf", "sendcount", "sendtype", "dest", "sendtag"};
inline constexpr ArgumentNames receive_half_names{"recvbuf", "recvcount", "recvtype", "source", "recvtag"};

/// Why `make_payload` said no.
[[gnu::cold, gnu::noinline]] Error explain_payload(const void* buffer, MPI_Count count, MPI_Datatype datatype,
                                                   const ArgumentNames& names);

/// For what is not a message to a rank of `comm`: success if it goes to MPI_PROC_NULL, else the error.
[[gnu::cold, gnu::noinline]] Result<> check_null_send(const Communicator& comm, int dest, int tag,
                                                      const ArgumentNames& names = send_names);
/// The same for what is not a receive from a rank or from any.
[[gnu::cold, gnu::noinline]] Result<> check_null_receive(const Communicator& comm, int source, int tag,
                                                         const ArgumentNames& names = receive_names);

/// The error that a completed operation carries in its status, as a sentence. `room`: bytes of the receiver's
/// buffer.
[[gnu::cold, gnu::noinline]] Error explain_failure(int code, const Status& status, std::uint64_t room);

/// Both sides of a transfer, of which either may be with MPI_PROC_NULL.
struct Outgoing {
  Payload payload;
  Target target{};
  bool to_null = false;
};
struct Incoming {
  Payload payload;
  int source = 0;
  int tag = 0;
  bool from_null = false;
};

inline Result<Outgoing> make_outgoing(const Runtime& runtime, const Communicator& comm, const void* buffer,
                                      MPI_Count count, MPI_Datatype datatype, int dest, int tag,
                                      const ArgumentNames& names = send_names) {
  Outgoing out;
  if (!make_payload(runtime, buffer, count, datatype, out.payload)) [[unlikely]]
    return std::unexpected(explain_payload(buffer, count, datatype, names));
  if (!is_rank(comm, dest) || !is_tag(tag)) [[unlikely]] {
    ISTHMUS_TRY(check_null_send(comm, dest, tag, names));
    out.to_null = true;
    return out;
  }
  out.target = comm.target(dest, tag);
  return out;
}

inline Result<Incoming> make_incoming(const Runtime& runtime, const Communicator& comm, void* buffer,
                                      MPI_Count count, MPI_Datatype datatype, int source, int tag,
                                      const ArgumentNames& names = receive_names) {
  Incoming in;
  if (!make_payload(runtime, buffer, count, datatype, in.payload)) [[unlikely]]
    return std::unexpected(explain_payload(buffer, count, datatype, names));
  in.source = source;
  in.tag = tag;
  if (!is_source(comm, source) || !is_receive_tag(tag)) [[unlikely]] {
    ISTHMUS_TRY(check_null_receive(comm, source, tag, names));
    in.from_null = true;
  }
  return in;
}

}  // namespace isthmus::abi
