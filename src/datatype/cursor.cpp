#include "datatype/cursor.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "datatype/walk.hpp"

namespace isthmus {

namespace {

struct PackVisitor {
  std::byte* out;

  bool operator()(const StridedBlocks& from) {
    gather_blocks(out, from);
    out += from.bytes * static_cast<std::size_t>(from.count);
    return true;
  }
};

struct UnpackVisitor {
  const std::byte* in;

  bool operator()(const StridedBlocks& to) {
    scatter_blocks(to, in);
    in += to.bytes * static_cast<std::size_t>(to.count);
    return true;
  }
};

struct SegmentVisitor {
  std::span<Segment> out;
  std::size_t used = 0;
  std::uint64_t bytes = 0;

  bool operator()(const StridedBlocks& blocks) {
    Address address = blocks.address;
    for (std::int64_t i = 0; i < blocks.count; ++i, address += static_cast<Address>(blocks.stride)) {
      if (!add(detail::pointer(address), blocks.bytes)) return false;
    }
    return true;
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
    std::memcpy(out.data(), detail::pointer(address_ + position_), bytes);
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
    std::memcpy(detail::pointer(address_ + position_), in.data(), bytes);
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
  return Segment{detail::pointer(address_), top_.bytes};
}

std::uint64_t Cursor::mean_block() const noexcept {
  return top_.blocks == 0 ? 0 : top_.size / top_.blocks;
}

std::size_t pack(const Datatype& type, const void* base, std::int64_t count,
                 std::span<std::byte> out) noexcept {
  return Cursor(type, const_cast<void*>(base), count).pack(out);
}

std::size_t unpack(const Datatype& type, void* base, std::int64_t count,
                   std::span<const std::byte> in) noexcept {
  return Cursor(type, base, count).unpack(in);
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
  Cursor source(from_type, const_cast<void*>(from), from_count);
  Cursor target(to_type, to, to_count);
  if (const auto whole = source.single_segment()) return target.unpack({whole->data, whole->bytes});
  if (const auto whole = target.single_segment()) return source.pack({whole->data, whole->bytes});
  const bool direct = std::min(source.mean_block(), target.mean_block()) >= direct_block;
  return direct ? copy_by_segments(source, target) : copy_by_staging(source, target);
}

}  // namespace isthmus
