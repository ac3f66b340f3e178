#pragma once

#include <atomic>
#include <cstdint>

#include "gpu/memory/export.hpp"
#include "wire/descriptor.hpp"
#include "wire/gpu_shape.hpp"
#include "wire/ring.hpp"

/// What ranks of one host write to each other about messages in GPU memory, and about messages that go
/// through shared memory a chunk at a time.
namespace isthmus::wire {

/// An export that the writer has told the reader under a number. It is told in full once, with a `GpuExport`
/// in the byte ring; later cells have `CellHeader::size` 0 and name it by its number.
inline constexpr std::uint32_t told_exports = 32;

/// In place of such a number: there is nothing to fetch, because the send has failed. Its receive does, too.
inline constexpr std::uint32_t failed_send = 0xffff'ffff;

/// Of `CellKind::gpu_offer`. A message with gaps that its sender has not packed has a `GpuShape` in the byte
/// ring, behind the `GpuExport` if there is one.
struct GpuOffer {
  Cookie sender;
  std::uint64_t bytes;
  std::uint64_t offset;         ///< of its first byte in the allocation
  std::uint32_t number;         ///< of the export
  std::uint32_t latency_bound;  ///< 1: the writer's sends to the reader are, so that a courier is worth it
};
/// Of `CellKind::gpu_target`: where the receiver wants it.
struct GpuTarget {
  Cookie sender;
  Cookie receiver;
  std::uint64_t bytes;   ///< the smaller of both sizes
  std::uint64_t offset;  ///< of the buffer in the allocation; the export's number is `CellHeader::tag`
};
/// In the byte ring, of an offer or a target.
struct GpuExport {
  Export memory;
  std::int32_t descriptor;  ///< in the writer's process, -1 if there is none
  std::uint32_t ticket;     ///< number of the one left for the reader in the region's box, 0 if there is none

