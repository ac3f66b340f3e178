#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <variant>

#include "base/unique_fd.hpp"
#include "p2p/message/message.hpp"
#include "p2p/protocol/mapping/shared_memory.hpp"
#include "wire/mapping.hpp"

namespace isthmus {

/// Memory of peers that this process has been told of, by peer and number: the last used stay mapped. To map
/// one costs 5 us, and the first look at each 64 KiB of it a page fault. One thread at a time.
class PeerMappings {
 public:
  struct Limits {
    std::size_t entries = 256;
    std::uint64_t bytes = std::uint64_t{1} << 40;  ///< of address space, of 128 TiB
  };
  using Clock = std::chrono::steady_clock;

  PeerMappings() = default;
  explicit PeerMappings(const Limits& limits) : limits_(limits) {}

  /// What `find` says of an allocation.
  enum class State : std::uint8_t {
    unknown,  ///< not told, or let go of since
    awaited,  ///< its descriptor is not here yet
    refused,  ///< it cannot be mapped, and never will be
    mapped,
  };
  struct Found {
    State state = State::unknown;
    const std::byte* data =
        nullptr;  ///< where the bytes are mapped; null where they are not in the allocation
  };

  /// A peer has told of an allocation. Takes the place of what it has told under that number before.
  void told(PeerId peer, const wire::MemoryTold& what, Clock::time_point now);
  /// The descriptor of what is awaited has come. Why it cannot be mapped; nothing where it can.
  std::optional<std::string> arrived(PeerId peer, std::uint32_t number, const UniqueFd& file);
  /// It is not to be mapped.
  void refuse(PeerId peer, std::uint32_t number) noexcept;
  /// `bytes` at `address` of the peer, in the allocation of that number. Nothing that is told is believed but
  /// for where in its own memory the peer means.
  [[nodiscard]] Found find(PeerId peer, std::uint32_t number, std::uint64_t address, std::uint64_t bytes);
  /// What an awaited allocation has been told with, and when; null where none of that number is.
  struct Awaited {
    wire::DescriptorTicket ticket;
    Clock::time_point since;
  };
  [[nodiscard]] std::optional<Awaited> awaited(PeerId peer, std::uint32_t number) const noexcept;

  void forget(PeerId peer, std::uint32_t number) noexcept;
  void forget(PeerId peer) noexcept;
  void clear() noexcept;
  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  struct Entry {
    PeerId peer;
    std::uint32_t number;
    std::uint64_t address;  ///< of its first byte, as the peer says
    State state = State::awaited;
    Awaited awaited;
    MappedRange range = {};
  };
  using Entries = std::list<Entry>;

  [[nodiscard]] Entries::const_iterator where(PeerId peer, std::uint32_t number) const noexcept;
  void erase(Entries::const_iterator entry) noexcept;

  Limits limits_;
  Entries entries_;  ///< the last used first; few, and searched from there
  std::uint64_t bytes_ = 0;
};

}  // namespace isthmus
