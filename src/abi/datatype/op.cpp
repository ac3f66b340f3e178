#include "datatype/op.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "abi/core/any_memory.hpp"
#include "abi/core/call.hpp"
#include "abi/core/entry.hpp"

namespace isthmus::abi {
namespace {

/// The handle that a program's function sees for `type`: its own, or, if the program has freed it already,
/// one for as long as the function runs.
class VisibleType {
 public:
  explicit VisibleType(const Datatype& type) {
    // Handles are not const: the program may do with this one what it may do with its own.
    auto& object = const_cast<Datatype&>(type);
    temporary_ = object.handle == 0;
    handle_ = temporary_ ? Runtime::get().datatypes.add(Ref<Datatype>::share(&object))
                         : reinterpret_cast<MPI_Datatype>(object.handle);
  }
  ~VisibleType() {
    if (temporary_) Runtime::get().datatypes.remove(handle_);
  }
  VisibleType(const VisibleType&) = delete;
  VisibleType& operator=(const VisibleType&) = delete;

  [[nodiscard]] MPI_Datatype handle() const noexcept { return handle_; }

 private:
  bool temporary_;
  MPI_Datatype handle_;
};

/// Makes an operation of the program's function, whose lengths are of type `Integer`. More elements than that
/// can hold go in several calls.
template <class Integer, class Function>
Op::Function adapt(Function* function) {
  return [function](const void* in, void* inout, std::int64_t count, const Datatype& type) {
    const VisibleType visible(type);
    auto* left = static_cast<std::byte*>(const_cast<void*>(in));
    auto* right = static_cast<std::byte*>(inout);
    while (count > 0) {
      Integer length =
          static_cast<Integer>(std::min<std::int64_t>(count, std::numeric_limits<Integer>::max()));
      const std::int64_t step = length;
      MPI_Datatype handle = visible.handle();
      function(left, right, &length, &handle);
      count -= step;
      left += step * type.extent();
      right += step * type.extent();
    }
  };
}

template <class Integer, class Function>
int create(const char* name, Function* function, int commute, MPI_Op* op) noexcept {
  return call(name, [&](Runtime& runtime) -> Result<> {
    ISTHMUS_TRY(check_pointer(op, "op"));
    if (function == nullptr) return fail(ErrorClass::arg, "user_fn is a null pointer");
    *op = runtime.ops.add(Op::user(adapt<Integer>(function), commute != 0));
    return {};
  });
}

Result<> reduce_any_memory(GpuMessages& gpu, const Op& op, const Datatype& type, const void* in, void* inout,
                           std::int64_t count) {
  Result<bool> reduced = gpu.copies().try_reduce(op, type, in, inout, count);
  if (!reduced) return std::unexpected(std::move(reduced).error());
  if (*reduced) return {};
  return with_stand_ins(gpu, {in, count, &type}, {inout, count, &type}, coll::Use::both,
                        [&](const void* from, void* to) { return op.reduce(from, to, count, type); });
}

/// Two arguments must not be the same memory where one is written (MPI 5.0, section 2.3). Elements with gaps
/// may lie in each other's gaps, so that only equal beginnings are wrong for sure.
Result<> check_disjoint(const void* inbuf, const void* inoutbuf, MPI_Count count, const Datatype& type) {
  const std::int64_t bytes = count * type.size();
  if (bytes == 0) return {};
  const auto in = reinterpret_cast<std::uintptr_t>(inbuf);
  const auto inout = reinterpret_cast<std::uintptr_t>(inoutbuf);
  const auto apart = static_cast<std::int64_t>(in < inout ? inout - in : in - inout);
  if (apart >= (type.is_contiguous() ? bytes : 1)) return {};
  return fail(ErrorClass::buffer, "inbuf and inoutbuf are the same memory, or overlap");
}

int reduce_local(const char* function, const void* inbuf, void* inoutbuf, MPI_Count count,
                 MPI_Datatype datatype, MPI_Op op) noexcept {
  return call(function, [&](Runtime&) -> Result<> {
    Result<Op*> operation = find_op(op);
    if (!operation) return std::unexpected(std::move(operation).error());
    Result<Datatype*> type = find_committed(datatype);
    if (!type) return std::unexpected(std::move(type).error());
    ISTHMUS_TRY(check_count(count));
    ISTHMUS_TRY((*operation)->check(**type));
    ISTHMUS_TRY(check_buffer(inbuf, count, **type, "inbuf"));
    ISTHMUS_TRY(check_buffer(inoutbuf, count, **type, "inoutbuf"));
    ISTHMUS_TRY(check_disjoint(inbuf, inoutbuf, count, **type));
    if (GpuMessages* gpu = gpu_in_use()) [[unlikely]]
      return reduce_any_memory(*gpu, **operation, **type, inbuf, inoutbuf, count);
    return (*operation)->reduce(inbuf, inoutbuf, count, **type);
  });
}

}  // namespace

ISTHMUS_ENTRY(int, Op_create)(MPI_User_function* user_fn, int commute, MPI_Op* op) {
  return create<int>("MPI_Op_create", user_fn, commute, op);
}
ISTHMUS_ENTRY(int, Op_create_c)(MPI_User_function_c* user_fn, int commute, MPI_Op* op) {
  return create<MPI_Count>("MPI_Op_create_c", user_fn, commute, op);
}

ISTHMUS_ENTRY(int, Op_free)(MPI_Op* op) {
  return call("MPI_Op_free", [&](Runtime& runtime) -> Result<> {
    ISTHMUS_TRY(check_pointer(op, "op"));
    Result<Op*> operation = find_op(*op);
    if (!operation) return std::unexpected(std::move(operation).error());
    if ((*operation)->is_predefined())
      return fail(ErrorClass::op,
                  fmt::format("op is {}, which is predefined and cannot be freed", (*operation)->name()));
    runtime.ops.remove(*op);
    *op = MPI_OP_NULL;
    return {};
  });
}

ISTHMUS_ENTRY(int, Op_commutative)(MPI_Op op, int* commute) {
  return call("MPI_Op_commutative", [&](Runtime&) -> Result<> {
    ISTHMUS_TRY(check_pointer(commute, "commute"));
    Result<Op*> operation = find_op(op);
    if (!operation) return std::unexpected(std::move(operation).error());
    *commute = (*operation)->commutative() ? 1 : 0;
    return {};
  });
}

ISTHMUS_ENTRY(int, Reduce_local)
(const void* inbuf, void* inoutbuf, int count, MPI_Datatype datatype, MPI_Op op) {
  return reduce_local("MPI_Reduce_local", inbuf, inoutbuf, count, datatype, op);
}
ISTHMUS_ENTRY(int, Reduce_local_c)
(const void* inbuf, void* inoutbuf, MPI_Count count, MPI_Datatype datatype, MPI_Op op) {
  return reduce_local("MPI_Reduce_local_c", inbuf, inoutbuf, count, datatype, op);
}

ISTHMUS_ENTRY(int, Op_toint)(MPI_Op op) {
  return OpTable::to_int(op);
}
ISTHMUS_ENTRY(MPI_Op, Op_fromint)(int op) {
  Runtime& runtime = Runtime::get();
  const CallGuard guard(runtime);
  return runtime.ops.from_int(op);
}

}  // namespace isthmus::abi
