#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/attributes.hpp"
#include "base/error.hpp"
#include "base/ref.hpp"
#include "datatype/basic.hpp"
#include "datatype/layout.hpp"

namespace isthmus {

class Datatype;

/// How a type was made (MPI 5.0, section 5.1.13). The values are those of MPI_COMBINER_* in the standard ABI.
enum class Combiner : int {
  named = 101,
  dup = 102,
  contiguous = 103,
  vector = 104,
  hvector = 105,
  indexed = 106,
  hindexed = 107,
  indexed_block = 108,
  hindexed_block = 109,
  structure = 110,
  subarray = 111,
  darray = 112,
  f90_real = 113,
  f90_complex = 114,
  f90_integer = 115,
  resized = 116,
  value_index = 117,
};

/// Whether a constructor was called in its form with `int` or with `MPI_Count` (`_c`) arguments. It decides
/// where MPI_Type_get_contents finds them again.
enum class Form : std::uint8_t { small, large };

/// The arguments a type was made from, in the arrays and the order of MPI 5.0, section 5.1.13.
struct Contents {
  Combiner combiner = Combiner::named;
  Form form = Form::small;
  std::vector<int> integers;
  std::vector<std::int64_t> addresses;
  std::vector<std::int64_t> large_counts;
  std::vector<Ref<Datatype>> types;
};

/// Where the bytes of one element lie, relative to its address (MPI 5.0, sections 5.1 and 5.1.7 to 5.1.9).
struct Bounds {
  std::int64_t size = 0;  // bytes of data, without gaps
  std::int64_t lb = 0;
  std::int64_t ub = 0;
  std::int64_t true_lb = 0;
  std::int64_t true_ub = 0;
  std::int64_t elements = 0;  // basic elements; a pair counts as two
  std::int64_t external32_size = 0;
  std::int64_t alignment = 1;
  bool has_markers = false;  // lb and ub were set by MPI_Type_create_resized somewhere inside
};

/// What a program has said of a type: local to a rank (MPI 5.0, sections 7.7 and 7.8). Guarded by the
/// engine's lock.
struct TypeLabels {
  std::optional<std::string> name;  ///< of MPI_Type_set_name
  AttributeSet attributes;          ///< of MPI_Type_set_attr
};

/// An MPI datatype: a typemap, how it was made, and, once committed, its compiled `Layout`.
///
/// Made by the functions of `construct.hpp`, `array_types.hpp` and `unnamed.hpp`; the named ones by `basic`.
/// Immutable except for its labels and for being committed, which may happen in any thread. The ranks of a
/// process share the named types; every other type belongs to one rank.
class Datatype final : public RefCounted {
 public:
  /// The named type, immortal and committed.
  [[nodiscard]] static Datatype& basic(Basic basic) noexcept;

  [[nodiscard]] std::int64_t size() const noexcept { return bounds_.size; }
  [[nodiscard]] std::int64_t lb() const noexcept { return bounds_.lb; }
  [[nodiscard]] std::int64_t ub() const noexcept { return bounds_.ub; }
  [[nodiscard]] std::int64_t extent() const noexcept { return bounds_.ub - bounds_.lb; }
  [[nodiscard]] std::int64_t true_lb() const noexcept { return bounds_.true_lb; }
  [[nodiscard]] std::int64_t true_extent() const noexcept { return bounds_.true_ub - bounds_.true_lb; }
  [[nodiscard]] const Bounds& bounds() const noexcept { return bounds_; }

  /// Bytes of data in `count` elements; an error of class `count` where that is negative or passes 2^63 - 1.
  [[nodiscard]] Result<std::int64_t> bytes(std::int64_t count) const {
    std::int64_t product = 0;
    if (count < 0 || __builtin_mul_overflow(count, bounds_.size, &product)) [[unlikely]] {
      return bad_count(count);
    }
    return product;
  }

  /// Elements lie back to back, in order, from their address on: `count` of them are one block of
  /// `count * size()` bytes. Known at once, committed or not, for all but derived types that are not yet
  /// committed (false for those).
  [[nodiscard]] bool is_contiguous() const noexcept { return contiguous_.load(std::memory_order_acquire); }

  /// Named or unnamed predefined type: always committed, must not be freed (MPI 5.0, section 5.1.9).
  [[nodiscard]] bool is_predefined() const noexcept { return predefined_; }
  /// Has a constant in mpi.h, and is shared by the ranks of a process.
  [[nodiscard]] bool is_named() const noexcept { return combiner() == Combiner::named; }
  /// The named type whose data this predefined type has: itself, or for example `real8` for what
  /// MPI_Type_create_f90_real(15, MPI_UNDEFINED) gives. Nothing for derived types and pairs.
  [[nodiscard]] std::optional<Basic> as_basic() const noexcept { return basic_; }
  /// The parts of a pair type.
  [[nodiscard]] const std::optional<PairParts>& as_pair() const noexcept { return pair_; }
  /// The one basic type that all elements have, if it is one.
  [[nodiscard]] std::optional<Basic> only_basic() const noexcept { return only_basic_; }

  [[nodiscard]] bool committed() const noexcept { return layout_.load(std::memory_order_acquire) != nullptr; }
  /// Makes the type usable in communication (MPI 5.0, section 5.1.9). Again is no error. Fails only for want
  /// of memory.
  [[nodiscard]] Result<> commit();
  /// The compiled typemap. Only for committed types.
  [[nodiscard]] const Layout& layout() const noexcept { return *layout_.load(std::memory_order_acquire); }

  [[nodiscard]] const Contents& contents() const noexcept { return contents_; }
  [[nodiscard]] Combiner combiner() const noexcept { return contents_.combiner; }

  /// What MPI_Type_get_name gives until a name is set: "MPI_INT" for named types, empty for others.
  [[nodiscard]] std::string_view default_name() const noexcept { return default_name_; }
  /// Only for types that are not named. Those of named types are each rank's own, and lie in its
  /// `abi::Runtime`.
  [[nodiscard]] TypeLabels& labels() noexcept { return labels_; }

  /// Basic elements in the first `bytes` bytes of a packed message of this type: what MPI_Get_elements
  /// returns. Nothing where they end within an element (MPI_UNDEFINED).
  [[nodiscard]] std::optional<std::int64_t> elements_in(std::int64_t bytes) const;
  /// The inverse, for MPI_Status_set_elements: packed bytes of the first `elements` basic elements. Nothing
  /// where that passes 2^63 - 1.
  [[nodiscard]] std::optional<std::int64_t> bytes_of_elements(std::int64_t elements) const;

  /// How deeply constructors were nested to make it; 0 for predefined types.
  [[nodiscard]] int depth() const noexcept { return depth_; }
  /// What subarray and darray types were reduced to; null for others.
  [[nodiscard]] const Datatype* lowered() const noexcept { return lowered_.get(); }

  /// For the constructors below `datatype/` alone.
  class Maker;

 private:
  Datatype() = default;
  ~Datatype() override;

  [[nodiscard]] static std::unexpected<Error> bad_count(std::int64_t count);
  void adopt(Ref<const Layout> layout) noexcept;

  Contents contents_;
  Bounds bounds_;
  Ref<Datatype> lowered_;
  std::optional<Basic> basic_;
  std::optional<Basic> only_basic_;
  std::optional<PairParts> pair_;
  int depth_ = 0;
  bool predefined_ = false;
  std::atomic<bool> contiguous_ = false;
  std::atomic<const Layout*> layout_ = nullptr;  // owns one reference

  TypeLabels labels_;
  std::string_view default_name_;
};

}  // namespace isthmus
