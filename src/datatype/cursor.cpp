#include "datatype/cursor.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "datatype/walk.hpp"

namespace isthmus {

namespace {

struct PackVisitor {
  std::byte* out;

  template <class Blocks>
  bool operator()(const Blocks& from) {
    gather_blocks(out, from);
    out += from.size();
    return true;
  }
};

struct UnpackVisitor {
  const std::byte* in;

  template <class Blocks>
  bool operator()(const Blocks& to) {
    scatter_blocks(to, in);
    in += to.size();
    return true;
  }
};

struct SegmentVisitor {
  std::span<Segment> out;
  std::size_t used = 0;
  std::uint64_t bytes = 0;

  template <class Blocks>
  bool operator()(const Blocks& blocks) {
    return blocks.each([&](Address block) { return add(pointer(block), blocks.bytes); });
  }
  bool operator()(const VariedBlocks& blocks) {
    return blocks.each([&](Address block, std::size_t size) { return add(pointer(block), size); });
  }

  bool add(std::byte* data, std::size_t size) {
    if (used > 0 && reinterpret_cast<Address>(out[used - 1].data) + out[used - 1].bytes ==
                        reinterpret_cast<Address>(data)) {
      out[used - 1].bytes += size;
    } else {
      if (used == out.size()) return false;
      out[used++] = {data, size};
    }
    bytes += size;
    return true;
  }
};

/// Whether one block is all there is, as in most messages; these skip the walk.
bool is_single_block(const Layout::Node& node) {
  return node.kind == Layout::Kind::blocks && node.count == 1;
}

}  // namespace

Cursor::Cursor(const Datatype& type, void* base, std::int64_t count) noexcept
    : layout_(Ref<const Layout>::share(&type.layout())) {
  const Layout::Placed all = layout_->repeated(count, type.extent());
  top_ = all.node;
  address_ = reinterpret_cast<Address>(base) + static_cast<Address>(all.offset);
}

std::size_t Cursor::pack(std::span<std::byte> out) noexcept {
  const std::uint64_t bytes = std::min<std::uint64_t>(out.size(), remaining());
  if (bytes == 0) return 0;
  if (is_single_block(top_)) {
    std::memcpy(out.data(), pointer(address_ + position_), bytes);
  } else {
    PackVisitor visitor{out.data()};
    Walk(*layout_, visitor).range(top_, address_, position_, bytes);
  }
  position_ += bytes;
  return bytes;
}

std::size_t Cursor::unpack(std::span<const std::byte> in) noexcept {
  const std::uint64_t bytes = std::min<std::uint64_t>(in.size(), remaining());
  if (bytes == 0) return 0;
  if (is_single_block(top_)) {
    std::memcpy(pointer(address_ + position_), in.data(), bytes);
  } else {
    UnpackVisitor visitor{in.data()};
    Walk(*layout_, visitor).range(top_, address_, position_, bytes);
  }
  position_ += bytes;
  return bytes;
}

std::size_t Cursor::segments(std::span<Segment> out, std::uint64_t max_bytes) noexcept {
  const std::uint64_t bytes = std::min(max_bytes, remaining());
  SegmentVisitor visitor{out};
  Walk(*layout_, visitor).range(top_, address_, position_, bytes);
  position_ += visitor.bytes;
  return visitor.used;
}

void Cursor::seek(std::uint64_t position) noexcept {
  position_ = std::min(position, top_.size);
}

std::optional<Segment> Cursor::single_segment() const noexcept {
  if (!is_single_block(top_)) return std::nullopt;
  return Segment{pointer(address_), top_.bytes};
}

std::uint64_t Cursor::mean_block() const noexcept {
  return top_.blocks == 0 ? 0 : top_.size / top_.blocks;
}

namespace {

/// Bytes of a contiguous message that fit into `room`.
std::size_t fitting(const Datatype& type, std::int64_t count, std::size_t room) {
  return std::min(static_cast<std::size_t>(count) * static_cast<std::size_t>(type.size()), room);
}

}  // namespace

std::size_t pack(const Datatype& type, const void* base, std::int64_t count,
                 std::span<std::byte> out) noexcept {
  if (!type.is_contiguous()) return Cursor(type, const_cast<void*>(base), count).pack(out);
  const std::size_t bytes = fitting(type, count, out.size());
  if (bytes != 0) std::memcpy(out.data(), base, bytes);
  return bytes;
}

std::size_t unpack(const Datatype& type, void* base, std::int64_t count,
                   std::span<const std::byte> in) noexcept {
  if (!type.is_contiguous()) return Cursor(type, base, count).unpack(in);
  const std::size_t bytes = fitting(type, count, in.size());
  if (bytes != 0) std::memcpy(base, in.data(), bytes);
  return bytes;
}

namespace {

/// Blocks at least this long are copied straight from one place to the other. Shorter ones go through a
/// buffer in the first-level cache, where the loops over blocks of constant size do the work.
constexpr std::uint64_t direct_block = 256;

std::uint64_t copy_by_segments(Cursor& source, Cursor& target) {
  std::array<Segment, 32> pieces;
  while (!source.done() && !target.done()) {
    const std::size_t n = source.segments(pieces, target.remaining());
    for (std::size_t i = 0; i < n; ++i)
      target.unpack({pieces[i].data, pieces[i].bytes});
  }
  return target.position();
}

std::uint64_t copy_by_staging(Cursor& source, Cursor& target) {
  alignas(64) std::array<std::byte, 8192> staging;
  while (!source.done() && !target.done()) {
    const std::uint64_t most = std::min<std::uint64_t>(staging.size(), target.remaining());
    const std::size_t n = source.pack({staging.data(), most});
    target.unpack({staging.data(), n});
  }
  return target.position();
}

}  // namespace

std::uint64_t copy(const Datatype& from_type, const void* from, std::int64_t from_count,
                   const Datatype& to_type, void* to, std::int64_t to_count) noexcept {
  if (from_type.is_contiguous()) {
    const std::size_t bytes = fitting(from_type, from_count, SIZE_MAX);
    return unpack(to_type, to, to_count, {static_cast<const std::byte*>(from), bytes});
  }
  if (to_type.is_contiguous()) {
    const std::size_t bytes = fitting(to_type, to_count, SIZE_MAX);
    return pack(from_type, from, from_count, {static_cast<std::byte*>(to), bytes});
  }
  Cursor source(from_type, const_cast<void*>(from), from_count);
  Cursor target(to_type, to, to_count);
  if (const auto whole = source.single_segment()) return target.unpack({whole->data, whole->bytes});
  if (const auto whole = target.single_segment()) return source.pack({whole->data, whole->bytes});
  const bool direct = std::min(source.mean_block(), target.mean_block()) >= direct_block;
  return direct ? copy_by_segments(source, target) : copy_by_staging(source, target);
}

}  // namespace isthmus
