#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/error.hpp"
#include "base/ref.hpp"
#include "datatype/datatype.hpp"

namespace isthmus {

/// An array of counts as MPI has them, `int` or `MPI_Count`, read without a copy.
class Integers {
 public:
  Integers(std::span<const int> values) : data_(values.data()), size_(values.size()), wide_(false) {}
  Integers(std::span<const std::int64_t> values) : data_(values.data()), size_(values.size()), wide_(true) {}

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::int64_t operator[](std::size_t i) const {
    return wide_ ? static_cast<const std::int64_t*>(data_)[i] : static_cast<const int*>(data_)[i];
  }

 private:
  const void* data_;
  std::size_t size_;
  bool wide_;
};

// The constructors of derived types (MPI 5.0, section 5.1.2 and the ones after it). Arrays that belong
// together have one length: the call's `count`. Errors: class `count` for a negative count and for a size
// beyond 2^63 - 1 bytes; `arg` for a negative block length and for bounds outside 64 bits; `no_mem`. With
// `Form::small` the values fit an `int`, except for those that are addresses.

[[nodiscard]] Result<Ref<Datatype>> dup_type(Datatype& old);
/// A new object made from the same arguments, committed if `old` is: what MPI_Type_get_contents hands out for
/// derived types.
[[nodiscard]] Result<Ref<Datatype>> clone_type(const Datatype& old);
[[nodiscard]] Result<Ref<Datatype>> contiguous_type(std::int64_t count, Datatype& old, Form form);
/// `stride` in extents of `old`.
[[nodiscard]] Result<Ref<Datatype>> vector_type(std::int64_t count, std::int64_t blocklength,
                                                std::int64_t stride, Datatype& old, Form form);
/// `stride` in bytes.
[[nodiscard]] Result<Ref<Datatype>> hvector_type(std::int64_t count, std::int64_t blocklength,
                                                 std::int64_t stride, Datatype& old, Form form);
/// `displacements` in extents of `old`.
[[nodiscard]] Result<Ref<Datatype>> indexed_type(Integers blocklengths, Integers displacements, Datatype& old,
                                                 Form form);
/// `displacements` in bytes.
[[nodiscard]] Result<Ref<Datatype>> hindexed_type(Integers blocklengths,
                                                  std::span<const std::int64_t> displacements, Datatype& old,
                                                  Form form);
/// `displacements` in extents of `old`.
[[nodiscard]] Result<Ref<Datatype>> indexed_block_type(std::int64_t blocklength, Integers displacements,
                                                       Datatype& old, Form form);
/// `displacements` in bytes.
[[nodiscard]] Result<Ref<Datatype>> hindexed_block_type(std::int64_t blocklength,
                                                        std::span<const std::int64_t> displacements,
                                                        Datatype& old, Form form);
/// `displacements` in bytes.
[[nodiscard]] Result<Ref<Datatype>> struct_type(Integers blocklengths,
                                                std::span<const std::int64_t> displacements,
                                                std::span<Datatype* const> types, Form form);
[[nodiscard]] Result<Ref<Datatype>> resized_type(std::int64_t lb, std::int64_t extent, Datatype& old,
                                                 Form form);

}  // namespace isthmus
