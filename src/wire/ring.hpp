#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "base/error.hpp"
#include "wire/region.hpp"

/// What one rank writes to another through their ring: 64-byte cells, each with a header and up to
/// `inline_capacity` bytes of payload, and a byte ring for longer payloads. A cell is valid when its
/// `sequence` is the one that the reader expects at that position, so reader and writer share no counter but
/// the reader's progress.
namespace isthmus::wire {

enum class CellKind : std::uint8_t {
  eager_inline = 1,    ///< whole message in the cell
  eager = 2,           ///< message in the byte ring: its first piece, `EagerHeader`
  ready_to_send = 3,   ///< rendezvous: envelope and `SendOffer`
  clear_to_send = 4,   ///< rendezvous: `ReceiveOffer`
  fragment = 5,        ///< rendezvous: a piece of the stream, `FragmentHeader`, bytes in the byte ring
  acknowledge = 6,     ///< a synchronous eager message has been matched: `Cookie`
  share_done = 7,      ///< rendezvous: the receiver has copied all of it: `Cookie`
  split_start = 8,     ///< rendezvous by both sides: `SplitOffer`
  eager_more = 9,      ///< next piece of the message whose `eager` was the last of its kind in this ring
  gpu_offer = 10,      ///< rendezvous from GPU memory: envelope, `GpuOffer`, perhaps `GpuExport`, `GpuShape`
  gpu_target = 11,     ///< the sender's GPU is to copy it there: `GpuTarget`, perhaps a `GpuExport`
  gpu_end = 12,        ///< it has, or cannot: `GpuEnd`
  gpu_freed = 13,      ///< an allocation that was told is no more: `GpuFreed`
  stage = 14,          ///< rendezvous through shared memory in chunks: `StageRequest`
  staged = 15,         ///< the sender has begun: `StageStart`
  gpu_loop = 16,       ///< the sender is to hand it to the network: `LoopRequest`
  gpu_window = 17,     ///< the sender's GPU memory through which chunks can go: `GpuWindow`, `GpuExport`
  memory_told = 18,    ///< memory of the writer that the reader can map: `MemoryTold`
  memory_freed = 19,   ///< such memory is no more: `MemoryNumber`
  memory_missed = 20,  ///< such memory of the reader is to be told again: `MemoryNumber`
  eager_over = 21,     ///< `eager`, whose piece starts over at the beginning of the byte ring
  eager_placed = 22,   ///< message in the pair's place: its first piece, `EagerHeader`
  placed_more = 23,    ///< next piece of the message in the place
  fragment_over = 24,  ///< `fragment`, whose piece starts over as that of `eager_over`
};

enum class CellFlag : std::uint8_t { none = 0, synchronous = 1 };

inline constexpr std::size_t inline_capacity = 32;

/// The envelope (MPI 5.0, section 3.2.3) and the size of what it announces.
struct CellHeader {
  std::uint64_t context;  ///< communicator context
  std::int32_t source;    ///< sender's rank in that communicator
  std::int32_t tag;
  std::uint32_t size;  ///< payload bytes that belong to this cell
  CellKind kind;
  CellFlag flag;
  /// Of `eager` and `ready_to_send`: the sender wants to hear what messages of this number take
  /// (`BatchReport`); 0: it does not.
  std::uint16_t mark;
};
static_assert(sizeof(CellHeader) == 24);

struct alignas(cache_line) Cell {
  CellHeader header;
  std::array<std::byte, inline_capacity> payload;
  std::uint32_t pad;
  std::atomic<std::uint32_t> sequence;  ///< low 32 bits of position + 1, stored last
};
static_assert(sizeof(Cell) == cache_line);

/// Names a request of the process that made it; only that process interprets it, after looking it up.
using Cookie = std::uint64_t;

struct EagerHeader {
  std::uint64_t bytes;  ///< of the whole message
  Cookie sender;        ///< with `CellFlag::synchronous`: whom to acknowledge
  /// How many cells its sender has read of the ring that comes the other way: so who sends there learns, with
  /// the answer, that all it has sent was read.
  std::uint64_t cells_read;
};
/// What a send of memory of the host lies in.
enum class SendMemory : std::uint16_t {
  plain = 0,
  pinned = 1,   ///< the sender's process can have a GPU copy it
  managed = 2,  ///< CUDA moves it: only the sender's own loads are sure to find it
};
struct SendOffer {
  Cookie sender;
  std::uint64_t bytes;
  std::uint64_t address;  ///< in the sender's address space; 0 where no other process may read it there
  SendMemory memory;
  std::uint16_t reads_only;  ///< not 0: the sender cannot write to the receiver's memory
  std::uint32_t allocation;  ///< number of the sender's allocation that it lies in; 0: none that has one
};
struct ReceiveOffer {
  Cookie sender;
  Cookie receiver;
  std::uint64_t bytes;           ///< what the receiver takes: the smaller of both sizes
  std::uint64_t cells_read = 0;  ///< as in `EagerHeader`
};
struct FragmentHeader {
  Cookie receiver;
  std::uint64_t offset;
  /// `ticks()` that it took its sender to put it here; 0 where ranks have cores of their own.
  std::uint64_t worked = 0;
};
struct SplitOffer {
  Cookie sender;
  std::uint64_t address;  ///< in the receiver's address space
  std::uint64_t bytes;
  std::uint32_t share;  ///< where in the region's heap the `Share` lies, in their size
  std::uint32_t chunk;
};
static_assert(sizeof(EagerHeader) <= inline_capacity && sizeof(SendOffer) <= inline_capacity &&
              sizeof(ReceiveOffer) <= inline_capacity && sizeof(SplitOffer) <= inline_capacity &&
              sizeof(FragmentHeader) <= inline_capacity);

/// A copy that both sides work on: the receiver pulls chunks from the front while the sender pushes chunks
/// from the back. In the region's heap, in memory that the receiver has taken.
struct alignas(cache_line) Share {
  std::atomic<std::uint64_t> claimed;  ///< low half: chunks taken from the front; high half: from the back
  std::atomic<std::uint32_t> done;     ///< chunks copied
  std::atomic<std::uint32_t> failed;   ///< a chunk could not be copied: an errno
  std::atomic<std::uint32_t> in_use;   ///< 1 from the receiver's offer until the sender has let go
  std::atomic<std::uint64_t> worked;   ///< `ticks()` that the sender's chunks took it, as in `FragmentHeader`
};

/// Start of a ring; cells and bytes follow it. Written by the reader.
struct RingHeader {
  alignas(cache_line) std::atomic<std::uint64_t> cells_read;
  std::atomic<std::uint64_t> bytes_read;
  /// A `BatchReport`. On a line of its own: a writer that waits for room looks at those above all the time,
  /// and would have the reader fetch them back for each message that it tells of.
  alignas(cache_line) std::atomic<std::uint64_t> report;
};

/// What the reader tells of the messages that its writer has given the same `CellHeader::mark`. It may say
/// anything: its writer takes it for a cost, and measures on.
struct BatchReport {
  /// Of so many and more, what counts is how long they took to come, one beside the other.
  static constexpr std::uint16_t several_from = 4;

