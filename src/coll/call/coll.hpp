#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/error.hpp"
#include "comm/communicator.hpp"
#include "datatype/datatype.hpp"
#include "datatype/op.hpp"

/// The blocking collectives (MPI 5.0, chapter 6), for intra- and intercommunicators alike. Arguments have
/// been checked by `abi/`; what a rank's role makes insignificant (a receive buffer off the root, all but the
/// root in an intercommunicator's own group) is not read. All members call the same function in the same
/// order.
///
/// Results do not depend on when ranks arrive: a reduction combines in an order that only the number of
/// ranks, the count and the type decide, and gives the same bits on every rank that receives it.
namespace isthmus::coll {

/// As a send buffer (or, where the standard says so, a receive buffer): the data is in the other buffer. The
/// ABI's MPI_IN_PLACE.
inline void* const in_place = reinterpret_cast<void*>(1);  // NOLINT(performance-no-int-to-ptr)

/// As `root` in the group that holds the root of an intercommunicator's rooted collective: at the root
/// itself. The ABI's MPI_ROOT; all others of its group pass `null_process`.
inline constexpr int root_here = -4;

/// Counts or displacements as the caller has them, `int` or 64 bits wide, without a copy; or one for all.
class Integers {
 public:
  constexpr Integers() = default;
  constexpr Integers(const int* values) : narrow_(values) {}
  constexpr Integers(const std::int64_t* values) : wide_(values) {}

  static constexpr Integers same(std::int64_t value) {
    Integers integers;
    integers.same_ = value;
    return integers;
  }

  /// Whether there is memory behind it.
  [[nodiscard]] bool is_list() const noexcept { return narrow_ || wide_; }
  [[nodiscard]] std::int64_t operator[](int i) const noexcept {
    return narrow_ ? narrow_[i] : wide_ ? wide_[i] : same_;
  }

 private:
  const int* narrow_ = nullptr;
  const std::int64_t* wide_ = nullptr;
  std::int64_t same_ = 0;
};

/// Data that a rank contributes, or, where every peer gets its own, the part for each peer: block i begins
/// `i * count` extents behind `buffer`.
struct In {
  const void* buffer = nullptr;
  std::int64_t count = 0;
  const Datatype* type = nullptr;
};

/// Where a rank's result goes, block by block as in `In`.
struct Out {
  void* buffer = nullptr;
  std::int64_t count = 0;
  const Datatype* type = nullptr;
};

/// The forms with a count and a displacement, in extents of `type`, for each peer.
struct InV {
  const void* buffer = nullptr;
  Integers counts;
  Integers displacements;
  const Datatype* type = nullptr;
};
struct OutV {
  void* buffer = nullptr;
  Integers counts;
  Integers displacements;
  const Datatype* type = nullptr;
};

/// The forms with a datatype for each peer too; displacements in bytes.
struct InW {
  const void* buffer = nullptr;
  Integers counts;
  Integers displacements;
  std::span<const Datatype* const> types;
};
struct OutW {
  void* buffer = nullptr;
  Integers counts;
  Integers displacements;
  std::span<const Datatype* const> types;
};

/// What a reduction combines: `count` elements of `type` from each rank.
struct Reduction {
  std::int64_t count = 0;
  const Datatype* type = nullptr;
  const Op* op = nullptr;
};

Result<> barrier(Communicator& comm);
Result<> bcast(void* buffer, std::int64_t count, const Datatype& type, int root, Communicator& comm);

/// `send.buffer` may be `in_place` at the root.
Result<> gather(const In& send, const Out& receive, int root, Communicator& comm);
Result<> gatherv(const In& send, const OutV& receive, int root, Communicator& comm);
/// `receive.buffer` may be `in_place` at the root.
Result<> scatter(const In& send, const Out& receive, int root, Communicator& comm);
Result<> scatterv(const InV& send, const Out& receive, int root, Communicator& comm);

/// `send.buffer` may be `in_place`, here and in all that follow.
Result<> allgather(const In& send, const Out& receive, Communicator& comm);
Result<> allgatherv(const In& send, const OutV& receive, Communicator& comm);
Result<> alltoall(const In& send, const Out& receive, Communicator& comm);
Result<> alltoallv(const InV& send, const OutV& receive, Communicator& comm);
Result<> alltoallw(const InW& send, const OutW& receive, Communicator& comm);

Result<> reduce(const void* send, void* receive, const Reduction& what, int root, Communicator& comm);
Result<> allreduce(const void* send, void* receive, const Reduction& what, Communicator& comm);
/// Rank i receives `counts[i]` elements; `what.count` is not read.
Result<> reduce_scatter(const void* send, void* receive, const Integers& counts, const Reduction& what,
                        Communicator& comm);
/// Each rank receives `what.count` elements.
Result<> reduce_scatter_block(const void* send, void* receive, const Reduction& what, Communicator& comm);
/// Not defined on intercommunicators.
Result<> scan(const void* send, void* receive, const Reduction& what, Communicator& comm);
Result<> exscan(const void* send, void* receive, const Reduction& what, Communicator& comm);

}  // namespace isthmus::coll
