#include <fmt/format.h>

#include <utility>

#include "abi/comm/communicator.hpp"
#include "abi/core/call.hpp"
#include "abi/core/entry.hpp"
#include "coll/agree/agree.hpp"

namespace isthmus::abi {
namespace {

/// All of MPI_Comm_dup and MPI_Comm_dup_with_info; `info` null: no hints. Those of `comm` are not inherited
/// (section 7.4.2).
Result<> duplicate(Communicator& comm, const Info* info, MPI_Comm* newcomm) {
  ISTHMUS_TRY(clear_output(newcomm, "newcomm"));
  Result<Ref<Communicator>> copy = coll::duplicate(comm);
  // On the error of a copy callback the others have a communicator that this process lacks; the program has
  // to end what it began (section 7.7.2).
  if (copy) ISTHMUS_TRY(comm.attributes.copy_to((*copy)->attributes, comm.handle));
  return give(std::move(copy), comm, info, newcomm);
}

Result<> check_subset(const Group& group, const Communicator& comm) {
  for (const PeerId process : group.members())
    if (!comm.group()->contains(process))
      return fail(ErrorClass::group,
                  fmt::format("group has process {} of MPI_COMM_WORLD, which is not in comm", process));
  return {};
}

}  // namespace

ISTHMUS_ENTRY(int, Comm_dup)(MPI_Comm comm, MPI_Comm* newcomm) {
  return call("MPI_Comm_dup", comm, [&](Communicator& c) { return duplicate(c, nullptr, newcomm); });
}

ISTHMUS_ENTRY(int, Comm_dup_with_info)(MPI_Comm comm, MPI_Info info, MPI_Comm* newcomm) {
  return call("MPI_Comm_dup_with_info", comm, [&](Communicator& c) -> Result<> {
    Result<Info*> hints = find_info(info);
    if (!hints) return std::unexpected(std::move(hints).error());
    return duplicate(c, *hints, newcomm);
  });
}

ISTHMUS_ENTRY(int, Comm_create)(MPI_Comm comm, MPI_Group group, MPI_Comm* newcomm) {
  return call("MPI_Comm_create", comm, [&](Communicator& c) -> Result<> {
    ISTHMUS_TRY(clear_output(newcomm, "newcomm"));
    Result<Group*> members = find_group(group);
    if (!members) return std::unexpected(std::move(members).error());
    ISTHMUS_TRY(check_subset(**members, c));
    return give(coll::create(c, Ref<Group>::share(*members)), c, nullptr, newcomm);
  });
}

ISTHMUS_ENTRY(int, Comm_create_group)(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm* newcomm) {
  return call("MPI_Comm_create_group", comm, [&](Communicator& c) -> Result<> {
    ISTHMUS_TRY(clear_output(newcomm, "newcomm"));
    ISTHMUS_TRY(check_intra(c));
    Result<Group*> members = find_group(group);
    if (!members) return std::unexpected(std::move(members).error());
    ISTHMUS_TRY(check_subset(**members, c));
    ISTHMUS_TRY(check_creation_tag(tag));
    return give(coll::create_group(c, Ref<Group>::share(*members), tag), c, nullptr, newcomm);
  });
}

ISTHMUS_ENTRY(int, Comm_split)(MPI_Comm comm, int color, int key, MPI_Comm* newcomm) {
  return call("MPI_Comm_split", comm, [&](Communicator& c) -> Result<> {
    ISTHMUS_TRY(clear_output(newcomm, "newcomm"));
    if (color < 0 && color != MPI_UNDEFINED)
      return fail(ErrorClass::arg,
                  fmt::format("color is {}, which is negative and not MPI_UNDEFINED", color));
    return give(coll::split(c, color, key), c, nullptr, newcomm);
  });
}

}  // namespace isthmus::abi
