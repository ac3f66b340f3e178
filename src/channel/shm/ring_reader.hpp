#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <utility>

#include "base/copy.hpp"
#include "channel/shm/placement.hpp"
#include "wire/ring.hpp"

namespace isthmus {

/// The receiving end of a ring. One reader per ring; not thread-safe. What it returns points into memory that
/// the writer may still change: callers copy headers out and check them before use.
class RingReader {
 public:
  RingReader() = default;
  /// As the writer's.
  /// `hands_back`: lines of the byte ring that have been read are written to (`hand_back_lines`).
  RingReader(std::span<std::byte> memory, wire::RingGeometry geometry, std::uint64_t cells = 0,
             bool hands_back = false) noexcept
      : header_(reinterpret_cast<wire::RingHeader*>(memory.data())),
        cells_(reinterpret_cast<wire::Cell*>(memory.data() + sizeof(wire::RingHeader))),
        data_(memory.data() + wire::byte_ring_offset(geometry)),
        cell_mask_(geometry.cells - 1),
        data_mask_(geometry.data_bytes - 1),
        position_(cells),
        published_(cells),
        hands_back_(hands_back) {}

  [[nodiscard]] bool open() const noexcept { return header_ != nullptr; }

  /// The next cell, or null if it has not been written yet.
  [[nodiscard]] const wire::Cell* front() const noexcept {
    const wire::Cell& cell = cells_[position_ & cell_mask_];
    const auto expected = static_cast<std::uint32_t>(position_ + 1);
    return cell.sequence.load(std::memory_order_acquire) == expected ? &cell : nullptr;
  }

  /// Cells are about to be read; so many have been written the other way.
  void look(std::uint64_t answers) noexcept { is_answering_ = std::exchange(answers_, answers) != answers; }

  /// How many cells have been read.
  [[nodiscard]] std::uint64_t cells_read() const noexcept { return position_; }

  /// The front cell's kind `wire::starts_over`. May be called again for the same cell.
  void start_over() noexcept {
    const std::uint64_t skipped = wire::ring_start(data_position_, data_mask_) - data_position_;
    data_position_ += skipped;
    data_published_ += skipped;  // the writer knows what has been read
  }
  /// The piece of the byte ring that belongs to the front cell; `bytes` is its checked size.
  [[nodiscard]] const std::byte* piece(std::uint32_t bytes) const noexcept {
    return data_ + (wire::piece_start(data_position_, bytes, data_mask_) & data_mask_);
  }

  /// As the writer's: `first` is what `piece` said.
  void map_ahead(const std::byte* first, std::uint64_t bytes) noexcept {
    mapped_.cover({data_, data_mask_ + 1}, static_cast<std::uint64_t>(first - data_), bytes);
  }

  /// Done with the front cell. Returns whether the writer can see it, that is, whether one that waits for
  /// room has a reason to look.
  bool pop() noexcept {
    if (hands_back_ && comes_with_others()) hand_back_cell();
    ++position_;
    if (position_ - published_ <= cell_mask_ / 4) [[likely]]
      return false;
    publish();
    return true;
  }
  /// Done with the front cell and its piece of `bytes`. Returns the same.
  bool pop_piece(std::uint32_t bytes) noexcept {
    const std::uint64_t start = wire::piece_start(data_position_, bytes, data_mask_);
    if (hands_back_ && (bytes > most_kept || comes_with_others())) {
      hand_back_lines(data_ + (start & data_mask_), bytes);
      hand_back_cell();
    }
    data_position_ = start + wire::round_to_line(bytes);
    ++position_;
    if (position_ - published_ <= cell_mask_ / 4 && data_position_ - data_published_ <= data_mask_ / 4)
      return false;
    publish();
    return true;
  }

  /// Tells the writer what it takes.
  void tell(const wire::BatchReport& report) noexcept {
    header_->report.store(report.packed(), std::memory_order_release);
  }

 private:
  /// Pieces up to that, and cells, are handed back only where they come with others: of messages that are
  /// answered one by one, up to `RingWriter::most_fetched`, the writer fetches the lines ahead, and to hand
  /// them back as well cost 3 to 5 % of a message's time.
  static constexpr std::uint32_t most_kept = 1024;

  /// The front cell is no answer to one that this side has written, or another one has come behind it.
  [[nodiscard]] bool comes_with_others() const noexcept {
    if (!is_answering_) return true;
    const auto expected = static_cast<std::uint32_t>(position_ + 2);
    return cells_[(position_ + 1) & cell_mask_].sequence.load(std::memory_order_relaxed) == expected;
  }
  void hand_back_cell() noexcept {
    *static_cast<volatile std::uint32_t*>(&cells_[position_ & cell_mask_].pad) = 0;
  }
  /// Lets the writer reuse what has been read. Not at every cell: the line would travel back and forth.
  void publish() noexcept {
    published_ = position_;
    data_published_ = data_position_;
    header_->bytes_read.store(data_position_, std::memory_order_release);
    header_->cells_read.store(position_, std::memory_order_release);
  }

  wire::RingHeader* header_ = nullptr;
  wire::Cell* cells_ = nullptr;
  std::byte* data_ = nullptr;
  std::uint64_t cell_mask_ = 0;
  std::uint64_t data_mask_ = 0;
  std::uint64_t position_ = 0;
  std::uint64_t data_position_ = 0;
  std::uint64_t published_ = 0;
  std::uint64_t data_published_ = 0;
  bool hands_back_ = false;
  bool is_answering_ = false;  ///< something has been written the other way since cells were read last
  std::uint64_t answers_ = 0;
  MappedRing mapped_;
};

}  // namespace isthmus
