#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/copy.hpp"
#include "channel/shm/placement.hpp"
#include "wire/ring.hpp"

namespace isthmus {

/// The sending end of a ring. One writer per ring; not thread-safe.
class RingWriter {
 public:
  RingWriter() = default;
  /// `memory` as laid out by `RegionLayout`, zero-filled, and outliving this object. `cells`: how many have
  /// been written and read before.
  RingWriter(std::span<std::byte> memory, wire::RingGeometry geometry, std::uint64_t cells = 0) noexcept
      : header_(reinterpret_cast<wire::RingHeader*>(memory.data())),
        cells_(reinterpret_cast<wire::Cell*>(memory.data() + sizeof(wire::RingHeader))),
        data_(memory.data() + wire::byte_ring_offset(geometry)),
        cell_mask_(geometry.cells - 1),
        data_mask_(geometry.data_bytes - 1),
        position_(cells),
        cells_read_(cells),
        cells_told_(cells) {}

  [[nodiscard]] bool open() const noexcept { return header_ != nullptr; }

  /// How many cells have been written.
  [[nodiscard]] std::uint64_t cells_written() const noexcept { return position_; }

  /// Whether a cell can be written now.
  [[nodiscard]] bool has_cell() noexcept {
    if (position_ - cells_read_ <= cell_mask_) [[likely]]
      return true;
    return refresh();
  }

  /// Whether `cells` cells with pieces of at most `piece` bytes and `bytes` in all can be written now,
  /// wherever they come to lie.
  [[nodiscard]] bool has_room(std::uint32_t cells, std::uint64_t bytes, std::uint32_t piece) noexcept {
    const auto fits = [&] {
      return position_ + cells - cells_read_ <= cell_mask_ + 1 &&
             data_position_ + bytes + piece + cells * wire::cache_line - bytes_read_ <= data_mask_ + 1;
    };
    if (fits()) return true;
    refresh();
    return fits();
  }

  /// Room for `bytes` in one piece in the byte ring, or null. Stays reserved for the next `publish` with that
  /// size.
  [[nodiscard]] std::byte* reserve(std::uint32_t bytes) noexcept {
    starts_over_ = false;
    const std::uint64_t start = data_start(bytes);
    const std::uint64_t end = start + wire::round_to_line(bytes);
    if (end - bytes_read_ > data_mask_ + 1) {
      refresh();
      if (end - bytes_read_ > data_mask_ + 1) return nullptr;
    }
    return data_ + (start & data_mask_);
  }

  /// The same for the first piece of a message. Where the reader has told that it has read all pieces, it
  /// goes to the beginning of the byte ring, so that a message and its answer go through the same lines again
  /// and again, which lie in both cores' nearest caches. 4 KiB one way through one place 0.45 us, through 4
  /// to 250 in turn 0.55 to 0.70 (EPYC of 2 cores, virtual; medians of 6 runs). Up to `most_fetched` bytes go
  /// through two places in turn, of which the next is fetched ahead (`fetch_next`).
  [[nodiscard]] std::byte* reserve_first(std::uint32_t bytes) noexcept {
    was_answered_ = is_answered();
    if (cells_told_ < pieces_end_ || bytes > data_mask_ + 1 || first_start(bytes) != 0 ||
        (data_position_ & data_mask_) == 0)
      return reserve(bytes);
    starts_over_ = true;
    return data_;
  }
  /// Whether what has been reserved lies at the beginning of the byte ring out of turn: its cell has to tell
  /// the reader.
  [[nodiscard]] bool starts_over() const noexcept { return starts_over_; }
  /// Whether the last message has been answered: the reader has told that it has read all.
  [[nodiscard]] bool is_answered() const noexcept { return cells_told_ == position_ && position_ != 0; }
  /// The reader has told with a message of its own how many cells it has read.
  void heard(std::uint64_t cells) noexcept {
    if (cells <= position_ && cells > cells_told_) cells_told_ = cells;
  }

  /// Writes a cell with up to `wire::inline_capacity` bytes. Requires `has_cell()`.
  void publish(const wire::CellHeader& header, const void* payload, std::size_t bytes) noexcept {
    wire::Cell& cell = cells_[position_ & cell_mask_];
    cell.header = header;
    copy_small(cell.payload.data(), static_cast<const std::byte*>(payload), bytes);
    ++position_;
    cell.sequence.store(static_cast<std::uint32_t>(position_), std::memory_order_release);
    // Measured on Sapphire Rapids: 64 B one way 189 -> 172 ns, 8-byte messages 18 -> 26 million a second. For
    // payloads in the byte ring it costs the writer more (14 ns a line) than it saves the reader.
    demote_line(&cell);
  }

