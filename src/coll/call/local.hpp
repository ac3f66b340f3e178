#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

#include "base/copy.hpp"
#include "coll/call/coll.hpp"
#include "datatype/cursor.hpp"
#include "p2p/message/message.hpp"

/// What a rank does with its own buffers: addresses, copies, temporary space.
namespace isthmus::coll {

/// `buffer` moved by bytes. Computed in integers: MPI_BOTTOM is null.
[[nodiscard]] inline void* moved(const void* buffer, std::int64_t bytes) noexcept {
  return reinterpret_cast<void*>(
      reinterpret_cast<std::uintptr_t>(buffer) +  // NOLINT(performance-no-int-to-ptr)
      static_cast<std::uintptr_t>(bytes));
}
/// The element `index` of `type` behind `buffer`.
[[nodiscard]] inline void* element(const void* buffer, std::int64_t index, const Datatype& type) noexcept {
  return moved(buffer, index * type.extent());
}

[[nodiscard]] inline Payload block(const In& in, std::int64_t i) {
  return Payload::of(element(in.buffer, i * in.count, *in.type), in.count, *in.type);
}
[[nodiscard]] inline Payload block(const Out& out, std::int64_t i) {
  return Payload::of(element(out.buffer, i * out.count, *out.type), out.count, *out.type);
}
[[nodiscard]] inline Payload block(const InV& in, int i) {
  return Payload::of(element(in.buffer, in.displacements[i], *in.type), in.counts[i], *in.type);
}
[[nodiscard]] inline Payload block(const OutV& out, int i) {
  return Payload::of(element(out.buffer, out.displacements[i], *out.type), out.counts[i], *out.type);
}
[[nodiscard]] inline Payload block(const InW& in, int i) {
  return Payload::of(moved(in.buffer, in.displacements[i]), in.counts[i], *in.types[i]);
}
[[nodiscard]] inline Payload block(const OutW& out, int i) {
  return Payload::of(moved(out.buffer, out.displacements[i]), out.counts[i], *out.types[i]);
}
[[nodiscard]] inline Payload whole(const In& in) {
  return Payload::of(in.buffer, in.count, *in.type);
}
[[nodiscard]] inline Payload whole(const Out& out) {
  return Payload::of(out.buffer, out.count, *out.type);
}

[[nodiscard]] inline std::uint64_t bytes_of(std::int64_t count, const Datatype& type) noexcept {
  return static_cast<std::uint64_t>(count) * static_cast<std::uint64_t>(type.size());
}
/// A block of an irregular gather, for the choice of an algorithm.
[[nodiscard]] inline std::uint64_t largest_block(const OutV& receive, int ranks) {
  std::uint64_t largest = 0;
  for (int i = 0; i < ranks; ++i)
    largest = std::max(largest, bytes_of(receive.counts[i], *receive.type));
  return largest;
}

/// All blocks of one, in which members have to agree.
[[nodiscard]] inline std::uint64_t bytes_of_blocks(const OutV& receive, int ranks) {
  std::uint64_t total = 0;
  for (int i = 0; i < ranks; ++i)
    total += bytes_of(receive.counts[i], *receive.type);
  return total;
}

/// Copies packed bytes; for what is mostly a few of them.
inline void copy_bytes(std::byte* to, const std::byte* from, std::uint64_t bytes) noexcept {
  if (bytes <= 32) [[likely]]
    copy_small(to, from, bytes);
  else
    std::memcpy(to, from, bytes);
}
/// Copies between two payloads of this process, as a message from the one to the other would. They must not
/// overlap, unless they are the same memory.
void copy(const Payload& from, const Payload& to);
/// Packs `from` into `to`, which has room for `from.bytes`.
void pack(const Payload& from, std::byte* to);
/// Unpacks `to.bytes` bytes.
void unpack(const std::byte* from, const Payload& to);
/// `from.bytes` or fewer bytes of the payload, beginning at byte `offset` of its packed form.
void pack_part(const Payload& from, std::uint64_t offset, std::span<std::byte> to);
void unpack_part(std::span<const std::byte> from, const Payload& to, std::uint64_t offset);

/// Uninitialised bytes.
class Bytes {
 public:
  explicit Bytes(std::uint64_t size) : memory_(std::make_unique_for_overwrite<std::byte[]>(size)) {}
  [[nodiscard]] std::byte* data() noexcept { return memory_.get(); }

 private:
  std::unique_ptr<std::byte[]> memory_;
};

/// Temporary space for `count` elements of `type`, gaps and all, to be addressed as a buffer of that type.
class Elements {
 public:
  Elements(std::int64_t count, const Datatype& type);
  [[nodiscard]] void* buffer() noexcept { return buffer_; }

 private:
  std::unique_ptr<std::byte[]> memory_;
  void* buffer_;
};

/// A payload as one block of bytes: its own memory where it is one, else a packed copy.
class PackedIn {
 public:
  explicit PackedIn(const Payload& payload);
  [[nodiscard]] const std::byte* data() const noexcept { return data_; }

 private:
  std::unique_ptr<std::byte[]> memory_;
  const std::byte* data_;
};

/// The same for a result: `finish` puts it in its place. With `filled`, it begins with what is there.
class PackedOut {
 public:
  explicit PackedOut(const Payload& payload, bool filled = false);
  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  void finish() const;

 private:
  Payload payload_;
  std::unique_ptr<std::byte[]> memory_;
  std::byte* data_;
};

}  // namespace isthmus::coll
