#ifndef ISTHMUS_DEVICE_MAIL_CUH
#define ISTHMUS_DEVICE_MAIL_CUH

#include <isthmus/device.cuh>

/// Messages with tags from kernel to kernel: docs/device.md. What is sent is described once, on the host or in
/// the kernel, and can be sent as often as the program likes.
///
///     __global__ void step(isthmus::device::DevicePort port, SendDescriptor out, ReceiveDescriptor in) {
///       const Messages messages(port);
///       const u64 sent = messages.send(ByBlock{}, out);
///       u64 bytes = 0;
///       if (sent == 0 || !messages.receive(ByBlock{}, in, bytes)) return;   // refused, or ended by the host
///       messages.wait_sent(ByBlock{}, out.rank, sent);                      // `out` may be written again
///     }
///
/// Matching is MPI's: a receive takes the first message of its rank, in the order in which that has sent, with
/// its tag that nobody has taken. There is no receive from any rank: a scope waits for one.
///
/// Up to `Messages::most_short` bytes travel with the message, by packets that say themselves that they are
/// there; longer ones lie still until their receiver's kernel copies them. A sender is at most
/// `Messages::ahead` messages ahead of each receiver, and then waits.
///
/// Where a process is not mapped, a proxy brings the packets there: the same calls serve, with the same
/// matching.
///
/// Threading: one scope of a process at a time sends to a process, and one receives from it; scopes for
/// different processes go side by side.
namespace isthmus::device {

inline constexpr u32 any_tag = ~u32{0};

namespace detail {

/// 8 bytes at any address, or the fewer that are `left`, as a number.
ISTHMUS_DEVICE_FUNCTION u64 load_some(const unsigned char* from, u64 left) {
  const u64 address = reinterpret_cast<u64>(from);
  if (left >= 8 && address % 8 == 0) return *reinterpret_cast<const u64*>(from);
  if (left == 4 && address % 4 == 0) return *reinterpret_cast<const u32*>(from);
  u64 word = 0;
  for (u32 i = 0; i < 8 && i < left; ++i)
    word |= u64{from[i]} << (8 * i);
  return word;
}
ISTHMUS_DEVICE_FUNCTION void store_some(unsigned char* to, u64 left, u64 word) {
  const u64 address = reinterpret_cast<u64>(to);
  if (left >= 8 && address % 8 == 0) {
    *reinterpret_cast<u64*>(to) = word;
  } else if (left == 4 && address % 4 == 0) {
    *reinterpret_cast<u32*>(to) = static_cast<u32>(word);
  } else {
    for (u32 i = 0; i < 8 && i < left; ++i)
      to[i] = static_cast<unsigned char>(word >> (8 * i));
  }
}

/// What two processes have for messages to each other, in a room in the memory of each: numbers, and slots
/// that the other writes into, `slots` (a power of two) of up to `most_bytes` bytes. A message is a packet
/// that says its tag and length, and packets of data, each with the message's number. Numbers are counted in
/// memory of the GPU, so captured launches are right at each replay.
///
/// Where the other's room is not mapped, what is sent is written behind the own room, in a slot of the same
/// number, and the caller has it brought to where `slot_line` and `free_line` say.
template <u32 slots, u32 most_bytes>
class Mail {
 public:
  static constexpr u32 packets = 1 + most_bytes / 8;  ///< of a slot
  /// Of one other process.
  struct Book {
    u64 sent;             ///< messages to it
    u64 taken;            ///< of it: all up to this number have been received
    u64 received[slots];  ///< of each of its slots: the last that was
    Line free[slots];     ///< the same of the slots there, which it writes: the value
  };
  static_assert(sizeof(Book) % sizeof(Line) == 0, "slots lie behind books");
  static_assert(slots % 2 == 0 && sizeof(Book) == (2 + slots) / 2 * sizeof(Line) + slots * sizeof(Line),
                "what is free lies at lines");
  [[nodiscard]] ISTHMUS_DEVICE_ANYWHERE static constexpr u64 room_bytes(u32 ranks) {
    return ranks * (sizeof(Book) + u64{slots} * packets * sizeof(Line));
  }
  /// Behind a room, for others that are not mapped.
  [[nodiscard]] ISTHMUS_DEVICE_ANYWHERE static constexpr u64 outbox_bytes(u32 ranks) {
    return ranks * u64{slots} * packets * sizeof(Line);
  }