  std::uint16_t mark = 0;   ///< 0: nothing has been told yet
  std::uint16_t count = 0;  ///< messages of it that are there
  /// Of `ticks()`, that they have taken the reader: of a few, each; of several, from the match of the first
  /// to the last byte of the last, also while it waited for its writer.
  std::uint32_t ticks = 0;

  [[nodiscard]] constexpr std::uint64_t packed() const noexcept {
    return std::uint64_t{mark} << 48 | std::uint64_t{count} << 32 | ticks;
  }
  static constexpr BatchReport of(std::uint64_t word) noexcept {
    return {.mark = static_cast<std::uint16_t>(word >> 48),
            .count = static_cast<std::uint16_t>(word >> 32),
            .ticks = static_cast<std::uint32_t>(word)};
  }
};

/// Where the byte ring begins in a ring's memory, behind the cells.
[[nodiscard]] constexpr std::uint64_t byte_ring_offset(const RingGeometry& geometry) noexcept {
  return sizeof(RingHeader) + geometry.cells * sizeof(Cell);
}

/// Whether the piece of such a cell lies at the beginning of the byte ring, wherever the one before it ended.
[[nodiscard]] constexpr bool starts_over(CellKind kind) noexcept {
  return kind == CellKind::eager_over || kind == CellKind::fragment_over;
}

/// Whether `CellHeader::size` bytes of the byte ring belong to a cell of this kind.
[[nodiscard]] constexpr bool has_piece(CellKind kind) noexcept {
  return kind == CellKind::eager || kind == CellKind::eager_more || starts_over(kind) ||
         kind == CellKind::fragment || kind == CellKind::gpu_offer || kind == CellKind::gpu_target ||
         kind == CellKind::gpu_window;
}

[[nodiscard]] constexpr std::uint64_t round_to_line(std::uint32_t bytes) noexcept {
  return (std::uint64_t{bytes} + cache_line - 1) & ~(cache_line - 1);
}

/// Where a piece of `bytes` begins that is written to the byte ring behind `position`: pieces do not wrap;
/// where they would, the rest of the ring is skipped. Writer and reader both compute it, so no offset is on
/// the wire; `starts_over` says that the rest is skipped in any case. `mask`: size of the byte ring - 1.
[[nodiscard]] constexpr std::uint64_t piece_start(std::uint64_t position, std::uint32_t bytes,
                                                  std::uint64_t mask) noexcept {
  const std::uint64_t offset = position & mask;
  return offset + bytes > mask + 1 ? position + (mask + 1 - offset) : position;
}

/// The next position that lies at the beginning of the byte ring.
[[nodiscard]] constexpr std::uint64_t ring_start(std::uint64_t position, std::uint64_t mask) noexcept {
  return (position + mask) & ~mask;
}

/// The largest piece that always finds room in the end, wherever it comes to lie: 3/8 of the byte ring. The
/// piece itself, as much again that may be skipped at the end of the ring, and the quarter that the reader
/// may have read without saying so.
[[nodiscard]] constexpr std::uint32_t maximum_piece(const RingGeometry& geometry) noexcept {
  return geometry.data_bytes / 8 * 3;
}

/// A pair of ranks has a *place* besides its rings, behind the byte ring that the rank in the lower slot
/// writes: memory for one message, either way. Who has the place may write a message there, and tells of it
/// with `eager_placed`; when the reader has read all of it, the place is the reader's. At first the lower
/// slot has it. So a message and its answer go through the same lines of cache, and a line travels once for a
/// message; in a byte ring of each direction it has to come back before it can be written again.
/// All rings have such memory behind them; of a pair's two, one is used.
[[nodiscard]] constexpr std::uint32_t place_bytes(const RingGeometry& geometry) noexcept {
  constexpr std::uint32_t most = 64 * 1024;
  return std::min(most, geometry.data_bytes / 4);
}

/// Where the place begins in a ring's memory.
[[nodiscard]] constexpr std::uint64_t place_offset(const RingGeometry& geometry) noexcept {
  return byte_ring_offset(geometry) + geometry.data_bytes;
}

/// What stands in shared memory now. Its writer may change it at any time, so that only this one copy may be
/// checked and used; `volatile` keeps the compiler from looking a second time. `from` is aligned to 8 bytes.
template <class T>
[[nodiscard]] T copy_out(const void* from) noexcept {
  constexpr std::size_t word = 8;
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % word == 0);
  std::array<std::uint64_t, sizeof(T) / word> copied;
  const volatile auto* words = static_cast<const volatile std::uint64_t*>(from);
  for (std::size_t i = 0; i < copied.size(); ++i)
    copied[i] = words[i];
  return std::bit_cast<T>(copied);
}

/// Checks a copied cell: known kind and flag, sizes within the ring's geometry, source not negative.
/// `ErrorClass::intern` otherwise.
[[nodiscard]] Result<> check(const CellHeader& header, const RingGeometry& geometry);

}  // namespace isthmus::wire
