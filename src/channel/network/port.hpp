#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/settings.hpp"

/// Messages between hosts. The network library (UCX) is behind `Port`, in a shared object of its own
/// (`lib/isthmus/libisthmus_network.so`) that is loaded when a job has a peer that shares no memory with this
/// process: a job of one host pays nothing for it.
namespace isthmus::network {

/// Rank of a process in the job.
using PeerId = std::uint32_t;
/// Names an operation to who began it.
using Token = std::uint64_t;
/// Names a message whose bytes are still at its sender. 0 is none.
using OfferId = std::uint64_t;

/// Who a process is in its job.
struct Identity {
  PeerId rank;
  PeerId ranks;  ///< processes of the job
};

/// What a port tells its owner, from inside of `Port::poll` and `Port::send` alone.
class Events {
 public:
  /// A message of `peer`; messages of one peer come, here and in `offered`, in the order in which they were
  /// sent. Both spans are valid during the call only, and come from a peer: nothing in them is checked.
  virtual void arrived(PeerId peer, std::span<const std::byte> header, std::span<const std::byte> bytes) = 0;
  /// The envelope of a longer message, to be answered by one `fetch` or `decline`, now or later.
  virtual void offered(PeerId peer, std::span<const std::byte> header, std::uint64_t bytes,
                       OfferId offer) = 0;
  /// What `send` left pending is complete: the buffer may be reused. `error` is null if all went well.
  virtual void sent(Token token, const Error* error) = 0;
  /// What `fetch` began is complete.
  virtual void fetched(Token token, const Error* error) = 0;
  /// `peer` cannot be reached any more: its process ended or closed its port, or nothing has come from its
  /// host for some seconds. Told once, also of a peer that has connected to this process without being
  /// connected to. Pending operations with it have been reported, or will be before the next `poll` returns,
  /// with an error; later ones fail at once.
  virtual void lost(PeerId peer, const Error& why) = 0;

 protected:
  ~Events() = default;
};

/// This process's end of the network. Not thread-safe: its owner has a lock.
class Port {
 public:
  virtual ~Port() = default;

  /// How others reach this port; opaque, to be published.
  [[nodiscard]] virtual std::span<const std::byte> address() const = 0;
  /// Makes `peer` reachable by what its `address()` said. Does not wait for it. Messages of a peer arrive
  /// without it; to answer them, by `fetch` or `decline`, it is needed.
  virtual Result<> connect(PeerId peer, std::span<const std::byte> address) = 0;

  /// From now on the next send without bytes, or the next `decline`, needs no memory here.
  virtual void make_room() = 0;

  enum class Progress : std::uint8_t { complete, pending };
  /// Largest message that travels with its envelope; longer ones are offered. Of a peer that is connected.
  [[nodiscard]] virtual std::uint64_t eager_limit(PeerId peer) const = 0;
  /// Sends `header` (up to `header_limit` bytes, copied at once) and `bytes`. `complete`: the buffer may be
  /// reused, no event follows; `pending`: `sent(token)` follows. Messages above `eager_limit()` are pending
  /// until they are fetched or declined.
  virtual Result<Progress> send(PeerId peer, std::span<const std::byte> header,
                                std::span<const std::byte> bytes, Token token) = 0;
  /// Why memory of GPUs cannot be handed to this port, as the end of a sentence; empty where it can.
  [[nodiscard]] virtual std::string_view why_not_gpu() const = 0;
  /// As `send`, of `bytes` in memory that this process has taken of a GPU (cuMemAlloc and the like, not
  /// managed), where `why_not_gpu` is empty. However short, they are offered.
  virtual Result<Progress> send_from_gpu(PeerId peer, std::span<const std::byte> header,
                                         std::span<const std::byte> bytes, Token token) = 0;
  /// Fetches the first `to.size()` bytes of an offer (at most what it offers) into `to`; `fetched(token)`
  /// follows, at the earliest from the next `poll`. Consumes the offer.
  virtual void fetch(OfferId offer, std::span<std::byte> to, Token token) = 0;
  /// As `fetch`, to such memory. False, with nothing done, where this offer cannot be fetched there.
  [[nodiscard]] virtual bool try_fetch_to_gpu(OfferId offer, std::span<std::byte> to, Token token) = 0;
  /// Lets an offer go without its bytes: the send completes, if its sender can be told.
  virtual void decline(OfferId offer) = 0;

  /// `peer` is no more, as its owner has learned elsewhere: what is pending with it ends, as where the port
  /// has lost it.
  virtual void give_up(PeerId peer) noexcept = 0;

  /// Moves what can be moved; returns how many events were delivered. Never blocks.
  virtual unsigned poll() = 0;
  /// A descriptor that becomes readable when there is something to `poll`, after `arm()` has returned true.
  /// `arm` returns false where there is something already.
  [[nodiscard]] virtual int wake_descriptor() const = 0;
  virtual bool arm() = 0;

  /// Which transports and devices carry messages to `peer`, for people ("rc_verbs on mlx5_0:1").
  [[nodiscard]] virtual std::string describe(PeerId peer) const = 0;
  /// Whether everything that was sent has left, so that the port may be destroyed without losing it. Asks the
  /// transports for it, so it becomes true after some `poll`s.
  [[nodiscard]] virtual bool idle() = 0;
};

/// Largest header of a message in bytes.
inline constexpr std::size_t header_limit = 64;

/// Opens this process's port. `settings.transport` says which transports may serve. Fails with a sentence for
/// the user, where the shared object or the network library is missing too. `events` must outlive the port.
Result<std::unique_ptr<Port>> open(const Settings& settings, Identity self, Events& events);

/// What the network library finds on this machine.
struct Inventory {
  struct Transport {
    std::string name;    ///< "rc_verbs"
    std::string device;  ///< "mlx5_0:1"
    friend bool operator==(const Transport&, const Transport&) = default;
  };
  std::string library;  ///< with its version
  std::vector<Transport> transports;
};

/// Lists what a job with these `settings` could choose from. Opens no port. Fails as `open`.
Result<Inventory> inventory(const Settings& settings);

}  // namespace isthmus::network
