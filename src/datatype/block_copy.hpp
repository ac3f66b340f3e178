#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace isthmus {

/// Addresses are integers here because a message may start at MPI_BOTTOM, and because a stride may lead
/// before the start of an array after its last block.
using Address = std::uintptr_t;

/// `count` blocks of `bytes` bytes, `stride` bytes from start to start.
struct StridedBlocks {
  Address address;
  std::int64_t count;
  std::int64_t stride;
  std::size_t bytes;
};

namespace detail {

inline std::byte* pointer(Address address) {
  return reinterpret_cast<std::byte*>(address);  // NOLINT(performance-no-int-to-ptr)
}

template <std::size_t bytes>
void gather(std::byte* out, const StridedBlocks& from) {
  Address in = from.address;
  for (std::int64_t i = 0; i < from.count; ++i, in += static_cast<Address>(from.stride), out += bytes) {
    std::memcpy(out, pointer(in), bytes);
  }
}

template <std::size_t bytes>
void scatter(const StridedBlocks& to, const std::byte* in) {
  Address out = to.address;
  for (std::int64_t i = 0; i < to.count; ++i, out += static_cast<Address>(to.stride), in += bytes) {
    std::memcpy(pointer(out), in, bytes);
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
    case 64:
      return work.template operator()<64>();
    default:
      return work.template operator()<0>();
  }
}

}  // namespace detail

/// Collects the blocks into `out`, which has room for all of them.
inline void gather_blocks(std::byte* out, const StridedBlocks& from) {
  detail::with_block_size(from.bytes, [&]<std::size_t bytes>() {
    if constexpr (bytes != 0) {
      detail::gather<bytes>(out, from);
    } else {
      Address in = from.address;
      for (std::int64_t i = 0; i < from.count; ++i, in += static_cast<Address>(from.stride)) {
        std::memcpy(out, detail::pointer(in), from.bytes);
        out += from.bytes;
      }
    }
  });
}

/// The inverse of `gather_blocks`.
inline void scatter_blocks(const StridedBlocks& to, const std::byte* in) {
  detail::with_block_size(to.bytes, [&]<std::size_t bytes>() {
    if constexpr (bytes != 0) {
      detail::scatter<bytes>(to, in);
    } else {
      Address out = to.address;
      for (std::int64_t i = 0; i < to.count; ++i, out += static_cast<Address>(to.stride)) {
        std::memcpy(detail::pointer(out), in, to.bytes);
        in += to.bytes;
      }
    }
  });
}

}  // namespace isthmus
