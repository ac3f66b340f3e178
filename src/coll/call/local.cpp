#include "coll/call/local.hpp"

#include <algorithm>
#include <cstring>

namespace isthmus::coll {

void copy(const Payload& from, const Payload& to) {
  if (from.bytes == 0) return;
  // The same address alone says little: absolute types begin at MPI_BOTTOM.
  if (from.data == to.data && from.type == to.type) return;
  if (!from.type && !to.type)
    std::memcpy(to.data, from.data, std::min(from.bytes, to.bytes));
  else if (!from.type)
    isthmus::unpack(*to.type, to.data, to.count, {from.data, from.bytes});
  else if (!to.type)
    isthmus::pack(*from.type, from.data, from.count, {to.data, to.bytes});
  else
    isthmus::copy(*from.type, from.data, from.count, *to.type, to.data, to.count);
}

void pack(const Payload& from, std::byte* to) {
  copy(from, Payload::of(to, from.bytes));
}

void unpack(const std::byte* from, const Payload& to) {
  copy(Payload::of(from, to.bytes), to);
}

void pack_part(const Payload& from, std::uint64_t offset, std::span<std::byte> to) {
  if (!from.type) {
    if (!to.empty()) std::memcpy(to.data(), from.data + offset, to.size());
    return;
  }
  Cursor cursor(*from.type, from.data, from.count);
  cursor.seek(offset);
  cursor.pack(to);
}

void unpack_part(std::span<const std::byte> from, const Payload& to, std::uint64_t offset) {
  if (!to.type) {
    if (!from.empty()) std::memcpy(to.data + offset, from.data(), from.size());
    return;
  }
  Cursor cursor(*to.type, to.data, to.count);
  cursor.seek(offset);
  cursor.unpack(from);
}

Elements::Elements(std::int64_t count, const Datatype& type) {
  const std::int64_t reach = count > 0 ? (count - 1) * type.extent() : 0;
  const std::int64_t below = type.true_lb() + std::min<std::int64_t>(reach, 0);
  const std::int64_t bytes = count > 0 ? type.true_extent() + std::max(reach, -reach) : 0;
  // The buffer's address, not that of its first byte, is what user functions may expect to be aligned.
  constexpr std::uintptr_t alignment = alignof(std::max_align_t);
  memory_ = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(bytes) + alignment - 1);
  const auto address = reinterpret_cast<std::uintptr_t>(moved(memory_.get(), -below));
  buffer_ = moved(memory_.get(), -below + static_cast<std::int64_t>(-address % alignment));
}

PackedIn::PackedIn(const Payload& payload) : data_(payload.data) {
  if (!payload.type) return;
  memory_ = std::make_unique_for_overwrite<std::byte[]>(payload.bytes);
  pack(payload, memory_.get());
  data_ = memory_.get();
}

PackedOut::PackedOut(const Payload& payload, bool filled) : payload_(payload), data_(payload.data) {
  if (!payload.type) return;
  memory_ = std::make_unique_for_overwrite<std::byte[]>(payload.bytes);
  data_ = memory_.get();
  if (filled) pack(payload, data_);
}

void PackedOut::finish() const {
  if (memory_) unpack(data_, payload_);
}

}  // namespace isthmus::coll