  [[nodiscard]] DescriptorTicket left() const noexcept { return {memory.exporter, ticket}; }
};
static_assert(sizeof(GpuExport) == 160);

/// What the byte ring has for an offer of that `CellHeader::size`.
[[nodiscard]] constexpr bool has_export(std::uint32_t size) noexcept {
  return size == sizeof(GpuExport) || size == sizeof(GpuExport) + sizeof(GpuShape);
}
[[nodiscard]] constexpr bool has_shape(std::uint32_t size) noexcept {
  return size == sizeof(GpuShape) || size == sizeof(GpuExport) + sizeof(GpuShape);
}

enum class GpuOutcome : std::uint32_t {
  landed = 1,  ///< the bytes are where the receiver wanted them
  failed = 2,  ///< they have been lost with the sender's GPU
  // Nothing has been copied:
  refused = 3,   ///< the sender cannot open that memory, nor will it be able to
  lacking = 4,   ///< it has the memory not open any more, and nothing to open it with: it is to be told anew
  hindered = 5,  ///< it cannot copy now, for a reason of its own
};
/// Of `CellKind::gpu_end`.
struct GpuEnd {
  Cookie receiver;
  GpuOutcome outcome;
  std::uint32_t reserved;
};
/// Of `CellKind::gpu_freed`: the writer has freed an allocation that it had told the reader.
struct GpuFreed {
  std::uint64_t allocation;
};

/// Whether chunks may go through a window: GPU memory that the sender's library keeps, and that the receiver
/// opens once. A receiver that wants that hears of the window (`GpuWindow`), and asks again.
enum class StageWindow : std::uint16_t {
  none = 0,     ///< through memory of the host
  wanted = 1,   ///< the receiver's GPU may read there, if it can open it
  open = 2,     ///< it has opened it
  refused = 3,  ///< it cannot, and never will: through memory of the host
};
/// Devices that a request or a start may name, and so windows.
inline constexpr std::uint32_t most_windows = 64;

/// Which chunks a message through memory of the host goes in.
enum class StageChunks : std::uint8_t {
  usual = 0,   ///< and the receiver has no better way
  chosen = 1,  ///< the same, by what earlier messages have taken
  small = 2,   ///< up to 512 KiB, by what earlier messages have taken
};

/// Of `CellKind::stage`: the receiver wants a message through memory that both ranks reach.
struct StageRequest {
  Cookie sender;
  Cookie receiver;
  std::uint64_t bytes;
  std::uint16_t by_processor;  ///< 1: the receiver's processor copies out, 0: its GPU
  std::uint8_t lacks_memory;   ///< 1: the receiver has not the sender's GPU memory open
  StageChunks chunks;
  StageWindow window;
  std::uint16_t device;  ///< that is to read from a window, as the receiver numbers them
};
/// Of `CellKind::gpu_window`, whose tag is the window's number, from 1 to `most_windows`: what the receiver
/// has asked for can go through there.
struct GpuWindow {
  Cookie receiver;
};
/// Of `CellKind::staged`: the sender has begun. Its tag is the number of the window, 0 for memory of the
/// host.
struct StageStart {
  Cookie receiver;
  std::uint64_t area;      ///< offset in the region's heap
  std::uint64_t position;  ///< of the message's first byte in the stream of bytes through the area
  std::uint32_t bytes;     ///< of the area; with a window it is its header alone
  std::uint32_t window;    ///< of the data, in which the stream goes round
};
static_assert(sizeof(GpuOffer) <= inline_capacity && sizeof(GpuTarget) <= inline_capacity &&
              sizeof(StageRequest) <= inline_capacity && sizeof(StageStart) <= inline_capacity);

/// Of `CellKind::gpu_loop`: the receiver wants a message through the network's adapter, under its own name.
struct LoopRequest {
  Cookie sender;
  Cookie receiver;
  std::uint64_t bytes;
};
static_assert(sizeof(LoopRequest) <= inline_capacity);

/// Start of an area, one for each ordered pair of ranks that needs one; `staging_data` from its start the
/// bytes begin. Both count bytes of the stream, from 0.
struct StagingHeader {
  alignas(cache_line) std::atomic<std::uint64_t> filled;   ///< written by the sender
  alignas(cache_line) std::atomic<std::uint64_t> emptied;  ///< written by the receiver
};
inline constexpr std::uint64_t staging_data = 4096;
inline constexpr std::uint32_t least_window = 64 * 1024;
inline constexpr std::uint32_t least_area = 128 * 1024;
inline constexpr std::uint32_t most_area = 64 * 1024 * 1024;

/// The next chunk of a message of `bytes`, `offset` of which have gone, at `position` of the stream. Both
/// sides compute it. Chunks grow, so that the second side begins early, and shrink towards the end, so that
/// it has little left to do; a GPU takes 2.6 us for each besides its bytes. 64 MiB from a GPU to another in
/// chunks of up to a quarter of 8 MiB: 48.4 GB/s, of PCIe's 55; of half 46.1, a third 48.2, an eighth 46.2;
/// on two streams a direction 45.5 (2 x H200).
[[nodiscard]] constexpr std::uint32_t staging_chunk(std::uint64_t bytes, std::uint64_t offset,
                                                    std::uint64_t position, std::uint32_t window) noexcept {
  constexpr std::uint64_t grain = 64 * 1024;
  constexpr std::uint64_t first = 256 * 1024;
  const std::uint64_t left = bytes - offset;
  const std::uint64_t most = window / 4 > grain ? window / 4 : grain;
  std::uint64_t chunk = offset < left / 2 ? offset : left / 2;
  chunk = chunk > first ? chunk / grain * grain : first;
  if (chunk > most) chunk = most;
  if (chunk > left) chunk = left;
  const std::uint64_t to_the_end = window - position % window;
  return static_cast<std::uint32_t>(chunk < to_the_end ? chunk : to_the_end);
}

/// Where the stream goes on behind a message.
[[nodiscard]] constexpr std::uint64_t staging_end(std::uint64_t position, std::uint64_t bytes) noexcept {
  constexpr std::uint64_t page = 4096;
  return (position + bytes + page - 1) / page * page;
}

}  // namespace isthmus::wire
