#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/body/operations.hpp"
#include "kernels/body/threads.hpp"

namespace isthmus::kernel {

inline constexpr int reduce_sources = 8;
inline constexpr int reduce_results = 8;

/// How elements may be loaded and stored.
enum class Access : std::uint32_t {
  bytes,     ///< they lie anywhere
  elements,  ///< each at a multiple of its alignment
  vectors,   ///< and all buffers at the same distance behind a multiple of 16 bytes
};

/// Of `results[...][i] = sources[0][i] OP sources[1][i] OP ...`, from the left: the same in all results.
struct ReduceArguments {
  const Byte* sources[reduce_sources];
  Byte* results[reduce_results];
  std::uint64_t count;  ///< elements
  std::uint64_t head;   ///< elements before the first whole vector, with `vectors`
  std::uint32_t source_count;
  std::uint32_t result_count;
  Access access;
  std::uint32_t reserved;
};

/// How an element goes from memory to registers and back.
template <class T>
struct Element {
  static constexpr bool has_vectors = true;
  static constexpr std::size_t extent = sizeof(T);
  template <bool aligned>
  static ISTHMUS_ANYWHERE T get(const Byte* from) {
    return load<T, aligned>(from);
  }
  template <bool aligned>
  static ISTHMUS_ANYWHERE void put(Byte* to, const T& value) {
    store<aligned>(to, value);
  }
};

template <class Value, class Index, int offset, int bytes>
struct Element<Pair<Value, Index, offset, bytes>> {
  using T = Pair<Value, Index, offset, bytes>;
  static constexpr bool has_vectors = false;
  static constexpr std::size_t extent = bytes;
  template <bool aligned>
  static ISTHMUS_ANYWHERE T get(const Byte* from) {
    return {load<Value, aligned>(from), load<Index, aligned>(from + offset)};
  }
  template <bool aligned>
  static ISTHMUS_ANYWHERE void put(Byte* to, const T& value) {
    store<aligned>(to, value.value);
    store<aligned>(to + offset, value.index);
  }
};

template <class T, class Operation, bool aligned>
ISTHMUS_ANYWHERE void reduce_element(const ReduceArguments& work, std::uint64_t i) {
  const std::uint64_t at = i * Element<T>::extent;
  T value = Element<T>::template get<aligned>(work.sources[0] + at);
  for (std::uint32_t source = 1; source < work.source_count; ++source)
    value = Operation::of(value, Element<T>::template get<aligned>(work.sources[source] + at));
  for (std::uint32_t result = 0; result < work.result_count; ++result)
    Element<T>::template put<aligned>(work.results[result] + at, value);
}

template <class T, class Operation, bool aligned>
ISTHMUS_ANYWHERE void reduce_elements(const ReduceArguments& work, const Thread& thread) {
  for (std::uint64_t i = thread.of_all(); i < work.count; i += thread.all())
    reduce_element<T, Operation, aligned>(work, i);
}

template <class T, class Operation>
ISTHMUS_ANYWHERE Vector combined(const Vector& left, const Vector& right) {
  constexpr std::size_t elements = sizeof(Vector) / sizeof(T);
  T a[elements];
  T b[elements];
  std::memcpy(a, &left, sizeof left);
  std::memcpy(b, &right, sizeof right);
  ISTHMUS_UNROLL
  for (std::size_t i = 0; i < elements; ++i)
    a[i] = Operation::of(a[i], b[i]);
  Vector result;
  std::memcpy(&result, a, sizeof result);
  return result;
}

/// Up to `most` sources, `together` vectors of each at a time: all of them are loaded before the first is
/// needed, because a load from a peer's memory takes 0.9 us.
template <class T, class Operation, int most, int together>
ISTHMUS_ANYWHERE void reduce_vectors(const ReduceArguments& work, const Thread& thread) {
  constexpr std::uint64_t elements = sizeof(Vector) / sizeof(T);
  const std::uint64_t vectors = (work.count - work.head) / elements;
  const std::uint64_t begin = work.head * sizeof(T);
  const std::uint64_t step = thread.all();
  for (std::uint64_t first = thread.of_all(); first < vectors; first += step * together) {
    Vector loaded[most][together];
    ISTHMUS_UNROLL
    for (int source = 0; source < most; ++source) {
      ISTHMUS_UNROLL
      for (int i = 0; i < together; ++i)
        if (source < static_cast<int>(work.source_count) && first + step * i < vectors)
          loaded[source][i] =
              load<Vector>(work.sources[source] + begin + (first + step * i) * sizeof(Vector));
    }
    ISTHMUS_UNROLL
    for (int i = 0; i < together; ++i) {
      if (first + step * i >= vectors) break;
      Vector value = loaded[0][i];
      ISTHMUS_UNROLL
      for (int source = 1; source < most; ++source)
        if (source < static_cast<int>(work.source_count))
          value = combined<T, Operation>(value, loaded[source][i]);
      for (std::uint32_t result = 0; result < work.result_count; ++result)
        store(work.results[result] + begin + (first + step * i) * sizeof(Vector), value);
    }
  }
  // Before and behind the vectors there are less than a vector's elements each.
  const std::uint64_t behind = work.head + vectors * elements;
  for (std::uint64_t i = thread.of_all(); i < work.head + (work.count - behind); i += step)
    reduce_element<T, Operation, true>(work, i < work.head ? i : i - work.head + behind);
}

template <class T, class Operation>
ISTHMUS_ANYWHERE void reduce(const ReduceArguments& work, const Thread& thread) {
  if constexpr (Element<T>::has_vectors) {
    if (work.access == Access::vectors) {
      if (work.source_count <= 2) return reduce_vectors<T, Operation, 2, 4>(work, thread);
      return reduce_vectors<T, Operation, reduce_sources, 1>(work, thread);
    }
  }
  if (work.access == Access::bytes) return reduce_elements<T, Operation, false>(work, thread);
  reduce_elements<T, Operation, true>(work, thread);
}

}  // namespace isthmus::kernel
