#pragma once

#include <isthmus/device.cuh>

#include <cstdint>

#include "kernels/meet_body.hpp"

/// Short messages by one launch at the sender and one at the receiver, matched by the receiver's kernel. Each
/// member has slots in its own memory for each sender, which writes into the next one: a packet that says
/// what it is, and packets of data, each with the message's number. Numbers are counted in memory of the GPU,
/// so captured launches are right at each replay. Who receives takes the first message of that sender with
/// its tag that nobody has taken, and tells the sender that the slot is free.
namespace isthmus::kernel {

inline constexpr std::uint32_t mail_threads = 256;
/// Messages that one may be ahead of another one's receives. A power of two.
inline constexpr std::uint32_t mail_slots = 16;
inline constexpr std::uint64_t mail_most_bytes = std::uint64_t{16} << 10U;
inline constexpr std::uint64_t mail_packets = 1 + mail_most_bytes / 8;
/// As DevicePort notes it: a message was longer than the receive.
inline constexpr std::uint32_t mail_truncated = 64;

/// In each member's memory.
struct MailBook {
  device::u64 sent[meet_members];                  ///< messages to each, by this member's kernels
  device::u64 taken[meet_members];                 ///< of each: all up to this number have been received
  device::u64 received[meet_members][mail_slots];  ///< of each slot: the last that was
  device::u64 free[meet_members][mail_slots];      ///< the same at the receivers, which write it
};
inline constexpr std::uint64_t mail_header = 4096;
static_assert(sizeof(MailBook) <= mail_header);

[[nodiscard]] ISTHMUS_ANYWHERE constexpr std::uint64_t mail_room_bytes(std::uint32_t members) {
  return mail_header + std::uint64_t{members} * mail_slots * mail_packets * sizeof(Packet);
}

struct MailArguments {
  isthmus_device_view port;  ///< tells when to wait no longer, and what goes wrong
  Byte* own;                 ///< rooms for mail
  Byte* theirs;
  MeetSide data;
  device::u64* told;        ///< of a receive: gets the message's length; null: nobody asks
  std::uint64_t operation;  ///< its number on the stream
  std::uint32_t rank;
  std::uint32_t peer;
  std::uint32_t tag;
  std::uint32_t reserved;
};

ISTHMUS_DEVICE_FUNCTION Packet* mail_slot(Byte* room, std::uint32_t sender, device::u64 number) {
  return reinterpret_cast<Packet*>(room + mail_header) +
         (std::uint64_t{sender} * mail_slots + number % mail_slots) * mail_packets;
}

/// Looks until `ready` or the host says that nobody waits any more.
template <class Ready>
ISTHMUS_DEVICE_FUNCTION bool mail_await(const device::DevicePort& port, Ready ready) {
  for (std::uint32_t looks = 1;; ++looks) {
    if (ready()) return true;
    if (looks % device::detail::looks_per_question == 0 && port.is_ended()) return false;
    device::detail::pause();
  }
}

/// By one block.
ISTHMUS_DEVICE_FUNCTION void send_mail(const MailArguments& work) {
  const device::ByBlock by;
  const device::DevicePort port(work.port);
  auto* const book = reinterpret_cast<MailBook*>(work.own);
  const device::u64 number = device::detail::load_word(&book->sent[work.peer]) + 1;
  bool ok = true;
  if (number > mail_slots) {
    const device::u64* const free = &book->free[work.peer][number % mail_slots];
    ok = mail_await(port, [&] { return device::detail::load_word(free) + mail_slots >= number; });
  }
  if (!by.all(ok)) return;
  Packet* const slot = mail_slot(work.theirs, work.rank, number);
  for (std::uint32_t i = by.index(); std::uint64_t{i} * 8 < work.data.bytes; i += by.size())
    device::detail::store_line(slot + 1 + i, {number, load_word(work.data, std::uint64_t{i} * 8)});
  if (by.index() != 0) return;
  device::detail::store_line(slot, {number, std::uint64_t{work.tag} << 32U | work.data.bytes});
  device::detail::store_word(&book->sent[work.peer], number);
}

/// The number of the first message from the peer with that tag that nobody has received, and what its first
/// packet says. By one thread.
ISTHMUS_DEVICE_FUNCTION bool find_mail(const MailArguments& work, const device::DevicePort& port,
                                       Packet& found) {
  auto* const book = reinterpret_cast<MailBook*>(work.own);
  device::u64 number = device::detail::load_word(&book->taken[work.peer]) + 1;
  return mail_await(port, [&] {
    for (;; ++number) {
      found = device::detail::load_line(mail_slot(work.own, work.peer, number));
      if (found.value != number) return false;
      const bool is_received =
          device::detail::load_word(&book->received[work.peer][number % mail_slots]) == number;
      if (!is_received && found.word >> 32U == work.tag) return true;
    }
  });
}

/// By one block.
ISTHMUS_DEVICE_FUNCTION void receive_mail(const MailArguments& work) {
  const device::ByBlock by;
  const device::DevicePort port(work.port);
  Packet found{};
  if (by.index() == 0 && !find_mail(work, port, found)) found.value = 0;
  const device::u64 number = by.first_has(found.value);
  const device::u64 bytes = by.first_has(found.word) & 0xffff'ffff;
  if (number == 0) return;
  const MeetSide to{work.data.at, bytes < work.data.bytes ? bytes : work.data.bytes};
  const Packet* const slot = mail_slot(work.own, work.peer, number);
  bool ok = true;
  for (std::uint32_t i = by.index(); ok && std::uint64_t{i} * 8 < to.bytes; i += by.size()) {
    Packet packet{};
    ok = mail_await(port, [&] {
      packet = device::detail::load_line(slot + 1 + i);
      return packet.value == number;
    });
    if (ok) store_word(to, std::uint64_t{i} * 8, packet.word);
  }
  if (!by.all(ok) || by.index() != 0) return;
  auto* const book = reinterpret_cast<MailBook*>(work.own);
  device::u64* const received = book->received[work.peer];
  device::detail::store_word(&received[number % mail_slots], number);
  device::u64 taken = device::detail::load_word(&book->taken[work.peer]);
  while (device::detail::load_word(&received[(taken + 1) % mail_slots]) == taken + 1)
    ++taken;
  device::detail::store_word(&book->taken[work.peer], taken);
  if (work.told) device::detail::store_word(work.told, bytes);
  if (bytes > work.data.bytes)
    port.refuse(device::ByThread(), mail_truncated, 0, static_cast<int>(work.peer),
                static_cast<std::uint32_t>(work.operation), work.data.bytes, bytes);
  auto* const their_book = reinterpret_cast<MailBook*>(work.theirs);
  device::detail::store_word(&their_book->free[work.rank][number % mail_slots], number);
}

}  // namespace isthmus::kernel