  /// Of process `rank` with process `peer`, of `ranks`; the rooms of both. `theirs`: null: not mapped.
  ISTHMUS_DEVICE_FUNCTION Mail(unsigned char* own, unsigned char* theirs, u32 rank, u32 peer, u32 ranks)
      : own_(own), theirs_(theirs), rank_(rank), peer_(peer), ranks_(ranks) {}
  [[nodiscard]] ISTHMUS_DEVICE_FUNCTION bool is_far() const { return theirs_ == nullptr; }

  // Of one that is far, in lines from the begin of a room: the slot of a message to it there, and of that
  // here; the line there that says that a message of it has been received.
  [[nodiscard]] ISTHMUS_DEVICE_FUNCTION u64 slot_line(u64 number) const { return first_line(rank_, number); }
  [[nodiscard]] ISTHMUS_DEVICE_FUNCTION u64 outbox_line(u64 number) const {
    return room_bytes(ranks_) / sizeof(Line) + (u64{peer_} * slots + number % slots) * packets;
  }
  [[nodiscard]] ISTHMUS_DEVICE_FUNCTION u64 free_line(u64 number) const {
    return rank_ * (sizeof(Book) / sizeof(Line)) + (2 + slots) / 2 + number % slots;
  }
  /// The packet that says that a message is there.
  [[nodiscard]] ISTHMUS_DEVICE_FUNCTION static Line header(u64 number, u32 tag, u32 bytes) {
    return {number, u64{tag} << 32U | bytes};
  }

  /// The number of the next message, once there is a slot for it; 0: nobody waits any more. By all of a scope.
  template <class By>
  [[nodiscard]] ISTHMUS_DEVICE_FUNCTION u64 begin(By by, const DevicePort& port) const {
    const u64 number = load_word(&own()->sent) + 1;
    bool ok = true;
    if (number > slots) ok = port.await([&] { return is_free(number - slots); });
    return by.all(ok) ? number : 0;
  }
  /// Whether the message of that number has been received.
  [[nodiscard]] ISTHMUS_DEVICE_FUNCTION bool is_free(u64 number) const {
    return load_word(&own()->free[number % slots].value) >= number;
  }
  /// This thread's part in the data of one.
  template <class By>
  ISTHMUS_DEVICE_FUNCTION void write(By by, u64 number, const unsigned char* from, u64 bytes) const {
    for (u64 i = by.index(); i * 8 < bytes; i += by.size())
      write_word(number, i, load_some(from + i * 8, bytes - i * 8));
  }
  ISTHMUS_DEVICE_FUNCTION void write_word(u64 number, u64 i, u64 word) const {
    Line* const to = is_far() ? reinterpret_cast<Line*>(own_) + outbox_line(number) : slot(theirs_, rank_, number);
    store_line(to + 1 + i, {number, word});
  }
  /// Tells of it. By one thread, after all have begun; where it is far, the header is the caller's.
  ISTHMUS_DEVICE_FUNCTION void announce(u64 number, u32 tag, u32 bytes) const {
    if (!is_far()) store_line(slot(theirs_, rank_, number), header(number, tag, bytes));
    store_word(&own()->sent, number);
  }

  /// The first message with that tag that nobody has received: its number, and its tag and length. Number 0:
  /// nobody waits any more. By all of a scope.
  template <class By>
  [[nodiscard]] ISTHMUS_DEVICE_FUNCTION Line find(By by, const DevicePort& port, u32 tag) const {
    Line found{};
    if (by.index() == 0) {
      u64 number = load_word(&own()->taken) + 1;
      const bool ok = port.await([&] {
        for (;; ++number) {
          found = load_line(slot(own_, peer_, number));
          if (found.value != number) return false;
          const bool is_received = load_word(&own()->received[number % slots]) == number;
          if (!is_received && (tag == any_tag || found.word >> 32U == tag)) return true;
        }
      });
      if (!ok) found.value = 0;
    }
    return {by.first_has(found.value), by.first_has(found.word)};
  }
  /// A word of its data, once that is there.
  [[nodiscard]] ISTHMUS_DEVICE_FUNCTION bool read_word(const DevicePort& port, u64 number, u64 i,
                                                       u64& word) const {
    Line line{};
    const Line* const at = slot(own_, peer_, number) + 1 + i;
    const bool ok = port.await([&] {
      line = load_line(at);
      return line.value == number;
    });
    word = line.word;
    return ok;
  }
  /// This thread's part in the first `bytes` of it.
  template <class By>
  [[nodiscard]] ISTHMUS_DEVICE_FUNCTION bool read(By by, const DevicePort& port, u64 number,
                                                  unsigned char* to, u64 bytes) const {
    for (u64 i = by.index(); i * 8 < bytes; i += by.size()) {
      u64 word = 0;
      if (!read_word(port, number, i, word)) return false;
      store_some(to + i * 8, bytes - i * 8, word);
    }
    return true;
  }
  /// It has been received. By one thread, after all have read; a far one is the caller's to tell.
  ISTHMUS_DEVICE_FUNCTION void end(u64 number) const {
    Book* const book = own();
    store_word(&book->received[number % slots], number);
    u64 taken = load_word(&book->taken);
    while (load_word(&book->received[(taken + 1) % slots]) == taken + 1)
      ++taken;
    store_word(&book->taken, taken);
    if (!is_far()) store_word(&(reinterpret_cast<Book*>(theirs_) + rank_)->free[number % slots].value, number);
  }

