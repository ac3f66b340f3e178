#include "abi/core/call.hpp"

#include <fmt/format.h>
#include <mpi-ext.h>

#include <array>
#include <string_view>
#include <utility>

#include "abi/core/info.hpp"
#include "abi/core/transfer.hpp"

namespace isthmus::abi {
namespace {

struct KindInfo {
  HandleKind kind;
  std::string_view noun;
  std::string_view article;
  std::uintptr_t null;
  std::string_view null_name;
};

/// Address of a handle constant, as a number.
template <class Handle>
std::uintptr_t number(Handle* constant) {
  return reinterpret_cast<std::uintptr_t>(constant);
}

const auto& kinds() {
  static const auto table = std::to_array<KindInfo>({
      {HandleKind::comm, "communicator", "a", number(MPI_COMM_NULL), "MPI_COMM_NULL"},
      {HandleKind::group, "group", "a", number(MPI_GROUP_NULL), "MPI_GROUP_NULL"},
      {HandleKind::datatype, "datatype", "a", number(MPI_DATATYPE_NULL), "MPI_DATATYPE_NULL"},
      {HandleKind::op, "reduction operation", "a", number(MPI_OP_NULL), "MPI_OP_NULL"},
      {HandleKind::info, "info object", "an", number(MPI_INFO_NULL), "MPI_INFO_NULL"},
      {HandleKind::errhandler, "error handler", "an", number(MPI_ERRHANDLER_NULL), "MPI_ERRHANDLER_NULL"},
      {HandleKind::request, "request", "a", number(MPI_REQUEST_NULL), "MPI_REQUEST_NULL"},
      {HandleKind::message, "message", "a", number(MPI_MESSAGE_NULL), "MPI_MESSAGE_NULL"},
      {HandleKind::win, "window", "a", number(MPI_WIN_NULL), "MPI_WIN_NULL"},
      {HandleKind::file, "file", "a", number(MPI_FILE_NULL), "MPI_FILE_NULL"},
      {HandleKind::session, "session", "a", number(MPI_SESSION_NULL), "MPI_SESSION_NULL"},
      {HandleKind::stream, "stream", "a", number(MPIX_STREAM_NULL), "MPIX_STREAM_NULL"},
      {HandleKind::enqueued, "enqueued operation", "an", number(MPI_REQUEST_NULL), "MPI_REQUEST_NULL"},
  });
  return table;
}

const KindInfo& info(HandleKind kind) {
  for (const KindInfo& entry : kinds())
    if (entry.kind == kind) return entry;
  std::unreachable();
}

/// The kind of a predefined handle, by the ranges of the ABI (MPI 5.0, appendix A.1.1).
const KindInfo* predefined_kind(std::uintptr_t handle) {
  if (handle >= 0x20 && handle < 0x40) return &info(HandleKind::op);
  if (handle >= 0x200 && handle < 0x300) return &info(HandleKind::datatype);
  if (handle < 0x100 || handle >= 0x200) return nullptr;
  const KindInfo* found = nullptr;
  for (const KindInfo& entry : kinds())
    if (entry.null >= 0x100 && entry.null <= handle && (!found || entry.null > found->null)) found = &entry;
  return found;
}

/// Kept alive until the call that looks it up has ended.
template <class Object>
Object* kept(Object* found) {
  keep(Runtime::get(), *found);
  return found;
}

/// Of the call that this thread is in, newest first.
Kept*& kept_list() noexcept {
  thread_local Kept* of_thread = nullptr;
  return of_thread;
}

}  // namespace

void keep_alive(RefCounted& object) {
  if (!object.immortal()) kept_list() = new Kept{Ref<RefCounted>::share(&object), kept_list()};
}

Kept* begin_call(EngineLock& lock, const char* function) {
  const Runtime& runtime = Runtime::get();
  MessageTrace* const trace = function && runtime.engine ? runtime.engine->trace() : nullptr;
  const std::int64_t began = trace ? trace::now() : 0;
  lock.lock();
  if (trace) trace->call_begins(function, began);
  return std::exchange(kept_list(), nullptr);
}

// Letting go may call MPI again.
void end_call(EngineLock& lock, Kept* around, bool is_traced) noexcept {
  for (Kept* kept = std::exchange(kept_list(), nullptr); kept;)
    delete std::exchange(kept, kept->next);
  kept_list() = around;
  if (const Runtime& runtime = Runtime::get(); is_traced && runtime.engine)
    if (MessageTrace* const trace = runtime.engine->trace()) trace->call_ends();
  lock.unlock();
}

Communicator* CommunicatorGuard::hold(Runtime& runtime, MPI_Comm comm) noexcept {
  Communicator* const found = runtime.communicators.find(comm);
  if (!found) return nullptr;
  found->retain();
  if (MessageTrace* const trace = runtime.engine->trace())
    trace->names_comm(found->context_id(), found->name, static_cast<std::uint32_t>(found->size()));
  return found;
}

void CommunicatorGuard::end(EngineLock& lock, Communicator* communicator, Kept* around) noexcept {
  if (communicator) communicator->release();
  end_call(lock, around, true);
}

Error bad_handle(ErrorClass error_class, const char* argument, std::uintptr_t handle, HandleKind wanted) {
  const KindInfo& right = info(wanted);
  if (handle == right.null) return Error(error_class, fmt::format("{} is {}", argument, right.null_name));
  if (handle == 0) return Error(error_class, fmt::format("{} is a null pointer", argument));
  const KindInfo* actual = nullptr;
  if (HandleValue::predefined(handle)) {
    actual = predefined_kind(handle);
  } else {
    for (const KindInfo& entry : kinds())
      if (static_cast<std::uintptr_t>(entry.kind) == handle >> 56) actual = &entry;
  }
  if (actual && actual->kind != wanted)
    return Error(error_class, fmt::format("{} is {} {} ({:#x}), not {} {}", argument, actual->article,
                                          actual->noun, handle, right.article, right.noun));
  if (actual && !HandleValue::predefined(handle))
    return Error(error_class, fmt::format("{} is {} {} that has been freed ({:#x})", argument, right.article,
                                          right.noun, handle));
  return Error(error_class, fmt::format("{} is {:#x}, which is no {}", argument, handle, right.noun));
}

Result<Datatype*> find_datatype(MPI_Datatype datatype, const char* argument) {
  if (Datatype* found = Runtime::get().datatypes.find(datatype)) [[likely]]
    return kept(found);
  return std::unexpected(bad_handle(ErrorClass::type, argument, datatype, HandleKind::datatype));
}

Result<Datatype*> find_committed(MPI_Datatype datatype, const char* argument) {
  Result<Datatype*> found = find_datatype(datatype, argument);
  if (found && !(*found)->committed()) [[unlikely]]
    return fail(ErrorClass::type,
                fmt::format("{} is a datatype that was not committed (MPI_Type_commit)", argument));
  return found;
}

Result<Op*> find_op(MPI_Op op) {
  if (Op* found = Runtime::get().ops.find(op)) [[likely]]
    return kept(found);
  return std::unexpected(bad_handle(ErrorClass::op, "op", op, HandleKind::op));
}

Result<Group*> find_group(MPI_Group group, const char* argument) {
  if (Group* found = Runtime::get().groups.find(group)) [[likely]]
    return kept(found);
  return std::unexpected(bad_handle(ErrorClass::group, argument, group, HandleKind::group));
}

Result<Info*> find_info(MPI_Info info) {
  if (info == MPI_INFO_NULL) return nullptr;
  Runtime& runtime = Runtime::get();
  if (info == MPI_INFO_ENV) return &environment_info(runtime);
  if (Info* found = runtime.infos.find(info)) [[likely]]
    return kept(found);
  return std::unexpected(bad_handle(ErrorClass::info, "info", info, HandleKind::info));
}

Result<Errhandler*> find_errhandler(MPI_Errhandler errhandler) {
  if (Errhandler* found = Runtime::get().errhandlers.find(errhandler)) [[likely]]
    return kept(found);
  return std::unexpected(
      bad_handle(ErrorClass::errhandler, "errhandler", errhandler, HandleKind::errhandler));
}

Result<Communicator*> find_comm(MPI_Comm comm, const char* argument) {
  if (Communicator* found = Runtime::get().communicators.find(comm)) [[likely]]
    return kept(found);
  return std::unexpected(bad_handle(ErrorClass::comm, argument, comm, HandleKind::comm));
}

Result<> check_count(MPI_Count count, const char* argument) {
  if (count >= 0) [[likely]]
    return {};
  return fail(ErrorClass::count, fmt::format("{} {} is negative", argument, count));
}

Result<> check_rank(const Communicator& comm, int rank, bool null_allowed, const char* argument) {
  if ((rank >= 0 && rank < comm.remote_size()) || (null_allowed && rank == MPI_PROC_NULL)) [[likely]]
    return {};
  const std::string_view wildcard = rank == MPI_ANY_SOURCE  ? " (MPI_ANY_SOURCE)"
                                    : rank == MPI_PROC_NULL ? " (MPI_PROC_NULL)"
                                                            : "";
  return fail(ErrorClass::rank,
              fmt::format("{} {}{} is not a rank of the communicator, which has {} in {}", argument, rank,
                          wildcard, comm.remote_size(), comm.is_inter() ? "its remote group" : "its group"));
}

Result<> check_tag(int tag, const char* argument) {
  if (is_tag(tag)) [[likely]]
    return {};
  if (tag == MPI_ANY_TAG)
    return fail(ErrorClass::tag, fmt::format("{} is MPI_ANY_TAG, which only receives may use", argument));
  if (tag < 0) return fail(ErrorClass::tag, fmt::format("{} {} is negative", argument, tag));
  return fail(ErrorClass::tag,
              fmt::format("{} {} is above {} (MPI_TAG_UB)", argument, tag, coll::maximum_tag));
}

Result<> check_pointer(const void* pointer, const char* argument) {
  if (pointer) [[likely]]
    return {};
  return fail(ErrorClass::arg, fmt::format("{} is a null pointer", argument));
}

Result<> check_buffer(const void* buffer, MPI_Count count, const Datatype& type, const char* argument) {
  Result<std::int64_t> bytes = type.bytes(count);
  if (!bytes) return std::unexpected(std::move(bytes).error());
  if (*bytes == 0 || !in_first_page(buffer, type)) [[likely]]
    return {};
  const std::string_view name = buffer == nullptr                ? "null (MPI_BOTTOM)"
                                : buffer == MPI_IN_PLACE         ? "MPI_IN_PLACE"
                                : buffer == MPI_BUFFER_AUTOMATIC ? "MPI_BUFFER_AUTOMATIC"
                                                                 : "no address";
  return fail(ErrorClass::buffer,
              fmt::format("{} is {}, where {} bytes of data should be", argument, name, *bytes));
}

}  // namespace isthmus::abi
