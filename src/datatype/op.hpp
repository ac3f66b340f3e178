#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "base/error.hpp"
#include "base/ref.hpp"
#include "datatype/datatype.hpp"

namespace isthmus {

/// The predefined operations (MPI 5.0, sections 6.9.2 and 12.3.4). The values are those of the handles in the
/// standard ABI.
enum class OpCode : std::uint16_t {
  sum = 0x21,
  min = 0x22,
  max = 0x23,
  prod = 0x24,
  band = 0x28,
  bor = 0x29,
  bxor = 0x2a,
  land = 0x30,
  lor = 0x31,
  lxor = 0x32,
  minloc = 0x38,
  maxloc = 0x39,
  replace = 0x3c,
  no_op = 0x3d,
};

/// The predefined operation with that handle value of the standard ABI, if there is one.
[[nodiscard]] std::optional<OpCode> op_from_abi(std::uintptr_t handle) noexcept;

/// A reduction operation: predefined, or the program's own (MPI 5.0, section 6.9). Immutable, thread-safe as
/// far as the program's function is.
class Op final : public RefCounted {
 public:
  /// The program's function: element by element `inout = in OP inout`, for `count` elements of the type. It
  /// must not throw.
  using Function = std::function<void(const void* in, void* inout, std::int64_t count, const Datatype& type)>;

  [[nodiscard]] static Op& predefined(OpCode code) noexcept;
  [[nodiscard]] static Ref<Op> user(Function function, bool commutative);

  [[nodiscard]] bool commutative() const noexcept { return commutative_; }
  [[nodiscard]] bool is_predefined() const noexcept { return code_.has_value(); }
  [[nodiscard]] std::optional<OpCode> code() const noexcept { return code_; }
  /// "MPI_SUM"; empty for the program's own.
  [[nodiscard]] std::string_view name() const noexcept;

  /// Whether it is defined on `type`: the program's own on all, predefined ones on the predefined types of
  /// their classes and on no derived type (MPI 5.0, section 6.9.2).
  [[nodiscard]] bool accepts(const Datatype& type) const noexcept;
  /// The same, as an error of class `op` that names both.
  [[nodiscard]] Result<> check(const Datatype& type) const;

  /// `inout = in OP inout` for `count` elements. Class `op` where the operation does not accept the type.
  [[nodiscard]] Result<> reduce(const void* in, void* inout, std::int64_t count, const Datatype& type) const {
    return reduce(in, inout, inout, count, type);
  }
  /// `out = a OP b`, in exactly that order. `out` may be `b`; with a predefined operation it may be `a` too.
  /// Otherwise the three do not overlap. The program's own operations need a committed type.
  [[nodiscard]] Result<> reduce(const void* a, const void* b, void* out, std::int64_t count,
                                const Datatype& type) const;

 private:
  Op() = default;
  ~Op() override = default;
  friend class PredefinedOps;

  std::optional<OpCode> code_;
  std::uint32_t classes_ = 0;  // that a predefined one accepts, a bit for each `TypeClass`
  bool commutative_ = true;
  Function function_;
};

}  // namespace isthmus