 private:
  ISTHMUS_DEVICE_FUNCTION Book* own() const { return reinterpret_cast<Book*>(own_) + peer_; }
  ISTHMUS_DEVICE_FUNCTION Line* slot(unsigned char* room, u32 sender, u64 number) const {
    return reinterpret_cast<Line*>(room) + first_line(sender, number);
  }
  ISTHMUS_DEVICE_FUNCTION u64 first_line(u32 sender, u64 number) const {
    return ranks_ * (sizeof(Book) / sizeof(Line)) + (u64{sender} * slots + number % slots) * packets;
  }

  unsigned char* own_;
  unsigned char* theirs_;
  u32 rank_;
  u32 peer_;
  u32 ranks_;
};

}  // namespace detail

/// A message to send: bytes of this process's part of a share.
struct SendDescriptor {
  int rank;
  u32 tag;  ///< not `any_tag`
  u32 share;
  u64 offset;
  u64 bytes;
};
/// What takes a message: `bytes` of memory of the GPU for it.
struct ReceiveDescriptor {
  int rank;
  u32 tag;  ///< or `any_tag`
  void* to;
  u64 bytes;
};

/// The messages of a port. Of a process that is not mapped, proxies carry them; of one whose share is not,
/// what is longer than `most_short`.
class Messages {
 public:
  static constexpr u32 most_short = 1024;  ///< bytes
  static constexpr u32 ahead = 8;
  using Mail = detail::Mail<ahead, most_short>;
  /// Bytes of a port's room behind its packets.
  [[nodiscard]] ISTHMUS_DEVICE_ANYWHERE static constexpr u64 room_bytes(u32 ranks) {
    return Mail::room_bytes(ranks) + Mail::outbox_bytes(ranks);
  }

  explicit ISTHMUS_DEVICE_FUNCTION Messages(const DevicePort& port) : port_(port) {}

