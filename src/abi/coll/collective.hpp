#pragma once

#include <mpi.h>

#include <cstdint>
#include <type_traits>
#include <vector>

#include "abi/core/call.hpp"
#include "abi/core/entry.hpp"
#include "abi/core/transfer.hpp"
#include "coll/call/coll.hpp"

/// What the entry points of collectives share: the arguments that are significant at a rank (MPI 5.0, chapter
/// 6), looked up and checked. Functions that the frequent calls use are inline; their errors are made out of
/// line.
namespace isthmus::abi {

static_assert(coll::root_here == MPI_ROOT && null_process == MPI_PROC_NULL);
static_assert(std::is_same_v<MPI_Count, std::int64_t> && sizeof(MPI_Aint) == sizeof(std::int64_t));

/// What this rank does in a rooted collective. In an intercommunicator's group of the root, all but the root
/// do nothing.
struct Role {
  bool at_root = false;
  bool contributes = false;  ///< sends to the root, or receives from it
  bool in_place = false;     ///< MPI_IN_PLACE is allowed: the root of an intracommunicator
};
Result<> find_role(const Communicator& comm, int root, Role& role);

inline bool is_root(const Communicator& comm, int root) noexcept {
  return static_cast<unsigned>(root) < static_cast<unsigned>(comm.size()) && !comm.is_inter();
}

inline constexpr ArgumentNames plain_names{"buffer", "count", "datatype"};
inline constexpr ArgumentNames send_part_names{"sendbuf", "sendcount", "sendtype"};
inline constexpr ArgumentNames receive_part_names{"recvbuf", "recvcount", "recvtype"};
inline constexpr ArgumentNames many_send_names{"sendbuf", "sendcounts", "sendtype"};
inline constexpr ArgumentNames many_receive_names{"recvbuf", "recvcounts", "recvtype"};

/// Sets `type` if buffer, count and datatype go together. It lives until the call has ended.
[[gnu::always_inline]] inline bool good_data(Runtime& runtime, const void* buffer, MPI_Count count,
                                             MPI_Datatype datatype, const Datatype*& type) {
  Datatype* const found = runtime.datatypes.find(datatype);
  type = found;
  if (!found || !found->committed() || count < 0) [[unlikely]]
    return false;
  keep(runtime, *found);
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(count, type->size(), &bytes)) [[unlikely]]
    return false;
  return !in_first_page(buffer, *type) || bytes == 0;
}

/// `count` elements for each of `blocks` ranks, of which the number of all must be a count too.
Result<> find_data(const void* buffer, MPI_Count count, MPI_Datatype datatype, int blocks,
                   const ArgumentNames& names, const Datatype*& type);

inline Result<> find_in(const void* buffer, MPI_Count count, MPI_Datatype datatype, int blocks,
                        bool in_place_allowed, coll::In& in) {
  in.buffer = buffer;
  in.count = count;
  if (in_place_allowed && buffer == MPI_IN_PLACE) return {};
  return find_data(buffer, count, datatype, blocks, send_part_names, in.type);
}
inline Result<> find_out(void* buffer, MPI_Count count, MPI_Datatype datatype, int blocks,
                         bool in_place_allowed, coll::Out& out) {
  out.buffer = buffer;
  out.count = count;
  if (in_place_allowed && buffer == MPI_IN_PLACE) return {};
  return find_data(buffer, count, datatype, blocks, receive_part_names, out.type);
}

/// Counts and displacements of either width.
template <class Count, class Displacement>
struct Lists {
  const Count* counts;
  const Displacement* displacements;
};

inline coll::Integers integers(const int* values) {
  return values;
}
inline coll::Integers integers(const MPI_Count* values) {
  return values;
}
template <class T>
  requires(std::is_same_v<T, MPI_Aint> && !std::is_same_v<MPI_Aint, MPI_Count>)
inline coll::Integers integers(const T* values) {
  return reinterpret_cast<const std::int64_t*>(values);
}

Result<> check_lists(const void* buffer, const coll::Integers& counts, bool have_counts,
                     bool have_displacements, int blocks, const Datatype& type, const ArgumentNames& names);

template <class Count, class Displacement>
Result<> find_in_v(const void* buffer, const Lists<Count, Displacement>& lists, MPI_Datatype datatype,
                   int blocks, bool in_place_allowed, coll::InV& in) {
  in.buffer = buffer;
  if (in_place_allowed && buffer == MPI_IN_PLACE) return {};
  Result<Datatype*> type = find_committed(datatype, many_send_names.datatype);
  if (!type) return std::unexpected(std::move(type).error());
  in.type = *type;
  in.counts = integers(lists.counts);
  in.displacements = integers(lists.displacements);
  return check_lists(buffer, in.counts, lists.counts, lists.displacements, blocks, **type, many_send_names);
}
template <class Count, class Displacement>
Result<> find_out_v(void* buffer, const Lists<Count, Displacement>& lists, MPI_Datatype datatype, int blocks,
                    coll::OutV& out) {
  Result<Datatype*> type = find_committed(datatype, many_receive_names.datatype);
  if (!type) return std::unexpected(std::move(type).error());
  out.buffer = buffer;
  out.type = *type;
  out.counts = integers(lists.counts);
  out.displacements = integers(lists.displacements);
  return check_lists(buffer, out.counts, lists.counts, lists.displacements, blocks, **type,
                     many_receive_names);
}

/// The datatypes of an alltoallw. Those of blocks without elements are not looked at. `displacements` are
/// bytes, so that with MPI_BOTTOM they may be addresses.
Result<std::vector<const Datatype*>> find_types(const void* buffer, const coll::Integers& counts,
                                                const coll::Integers& displacements,
                                                const MPI_Datatype* datatypes, int blocks,
                                                const ArgumentNames& names);

inline constexpr ArgumentNames typed_send_names{"sendbuf", "sendcounts", "sendtypes"};
inline constexpr ArgumentNames typed_receive_names{"recvbuf", "recvcounts", "recvtypes"};

/// The arrays of one side of an alltoallw are all there.
template <class Count, class Displacement>
Result<> check_arrays(const Lists<Count, Displacement>& lists, const MPI_Datatype* types,
                      const ArgumentNames& names) {
  ISTHMUS_TRY(check_pointer(lists.counts, names.count));
  ISTHMUS_TRY(check_pointer(types, names.datatype));
  return check_pointer(lists.displacements, "displs");
}

[[gnu::cold]] std::unexpected<Error> same_memory();
/// Send and receive buffer must not be the same memory (MPI 5.0, section 6.2.2): an error if both begin at
/// the same place and hold anything.
[[gnu::always_inline]] inline Result<> check_apart(const void* send, const void* receive, MPI_Count count) {
  if (send != receive || count == 0 || !send) [[likely]]
    return {};
  return same_memory();
}

}  // namespace isthmus::abi