  /// Writes a cell whose `header.size` bytes have been put where `reserve` said, with a further inline part.
  void publish_reserved(const wire::CellHeader& header, const void* inline_part, std::size_t bytes) noexcept {
    if (starts_over_) {
      data_position_ = bytes_read_ = wire::ring_start(data_position_, data_mask_);
      starts_over_ = false;
    }
    data_position_ = data_start(header.size) + wire::round_to_line(header.size);
    publish(header, inline_part, bytes);
    pieces_end_ = position_;
  }
  /// A message of `bytes` has its first piece where `reserve_first` said: has the pages mapped through which
  /// it goes.
  void map_ahead(const std::byte* first, std::uint64_t bytes) noexcept {
    mapped_.cover({data_, data_mask_ + 1}, static_cast<std::uint64_t>(first - data_), bytes);
  }

  /// What the reader tells, a `wire::BatchReport`; 0: nothing yet.
  [[nodiscard]] std::uint64_t report() const noexcept {
    return header_->report.load(std::memory_order_acquire);
  }

  /// The longest message whose place is fetched ahead. With 1, 2 and 4 KiB, far cores: 1 KiB 0.72 -> 0.52
  /// us one way, 2 KiB 1.0 -> 1.1, 4 KiB 2.1 -> 2.3; near ones 0.205 -> 0.172, 0.25 -> 0.26, 0.46 -> 0.60: so
  /// many lines under way delay the look for the answer (EPYC 9004 of 2 cores, virtual, medians in turn).
  static constexpr std::uint32_t most_fetched = 1024;

  /// After a message of `bytes`: fetches for writing where the next one goes, if this one is answered and the
  /// next is as long. The reader has those lines since it read the message before. To get them back while
  /// there is nothing else to do takes that time off the next message. Nothing is done where messages are not
  /// answered: the reader may still want what lies ahead.
  void fetch_next(std::uint64_t bytes) noexcept {
    if (!was_answered_ || bytes > most_fetched) return;
    const std::byte* const next = data_ + first_start(static_cast<std::uint32_t>(bytes));
    for (std::uint64_t i = 0; i < bytes; i += wire::cache_line)
      prefetch_for_write(next + i);
  }

 private:
  /// Where the next `bytes` begin: pieces do not wrap, so the end of the ring is skipped where they would.
  [[nodiscard]] std::uint64_t data_start(std::uint32_t bytes) const noexcept {
    return wire::piece_start(data_position_, bytes, data_mask_);
  }

  /// Where in the byte ring a message's first piece goes when all before it is known to be read.
  [[nodiscard]] std::uint64_t first_start(std::uint32_t bytes) const noexcept {
    const std::uint64_t places = bytes <= most_fetched ? 2 : 1;
    const std::uint64_t at = data_position_ & data_mask_;
    const bool goes_on = at + bytes <= std::min(places * wire::round_to_line(bytes), data_mask_ + 1);
    return goes_on ? at : 0;
  }

  /// Looks how far the reader is. Numbers that no honest reader can have written are ignored: the ring then
  /// stays full. So are those below what is known already, from `heard`.
  bool refresh() noexcept {
    const std::uint64_t cells = header_->cells_read.load(std::memory_order_acquire);
    const std::uint64_t bytes = header_->bytes_read.load(std::memory_order_acquire);
    if (position_ - cells <= cell_mask_ + 1 && cells > cells_read_) cells_read_ = cells;
    if (data_position_ - bytes <= data_mask_ + 1 && bytes > bytes_read_) bytes_read_ = bytes;
    return position_ - cells_read_ <= cell_mask_;
  }

  wire::RingHeader* header_ = nullptr;
  wire::Cell* cells_ = nullptr;
  std::byte* data_ = nullptr;
  std::uint64_t cell_mask_ = 0;
  std::uint64_t data_mask_ = 0;
  std::uint64_t position_ = 0;       ///< next cell
  std::uint64_t data_position_ = 0;  ///< end of what has been written to the byte ring
  std::uint64_t cells_read_ = 0;     ///< the reader's progress as last seen
  std::uint64_t bytes_read_ = 0;
  std::uint64_t cells_told_ = 0;  ///< its progress as its own messages have told
  std::uint64_t pieces_end_ = 0;  ///< a cell behind the last one that has a piece in the byte ring
  MappedRing mapped_;
  bool starts_over_ = false;   ///< what is reserved does
  bool was_answered_ = false;  ///< it had read all before the last message
};

}  // namespace isthmus