  /// Sends; does not wait for the receive, but for room where it is too far ahead. Its number, for
  /// `wait_sent`; 0: refused, or the port was ended. Before it, all threads of the scope have written what
  /// they send (a block: its barrier). Orders the message's bytes, and nothing else. Up to `most_short` bytes
  /// may be written again when it returns.
  template <class By>
  ISTHMUS_DEVICE_FUNCTION u64 send(By by, const SendDescriptor& what) const {
    isthmus_device_span own;
    if (!check(by, ISTHMUS_DEVICE_SEND, what.rank, what.tag)) return 0;
    if (!port_.find(by, ISTHMUS_DEVICE_SEND, {what.share, port_.rank(), what.offset}, what.bytes, own)) return 0;
    const Mail mail = mail_with(what.rank);
    const u64 number = mail.begin(by, port_);
    if (number == 0) return 0;
    const bool is_short = what.bytes <= most_short;
    if (is_short)
      mail.write(by, number, see(reinterpret_cast<const unsigned char*>(own.base + what.offset)), what.bytes);
    by.sync();
    if (by.index() == 0 && !is_short) {
      detail::fence_system();
      mail.write_word(number, 0, what.bytes);
      mail.write_word(number, 1, what.offset);
      mail.write_word(number, 2, what.share);
    }
    const u32 length = is_short ? static_cast<u32>(what.bytes) : lies_still;
    if (by.index() == 0) mail.announce(number, what.tag, length);
    if (!mail.is_far()) return number;
    const u64 lines = is_short ? (what.bytes + 7) / 8 : still_words;
    // The packets lie behind the room; behind them, the header makes it a message.
    const Line* const packets =
        reinterpret_cast<const Line*>(port_.room(port_.rank())) + mail.outbox_line(number) + 1;
    const u64 to = mail.slot_line(number);
    return port_.carry(by, what.rank, to + 1, packets, lines * sizeof(Line), to,
                       Mail::header(number, what.tag, length))
               ? number
               : 0;
  }
  /// Until a message that this process has sent to that one has been received, so that its memory is free.
  template <class By>
  ISTHMUS_DEVICE_FUNCTION bool wait_sent(By by, int rank, u64 number) const {
    if (!check(by, ISTHMUS_DEVICE_SEND, rank, 0)) return false;
    const Mail mail = mail_with(rank);
    bool ok = true;
    if (by.index() == 0) ok = port_.await([&] { return mail.is_free(number); });
    return by.all(ok);
  }
  /// Takes a message, waiting for one that matches; `bytes`: its length. All threads of the scope see its
  /// bytes. False: refused, the port was ended, or the message is longer than the receive, which has what
  /// fits then, or its bytes are not shared any more; it has been taken.
  template <class By>
  [[nodiscard]] ISTHMUS_DEVICE_FUNCTION bool receive(By by, const ReceiveDescriptor& what, u64& bytes) const {
    bytes = 0;
    if (!check(by, ISTHMUS_DEVICE_RECEIVE, what.rank, 0)) return false;
    const Mail mail = mail_with(what.rank);
    const Line found = mail.find(by, port_, what.tag);
    const u64 number = found.value;
    const u32 length = static_cast<u32>(found.word);
    if (number == 0) return false;
    bool ok = true;
    if (length != lies_still) {
      bytes = length;
      ok = mail.read(by, port_, number, see(static_cast<unsigned char*>(what.to)), least(bytes, what.bytes));
    } else {
      ok = fetch(by, mail, number, what, bytes);
    }
    ok = by.all(ok);
    by.sync();
    // Also one whose bytes cannot be had any more: the next one is behind it.
    if (by.index() == 0) {
      // What lies still may be written again from then on.
      if (length == lies_still) detail::fence_system();
      mail.end(number);
    }
    by.sync();
    if (mail.is_far() && !port_.carry(by, what.rank, 0, nullptr, 0, mail.free_line(number), {number, 0}))
      return false;
    if (!ok) return false;
    if (bytes <= what.bytes) return true;
    return port_.refuse(by, ISTHMUS_DEVICE_TRUNCATED, ISTHMUS_DEVICE_RECEIVE, what.rank,
                        static_cast<u32>(number), what.bytes, bytes);
  }

 private:
  /// In place of a length: three words say where the bytes are.
  static constexpr u32 lies_still = ~u32{0};
  static constexpr u32 still_words = 3;

  ISTHMUS_DEVICE_FUNCTION static u64 least(u64 a, u64 b) { return a < b ? a : b; }
  ISTHMUS_DEVICE_FUNCTION Mail mail_with(int rank) const {
    unsigned char* const theirs = port_.room(rank);
    return Mail(see(port_.room(port_.rank())), theirs ? see(theirs) : nullptr, static_cast<u32>(port_.rank()),
                static_cast<u32>(rank), static_cast<u32>(port_.ranks()));
  }
  template <class By>
  ISTHMUS_DEVICE_FUNCTION bool check(By by, u32 what, int rank, u32 tag) const {
    if (!port_.is_rank(rank)) return port_.refuse(by, ISTHMUS_DEVICE_BAD_RANK, what, rank, 0, 0, 0);
    if (tag == any_tag) return port_.refuse(by, ISTHMUS_DEVICE_BAD_TAG, what, rank, 0, 0, 0);
    if (!port_.room(rank) && !port_.has_proxy()) return port_.refuse(by, ISTHMUS_DEVICE_NO_WAY, what, rank, 0, 0, 0);
    return true;
  }
  /// Copies what lies still at its sender.
  template <class By>
  ISTHMUS_DEVICE_FUNCTION bool fetch(By by, const Mail& mail, u64 number, const ReceiveDescriptor& what,
                                     u64& bytes) const {
    u64 words[still_words]{};
    bool ok = true;
    for (u32 i = 0; i < still_words && by.index() == 0 && ok; ++i)
      ok = mail.read_word(port_, number, i, words[i]);
    if (!by.all(ok)) return false;
    bytes = by.first_has(words[0]);
    const u64 offset = by.first_has(words[1]);
    const u32 share = static_cast<u32>(by.first_has(words[2]));
    detail::fence_system();
    const u64 fits = least(bytes, what.bytes);
    if (!port_.get(by, what.to, {share, what.rank, offset}, fits)) return false;
    // What a proxy brings is there then.
    return port_.is_mapped(share, what.rank) || port_.flush(by);
  }

  const DevicePort& port_;
};

}  // namespace isthmus::device

#endif
