#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/ref.hpp"
#include "datatype/datatype.hpp"
#include "datatype/layout.hpp"

namespace isthmus {

/// Goes through `count` elements of a committed type at `base` in packed order, in pieces of any size: the
/// sending and the receiving side of a pipeline, or a list of segments for a kernel copy.
///
/// `base` may be null (MPI_BOTTOM) with a type of absolute displacements. Allocates nothing, keeps the
/// layout alive, and is as cheap to copy as it is small: several cursors can work on parts of one message.
/// `count` elements must be a message whose size fits 64 bits (`Datatype::bytes`).
class Cursor {
 public:
  Cursor(const Datatype& type, void* base, std::int64_t count) noexcept;

  /// Copies the next bytes of the message to `out`, until that is full or the message ends. Returns how many.
  std::size_t pack(std::span<std::byte> out) noexcept;
  /// Copies `in` to the next bytes of the message, until the one or the other ends. Returns how many.
  std::size_t unpack(std::span<const std::byte> in) noexcept;
  /// Fills `out` with the memory of the next bytes of the message, at most `max_bytes` of them, and moves
  /// past these. Segments that touch are joined. Returns how many segments there are.
  std::size_t segments(std::span<Segment> out, std::uint64_t max_bytes = UINT64_MAX) noexcept;

  /// Packed bytes before the next one.
  [[nodiscard]] std::uint64_t position() const noexcept { return position_; }
  /// Goes anywhere in the message, in constant time; the end if `position` lies beyond it.
  void seek(std::uint64_t position) noexcept;
  /// Packed bytes of the whole message.
  [[nodiscard]] std::uint64_t size() const noexcept { return top_.size; }
  [[nodiscard]] std::uint64_t remaining() const noexcept { return top_.size - position_; }
  [[nodiscard]] bool done() const noexcept { return position_ == top_.size; }

  /// The message as one piece of memory, where it is one.
  [[nodiscard]] std::optional<Segment> single_segment() const noexcept;
  /// The mean length of the blocks, which tells whether segments or packing suit the message; 0 if empty.
  [[nodiscard]] std::uint64_t mean_block() const noexcept;

 private:
  Ref<const Layout> layout_;
  Layout::Node top_;  // all of the message
  std::uintptr_t address_;
  std::uint64_t position_ = 0;
};

/// Packs `count` elements at `base` into `out`, as much as fits. Returns the bytes written.
std::size_t pack(const Datatype& type, const void* base, std::int64_t count,
                 std::span<std::byte> out) noexcept;
/// Unpacks `in` into `count` elements at `base`. Returns the bytes read.
std::size_t unpack(const Datatype& type, void* base, std::int64_t count,
                   std::span<const std::byte> in) noexcept;
/// Copies a message from one place and type to another, as a send to oneself does. Returns the bytes copied:
/// the shorter of both. The two must not overlap.
std::uint64_t copy(const Datatype& from_type, const void* from, std::int64_t from_count,
                   const Datatype& to_type, void* to, std::int64_t to_count) noexcept;

}  // namespace isthmus
