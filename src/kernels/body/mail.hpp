#pragma once

#include <isthmus/device_mail.cuh>

#include <cstdint>

#include "kernels/body/meet/packets.hpp"

/// Short messages by one launch at the sender and one at the receiver, matched by the receiver's kernel
/// (`device::detail::Mail`).
namespace isthmus::kernel {

inline constexpr std::uint32_t mail_threads = 256;
/// Messages that one may be ahead of another one's receives. A power of two.
inline constexpr std::uint32_t mail_slots = 16;
inline constexpr std::uint32_t mail_most_bytes = 16U << 10U;

using Mail = device::detail::Mail<mail_slots, mail_most_bytes>;

struct MailArguments {
  isthmus_device_view port;  ///< tells when to wait no longer, and what goes wrong
  Byte* own;                 ///< rooms for mail
  Byte* theirs;
  MeetSide data;
  device::u64* told;        ///< of a receive: gets the message's length; null: nobody asks
  std::uint64_t operation;  ///< its number on the stream
  std::uint32_t rank;
  std::uint32_t peer;
  std::uint32_t members;
  std::uint32_t tag;
};

ISTHMUS_DEVICE_FUNCTION Mail mail_of(const MailArguments& work) {
  return {work.own, work.theirs, work.rank, work.peer, work.members};
}

/// By one block.
ISTHMUS_DEVICE_FUNCTION void send_mail(const MailArguments& work) {
  const device::ByBlock by;
  const Mail mail = mail_of(work);
  const device::u64 number = mail.begin(by, device::DevicePort(work.port));
  if (number == 0) return;
  mail.write(by, number, work.data.at, work.data.bytes);
  if (by.index() == 0) mail.announce(number, work.tag, static_cast<std::uint32_t>(work.data.bytes));
}

/// By one block.
ISTHMUS_DEVICE_FUNCTION void receive_mail(const MailArguments& work) {
  const device::ByBlock by;
  const device::DevicePort port(work.port);
  const Mail mail = mail_of(work);
  const Packet found = mail.find(by, port, work.tag);
  const device::u64 number = found.value;
  const device::u64 bytes = found.word & 0xffff'ffff;
  if (number == 0) return;
  const bool ok =
      mail.read(by, port, number, work.data.at, bytes < work.data.bytes ? bytes : work.data.bytes);
  if (!by.all(ok) || by.index() != 0) return;
  if (work.told) device::detail::store_word(work.told, bytes);
  if (bytes > work.data.bytes)
    port.refuse(device::ByThread(), ISTHMUS_DEVICE_TRUNCATED, ISTHMUS_DEVICE_RECEIVE,
                static_cast<int>(work.peer), static_cast<std::uint32_t>(work.operation), work.data.bytes,
                bytes);
  mail.end(number);
}

}  // namespace isthmus::kernel
