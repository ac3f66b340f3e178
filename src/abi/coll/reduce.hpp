#pragma once

#include <string>

#include "abi/coll/collective.hpp"
#include "abi/coll/form.hpp"

/// MPI 5.0, sections 6.9 to 6.11: the collectives that reduce. `Form`: Blocking, Nonblocking or Persistent.
namespace isthmus::abi {

/// Names in the reductions, where both buffers share count and datatype.
inline constexpr ArgumentNames operand_names{"sendbuf", "count", "datatype"};
inline constexpr ArgumentNames result_names{"recvbuf", "count", "datatype"};

/// MPI_REPLACE and MPI_NO_OP are for one-sided communication alone (MPI 5.0, section 12.3.4).
inline Result<> find_operation(MPI_Op op, coll::Reduction& what) {
  Result<Op*> operation = find_op(op);
  if (!operation) [[unlikely]]
    return std::unexpected(std::move(operation).error());
  what.op = *operation;
  if (op == MPI_REPLACE || op == MPI_NO_OP) [[unlikely]]
    return fail(ErrorClass::op, std::string(what.op->name()) + " is only for one-sided communication");
  return {};
}

/// Checks one buffer, and with it count and datatype.
[[gnu::always_inline]] inline Result<> find_operand(const void* buffer, MPI_Count count,
                                                    MPI_Datatype datatype, const ArgumentNames& names,
                                                    coll::Reduction& what) {
  what.count = count;
  if (!good_data(Runtime::get(), buffer, count, datatype, what.type)) [[unlikely]]
    return std::unexpected(explain_payload(buffer, count, datatype, names));
  return {};
}

/// Prefix reductions are not defined on intercommunicators (MPI 5.0, section 6.11).
inline Result<> check_prefix_comm(const Communicator& comm) {
  if (!comm.is_inter()) return {};
  return fail(ErrorClass::comm, "prefix reductions are not defined on intercommunicators");
}

/// The arguments of a reduction whose result every rank gets, all or a part of it: `in_count` elements go in
/// and `out_count` come out.
[[gnu::always_inline]] inline Result<> find_reduction(const Communicator& comm, const void* sendbuf,
                                                      const void* recvbuf, MPI_Count in_count,
                                                      MPI_Count out_count, MPI_Datatype datatype, MPI_Op op,
                                                      coll::Reduction& what) {
  ISTHMUS_TRY(find_operation(op, what));
  const bool in_place = sendbuf == MPI_IN_PLACE && !comm.is_inter();
  ISTHMUS_TRY(find_operand(recvbuf, in_place ? in_count : out_count, datatype, result_names, what));
  if (!in_place) {
    ISTHMUS_TRY(find_operand(sendbuf, in_count, datatype, operand_names, what));
    ISTHMUS_TRY(check_apart(sendbuf, recvbuf, in_count));
  }
  what.count = out_count;
  return what.op->check(*what.type);
}

template <class Form>
[[gnu::always_inline]] inline int reduce(const Form& form, const void* sendbuf, void* recvbuf,
                                         MPI_Count count, MPI_Datatype datatype, MPI_Op op, int root,
                                         MPI_Comm comm) noexcept {
  return call(form, comm, [&](Communicator& c) -> Result<> {
    Role role;
    ISTHMUS_TRY(find_role(c, root, role));
    if (!role.at_root && !role.contributes) return form.stay_out(c, coll::call::Reduce{{}, root});
    coll::Reduction what;
    ISTHMUS_TRY(find_operation(op, what));
    const bool in_place = role.in_place && sendbuf == MPI_IN_PLACE;
    if (role.at_root) ISTHMUS_TRY(find_operand(recvbuf, count, datatype, result_names, what));
    if (role.contributes && !in_place) {
      ISTHMUS_TRY(find_operand(sendbuf, count, datatype, operand_names, what));
      if (role.at_root) ISTHMUS_TRY(check_apart(sendbuf, recvbuf, count));
    }
    ISTHMUS_TRY(what.op->check(*what.type));
    return form.run(c, coll::call::Reduce{sendbuf, recvbuf, what, root});
  });
}

template <class Form>
[[gnu::always_inline]] inline int allreduce(const Form& form, const void* sendbuf, void* recvbuf,
                                            MPI_Count count, MPI_Datatype datatype, MPI_Op op,
                                            MPI_Comm comm) noexcept {
  return call(form, comm, [&](Communicator& c) -> Result<> {
    coll::Reduction what;
    ISTHMUS_TRY(find_reduction(c, sendbuf, recvbuf, count, count, datatype, op, what));
    return form.run(c, coll::call::Allreduce{sendbuf, recvbuf, what});
  });
}

template <class Form, class Count>
int reduce_scatter(const Form& form, const void* sendbuf, void* recvbuf, const Count* recvcounts,
                   MPI_Datatype datatype, MPI_Op op, MPI_Comm comm) noexcept {
  return call(form, comm, [&](Communicator& c) -> Result<> {
    ISTHMUS_TRY(check_pointer(recvcounts, "recvcounts"));
    MPI_Count total = 0;
    for (int i = 0; i < c.size(); ++i) {
      ISTHMUS_TRY(check_count(recvcounts[i], "recvcounts"));
      if (__builtin_add_overflow(total, recvcounts[i], &total))
        return fail(ErrorClass::count, "the sum of recvcounts is more than fits into 64 bits");
    }
    coll::Reduction what;
    ISTHMUS_TRY(find_reduction(c, sendbuf, recvbuf, total, recvcounts[c.rank()], datatype, op, what));
    return form.run(c, coll::call::ReduceScatter{sendbuf, recvbuf, what, recvcounts});
  });
}

template <class Form>
int reduce_scatter_block(const Form& form, const void* sendbuf, void* recvbuf, MPI_Count recvcount,
                         MPI_Datatype datatype, MPI_Op op, MPI_Comm comm) noexcept {
  return call(form, comm, [&](Communicator& c) -> Result<> {
    ISTHMUS_TRY(check_count(recvcount, "recvcount"));
    MPI_Count total = 0;
    if (__builtin_mul_overflow(recvcount, static_cast<MPI_Count>(c.size()), &total))
      return fail(ErrorClass::count, "recvcount for each rank is more than fits into 64 bits");
    coll::Reduction what;
    ISTHMUS_TRY(find_reduction(c, sendbuf, recvbuf, total, recvcount, datatype, op, what));
    return form.run(c, coll::call::ReduceScatterBlock{sendbuf, recvbuf, what});
  });
}

template <class Form>
int scan(const Form& form, const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype,
         MPI_Op op, MPI_Comm comm) noexcept {
  return call(form, comm, [&](Communicator& c) -> Result<> {
    ISTHMUS_TRY(check_prefix_comm(c));
    coll::Reduction what;
    ISTHMUS_TRY(find_reduction(c, sendbuf, recvbuf, count, count, datatype, op, what));
    return form.run(c, coll::call::Scan{sendbuf, recvbuf, what});
  });
}

/// The receive buffer of rank 0 is not significant in an exclusive scan. That it is the send buffer is an
/// error there as elsewhere, since one rank alone that goes on would wait for the others.
template <class Form>
int exscan(const Form& form, const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype,
           MPI_Op op, MPI_Comm comm) noexcept {
  return call(form, comm, [&](Communicator& c) -> Result<> {
    ISTHMUS_TRY(check_prefix_comm(c));
    coll::Reduction what;
    if (c.rank() != 0 || sendbuf == MPI_IN_PLACE) {
      ISTHMUS_TRY(find_reduction(c, sendbuf, recvbuf, count, count, datatype, op, what));
    } else {
      ISTHMUS_TRY(find_operation(op, what));
      ISTHMUS_TRY(find_operand(sendbuf, count, datatype, operand_names, what));
      ISTHMUS_TRY(check_apart(sendbuf, recvbuf, count));
      ISTHMUS_TRY(what.op->check(*what.type));
    }
    return form.run(c, coll::call::Exscan{sendbuf, recvbuf, what});
  });
}

}  // namespace isthmus::abi
