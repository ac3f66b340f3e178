#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "abi/comm/communicator.hpp"
#include "abi/core/call.hpp"
#include "abi/core/entry.hpp"
#include "coll/agree/agree.hpp"

// Communicators without a parent (MPI 5.0, sections 7.4.2 and 7.6.2). Sessions are a later chapter; groups
// that come from MPI_COMM_WORLD serve as well.
namespace isthmus::abi {
namespace {

/// The error handler is an argument, and errors of the call itself go to it. `body`: `Result<>(Runtime&,
/// const Ref<Errhandler>&)`.
template <class Body>
int call_with_errhandler(const char* function, MPI_Errhandler errhandler, Body&& body) noexcept {
  return enter(function, [&](Runtime& runtime) -> int {
    Result<Errhandler*> found = find_errhandler(errhandler);
    if (found && !(*found)->serves(Errhandler::Subject::communicator))
      found = fail(ErrorClass::errhandler, "errhandler was not made for communicators");
    if (!found) return raise(function, found.error());
    const Ref<Errhandler> handler = Ref<Errhandler>::share(*found);
    const Result<> result = body(runtime, handler);
    if (result) return MPI_SUCCESS;
    const int code = note(function, result.error());
    return invoke(*handler, reinterpret_cast<std::uintptr_t>(MPI_COMM_NULL), code, error_string(code));
  });
}

Result<> check_name(const char* stringtag) {
  ISTHMUS_TRY(check_pointer(stringtag, "stringtag"));
  const std::size_t length = std::strlen(stringtag);
  if (length >= MPI_MAX_STRINGTAG_LEN)
    return fail(ErrorClass::arg,
                fmt::format("stringtag has {} characters, more than the {} of MPI_MAX_STRINGTAG_LEN", length,
                            MPI_MAX_STRINGTAG_LEN - 1));
  return {};
}

Result<> give_with(Result<Ref<Communicator>> made, const Ref<Errhandler>& errhandler, const Info* info,
                   MPI_Comm* newcomm) {
  ISTHMUS_TRY(give(std::move(made), *Runtime::get().world, info, newcomm));
  if (Communicator* comm = Runtime::get().communicators.find(*newcomm)) comm->errhandler = errhandler;
  return {};
}

Result<> check_member(const Group& group, int rank, const char* argument) {
  if (rank >= 0 && static_cast<std::uint32_t>(rank) < group.size()) return {};
  return fail(ErrorClass::rank,
              fmt::format("{} is {}, but its group has {} members", argument, rank, group.size()));
}

}  // namespace

ISTHMUS_ENTRY(int, Comm_create_from_group)
(MPI_Group group, const char* stringtag, MPI_Info info, MPI_Errhandler errhandler, MPI_Comm* newcomm) {
  return call_with_errhandler(
      "MPI_Comm_create_from_group", errhandler,
      [&](Runtime& runtime, const Ref<Errhandler>& handler) -> Result<> {
        ISTHMUS_TRY(check_name(stringtag));
        ISTHMUS_TRY(clear_output(newcomm, "newcomm"));
        Result<Group*> members = find_group(group);
        if (!members) return std::unexpected(std::move(members).error());
        Result<Info*> hints = find_info(info);
        if (!hints) return std::unexpected(std::move(hints).error());
        if ((*members)->size() != 0 && !(*members)->contains(runtime.engine->rank()))
          return fail(ErrorClass::group, "group does not have the calling process");
        return give_with(coll::create_from_group(*runtime.world, Ref<Group>::share(*members), stringtag),
                         handler, *hints, newcomm);
      });
}

ISTHMUS_ENTRY(int, Intercomm_create_from_groups)
(MPI_Group local_group, int local_leader, MPI_Group remote_group, int remote_leader, const char* stringtag,
 MPI_Info info, MPI_Errhandler errhandler, MPI_Comm* newintercomm) {
  return call_with_errhandler(
      "MPI_Intercomm_create_from_groups", errhandler,
      [&](Runtime& runtime, const Ref<Errhandler>& handler) -> Result<> {
        ISTHMUS_TRY(check_name(stringtag));
        ISTHMUS_TRY(clear_output(newintercomm, "newintercomm"));
        Result<Group*> local = find_group(local_group, "local_group");
        if (!local) return std::unexpected(std::move(local).error());
        const auto me = (*local)->rank_of(runtime.engine->rank());
        if (!me) return fail(ErrorClass::group, "local_group does not have the calling process");
        ISTHMUS_TRY(check_member(**local, local_leader, "local_leader"));
        Result<Info*> hints = find_info(info);
        if (!hints) return std::unexpected(std::move(hints).error());
        const Group* remote = nullptr;
        if (static_cast<int>(*me) ==
            local_leader) {  // for whom alone the other side's arguments mean something
          Result<Group*> found = find_group(remote_group, "remote_group");
          if (!found) return std::unexpected(std::move(found).error());
          remote = *found;
          ISTHMUS_TRY(check_member(*remote, remote_leader, "remote_leader"));
        }
        return give_with(coll::join_from_groups(*runtime.world, Ref<Group>::share(*local), local_leader,
                                                remote, remote_leader, stringtag),
                         handler, *hints, newintercomm);
      });
}

}  // namespace isthmus::abi
