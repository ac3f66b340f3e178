#include "datatype/op_kernels.hpp"

#include <complex>
#include <cstring>
#include <limits>
#include <type_traits>

#include "datatype/number_types.hpp"

// The loops are compiled for the baseline of the architecture only. Measured on a Xeon with AVX-512 (1 MiB of
// doubles, SUM, medians of 9, out = a OP b): 127.6 us with SSE2, 126.4 with AVX2, 128.9 with AVX-512; in
// place 37 us against 55 and 79; at 4 KiB 0.05 to 0.08 us for all. The caches' bandwidth decides, not the
// width of the additions, so versions for other instruction sets would be weight without speed.

#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed"  // not all of these loops have vector instructions
#define ISTHMUS_INDEPENDENT_ITERATIONS _Pragma("clang loop vectorize(assume_safety)")
#else
#define ISTHMUS_INDEPENDENT_ITERATIONS _Pragma("GCC ivdep")
#endif

namespace isthmus {

namespace {

/// Through memcpy, because buffers of packed structs need not be aligned. Compiles to plain vector moves.
template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <class T>
void store(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

const std::byte* bytes(const void* data) {
  return static_cast<const std::byte*>(data);
}
std::byte* bytes(void* data) {
  return static_cast<std::byte*>(data);
}

template <class T, class Operation>
void apply(const void* a, const void* b, void* out, std::size_t count) {
  const std::byte* left = bytes(a);
  const std::byte* right = bytes(b);
  std::byte* result = bytes(out);
  ISTHMUS_INDEPENDENT_ITERATIONS
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = i * sizeof(T);
    store<T>(result + at, Operation::of(load<T>(left + at), load<T>(right + at)));
  }
}

template <class T>
inline constexpr bool is_integer =
    std::is_integral_v<T> || std::is_same_v<T, Int128> || std::is_same_v<T, UInt128>;

/// Where integer arithmetic wraps around, as programs expect, instead of being undefined.
template <class T>
struct Wrapping {
  using Type = T;
};
template <class T>
  requires is_integer<T>
struct Wrapping<T> {
  using Type = std::conditional_t<(sizeof(T) <= 4), std::uint32_t,
                                  std::conditional_t<sizeof(T) == 8, std::uint64_t, UInt128>>;
};

template <class T>
struct Sum {
  static T of(T a, T b) {
    using W = typename Wrapping<T>::Type;
    return static_cast<T>(static_cast<W>(a) + static_cast<W>(b));
  }
};

template <class T>
struct Product {
  static T of(T a, T b) {
    using W = typename Wrapping<T>::Type;
    return static_cast<T>(static_cast<W>(a) * static_cast<W>(b));
  }
};

template <class T>
struct Maximum {
  static T of(T a, T b) { return a > b ? a : b; }
};

template <class T>
struct Minimum {
  static T of(T a, T b) { return a < b ? a : b; }
};

template <class T>
struct LogicalAnd {
  static T of(T a, T b) { return static_cast<T>((a != 0) & (b != 0)); }
};

template <class T>
struct LogicalOr {
  static T of(T a, T b) { return static_cast<T>((a != 0) | (b != 0)); }
};

template <class T>
struct LogicalXor {
  static T of(T a, T b) { return static_cast<T>((a != 0) ^ (b != 0)); }
};

struct BitAnd {
  static std::uint8_t of(std::uint8_t a, std::uint8_t b) { return a & b; }
};
struct BitOr {
  static std::uint8_t of(std::uint8_t a, std::uint8_t b) { return a | b; }
};
struct BitXor {
  static std::uint8_t of(std::uint8_t a, std::uint8_t b) { return a ^ b; }
};

/// Bits are the same for all integers: one loop over bytes, which the compiler makes one over vectors.
template <class T, class Operation>
void apply_bits(const void* a, const void* b, void* out, std::size_t count) {
  apply<std::uint8_t, Operation>(a, b, out, count * sizeof(T));
}

/// A complex sum is a sum of twice as many reals.
template <class Part>
void sum_complex(const void* a, const void* b, void* out, std::size_t count) {
  apply<Part, Sum<Part>>(a, b, out, 2 * count);
}

/// The product as the C compiler computes it, with the recovery of infinities of C's Annex G where the type
/// is one of C's.
template <class Part>
struct ComplexProduct {
  struct Value {
    Part real, imaginary;
  };
  static Value of(const Value& a, const Value& b) {
    if constexpr (std::is_floating_point_v<Part> && sizeof(Part) >= sizeof(float) &&
                  (std::is_same_v<Part, float> || std::is_same_v<Part, double> ||
                   std::is_same_v<Part, long double>)) {
      const std::complex<Part> product =
          std::complex<Part>(a.real, a.imaginary) * std::complex<Part>(b.real, b.imaginary);
      return {product.real(), product.imag()};
    } else {
      // Of half precision, rounded once, whether or not the compiler computes in higher precision by itself.
      using Wide = std::conditional_t<(sizeof(Part) < sizeof(float)), float, Part>;
      const Wide real = a.real;
      const Wide imaginary = a.imaginary;
      return {
          static_cast<Part>(real * static_cast<Wide>(b.real) - imaginary * static_cast<Wide>(b.imaginary)),
          static_cast<Part>(real * static_cast<Wide>(b.imaginary) + imaginary * static_cast<Wide>(b.real))};
    }
  }
};

template <class T>
ReduceKernel integer_kernel(OpCode code) {
  switch (code) {
    case OpCode::band:
      return &apply_bits<T, BitAnd>;
    case OpCode::bor:
      return &apply_bits<T, BitOr>;
    case OpCode::bxor:
      return &apply_bits<T, BitXor>;
    case OpCode::land:
      return &apply<T, LogicalAnd<T>>;
    case OpCode::lor:
      return &apply<T, LogicalOr<T>>;
    case OpCode::lxor:
      return &apply<T, LogicalXor<T>>;
    default:
      return nullptr;
  }
}

template <class T>
ReduceKernel number_kernel(OpCode code) {
  switch (code) {
    case OpCode::sum:
      return &apply<T, Sum<T>>;
    case OpCode::prod:
      return &apply<T, Product<T>>;
    case OpCode::max:
      return &apply<T, Maximum<T>>;
    case OpCode::min:
      return &apply<T, Minimum<T>>;
    default:
      if constexpr (is_integer<T>) return integer_kernel<T>(code);
      return nullptr;
  }
}

template <class Part>
ReduceKernel complex_kernel(OpCode code) {
  using Product = ComplexProduct<Part>;
  if (code == OpCode::sum) return &sum_complex<Part>;
  if (code == OpCode::prod) return &apply<typename Product::Value, Product>;
  return nullptr;
}

/// An index as a number that orders as it does. Only ties need it, so the kind is decided at run time.
std::int64_t index_key(const std::byte* index, Representation representation) {
  switch (representation) {
    case Representation::float32: {
      const auto bits = load<std::int32_t>(index);
      return bits < 0 ? bits ^ std::numeric_limits<std::int32_t>::max() : bits;
    }
    case Representation::float64: {
      const auto bits = load<std::int64_t>(index);
      return bits < 0 ? bits ^ std::numeric_limits<std::int64_t>::max() : bits;
    }
    default:
      return load<std::int32_t>(index);
  }
}

std::size_t index_size(Representation representation) {
  return representation == Representation::float64 ? sizeof(double) : sizeof(std::int32_t);
}

template <class T, bool greatest>
void locate(const void* a, const void* b, void* out, std::size_t count, const PairLayout& layout) {
  const std::byte* left = bytes(a);
  const std::byte* right = bytes(b);
  std::byte* result = bytes(out);
  const std::size_t width = index_size(layout.index);
  const auto extent = static_cast<std::size_t>(layout.extent);
  for (std::size_t i = 0; i < count; ++i, left += extent, right += extent, result += extent) {
    const T u = load<T>(left);
    const T v = load<T>(right);
    bool take_left = greatest ? u > v : u < v;
    if (u == v) {
      take_left = index_key(left + layout.index_offset, layout.index) <
                  index_key(right + layout.index_offset, layout.index);
    }
    const std::byte* winner = take_left ? left : right;
    if (winner == result) continue;
    std::memcpy(result, winner, sizeof(T));
    std::memcpy(result + layout.index_offset, winner + layout.index_offset, width);
  }
}

}  // namespace

ReduceKernel reduce_kernel(OpCode code, Representation representation) noexcept {
  constexpr ReduceKernel none = nullptr;
  if (const Representation part = part_of(representation); part != Representation::none) {
    return with_number(part, none, [&]<class T>(Number<T>) -> ReduceKernel {
      if constexpr (!is_integer<T>) return complex_kernel<T>(code);
      return nullptr;
    });
  }
  return with_number(representation, none, [&]<class T>(Number<T>) { return number_kernel<T>(code); });
}

PairKernel pair_kernel(OpCode code, Representation value) noexcept {
  constexpr PairKernel none = nullptr;
  return with_number(value, none, [&]<class T>(Number<T>) -> PairKernel {
    if (code == OpCode::maxloc) return &locate<T, true>;
    if (code == OpCode::minloc) return &locate<T, false>;
    return nullptr;
  });
}

}  // namespace isthmus
