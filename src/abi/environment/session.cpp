// MPI 5.0, section 11.3: the Sessions Model. Its process sets are the two that the standard demands.

#include "abi/environment/session_call.hpp"

#include <mpi.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "abi/core/entry.hpp"
#include "abi/core/thread_level.hpp"
#include "comm/memory_kinds.hpp"

namespace isthmus::abi {

int raise_on(const Errhandler& errhandler, std::uintptr_t session, const char* function, const Error& error) {
  const int code = note(function, error);
  return invoke(errhandler, session, code, error_string(code));
}

namespace {

constexpr auto process_sets = std::to_array<std::string_view>({"mpi://WORLD", "mpi://SELF"});

/// The level in the info key thread_level; without one that is known, the lowest: what the process runs at
/// already is not made lower by it.
int wanted_level(const Info* info) {
  const std::string* wanted = info ? info->find("thread_level") : nullptr;
  return wanted ? thread_level_named(*wanted).value_or(MPI_THREAD_SINGLE) : MPI_THREAD_SINGLE;
}

char to_lower(char letter) noexcept {
  return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
}

/// The processes of a set, as a group of the session.
Result<Ref<Group>> find_set(Runtime& runtime, const Session& session, const char* pset_name) {
  ISTHMUS_TRY(check_pointer(pset_name, "pset_name"));
  const std::string_view name(pset_name);
  // A URI's scheme and authority are the same in small and large letters (RFC 3986, section 6.2.2.1).
  const auto is_named = [&](std::string_view set) {
    return std::ranges::equal(name, set, {}, to_lower, to_lower);
  };
  const Communicator* const same = is_named(process_sets[0])   ? runtime.world
                                   : is_named(process_sets[1]) ? runtime.self
                                                               : nullptr;
  if (!same) return fail(ErrorClass::arg, fmt::format("pset_name \"{}\" is no process set", name));
  const auto members = same->group()->members();
  return make_ref<Group>(std::vector<PeerId>(members.begin(), members.end()), session.send_buffer);
}

Result<Errhandler*> find_session_errhandler(MPI_Errhandler errhandler) {
  Result<Errhandler*> found = find_errhandler(errhandler);
  if (found && !(*found)->serves(Errhandler::Subject::session))
    return fail(ErrorClass::errhandler, "errhandler was made for another kind of object");
  return found;
}

}  // namespace

ISTHMUS_ENTRY(int, Session_init)(MPI_Info info, MPI_Errhandler errhandler, MPI_Session* session) {
  constexpr const char* function = "MPI_Session_init";
  Ref<Errhandler> handler;
  int level = MPI_THREAD_SINGLE;
  std::string kinds;
  const int arguments = call_any_time(function, [&](Runtime&) -> Result<> {
    Result<Errhandler*> found = find_session_errhandler(errhandler);
    if (!found) return std::unexpected(std::move(found).error());
    ISTHMUS_TRY(check_pointer(session, "session"));
    Result<Info*> hints = find_info(info);
    if (!hints) return std::unexpected(std::move(hints).error());
    handler = Ref<Errhandler>::share(*found);
    level = wanted_level(*hints);
    if (*hints)
      if (const std::string* asked = (*hints)->find("mpi_memory_alloc_kinds")) kinds = *asked;
    return {};
  });
  if (arguments != MPI_SUCCESS) return arguments;
  Runtime& runtime = Runtime::get();
  if (runtime.world_phase() == Phase::forked) return raise_not_running(function);
  try {
    Result<> opened = [&] {
      // Two threads may open MPI at the same time. Not under the engine's lock, which this may switch on.
      std::lock_guard early(runtime.early_lock());
      return runtime.open_session(level);
    }();
    if (!opened)
      return raise_on(*handler, reinterpret_cast<std::uintptr_t>(MPI_SESSION_NULL), function, opened.error());
    CallGuard guard(runtime);
    std::string& asked = runtime.settings.memory_alloc_kinds;
    if (!kinds.empty() && !memory_kinds::is_within(kinds, asked)) asked += (asked.empty() ? "" : ",") + kinds;
    // What is provided is what the process runs at, which may be more than was asked for.
    *session =
        runtime.sessions.add(make_ref<Session>(handler, runtime.thread_level, runtime.memory_kinds(kinds)));
    return MPI_SUCCESS;
  } catch (...) {
    return raise_exception(function, nullptr);
  }
}

ISTHMUS_ENTRY(int, Session_finalize)(MPI_Session* session) {
  return call("MPI_Session_finalize", [&](Runtime& runtime) -> Result<> {
    ISTHMUS_TRY(check_pointer(session, "session"));
    const Ref<Session> found = runtime.sessions.remove(*session);
    if (!found)
      return std::unexpected(bad_handle(ErrorClass::session, "session", *session, HandleKind::session));
    *session = MPI_SESSION_NULL;
    if (found->send_buffer->buffer) found->send_buffer->buffer->flush();
    found->send_buffer->buffer = {};
    return runtime.close_session();
  });
}

ISTHMUS_ENTRY(int, Session_get_num_psets)(MPI_Session session, MPI_Info info, int* npset_names) {
  return call_session("MPI_Session_get_num_psets", session, [&](Runtime&, Session&) -> Result<> {
    ISTHMUS_TRY(check_pointer(npset_names, "npset_names"));
    ISTHMUS_TRY(find_info(info));
    *npset_names = static_cast<int>(process_sets.size());
    return {};
  });
}

ISTHMUS_ENTRY(int, Session_get_nth_pset)
(MPI_Session session, MPI_Info info, int n, int* pset_len, char* pset_name) {
  return call_session("MPI_Session_get_nth_pset", session, [&](Runtime&, Session&) -> Result<> {
    ISTHMUS_TRY(check_pointer(pset_len, "pset_len"));
    ISTHMUS_TRY(find_info(info));
    if (n < 0 || static_cast<std::size_t>(n) >= process_sets.size())
      return fail(ErrorClass::arg, fmt::format("n {} is not the number of a process set: there are {}", n,
                                               process_sets.size()));
    if (*pset_len < 0) return fail(ErrorClass::arg, fmt::format("pset_len {} is negative", *pset_len));
    const std::string_view name = process_sets[static_cast<std::size_t>(n)];
    if (*pset_len > 0) {
      ISTHMUS_TRY(check_pointer(pset_name, "pset_name"));
      const std::size_t copied = std::min(name.size(), static_cast<std::size_t>(*pset_len) - 1);
      std::ranges::copy(name.substr(0, copied), pset_name);
      pset_name[copied] = '\0';
    }
    *pset_len = static_cast<int>(name.size()) + 1;
    return {};
  });
}

ISTHMUS_ENTRY(int, Session_get_info)(MPI_Session session, MPI_Info* info_used) {
  return call_session("MPI_Session_get_info", session, [&](Runtime& runtime, Session& found) -> Result<> {
    ISTHMUS_TRY(check_pointer(info_used, "info_used"));
    *info_used = runtime.infos.add(make_ref<Info>(
        std::initializer_list<Info::Entry>{{"thread_level", std::string(enough_for(found.thread_level).name)},
                                           {"mpi_memory_alloc_kinds", found.memory_kinds}}));
    return {};
  });
}

ISTHMUS_ENTRY(int, Session_get_pset_info)(MPI_Session session, const char* pset_name, MPI_Info* info) {
  return call_session(
      "MPI_Session_get_pset_info", session, [&](Runtime& runtime, Session& found) -> Result<> {
        ISTHMUS_TRY(check_pointer(info, "info"));
        Result<Ref<Group>> set = find_set(runtime, found, pset_name);
        if (!set) return std::unexpected(std::move(set).error());
        *info = runtime.infos.add(
            make_ref<Info>(std::initializer_list<Info::Entry>{{"mpi_size", std::to_string((*set)->size())}}));
        return {};
      });
}

ISTHMUS_ENTRY(int, Group_from_session_pset)(MPI_Session session, const char* pset_name, MPI_Group* newgroup) {
  return call_session("MPI_Group_from_session_pset", session,
                      [&](Runtime& runtime, Session& found) -> Result<> {
                        ISTHMUS_TRY(check_pointer(newgroup, "newgroup"));
                        Result<Ref<Group>> set = find_set(runtime, found, pset_name);
                        if (!set) return std::unexpected(std::move(set).error());
                        *newgroup = runtime.groups.add(*set);
                        return {};
                      });
}

ISTHMUS_ENTRY(int, Session_set_errhandler)(MPI_Session session, MPI_Errhandler errhandler) {
  return call_session("MPI_Session_set_errhandler", session, [&](Runtime&, Session& found) -> Result<> {
    Result<Errhandler*> handler = find_session_errhandler(errhandler);
    if (!handler) return std::unexpected(std::move(handler).error());
    found.errhandler = Ref<Errhandler>::share(*handler);
    return {};
  });
}

ISTHMUS_ENTRY(int, Session_get_errhandler)(MPI_Session session, MPI_Errhandler* errhandler) {
  return call_session("MPI_Session_get_errhandler", session,
                      [&](Runtime& runtime, Session& found) -> Result<> {
                        ISTHMUS_TRY(check_pointer(errhandler, "errhandler"));
                        *errhandler = runtime.errhandlers.share(*found.errhandler);
                        return {};
                      });
}

ISTHMUS_ENTRY(int, Session_call_errhandler)(MPI_Session session, int errorcode) {
  constexpr const char* function = "MPI_Session_call_errhandler";
  return call_session(function, session, [&](Runtime& runtime, Session& found) -> Result<> {
    if (!runtime.error_codes.class_of(errorcode))
      return fail(ErrorClass::arg, fmt::format("errorcode {} is neither predefined nor added", errorcode));
    const Ref<Errhandler> handler = found.errhandler;
    invoke(*handler, found.handle, errorcode, fmt::format("{}: {}", function, error_string(errorcode)));
    return {};
  });
}

}  // namespace isthmus::abi
