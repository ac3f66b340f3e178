#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "datatype/datatype.hpp"
#include "datatype/op.hpp"

namespace isthmus {

/// The kernel that combines elements of a type.
struct ReduceChoice {
  const char* name;
  const char* meeting;      ///< the kernel that does it with the other members' (body/meet)
  std::uint32_t bytes;      ///< from one of the kernel's elements to the next
  std::uint32_t alignment;  ///< of the kernel's elements
  std::uint32_t factor;     ///< the kernel's elements in one of the type
  std::uint16_t number;     ///< its place in reduce_list.hpp
  bool has_vectors;         ///< moves 16 bytes at a time where all buffers lie alike
};

/// Nothing where there is no such kernel.
[[nodiscard]] std::optional<ReduceChoice> choose_reduction(const Op& op, const Datatype& type) noexcept;

/// How many different ones there are, and their names.
[[nodiscard]] std::size_t reduction_count() noexcept;
[[nodiscard]] const char* reduction_name(std::size_t i) noexcept;
[[nodiscard]] const char* meeting_name(std::size_t i) noexcept;

}  // namespace isthmus
