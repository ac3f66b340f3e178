#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <expected>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "base/unique_fd.hpp"
#include "wire/descriptor.hpp"

namespace isthmus::launch {

/// A box in which the processes of a region leave descriptors for each other: a datagram socket that is
/// connected to itself, handed on together with the region. What one holder sends, another receives, whatever
/// their namespaces, users and process ids; the kernel refuses all others. So no name, no key and no
/// permission is needed, nobody waits for the other, and nothing is left when the last holder is gone.
///
/// All holders receive from the same queue, one process at a time, and put back what is not for them. About
/// 270 packets fit in.
class DescriptorBox {
 public:
  /// How long `take` waits while another process looks: it may have lost its processor.
  static constexpr std::chrono::milliseconds patience{1000};
  /// Descriptors that were left for this process and that it has not asked for yet.
  static constexpr std::size_t most_kept = 256;

  /// An empty box.
  static Result<UniqueFd> make();
  /// Whether a descriptor that was handed to this process is one.
  [[nodiscard]] static bool is_one(int fd) noexcept;

  /// `rank`: this process's in the job.
  DescriptorBox(UniqueFd socket, std::uint32_t rank) : socket_(std::move(socket)), rank_(rank) {}

  /// The process that it is in has the socket under another number.
  void use(UniqueFd socket) noexcept { socket_ = std::move(socket); }

  /// Leaves a copy of `fd` for process `rank`. Fails with `resource_unavailable_try_again` where the box is
  /// full; else the kernel refuses it (`too_many_references`: more descriptors of this user are on their way
  /// than RLIMIT_NOFILE, unix(7)).
  [[nodiscard]] std::expected<void, std::errc> leave(std::uint32_t rank, const wire::DescriptorTicket& ticket,
                                                     int fd) noexcept;
  /// What was left for this process, close-on-exec. Empty where it is not there. Waits for `patience`.
  [[nodiscard]] UniqueFd take(const wire::DescriptorTicket& ticket);
  /// The same without waiting for what is not there, and at most a millisecond for another process that
  /// looks: empty where that goes on. Looks at each packet in the box once.
  [[nodiscard]] UniqueFd take_now(const wire::DescriptorTicket& ticket);

  /// Whether packets of others are in this process's hands because the box had no room when they were to go
  /// back. `give_back` puts back what there is room for; each look for a packet does it, too.
  [[nodiscard]] bool owes() const noexcept { return !owed_.empty() && owed_.front().fd; }
  void give_back() noexcept;

 private:
  struct Kept {
    wire::DescriptorTicket ticket;
    UniqueFd fd;
  };
  /// What one look has found: nothing, what is wanted, or a packet for this process or no packet at all; or
  /// one that is another's, and lies behind all others now.
  enum class Seen : std::uint8_t { nothing, wanted, other, returned };
  Seen look(const wire::DescriptorTicket& ticket, UniqueFd& wanted, wire::LeftDescriptor& packet);
  UniqueFd take_kept(const wire::DescriptorTicket& ticket);

  UniqueFd socket_;
  const std::uint32_t rank_;
  struct Owed {
    std::uint32_t rank = 0;
    wire::DescriptorTicket ticket{};
    UniqueFd fd{};
  };
  std::deque<Kept> kept_;  ///< the last may be empty
  std::deque<Owed> owed_;  ///< the last may be empty
};

}  // namespace isthmus::launch
