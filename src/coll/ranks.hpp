#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/error.hpp"
#include "comm/communicator.hpp"
#include "p2p/message.hpp"

namespace isthmus::coll {

/// One for each collective, as the tag of its messages: the order of collectives on a communicator keeps
/// successive calls apart (MPI 5.0, section 6.14), the tag keeps mistaken ones from mixing.
enum class Tag : int {
  barrier = 1,
  bcast,
  gather,
  scatter,
  allgather,
  alltoall,
  reduce,
  allreduce,
  reduce_scatter,
  scan,
  set_up,  ///< of the shared area of a communicator
};

/// The processes among which an algorithm runs, by rank, and the messages between them: all of an
/// intracommunicator or some of them, or of an intercommunicator either the own group or, from rank to rank
/// of the other one, the remote group. Cheap to make, for one call.
class Ranks {
 public:
  /// The group that messages of `comm` go to.
  Ranks(Communicator& comm, Tag tag) noexcept
      : comm_(comm), size_(comm.remote_size()), tag_(static_cast<int>(tag)) {}
  /// The own group of an intercommunicator. Tags of their own keep its messages from those of the remote
  /// group.
  static Ranks own_group(Communicator& comm, Tag tag) noexcept {
    Ranks ranks(comm, tag);
    ranks.own_group_ = true;
    ranks.size_ = comm.size();
    ranks.tag_ += own_group_tags;
    return ranks;
  }

  /// Some members of an intracommunicator, whose ranks here are their positions in `members`; the caller is
  /// at `position`. `members` must outlive what is made.
  static Ranks among(Communicator& comm, Tag tag, std::span<const int> members, int position) noexcept {
    Ranks ranks(comm, tag);
    ranks.members_ = members.data();
    ranks.size_ = static_cast<int>(members.size());
    ranks.position_ = position;
    return ranks;
  }

  [[nodiscard]] int rank() const noexcept { return members_ ? position_ : comm_.rank(); }
  [[nodiscard]] int size() const noexcept { return size_; }
  [[nodiscard]] Communicator& comm() const noexcept { return comm_; }

  Result<> send(int to, const Payload& payload) const;
  /// A message of another size than the payload's is an error: collectives know what they wait for.
  Result<> receive(int from, const Payload& payload) const;
  /// Both at once.
  Result<> exchange(int to, const Payload& out, int from, const Payload& in) const;

 private:
  friend class Batch;
  static constexpr int own_group_tags = 64;

  [[nodiscard]] Target target(int rank) const noexcept;
  [[nodiscard]] int source(int rank) const noexcept { return members_ ? members_[rank] : rank; }

  Communicator& comm_;
  const int* members_ = nullptr;  ///< null: all
  int position_ = 0;
  int size_;
  int tag_;
  bool own_group_ = false;
};

/// Sends and receives that run at the same time. To be waited for before it goes out of scope.
class Batch {
 public:
  explicit Batch(const Ranks& ranks) : ranks_(ranks) {}
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  void send(int to, const Payload& payload);
  void receive(int from, const Payload& payload);
  [[nodiscard]] std::size_t size() const noexcept { return pending_.size(); }
  /// Whether everything started is complete; makes no progress itself.
  [[nodiscard]] bool is_complete() const;
  /// Completes everything started; the first error, if any.
  Result<> wait();

 private:
  struct Pending {
    Request* request;
    std::uint64_t expected;  ///< bytes of a receive
    bool receive;
  };
  const Ranks& ranks_;
  std::vector<Pending> pending_;
};

}  // namespace isthmus::coll
