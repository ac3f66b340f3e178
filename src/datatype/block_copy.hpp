#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/copy.hpp"

namespace isthmus {

/// Addresses are integers here because a message may start at MPI_BOTTOM, and because a stride may lead
/// before the start of an array after its last block.
using Address = std::uintptr_t;

inline std::byte* pointer(Address address) {
  return reinterpret_cast<std::byte*>(address);  // NOLINT(performance-no-int-to-ptr)
}

/// `count` blocks of `bytes` bytes, `stride` bytes from start to start.
struct StridedBlocks {
  Address address;
  std::int64_t count;
  std::int64_t stride;
  std::size_t bytes;

  [[nodiscard]] std::size_t size() const { return bytes * static_cast<std::size_t>(count); }
  /// Calls `block(address)` for each, in order, until one call returns false.
  template <class Block>
  bool each(Block&& block) const {
    Address at = address;
    for (std::int64_t i = 0; i < count; ++i, at += static_cast<Address>(stride)) {
      if (!block(at)) return false;
    }
    return true;
  }
};

/// `count` times the strided blocks `row`, the first at `row.address`, `stride` bytes apart.
struct BlockGrid {
  StridedBlocks row;
  std::int64_t count;
  std::int64_t stride;
  std::size_t bytes;  // of a block

  [[nodiscard]] std::size_t size() const { return row.size() * static_cast<std::size_t>(count); }
  template <class Block>
  bool each(Block&& block) const {
    StridedBlocks next = row;
    for (std::int64_t i = 0; i < count; ++i, next.address += static_cast<Address>(stride)) {
      if (!next.each(block)) return false;
    }
    return true;
  }
};

/// `count` blocks of `bytes` bytes at `offsets` from `address`.
struct ListedBlocks {
  Address address;
  const std::int64_t* offsets;
  std::int64_t count;
  std::size_t bytes;

  [[nodiscard]] std::size_t size() const { return bytes * static_cast<std::size_t>(count); }
  template <class Block>
  bool each(Block&& block) const {
    for (std::int64_t i = 0; i < count; ++i) {
      if (!block(address + static_cast<Address>(offsets[i]))) return false;
    }
    return true;
  }
};

/// `count` blocks at `offsets` from `address`, from `packed[i]` to `packed[i + 1]` in the packed message.
struct VariedBlocks {
  Address address;
  const std::int64_t* offsets;
  const std::uint64_t* packed;
  std::int64_t count;

  [[nodiscard]] std::size_t size() const { return packed[count] - packed[0]; }
  /// Calls `block(address, bytes)`.
  template <class Block>
  bool each(Block&& block) const {
    for (std::int64_t i = 0; i < count; ++i) {
      if (!block(address + static_cast<Address>(offsets[i]), packed[i + 1] - packed[i])) return false;
    }
    return true;
  }
};

namespace detail {

/// Copies `bytes` bytes, or, where that is 0, `any_bytes`.
template <std::size_t bytes>
void copy_block(std::byte* to, const std::byte* from, std::size_t any_bytes) {
  std::memcpy(to, from, bytes != 0 ? bytes : any_bytes);
}

inline void copy_varied(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes <= 32) {
    copy_small(to, from, bytes);
  } else {
    std::memcpy(to, from, bytes);
  }
}

/// Calls `work` with a block size known to the compiler where `bytes` is a common one, with 0 otherwise.
template <class Work>
void with_block_size(std::size_t bytes, Work&& work) {
  switch (bytes) {
    case 1:
      return work.template operator()<1>();
    case 2:
      return work.template operator()<2>();
    case 4:
      return work.template operator()<4>();
    case 8:
      return work.template operator()<8>();
    case 12:
      return work.template operator()<12>();
    case 16:
      return work.template operator()<16>();
    case 24:
      return work.template operator()<24>();
    case 32:
      return work.template operator()<32>();
    default:
      return work.template operator()<0>();
  }
}

}  // namespace detail

/// Collects the blocks into `out`, which has room for all of them.
template <class Blocks>
void gather_blocks(std::byte* out, const Blocks& from) {
  detail::with_block_size(from.bytes, [&]<std::size_t bytes>() {
    const std::size_t step = bytes != 0 ? bytes : from.bytes;
    from.each([&](Address block) {
      detail::copy_block<bytes>(out, pointer(block), step);
      out += step;
      return true;
    });
  });
}

inline void gather_blocks(std::byte* out, const VariedBlocks& from) {
  from.each([&](Address block, std::size_t bytes) {
    detail::copy_varied(out, pointer(block), bytes);
    out += bytes;
    return true;
  });
}

/// The inverse of `gather_blocks`.
template <class Blocks>
void scatter_blocks(const Blocks& to, const std::byte* in) {
  detail::with_block_size(to.bytes, [&]<std::size_t bytes>() {
    const std::size_t step = bytes != 0 ? bytes : to.bytes;
    to.each([&](Address block) {
      detail::copy_block<bytes>(pointer(block), in, step);
      in += step;
      return true;
    });
  });
}

inline void scatter_blocks(const VariedBlocks& to, const std::byte* in) {
  to.each([&](Address block, std::size_t bytes) {
    detail::copy_varied(pointer(block), in, bytes);
    in += bytes;
    return true;
  });
}

}  // namespace isthmus
