#pragma once

#include <array>
#include <cstdint>
#include <expected>
#include <span>
#include <string>
#include <string_view>

#include "wire/ring.hpp"

namespace isthmus {

/// Why a mechanism does not work between two processes, in words for people.
struct Reason {
  std::string text;
  std::string_view remedy = {};  ///< what the user could do about it; empty: nothing is known
};

/// Whether a mechanism works from this process towards a peer: found by doing it once on that pair.
using Reach = std::expected<void, Reason>;

enum class ChannelId : std::uint8_t { self, shm, cma, mapping, network, process };
[[nodiscard]] std::string_view name_of(ChannelId channel) noexcept;

/// How the bytes of one message go.
enum class Protocol : std::uint8_t {
  local,         ///< within the process: one copy
  eager_inline,  ///< in the cell that carries the envelope
  eager,         ///< envelope in a cell, bytes in the ring
  stream,        ///< rendezvous, then fragments through the ring: both sides copy at the same time
  pull,          ///< rendezvous, then the receiver reads the sender's memory
  split,         ///< rendezvous, then the receiver reads from the front while the sender writes from the back
  network_eager,       ///< to another host, bytes with the envelope
  network_rendezvous,  ///< to another host, bytes fetched by the receiver
  network_chunks,      ///< from GPU memory to another host, fetched chunk by chunk while the next is copied
  network_gpu,         ///< from or to GPU memory, by the network itself
  gpu_push,            ///< to GPU memory, by the sender's copy engine
  gpu_pull,            ///< from GPU memory, by the receiver's copy engine
  gpu_courier,         ///< from GPU memory, by a kernel that waits for messages on the receiver's GPU
  gpu_staged,          ///< from or to GPU memory, chunk by chunk through memory of the host that both share
  gpu_bounce,          ///< between GPU memories that neither process can open, through a third
  gpu_loopback,        ///< between GPU memories of one host, by the network's adapter
  mapped,              ///< rendezvous, then the receiver copies from the sender's pages, which it has mapped
  beside,  ///< rendezvous, then the receiver copies from the sender's buffer: both are one process
};
inline constexpr std::size_t protocol_count = 18;
[[nodiscard]] std::string_view name_of(Protocol protocol) noexcept;

/// One range of message sizes: up to and including `up_to` bytes.
struct Step {
  std::uint64_t up_to;
  Protocol protocol;
  ChannelId channel;
};

/// What a plan follows from.
struct PlanInputs {
  bool same_process = false;
  bool beside = false;                                    ///< the peer is another rank of this process
  bool mapped = false;                                    ///< this process has mapped the peer's memory
  bool remote = false;                                    ///< on another host: `eager_limit` is the network's
  Reach pull = std::unexpected(Reason{"not tried yet"});  ///< this process reads the peer's memory
  Reach push = std::unexpected(Reason{"not tried yet"});  ///< the peer writes to this process's memory
  std::uint64_t eager_limit = 0;
  std::uint64_t split_from = 0;  ///< both sides copy from this size on
};

/// Which way a message takes from a peer to this process, by size: a pure function of its inputs, so that it
/// can be printed, compared and tested without a second process. Contiguous data; where one side is not
/// contiguous, `receiver_pulls` and `both_copy` say what remains possible.
class Plan {
 public:
  Plan() : Plan(PlanInputs{}) {}
  explicit Plan(const PlanInputs& inputs);

  /// The step for a message of `bytes`.
  [[nodiscard]] const Step& step(std::uint64_t bytes) const noexcept {
    std::size_t i = 0;
    while (steps_[i].up_to < bytes)
      ++i;
    return steps_[i];
  }
  [[nodiscard]] std::span<const Step> steps() const noexcept { return {steps_.data(), count_}; }

 private:
  void add(std::uint64_t up_to, Protocol protocol, ChannelId channel) noexcept;

  std::array<Step, 5> steps_{};
  std::size_t count_ = 0;
};

/// Where both sides begin to copy. Measured one way, one reader against both: 32 KiB 1.8 us either way if the
/// receiver has the data in its cache and 5.5 against 3.7 us if it is new; 64 KiB 2.9 against 2.3 us, and 8.6
/// against 5.9.
inline constexpr std::uint64_t default_split_from = 32 * 1024;

}  // namespace isthmus
