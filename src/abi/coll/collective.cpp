#include "abi/coll/collective.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace isthmus::abi {

Result<> find_role(const Communicator& comm, int root, Role& role) {
  if (!comm.is_inter()) {
    if (!is_root(comm, root)) [[unlikely]]
      return fail(ErrorClass::root,
                  fmt::format("root {} is not a rank of the communicator, which has {}", root, comm.size()));
    const bool here = comm.rank() == root;
    role = {.at_root = here, .contributes = true, .in_place = here};
    return {};
  }
  if (root != MPI_ROOT && root != MPI_PROC_NULL && (root < 0 || root >= comm.remote_size()))
    return fail(ErrorClass::root,
                fmt::format("root {} is neither MPI_ROOT nor MPI_PROC_NULL nor a rank of the remote group, "
                            "which has {}",
                            root, comm.remote_size()));
  role = {.at_root = root == MPI_ROOT, .contributes = root >= 0, .in_place = false};
  return {};
}

Result<> find_data(const void* buffer, MPI_Count count, MPI_Datatype datatype, int blocks,
                   const ArgumentNames& names, const Datatype*& type) {
  MPI_Count all = 0;
  const bool fits = !__builtin_mul_overflow(count, static_cast<MPI_Count>(blocks), &all);
  if (fits && good_data(Runtime::get(), buffer, all, datatype, type)) [[likely]]
    return {};
  if (!fits && count > 0)
    return fail(ErrorClass::count, fmt::format("{} {} for each of {} ranks is more than fits into 64 bits",
                                               names.count, count, blocks));
  return std::unexpected(explain_payload(buffer, count < 0 ? count : all, datatype, names));
}

std::unexpected<Error> same_memory() {
  return fail(ErrorClass::buffer,
              "sendbuf and recvbuf are the same memory; MPI_IN_PLACE is how to ask for that");
}

Result<> check_lists(const void* buffer, const coll::Integers& counts, bool have_counts,
                     bool have_displacements, int blocks, const Datatype& type, const ArgumentNames& names) {
  if (!have_counts) return fail(ErrorClass::arg, fmt::format("{} is a null pointer", names.count));
  if (!have_displacements)
    return fail(ErrorClass::arg, fmt::format("the displacements of {} are a null pointer", names.buffer));
  for (int i = 0; i < blocks; ++i) {
    const MPI_Count count = counts[i];
    if (count == 0) continue;
    if (count < 0)
      return fail(ErrorClass::count, fmt::format("{}[{}] is {}, which is negative", names.count, i, count));
    ISTHMUS_TRY(check_buffer(buffer, count, type, names.buffer));
  }
  return {};
}

Result<std::vector<const Datatype*>> find_types(const void* buffer, const coll::Integers& counts,
                                                const coll::Integers& displacements,
                                                const MPI_Datatype* datatypes, int blocks,
                                                const ArgumentNames& names) {
  // A type without data, so that blocks without elements can be treated like all others.
  std::vector<const Datatype*> types(static_cast<std::size_t>(blocks), &Datatype::basic(Basic::byte));
  for (int i = 0; i < blocks; ++i) {
    const MPI_Count count = counts[i];
    if (count == 0) continue;
    const std::string entry = "[" + std::to_string(i) + "]";
    if (count < 0)
      return fail(ErrorClass::count, fmt::format("{}{} is {}, which is negative", names.count, entry, count));
    Result<Datatype*> type = find_committed(datatypes[i], (names.datatype + entry).c_str());
    if (!type) return std::unexpected(std::move(type).error());
    const std::uintptr_t block =
        reinterpret_cast<std::uintptr_t>(buffer) + static_cast<std::uintptr_t>(displacements[i]);
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the program's, an address that it may have given as a number
    ISTHMUS_TRY(check_buffer(reinterpret_cast<const void*>(block), count, **type, names.buffer));
    types[static_cast<std::size_t>(i)] = *type;
  }
  return types;
}

}  // namespace isthmus::abi
