#include "datatype/op.hpp"

#include <array>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "datatype/cursor.hpp"
#include "datatype/op_kernels.hpp"

namespace isthmus {

namespace {

struct OpInfo {
  OpCode code;
  std::string_view name;
  unsigned classes;  // a bit for each TypeClass
};

constexpr unsigned bit(TypeClass type_class) {
  return 1u << static_cast<unsigned>(type_class);
}

using enum TypeClass;
constexpr unsigned ordered = bit(c_integer) | bit(fortran_integer) | bit(floating) | bit(multi_language);
constexpr unsigned arithmetic = ordered | bit(complex);
constexpr unsigned truth = bit(c_integer) | bit(TypeClass::logical);
constexpr unsigned bitwise =
    bit(c_integer) | bit(fortran_integer) | bit(TypeClass::byte) | bit(multi_language);
constexpr unsigned everything = ~0u;

/// MPI 5.0, section 6.9.2.
constexpr std::array operations{
    OpInfo{OpCode::sum, "MPI_SUM", arithmetic},
    OpInfo{OpCode::min, "MPI_MIN", ordered},
    OpInfo{OpCode::max, "MPI_MAX", ordered},
    OpInfo{OpCode::prod, "MPI_PROD", arithmetic},
    OpInfo{OpCode::band, "MPI_BAND", bitwise},
    OpInfo{OpCode::bor, "MPI_BOR", bitwise},
    OpInfo{OpCode::bxor, "MPI_BXOR", bitwise},
    OpInfo{OpCode::land, "MPI_LAND", truth},
    OpInfo{OpCode::lor, "MPI_LOR", truth},
    OpInfo{OpCode::lxor, "MPI_LXOR", truth},
    OpInfo{OpCode::minloc, "MPI_MINLOC", bit(pair)},
    OpInfo{OpCode::maxloc, "MPI_MAXLOC", bit(pair)},
    OpInfo{OpCode::replace, "MPI_REPLACE", everything},
    OpInfo{OpCode::no_op, "MPI_NO_OP", everything},
};

constexpr std::uint16_t first_op_handle = 0x20;
constexpr std::uint16_t op_handle_range = 0x20;

constexpr std::size_t slot(OpCode code) {
  return static_cast<std::uint16_t>(code) - first_op_handle;
}

const OpInfo* find(OpCode code) {
  for (const OpInfo& info : operations) {
    if (info.code == code) return &info;
  }
  return nullptr;
}

using KernelTable = std::array<std::array<ReduceKernel, representation_count>, op_handle_range>;

/// Made when the library is loaded: a table that is made when it is first asked for costs a short allreduce
/// 32 of 1000 instructions.
const KernelTable kernels = [] {
  KernelTable result{};
  for (const OpInfo& info : operations) {
    for (int r = 0; r < representation_count; ++r) {
      result[slot(info.code)][static_cast<std::size_t>(r)] =
          reduce_kernel(info.code, static_cast<Representation>(r));
    }
  }
  return result;
}();

ReduceKernel kernel(OpCode code, Representation representation) {
  return kernels[slot(code)][static_cast<std::size_t>(representation)];
}

bool moves_only(OpCode code) {
  return code == OpCode::replace || code == OpCode::no_op;
}

/// MPI_REPLACE and MPI_NO_OP take one operand whole. Predefined types have no gaps between elements.
void move(const void* from, void* out, std::int64_t count, const Datatype& type) {
  if (from != out && count > 0) std::memcpy(out, from, static_cast<std::size_t>(count * type.extent()));
}

void reduce_pairs(OpCode code, const void* a, const void* b, void* out, std::int64_t count,
                  const Datatype& type) {
  const PairParts& parts = *type.as_pair();
  const PairLayout layout{type.extent(), parts.index_offset, info(parts.index).representation};
  pair_kernel(code, info(parts.value).representation)(a, b, out, static_cast<std::size_t>(count), layout);
}

}  // namespace

/// The predefined operations by handle value, made when the library is loaded.
class PredefinedOps {
 public:
  PredefinedOps() {
    for (const OpInfo& info : operations) {
      Op* op = new Op;
      op->code_ = info.code;
      op->classes_ = info.classes;
      op->make_immortal();
      ops_[slot(info.code)] = op;
    }
  }
  [[nodiscard]] Op& operator[](OpCode code) const { return *ops_[slot(code)]; }

  [[nodiscard]] static Ref<Op> make(Op::Function function, bool commutative) {
    Ref<Op> op = Ref<Op>::adopt(new Op);
    op->function_ = std::move(function);
    op->commutative_ = commutative;
    return op;
  }

 private:
  std::array<Op*, op_handle_range> ops_{};
};

namespace {
const PredefinedOps predefined_ops;
}

std::optional<OpCode> op_from_abi(std::uintptr_t handle) noexcept {
  if (handle < first_op_handle || handle >= first_op_handle + op_handle_range) return std::nullopt;
  const auto code = static_cast<OpCode>(handle);
  return find(code) != nullptr ? std::optional(code) : std::nullopt;
}

Op& Op::predefined(OpCode code) noexcept {
  return predefined_ops[code];
}

Ref<Op> Op::user(Function function, bool commutative) {
  return PredefinedOps::make(std::move(function), commutative);
}

std::string_view Op::name() const noexcept {
  return code_ ? find(*code_)->name : std::string_view();
}

bool Op::accepts(const Datatype& type) const noexcept {
  if (!code_) return true;
  if (!type.is_predefined()) return false;
  if (moves_only(*code_)) return true;
  if (type.as_pair()) return (classes_ & bit(pair)) != 0;
  const BasicInfo& basic = info(*type.as_basic());
  return (classes_ & bit(basic.type_class)) != 0 && kernel(*code_, basic.representation) != nullptr;
}

Result<> Op::check(const Datatype& type) const {
  if (accepts(type)) return {};
  const std::string_view what = !type.is_predefined() ? "a derived datatype"
                                : type.is_named()     ? type.default_name()
                                                      : "this unnamed datatype";
  return fail(ErrorClass::op, std::string(name()) + " is not defined on " + std::string(what));
}

Result<> Op::reduce(const void* a, const void* b, void* out, std::int64_t count, const Datatype& type) const {
  if (count <= 0) return {};
  if (!code_) {
    if (out != b) copy(type, b, count, type, out, count);
    function_(a, out, count, type);
    return {};
  }
  if (const auto basic = type.as_basic()) [[likely]] {
    const BasicInfo& facts = info(*basic);
    const ReduceKernel compute = kernel(*code_, facts.representation);
    if (compute != nullptr && (classes_ & bit(facts.type_class)) != 0) [[likely]] {
      compute(a, b, out, static_cast<std::size_t>(count));
      return {};
    }
  }
  ISTHMUS_TRY(check(type));
  if (moves_only(*code_)) {
    move(*code_ == OpCode::replace ? a : b, out, count, type);
  } else {
    reduce_pairs(*code_, a, b, out, count, type);
  }
  return {};
}

}  // namespace isthmus
