#include "abi/core/error_codes.hpp"

#include <mpi-ext.h>

#include <algorithm>
#include <array>
#include <ranges>

namespace isthmus::abi {
namespace {

static_assert(static_cast<int>(ErrorClass::buffer) == MPI_ERR_BUFFER &&
              static_cast<int>(ErrorClass::in_status) == MPI_ERR_IN_STATUS &&
              static_cast<int>(ErrorClass::keyval) == MPI_ERR_KEYVAL &&
              static_cast<int>(ErrorClass::no_mem) == MPI_ERR_NO_MEM &&
              static_cast<int>(ErrorClass::unsupported_operation) == MPI_ERR_UNSUPPORTED_OPERATION &&
              static_cast<int>(ErrorClass::proc_aborted) == MPI_ERR_PROC_ABORTED &&
              static_cast<int>(ErrorClass::abi) == MPI_ERR_ABI &&
              static_cast<int>(ErrorClass::proc_failed_pending) == MPIX_ERR_PROC_FAILED_PENDING &&
              static_cast<int>(ErrorClass::revoked) == MPIX_ERR_REVOKED);

constexpr auto classes = std::to_array<ErrorClassInfo>({
    {MPI_SUCCESS, "MPI_SUCCESS", "no error"},
    {MPI_ERR_BUFFER, "MPI_ERR_BUFFER", "a buffer is not valid or too small"},
    {MPI_ERR_COUNT, "MPI_ERR_COUNT", "a count is not valid"},
    {MPI_ERR_TYPE, "MPI_ERR_TYPE", "a datatype is not valid or not committed"},
    {MPI_ERR_TAG, "MPI_ERR_TAG", "a tag is not valid"},
    {MPI_ERR_COMM, "MPI_ERR_COMM", "a communicator is not valid"},
    {MPI_ERR_RANK, "MPI_ERR_RANK", "a rank is not valid"},
    {MPI_ERR_REQUEST, "MPI_ERR_REQUEST", "a request or message is not valid"},
    {MPI_ERR_ROOT, "MPI_ERR_ROOT", "a root is not valid"},
    {MPI_ERR_GROUP, "MPI_ERR_GROUP", "a group is not valid"},
    {MPI_ERR_OP, "MPI_ERR_OP", "a reduction operation is not valid, or not for that datatype"},
    {MPI_ERR_TOPOLOGY, "MPI_ERR_TOPOLOGY", "a communicator has no topology, or another one"},
    {MPI_ERR_DIMS, "MPI_ERR_DIMS", "dimensions of a topology are not valid"},
    {MPI_ERR_ARG, "MPI_ERR_ARG", "an argument is not valid"},
    {MPI_ERR_UNKNOWN, "MPI_ERR_UNKNOWN", "an error that is not known any closer"},
    {MPI_ERR_TRUNCATE, "MPI_ERR_TRUNCATE", "a message was longer than the buffer to receive it"},
    {MPI_ERR_OTHER, "MPI_ERR_OTHER", "an error of no other class"},
    {MPI_ERR_INTERN, "MPI_ERR_INTERN", "an error inside of the MPI library"},
    {MPI_ERR_PENDING, "MPI_ERR_PENDING", "an operation has neither failed nor completed"},
    {MPI_ERR_IN_STATUS, "MPI_ERR_IN_STATUS", "the error codes are in the statuses"},
    {MPI_ERR_ACCESS, "MPI_ERR_ACCESS", "permission was denied"},
    {MPI_ERR_AMODE, "MPI_ERR_AMODE", "an access mode of a file is not valid"},
    {MPI_ERR_ASSERT, "MPI_ERR_ASSERT", "an assertion about a window is not valid"},
    {MPI_ERR_BAD_FILE, "MPI_ERR_BAD_FILE", "a file name is not valid"},
    {MPI_ERR_BASE, "MPI_ERR_BASE", "an address is not one that MPI_Alloc_mem returned"},
    {MPI_ERR_CONVERSION, "MPI_ERR_CONVERSION", "a function that converts data has failed"},
    {MPI_ERR_DISP, "MPI_ERR_DISP", "a displacement is not valid"},
    {MPI_ERR_DUP_DATAREP, "MPI_ERR_DUP_DATAREP", "a data representation of that name exists"},
    {MPI_ERR_FILE_EXISTS, "MPI_ERR_FILE_EXISTS", "the file exists"},
    {MPI_ERR_FILE_IN_USE, "MPI_ERR_FILE_IN_USE", "the file is in use"},
    {MPI_ERR_FILE, "MPI_ERR_FILE", "a file handle is not valid"},
    {MPI_ERR_INFO_KEY, "MPI_ERR_INFO_KEY", "a key of an info object is not valid"},
    {MPI_ERR_INFO_NOKEY, "MPI_ERR_INFO_NOKEY", "an info object does not have that key"},
    {MPI_ERR_INFO_VALUE, "MPI_ERR_INFO_VALUE", "a value of an info object is not valid"},
    {MPI_ERR_INFO, "MPI_ERR_INFO", "an info object is not valid"},
    {MPI_ERR_IO, "MPI_ERR_IO", "input or output has failed"},
    {MPI_ERR_KEYVAL, "MPI_ERR_KEYVAL", "an attribute key is not valid"},
    {MPI_ERR_LOCKTYPE, "MPI_ERR_LOCKTYPE", "the type of a lock is not valid"},
    {MPI_ERR_NAME, "MPI_ERR_NAME", "no service of that name is published"},
    {MPI_ERR_NO_MEM, "MPI_ERR_NO_MEM", "there is not enough memory"},
    {MPI_ERR_NOT_SAME, "MPI_ERR_NOT_SAME", "processes gave different arguments to a collective call"},
    {MPI_ERR_NO_SPACE, "MPI_ERR_NO_SPACE", "there is not enough space on the file system"},
    {MPI_ERR_NO_SUCH_FILE, "MPI_ERR_NO_SUCH_FILE", "the file does not exist"},
    {MPI_ERR_PORT, "MPI_ERR_PORT", "a port name is not valid"},
    {MPI_ERR_QUOTA, "MPI_ERR_QUOTA", "a quota of the file system is used up"},
    {MPI_ERR_READ_ONLY, "MPI_ERR_READ_ONLY", "the file or file system is read-only"},
    {MPI_ERR_RMA_ATTACH, "MPI_ERR_RMA_ATTACH", "memory cannot be attached to a window"},
    {MPI_ERR_RMA_CONFLICT, "MPI_ERR_RMA_CONFLICT", "accesses to a window conflict"},
    {MPI_ERR_RMA_RANGE, "MPI_ERR_RMA_RANGE", "target memory is not part of the window"},
    {MPI_ERR_RMA_SHARED, "MPI_ERR_RMA_SHARED", "memory cannot be shared"},
    {MPI_ERR_RMA_SYNC, "MPI_ERR_RMA_SYNC", "calls that synchronize a window are out of order"},
    {MPI_ERR_SERVICE, "MPI_ERR_SERVICE", "a service name is not valid"},
    {MPI_ERR_SIZE, "MPI_ERR_SIZE", "a size is not valid"},
    {MPI_ERR_SPAWN, "MPI_ERR_SPAWN", "processes could not be started"},
    {MPI_ERR_UNSUPPORTED_DATAREP, "MPI_ERR_UNSUPPORTED_DATAREP", "the data representation is not supported"},
    {MPI_ERR_UNSUPPORTED_OPERATION, "MPI_ERR_UNSUPPORTED_OPERATION", "the operation is not supported"},
    {MPI_ERR_WIN, "MPI_ERR_WIN", "a window is not valid"},
    {MPI_ERR_RMA_FLAVOR, "MPI_ERR_RMA_FLAVOR", "the window was made in a way that does not allow this"},
    {MPI_ERR_PROC_ABORTED, "MPI_ERR_PROC_ABORTED", "a process of the job has aborted"},
    {MPI_ERR_VALUE_TOO_LARGE, "MPI_ERR_VALUE_TOO_LARGE", "a value does not fit into its argument"},
    {MPI_ERR_SESSION, "MPI_ERR_SESSION", "a session is not valid"},
    {MPI_ERR_ERRHANDLER, "MPI_ERR_ERRHANDLER", "an error handler is not valid"},
    {MPI_ERR_ABI, "MPI_ERR_ABI", "a matter of the binary interface that this library cannot provide"},
    {MPI_T_ERR_CANNOT_INIT, "MPI_T_ERR_CANNOT_INIT", "the tool interface cannot be initialized"},
    {MPI_T_ERR_NOT_ACCESSIBLE, "MPI_T_ERR_NOT_ACCESSIBLE", "the tool interface is not accessible"},
    {MPI_T_ERR_NOT_INITIALIZED, "MPI_T_ERR_NOT_INITIALIZED", "the tool interface is not initialized"},
    {MPI_T_ERR_NOT_SUPPORTED, "MPI_T_ERR_NOT_SUPPORTED", "the tool interface does not support this"},
    {MPI_T_ERR_MEMORY, "MPI_T_ERR_MEMORY", "the tool interface is out of memory"},
    {MPI_T_ERR_INVALID, "MPI_T_ERR_INVALID", "an argument of the tool interface is not valid"},
    {MPI_T_ERR_INVALID_INDEX, "MPI_T_ERR_INVALID_INDEX", "an index of the tool interface is not valid"},
    {MPI_T_ERR_INVALID_ITEM, "MPI_T_ERR_INVALID_ITEM", "an item of the tool interface is out of range"},
    {MPI_T_ERR_INVALID_SESSION, "MPI_T_ERR_INVALID_SESSION", "a session of the tool interface is not valid"},
    {MPI_T_ERR_INVALID_HANDLE, "MPI_T_ERR_INVALID_HANDLE", "a handle of the tool interface is not valid"},
    {MPI_T_ERR_INVALID_NAME, "MPI_T_ERR_INVALID_NAME", "the tool interface has nothing of that name"},
    {MPI_T_ERR_OUT_OF_HANDLES, "MPI_T_ERR_OUT_OF_HANDLES", "the tool interface has no handle left"},
    {MPI_T_ERR_OUT_OF_SESSIONS, "MPI_T_ERR_OUT_OF_SESSIONS", "the tool interface has no session left"},
    {MPI_T_ERR_CVAR_SET_NOT_NOW, "MPI_T_ERR_CVAR_SET_NOT_NOW", "the variable cannot be set at this time"},
    {MPI_T_ERR_CVAR_SET_NEVER, "MPI_T_ERR_CVAR_SET_NEVER", "the variable cannot be set"},
    {MPI_T_ERR_PVAR_NO_WRITE, "MPI_T_ERR_PVAR_NO_WRITE", "the variable cannot be written or reset"},
    {MPI_T_ERR_PVAR_NO_STARTSTOP, "MPI_T_ERR_PVAR_NO_STARTSTOP", "the variable cannot be started or stopped"},
    {MPI_T_ERR_PVAR_NO_ATOMIC, "MPI_T_ERR_PVAR_NO_ATOMIC", "the variable cannot be read and reset in one"},
    {MPIX_ERR_PROC_FAILED_PENDING, "MPIX_ERR_PROC_FAILED_PENDING",
     "a process that might have sent the message is no more; others still may"},
    {MPIX_ERR_REVOKED, "MPIX_ERR_REVOKED", "the communicator has been revoked"},
});
static_assert(std::ranges::is_sorted(classes, {}, &ErrorClassInfo::error_class));

}  // namespace

const ErrorClassInfo* predefined_class(int error_class) noexcept {
  const auto found = std::ranges::lower_bound(classes, error_class, {}, &ErrorClassInfo::error_class);
  return found != classes.end() && found->error_class == error_class ? &*found : nullptr;
}

int ErrorCodes::add_class() {
  const int number = next_++;
  entries_.emplace(number, Entry{number, {}});
  return number;
}

Result<int> ErrorCodes::add_code(int error_class) {
  const auto known = class_of(error_class);
  if (known != error_class || error_class == MPI_SUCCESS)
    return fail(ErrorClass::arg, "errorclass " + std::to_string(error_class) + " is not an error class");
  const int number = next_++;
  entries_.emplace(number, Entry{error_class, {}});
  return number;
}

Result<ErrorCodes::Entry*> ErrorCodes::own(int code, std::string_view argument) {
  const auto found = entries_.find(code);
  if (found != entries_.end()) return &found->second;
  return fail(ErrorClass::arg,
              std::string(argument) + " " + std::to_string(code) +
                  (predefined_class(code) ? " is predefined" : " was not added by the program"));
}

Result<> ErrorCodes::check_no_string(std::string_view argument, int code, const Entry& entry) {
  if (!entry.text) return {};
  return fail(ErrorClass::arg, std::string(argument) + " " + std::to_string(code) + " still has a string");
}

Result<> ErrorCodes::remove_class(int error_class) {
  auto entry = own(error_class, "errorclass");
  if (!entry) return std::unexpected(std::move(entry).error());
  if ((*entry)->error_class != error_class)
    return fail(ErrorClass::arg, "errorclass " + std::to_string(error_class) + " is a code, not a class");
  ISTHMUS_TRY(check_no_string("errorclass", error_class, **entry));
  for (const auto& [code, other] : entries_)
    if (other.error_class == error_class && code != error_class)
      return fail(ErrorClass::arg,
                  "errorclass " + std::to_string(error_class) + " still has code " + std::to_string(code));
  entries_.erase(error_class);
  return {};
}

Result<> ErrorCodes::remove_code(int code) {
  auto entry = own(code, "errorcode");
  if (!entry) return std::unexpected(std::move(entry).error());
  if ((*entry)->error_class == code)
    return fail(ErrorClass::arg, "errorcode " + std::to_string(code) + " is a class, not a code");
  ISTHMUS_TRY(check_no_string("errorcode", code, **entry));
  entries_.erase(code);
  return {};
}

Result<> ErrorCodes::set_string(int code, std::string text) {
  auto entry = own(code, "errorcode");
  if (!entry) return std::unexpected(std::move(entry).error());
  (*entry)->text = std::move(text);
  return {};
}

Result<> ErrorCodes::remove_string(int code) {
  auto entry = own(code, "errorcode");
  if (!entry) return std::unexpected(std::move(entry).error());
  if (!(*entry)->text) return fail(ErrorClass::arg, "errorcode " + std::to_string(code) + " has no string");
  (*entry)->text.reset();
  return {};
}

std::optional<int> ErrorCodes::class_of(int code) const {
  if (predefined_class(code)) return code;
  const auto found = entries_.find(code);
  return found == entries_.end() ? std::nullopt : std::optional(found->second.error_class);
}

const std::string* ErrorCodes::string_of(int code) const {
  const auto found = entries_.find(code);
  return found != entries_.end() && found->second.text ? &*found->second.text : nullptr;
}

}  // namespace isthmus::abi
