#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/error.hpp"
#include "coll/flow/driver.hpp"
#include "coll/flow/lane.hpp"
#include "comm/communicator.hpp"
#include "p2p/message/message.hpp"

namespace isthmus::coll {

/// The processes among which an algorithm runs, by rank, and the messages between them: all of an
/// intracommunicator or some of them, or of an intercommunicator either the own group or, from rank to rank
/// of the other one, the remote group. Cheap to make, for one call.
class Ranks {
 public:
  /// The group that messages of `comm` go to.
  Ranks(Communicator& comm, Lane lane) noexcept : comm_(&comm), size_(comm.remote_size()), lane_(lane) {}
  /// The own group of an intercommunicator, on the same lane.
  [[nodiscard]] Ranks own_group() const noexcept {
    Ranks ranks(*comm_, lane_);
    ranks.own_group_ = true;
    ranks.size_ = comm_->size();
    ranks.lane_.tag += own_group_tags;
    return ranks;
  }

  /// Some members of an intracommunicator, whose ranks here are their positions in `members`; the caller is
  /// at `position`. `members` must outlive what is made.
  static Ranks among(Communicator& comm, Lane lane, std::span<const int> members, int position) noexcept {
    Ranks ranks(comm, lane);
    ranks.members_ = members.data();
    ranks.size_ = static_cast<int>(members.size());
    ranks.position_ = position;
    return ranks;
  }

  [[nodiscard]] int rank() const noexcept { return members_ ? position_ : comm_->rank(); }
  [[nodiscard]] int size() const noexcept { return size_; }
  [[nodiscard]] Communicator& comm() const noexcept { return *comm_; }
  [[nodiscard]] const Lane& lane() const noexcept { return lane_; }
  /// Null on the blocking lane.
  [[nodiscard]] Driver* driver() const noexcept { return lane_.driver; }

  // To be awaited by a flow at once.
  class Send;
  class Receive;
  class Exchange;
  [[nodiscard]] Send send(int to, const Payload& payload) const noexcept;
  /// A message of another size than the payload's is an error: collectives know what they wait for.
  [[nodiscard]] Receive receive(int from, const Payload& payload) const noexcept;
  /// Both at once.
  [[nodiscard]] Exchange exchange(int to, const Payload& out, int from, const Payload& in) const noexcept;

  // What they and `Batch` are made of. Null: the message has left.
  Request* start_send(int to, const Payload& payload) const;
  [[nodiscard]] Request* start_receive(int from, const Payload& payload) const;

 private:
  [[nodiscard]] Target target(int rank) const noexcept;
  [[nodiscard]] int source(int rank) const noexcept { return members_ ? members_[rank] : rank; }

  Communicator* comm_;
  const int* members_ = nullptr;  ///< null: all
  int position_ = 0;
  int size_;
  Lane lane_;
  bool own_group_ = false;
};

/// One message, or one each way: what `Ranks` gives a flow to await.
class Ranks::Exchange : public Awaited {
 public:
  Exchange(const Ranks& ranks, int to, const Payload& out, int from, const Payload& in) noexcept
      : ranks_(ranks), out_(out), in_(in), to_(to), from_(from) {}
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  /// Starts, and on the blocking lane waits. Whether that was all.
  bool begin();
  [[nodiscard]] Driver* driver() const noexcept { return ranks_.driver(); }
  [[nodiscard]] bool is_complete() const noexcept final {
    return (!receive_ || receive_->complete) && (!send_ || send_->complete);
  }
  Result<> end();

 protected:
  static constexpr int nobody = -1;

 private:
  const Ranks& ranks_;
  Payload out_, in_;
  int to_, from_;
  Request* send_ = nullptr;
  Request* receive_ = nullptr;
  Result<> result_;
};
class Ranks::Send final : public Exchange {
 public:
  Send(const Ranks& ranks, int to, const Payload& out) noexcept : Exchange(ranks, to, out, nobody, {}) {}
};
class Ranks::Receive final : public Exchange {
 public:
  Receive(const Ranks& ranks, int from, const Payload& in) noexcept : Exchange(ranks, nobody, {}, from, in) {}
};

inline Ranks::Send Ranks::send(int to, const Payload& payload) const noexcept {
  return {*this, to, payload};
}
inline Ranks::Receive Ranks::receive(int from, const Payload& payload) const noexcept {
  return {*this, from, payload};
}
inline Ranks::Exchange Ranks::exchange(int to, const Payload& out, int from,
                                       const Payload& in) const noexcept {
  return {*this, to, out, from, in};
}

/// Sends and receives that run at the same time. To be awaited, or waited for, before it goes out of scope.
class Batch final : public Awaited {
 public:
  explicit Batch(const Ranks& ranks) : ranks_(ranks) {}
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  void send(int to, const Payload& payload);
  void receive(int from, const Payload& payload);
  [[nodiscard]] std::size_t size() const noexcept { return pending_.size(); }
  /// Whether everything started is complete; makes no progress itself.
  [[nodiscard]] bool is_complete() const noexcept override;
  /// Completes everything started; the first error, if any.
  Result<> wait();

  // For a flow that awaits it.
  [[nodiscard]] bool begin() const noexcept { return !ranks_.driver() || is_complete(); }
  [[nodiscard]] Driver* driver() const noexcept { return ranks_.driver(); }
  Result<> end() { return wait(); }

 private:
  struct Pending {
    Request* request;
    std::uint64_t expected;  ///< bytes of a receive
    bool receive;
  };
  /// For one more, so that nothing that is under way is lost where memory runs out.
  void make_room();
  /// Takes back what has been started, or waits for it, before an exception takes the buffers away.
  void withdraw();

  const Ranks ranks_;
  std::vector<Pending> pending_;
};

}  // namespace isthmus::coll
