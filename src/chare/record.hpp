#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/error.hpp"

#include <isthmus/chare_runtime.h>

namespace isthmus::chare {

using Index = isthmus_chare_index;
[[nodiscard]] inline bool is_same(Index a, Index b) noexcept {
  return a.low == b.low && a.high == b.high;
}

/// What processes tell each other. A message is a sequence of records.
enum class RecordKind : std::uint8_t {
  invoke = 1,         ///< an entry of one chare
  call = 2,           ///< a function of the process
  ask_broadcast = 3,  ///< to the collection's root: all of its chares
  broadcast = 4,      ///< down the tree; `low`: its number in the collection
  create = 5,         ///< a collection
  insert = 6,         ///< a chare
  partial = 7,        ///< of a reduction, up the tree; `low`: its number in the collection
  done_inserting = 8,
  less = 9,        ///< to the root: a chare has ended; `low`: the first reduction without it
  located = 10,    ///< where that chare lives (`Location`)
  ask_quiet = 11,  ///< to process 0: a callback at quiescence
  census = 12,     ///< of a sparse collection; `low`: 1 where it was the last, and nothing may be inserted
  census_answer = 13,
  migrate = 14,      ///< a chare
  arrived = 15,      ///< to the process that it has come from
  passed = 16,       ///< a broadcast for one chare that has moved: its number, and the arguments
  ask_balance = 17,  ///< to the root: a callback
  ask_loads = 18,    ///< to all
  loads = 19,        ///< to the root; `low`: 1 + the entry that goes on (`at_sync`), or 0
  moves = 20,        ///< to those who have sent loads; `low`: the same; `high`: the round of chares at sync
  moved = 21,        ///< to the root: so many chares have arrived, or stay
  ask_checkpoint = 22,  ///< to process 0
  save = 23,            ///< to all: their chares
  saved = 24,           ///< to process 0
  restore = 25,         ///< a chare of a checkpoint
  invoke_with = 26,     ///< an entry of one chare, with buffers: a `BufferMark` of each before the arguments
  copy = 27,            ///< of what a process has written to memory, for its buddy: a `BufferMark`
  copied = 28,          ///< to process 0: it is there
  commit = 29,          ///< to all: the checkpoint in memory is whole
  committed = 30,       ///< to process 0: that has been heard
  drop = 31,            ///< to all: it will never be
  resize = 32,          ///< to all: how many of them have chares from now on
  resized = 33,         ///< to process 0: that has been heard
  spread = 34,          ///< to those who have chares: they move them to where they may be
  // Those below are about the work, no part of it: they are not counted.
  wave = 35,
  wave_answer = 36,
  exit = 37,  ///< `low`: the code; to process 0, which tells all
  last = 38,  ///< nothing comes behind this but `low` long messages
};
inline constexpr RecordKind last_record_kind = RecordKind::last;

/// Whether quiescence waits for it.
[[nodiscard]] constexpr bool is_work(RecordKind kind) noexcept {
  return kind < RecordKind::wave;
}

/// Whether its index names a chare.
[[nodiscard]] constexpr bool is_of_one_chare(RecordKind kind) noexcept {
  switch (kind) {
    case RecordKind::invoke:
    case RecordKind::invoke_with:
    case RecordKind::insert:
    case RecordKind::located:
    case RecordKind::migrate:
    case RecordKind::arrived:
    case RecordKind::passed:
    case RecordKind::restore:
      return true;
    default:
      return false;
  }
}

/// One record, as it has been read and checked. The payload belongs to the message.
struct Record {
  RecordKind kind = RecordKind::invoke;
  std::uint16_t item = 0;
  std::int32_t priority = 0;
  std::uint32_t origin = 0;  ///< 1 + the process that it comes from where another has passed it on; else 0
  std::uint64_t collection = 0;
  Index index{};
  std::span<const std::byte> payload;
};

/// In front of each payload. 24 bytes, so that an invocation with 8 bytes of arguments fits into one cell of
/// a ring (`wire::inline_capacity`), and goes without an envelope of its own.
struct RecordHeader {
  std::uint32_t bytes;  ///< of the record, without what fills it up to a multiple of 8
  std::uint16_t item;
  std::uint8_t kind;
  std::uint8_t flags;
  std::uint64_t collection;
  std::uint64_t low;
};
/// Behind it where one of these is not 0.
struct RecordTail {
  std::uint64_t high;
  std::int32_t priority;
  std::uint32_t origin;
};
static_assert(sizeof(RecordHeader) == 24 && sizeof(RecordTail) == 16);
inline constexpr std::uint8_t record_has_tail = 1;
/// A record states its size in 32 bits; longer payloads are refused where they are made.
inline constexpr std::uint64_t largest_payload = 0xffff'ff00 - sizeof(RecordHeader) - sizeof(RecordTail);

[[nodiscard]] constexpr std::uint64_t padded(std::uint64_t bytes) noexcept {
  return (bytes + 7) & ~std::uint64_t{7};
}
[[nodiscard]] inline bool has_tail(const Record& record) noexcept {
  return record.index.high != 0 || record.priority != 0 || record.origin != 0;
}
/// What a record takes in a message, with `bytes` of payload.
[[nodiscard]] inline std::uint64_t record_size(const Record& record, std::uint64_t bytes) noexcept {
  return padded(sizeof(RecordHeader) + (has_tail(record) ? sizeof(RecordTail) : 0) + bytes);
}
/// Writes all but the payload (`bytes` of it) at `to`; returns where that goes.
inline std::byte* write_record(std::byte* to, const Record& record, std::uint64_t bytes) noexcept {
  const bool tail = has_tail(record);
  const std::size_t front = sizeof(RecordHeader) + (tail ? sizeof(RecordTail) : 0);
  const RecordHeader header{
      .bytes = static_cast<std::uint32_t>(front + bytes),
      .item = record.item,
      .kind = static_cast<std::uint8_t>(record.kind),
      .flags = tail ? record_has_tail : std::uint8_t{0},
      .collection = record.collection,
      .low = record.index.low,
  };
  std::memcpy(to, &header, sizeof header);
  if (tail) {
    const RecordTail more{.high = record.index.high, .priority = record.priority, .origin = record.origin};
    std::memcpy(to + sizeof header, &more, sizeof more);
  }
  return to + front;
}

/// What is told of data that goes apart from its record.
struct BufferMark {
  std::uint64_t tag;
  std::uint64_t bytes;
};
/// No memory has so many bytes.
inline constexpr std::uint64_t largest_buffer = std::uint64_t{1} << 48;

/// Takes the first record off `message`, which a peer has written and nobody else can change. An error says
/// what does not fit.
Result<Record> read_record(std::span<const std::byte>& message);

}  // namespace isthmus::chare
