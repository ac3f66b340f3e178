#pragma once

#include <array>
#include <cstdint>
#include <expected>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace isthmus {

/// Why a mechanism does not work between two processes, in words for people.
struct Reason {
  std::string text;
  std::string_view remedy = {};  ///< what the user could do about it; empty: nothing is known
};

/// Whether a mechanism works from this process towards a peer: found by doing it once on that pair.
using Reach = std::expected<void, Reason>;

enum class ChannelId : std::uint8_t { self, shm, cma, mapping, network, process, gpu };
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

/// The sizes of messages that a protocol serves, in bytes.
struct Serves {
  std::uint64_t from = 0;
  std::uint64_t up_to = std::numeric_limits<std::uint64_t>::max();  ///< itself too
};
/// What a probe says of a pair: for which sizes its protocol serves, or why not, as the end of a sentence.
using Probed = std::expected<Serves, std::string_view>;

/// A protocol that serves a pair of ranks and their memories.
struct Way {
  Protocol protocol{};
  ChannelId channel{};
  Serves serves{};
};

/// One range of message sizes: up to and including `up_to` bytes.
struct Step {
  std::uint64_t up_to;
  Protocol protocol;
  ChannelId channel;
  friend bool operator==(const Step&, const Step&) = default;
};

/// Which way a message takes, by size: the first that serves it of those which probes have named. Where that
/// one fails with a message, the next that serves it is taken. A pure function of the ways, so that it can be
/// printed, compared and tested without a second process.
class Plan {
 public:
  static constexpr std::size_t most_ways = 8;

  /// The ways that serve messages of one size, the best first.
  class Serving {
   public:
    class Iterator {
     public:
      Iterator(const Way* at, const Way* end, std::uint64_t bytes) noexcept
          : at_(at), end_(end), bytes_(bytes) {
        skip();
      }
      const Way& operator*() const noexcept { return *at_; }
      Iterator& operator++() noexcept {
        ++at_;
        skip();
        return *this;
      }
      friend bool operator==(const Iterator& one, const Iterator& other) noexcept {
        return one.at_ == other.at_;
      }

     private:
      void skip() noexcept {
        while (at_ != end_ && (bytes_ < at_->serves.from || bytes_ > at_->serves.up_to))
          ++at_;
      }
      const Way* at_;
      const Way* end_;
      std::uint64_t bytes_;
    };
    Serving(std::span<const Way> ways, std::uint64_t bytes) noexcept : ways_(ways), bytes_(bytes) {}
    [[nodiscard]] Iterator begin() const noexcept {
      return {ways_.data(), ways_.data() + ways_.size(), bytes_};
    }
    [[nodiscard]] Iterator end() const noexcept {
      const Way* const last = ways_.data() + ways_.size();
      return {last, last, bytes_};
    }

   private:
    std::span<const Way> ways_;
    std::uint64_t bytes_;
  };

  Plan() = default;
  /// `ways`: the best first, `most_ways` at most. The last of them has to serve what no other does.
  explicit Plan(std::span<const Way> ways) noexcept;

  [[nodiscard]] Serving serving(std::uint64_t bytes) const noexcept {
    return {{ways_.data(), way_count_}, bytes};
  }
  /// The step for a message of `bytes`; there must be steps.
  [[nodiscard]] const Step& step(std::uint64_t bytes) const noexcept {
    std::size_t i = 0;
    while (steps_[i].up_to < bytes)
      ++i;
    return steps_[i];
  }
  /// The best ways of all sizes. None where no way has been named.
  [[nodiscard]] std::span<const Step> steps() const noexcept { return {steps_.data(), step_count_}; }

 private:
  std::array<Way, most_ways> ways_{};
  std::array<Step, 2 * most_ways> steps_{};  // each end of a way ends one step at most
  std::size_t way_count_ = 0;
  std::size_t step_count_ = 0;
};

/// Where a sender's message lies, as its offer says it.
enum class SendersMemory : std::uint8_t {
  any,
  allocated,  ///< of MPI_Alloc_mem, which the receiver may map
  managed,    ///< CUDA's, which no other process may read
};
inline constexpr std::size_t senders_memories = 3;

/// What is known of a peer, and of the memory that it sends from: all that probes of messages in memory of
/// hosts look at.
struct PairFacts {
  bool same_process = false;
  bool beside = false;  ///< the peer is another rank of this process
  bool remote = false;  ///< on another host: `eager_limit` is the network's
  SendersMemory memory = SendersMemory::any;
  bool pull = false;              ///< this process reads the peer's memory
  bool push = false;              ///< the peer writes to this process's memory
  std::uint64_t eager_limit = 0;  ///< of what this process sends to the peer
  std::uint64_t split_from = 0;   ///< both sides copy from this size on

  /// Whether it is another rank on this host; the next, whether it is one of another process.
  [[nodiscard]] bool is_neighbour() const noexcept { return !same_process && !remote; }
  [[nodiscard]] bool is_other_process() const noexcept { return is_neighbour() && !beside; }
  /// Managed memory is for its own process to load from and to store to. The kernel copies between processes
  /// from and to pages that it has looked up before: what CUDA moves meanwhile is lost, or is not what was
  /// there (2 x H200: 6 of 52 runs with 100 messages under way).
  [[nodiscard]] bool is_managed() const noexcept { return memory == SendersMemory::managed; }
};
/// Of who is not.
inline constexpr std::string_view no_neighbour = "it is no peer of this host";
inline constexpr std::string_view of_another_process = "managed memory is for its own process alone";

/// What a message costs by a protocol, the least first: of those that serve a message the cheapest is taken.
enum class Cost : std::uint8_t {
  in_envelope,
  with_envelope,
  one_copy,  ///< no system call
  both_copy,
  one_copies,  ///< by the kernel, or by the network
  two_copies,  ///< in and out of what both share
};

/// What a protocol says of itself: which one it is, and for which pairs and sizes it serves.
struct Probe {
  Protocol protocol;
  ChannelId channel;
  Cost cost;
  Probed (*ask)(const PairFacts& facts) noexcept;  ///< pure
};

/// The probes of all protocols for memory of hosts: each protocol enters its own.
class Probes {
 public:
  void add(const Probe& probe);
  /// The cheapest first.
  [[nodiscard]] std::span<const Probe> all() const noexcept { return all_; }
  /// Needs no memory.
  [[nodiscard]] Plan plan(const PairFacts& facts) const noexcept;

 private:
  std::vector<Probe> all_;
};

/// Where both sides begin to copy. Measured one way, one reader against both: 32 KiB 1.8 us either way if the
/// receiver has the data in its cache and 5.5 against 3.7 us if it is new; 64 KiB 2.9 against 2.3 us, and 8.6
/// against 5.9.
inline constexpr std::uint64_t default_split_from = 32 * 1024;

}  // namespace isthmus
