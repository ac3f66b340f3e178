#pragma once

#include <cstdint>
#include <cstring>

// What kernels compute is in the headers of this folder that are compiled twice: by nvcc for GPUs
// (kernels.cu), and by the host's compiler for the emulated driver's twins, which run the same code a thread
// after the other.
#if defined(__CUDACC__)
#define ISTHMUS_ANYWHERE __host__ __device__ __forceinline__
#define ISTHMUS_UNROLL _Pragma("unroll")
/// Of a function that is compiled once for all kernels, which call it: no other translation unit has kernels.
#define ISTHMUS_DEVICE_CALLED static __device__ __noinline__
#else
#define ISTHMUS_ANYWHERE inline
#define ISTHMUS_UNROLL
#define ISTHMUS_DEVICE_CALLED inline
#endif

namespace isthmus::kernel {

using Byte = unsigned char;

/// Which thread this is. No kernel here needs threads to meet, so that any number does the whole work.
struct Thread {
  std::uint32_t index;    ///< in its block
  std::uint32_t threads;  ///< in a block
  std::uint32_t block;
  std::uint32_t blocks;

  [[nodiscard]] ISTHMUS_ANYWHERE std::uint64_t of_all() const {
    return std::uint64_t{block} * threads + index;
  }
  [[nodiscard]] ISTHMUS_ANYWHERE std::uint64_t all() const { return std::uint64_t{blocks} * threads; }
};

/// 16 bytes, moved by one instruction.
struct alignas(16) Vector {
  std::uint32_t words[4];
};

/// A value at an address that is a multiple of its alignment, or (`aligned` false) anywhere.
template <class T, bool aligned = true>
ISTHMUS_ANYWHERE T load(const Byte* from) {
  if constexpr (aligned) {
    return *reinterpret_cast<const T*>(from);
  } else {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
  }
}

template <bool aligned = true, class T>
ISTHMUS_ANYWHERE void store(Byte* to, const T& value) {
  if constexpr (aligned)
    *reinterpret_cast<T*>(to) = value;
  else
    std::memcpy(to, &value, sizeof value);
}

}  // namespace isthmus::kernel
