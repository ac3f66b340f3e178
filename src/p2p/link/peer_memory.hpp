#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "gpu/memory/allocation.hpp"
#include "p2p/link/peer.hpp"
#include "p2p/message/message.hpp"
#include "route/plan.hpp"
#include "wire/ring.hpp"

namespace isthmus {

/// What `isthmus explain` says of memory that goes another way than the plan of its pair.
struct MemoryReport {
  bool is_in_reach = false;  ///< then `Peer::plan(SendersMemory::allocated)` holds
  std::string why_not;       ///< else
};

/// A way in which a process takes what a peer of its host sends straight out of the peer's memory: one copy.
/// Guarded by the engine's lock.
class PeerMemory {
 public:
  PeerMemory() = default;
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  // The sender's side.

  /// Memory for the program that peers reach this way; null where there is none. `alignment`: a power of two.
  [[nodiscard]] virtual std::unique_ptr<Allocation> allocate([[maybe_unused]] std::size_t bytes,
                                                             [[maybe_unused]] std::size_t alignment) {
    return nullptr;
  }
  /// `bytes` at `data` are about to be offered to `peer`, which is told what it needs to reach them. The
  /// number that the offer has to carry for that (`wire::SendOffer::allocation`), 0 for none.
  virtual std::uint32_t announce([[maybe_unused]] Peer& peer, [[maybe_unused]] const void* data,
                                 [[maybe_unused]] std::uint64_t bytes) noexcept {
    return 0;
  }

  // The receiver's side.

  /// Whether it is what a protocol of a plan reads by.
  [[nodiscard]] virtual bool carries(Protocol protocol) const noexcept = 0;
  /// Finds out what probes look at, of a peer whose message is about to come, unless that has been done.
  virtual void try_reach([[maybe_unused]] Peer& peer) noexcept {}
  /// Whether `bytes` of what a peer offers are in reach.
  [[nodiscard]] virtual bool reaches(Peer& peer, const wire::SendOffer& offer,
                                     std::uint64_t bytes) noexcept = 0;
  /// Copies the first `bytes` of what it reaches to `to`, which has room for them.
  [[nodiscard]] virtual Result<> read(Peer& peer, const wire::SendOffer& offer, const Payload& to,
                                      std::uint64_t bytes) = 0;

  // Both.

  /// The peer is no more.
  virtual void forget([[maybe_unused]] const Peer& peer) noexcept {}
  /// No message comes or goes any more.
  virtual void close() noexcept {}
  /// This process is the child of a fork.
  virtual void become_child() noexcept {}
  /// Nothing where the plan of the pair has said it.
  [[nodiscard]] virtual std::optional<MemoryReport> report([[maybe_unused]] const Peer& peer) const {
    return std::nullopt;
  }
  /// Why memory that `allocate` was asked for is not reached this way; empty where all is.
  [[nodiscard]] virtual std::string why_not_allocated() const { return {}; }

 protected:
  ~PeerMemory() = default;
};

/// The ways to the memory of peers. Who enters later is asked earlier for memory: the one that serves any
/// comes first. By which a message comes says its plan.
class PeerMemories {
 public:
  void add(PeerMemory& way) { ways_.insert(ways_.begin(), &way); }
  /// By which a protocol reads; null where it does not read so.
  [[nodiscard]] PeerMemory* carrier_of(Protocol protocol) const noexcept {
    for (PeerMemory* way : ways_)
      if (way->carries(protocol)) return way;
    return nullptr;
  }
  void try_reach(Peer& peer) noexcept {
    for (PeerMemory* way : ways_)
      way->try_reach(peer);
  }
  [[nodiscard]] std::span<PeerMemory* const> ways() const noexcept { return ways_; }

  [[nodiscard]] std::unique_ptr<Allocation> allocate(std::size_t bytes, std::size_t alignment) {
    for (PeerMemory* way : ways_)
      if (auto memory = way->allocate(bytes, alignment)) return memory;
    return nullptr;
  }
  std::uint32_t announce(Peer& peer, const void* data, std::uint64_t bytes) noexcept {
    for (PeerMemory* way : ways_)
      if (const std::uint32_t allocation = way->announce(peer, data, bytes)) return allocation;
    return 0;
  }
  void forget(const Peer& peer) noexcept {
    for (PeerMemory* way : ways_)
      way->forget(peer);
  }
  void close() noexcept {
    for (PeerMemory* way : ways_)
      way->close();
  }
  void become_child() noexcept {
    for (PeerMemory* way : ways_)
      way->become_child();
  }

 private:
  std::vector<PeerMemory*> ways_;
};

}  // namespace isthmus
