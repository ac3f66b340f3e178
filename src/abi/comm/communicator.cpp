#include "abi/comm/communicator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "abi/core/call.hpp"
#include "abi/core/entry.hpp"
#include "coll/agree/circle.hpp"
#include "comm/memory_kinds.hpp"

namespace isthmus::abi {
namespace {

/// Assertions of section 7.4.4 that programs may make. This library needs none of them, and keeps them for
/// MPI_Comm_get_info. The last one is this library's (docs/streams.md).
constexpr std::array<std::string_view, 6> known_hints = {"mpi_assert_no_any_tag",
                                                         "mpi_assert_no_any_source",
                                                         "mpi_assert_exact_length",
                                                         "mpi_assert_allow_overtaking",
                                                         "mpi_assert_strict_persistent_collective_ordering",
                                                         "isthmus_assert_short_enqueued"};

}  // namespace

void set_hints(Communicator& comm, const Info& info) {
  Ref<Info> hints = comm.info ? comm.info->duplicate() : make_ref<Info>();
  for (const std::string_view key : known_hints) {
    const std::string* value = info.find(key);
    if (value != nullptr && (*value == "true" || *value == "false")) hints->set(key, *value);
  }
  constexpr std::string_view kinds = "mpi_assert_memory_alloc_kinds";
  const std::string* asserted = info.find(kinds);
  Runtime& runtime = Runtime::get();
  if (asserted != nullptr &&
      memory_kinds::is_within(*asserted, runtime.memory_kinds(runtime.settings.memory_alloc_kinds)))
    hints->set(kinds, *asserted);
  comm.info = std::move(hints);
}

Result<> give(Result<Ref<Communicator>> made, const Communicator& parent, const Info* info,
              MPI_Comm* newcomm) {
  if (!made) return std::unexpected(std::move(made).error());
  if (!*made) {
    *newcomm = MPI_COMM_NULL;
    return {};
  }
  Communicator& comm = **made;
  comm.errhandler = parent.errhandler;
  if (info != nullptr) set_hints(comm, *info);
  *newcomm = Runtime::get().communicators.add(*std::move(made));
  return {};
}

Result<> clear_output(MPI_Comm* output, const char* argument) {
  ISTHMUS_TRY(check_pointer(output, argument));
  *output = MPI_COMM_NULL;
  return {};
}

Result<> free_communicator(Communicator& comm, MPI_Comm* handle) {
  if (HandleValue::predefined(comm.handle))
    return fail(ErrorClass::comm, fmt::format("comm is {}, which cannot be freed", comm.name));
  const Ref<Communicator> alive = Ref<Communicator>::share(&comm);
  ISTHMUS_TRY(comm.attributes.clear(comm.handle));
  Runtime::get().communicators.remove(*handle);
  *handle = MPI_COMM_NULL;
  return {};
}

Result<> check_intra(const Communicator& comm, const char* argument) {
  if (!comm.is_inter()) return {};
  return fail(ErrorClass::comm, fmt::format("{} is an intercommunicator", argument));
}

Result<> check_inter(const Communicator& comm, const char* argument) {
  if (comm.is_inter()) return {};
  return fail(ErrorClass::comm, fmt::format("{} is not an intercommunicator", argument));
}

Result<> check_creation_tag(int tag) {
  if (tag >= 0 && tag <= coll::maximum_tag) return {};
  return fail(ErrorClass::tag,
              fmt::format("tag is {}, not between 0 and MPI_TAG_UB = {}", tag, coll::maximum_tag));
}

ISTHMUS_ENTRY(int, Comm_size)(MPI_Comm comm, int* size) {
  return call("MPI_Comm_size", comm, [&](Communicator& c) -> Result<> {
    ISTHMUS_TRY(check_pointer(size, "size"));
    *size = c.size();
    return {};
  });
}

ISTHMUS_ENTRY(int, Comm_rank)(MPI_Comm comm, int* rank) {
  return call("MPI_Comm_rank", comm, [&](Communicator& c) -> Result<> {
    ISTHMUS_TRY(check_pointer(rank, "rank"));
    *rank = c.rank();
    return {};
  });
}

ISTHMUS_ENTRY(int, Comm_compare)(MPI_Comm comm1, MPI_Comm comm2, int* result) {
  return call("MPI_Comm_compare", comm1, [&](Communicator& first) -> Result<> {
    ISTHMUS_TRY(check_pointer(result, "result"));
    Result<Communicator*> second = find_comm(comm2, "comm2");
    if (!second) return std::unexpected(std::move(second).error());
    *result = static_cast<int>(compare(first, **second));
    return {};
  });
}

ISTHMUS_ENTRY(int, Comm_group)(MPI_Comm comm, MPI_Group* group) {
  return call("MPI_Comm_group", comm, [&](Communicator& c) -> Result<> {
    ISTHMUS_TRY(check_pointer(group, "group"));
    *group = Runtime::get().groups.add(c.group());
    return {};
  });
}

ISTHMUS_ENTRY(int, Comm_free)(MPI_Comm* comm) {
  return call("MPI_Comm_free", comm != nullptr ? *comm : MPI_COMM_NULL,
              [&](Communicator& c) { return free_communicator(c, comm); });
}

ISTHMUS_ENTRY(int, Comm_disconnect)(MPI_Comm* comm) {
  return call("MPI_Comm_disconnect", comm != nullptr ? *comm : MPI_COMM_NULL,
              [&](Communicator& c) -> Result<> {
                const Ref<Communicator> alive = Ref<Communicator>::share(&c);
                ISTHMUS_TRY(free_communicator(c, comm));
                // What is still pending holds a reference, calls of other threads too; it must be done when
                // this returns (section 11.10.4). This call's guard holds one where there may be others.
                Runtime& runtime = Runtime::get();
                const std::uint32_t own = runtime.lock().enabled() ? 2 : 1;
                runtime.engine->wait_for([&] {
                  runtime.release_orphans();
                  return c.references() == own;
                });
                return {};
              });
}

ISTHMUS_ENTRY(int, Comm_get_parent)(MPI_Comm* parent) {
  return call("MPI_Comm_get_parent", [&](Runtime&) -> Result<> {
    ISTHMUS_TRY(check_pointer(parent, "parent"));
    *parent = MPI_COMM_NULL;  // this process was not spawned: no process is, in this release
    return {};
  });
}

ISTHMUS_ENTRY(int, Comm_set_info)(MPI_Comm comm, MPI_Info info) {
  return call("MPI_Comm_set_info", comm, [&](Communicator& c) -> Result<> {
    Result<Info*> hints = find_info(info);
    if (!hints) return std::unexpected(std::move(hints).error());
    if (*hints != nullptr) set_hints(c, **hints);
    return {};
  });
}

ISTHMUS_ENTRY(int, Comm_get_info)(MPI_Comm comm, MPI_Info* info_used) {
  return call("MPI_Comm_get_info", comm, [&](Communicator& c) -> Result<> {
    ISTHMUS_TRY(check_pointer(info_used, "info_used"));
    Runtime& runtime = Runtime::get();
    Ref<Info> info = c.info ? c.info->duplicate() : make_ref<Info>();
    info->set("mpi_memory_alloc_kinds", runtime.memory_kinds(runtime.settings.memory_alloc_kinds));
    *info_used = runtime.infos.add(std::move(info));
    return {};
  });
}

ISTHMUS_ENTRY(int, Comm_set_name)(MPI_Comm comm, const char* comm_name) {
  return call("MPI_Comm_set_name", comm, [&](Communicator& c) -> Result<> {
    ISTHMUS_TRY(check_pointer(comm_name, "comm_name"));
    c.name.assign(comm_name, strnlen(comm_name, MPI_MAX_OBJECT_NAME - 1));
    return {};
  });
}

namespace {

void store_comm_name(std::string_view name, char* comm_name, int* resultlen) {
  std::ranges::copy(name, comm_name);
  comm_name[name.size()] = '\0';
  *resultlen = static_cast<int>(name.size());
}

}  // namespace

ISTHMUS_ENTRY(int, Comm_get_name)(MPI_Comm comm, char* comm_name, int* resultlen) {
  return call("MPI_Comm_get_name", [&](Runtime&) -> Result<> {
    ISTHMUS_TRY(check_pointer(comm_name, "comm_name"));
    ISTHMUS_TRY(check_pointer(resultlen, "resultlen"));
    if (comm == MPI_COMM_NULL) {  // has a name too (section 7.8)
      store_comm_name("MPI_COMM_NULL", comm_name, resultlen);
      return {};
    }
    Result<Communicator*> found = find_comm(comm);
    if (!found) return std::unexpected(std::move(found).error());
    store_comm_name((*found)->name, comm_name, resultlen);
    return {};
  });
}

ISTHMUS_ENTRY(int, Comm_toint)(MPI_Comm comm) {
  return CommTable::to_int(comm);
}
ISTHMUS_ENTRY(MPI_Comm, Comm_fromint)(int comm) {
  Runtime& runtime = Runtime::get();
  const CallGuard guard(runtime);
  return runtime.communicators.from_int(comm);
}

}  // namespace isthmus::abi
