// MPI 5.0, sections 3.2.5 and 13.3: what programs read from and write to statuses. All threads may call these
// at any time; they touch nothing but their arguments.

#include "abi/request/status.hpp"

#include <mpi.h>

#include "abi/core/call.hpp"
#include "abi/core/entry.hpp"

namespace isthmus::abi {
namespace {

int get(const char* function, const MPI_Status* status, int MPI_Status::* field, int* value,
        const char* argument) noexcept {
  return call_any_time(function, [&](Runtime&) -> Result<> {
    ISTHMUS_TRY(check_pointer(status, "status"));
    ISTHMUS_TRY(check_pointer(value, argument));
    *value = status->*field;
    return {};
  });
}

int set(const char* function, MPI_Status* status, int MPI_Status::* field, int value) noexcept {
  return call_any_time(function, [&](Runtime&) -> Result<> {
    ISTHMUS_TRY(check_pointer(status, "status"));
    status->*field = value;
    return {};
  });
}

}  // namespace

ISTHMUS_ENTRY(int, Status_get_source)(const MPI_Status* status, int* source) {
  return get("MPI_Status_get_source", status, &MPI_Status::MPI_SOURCE, source, "source");
}
ISTHMUS_ENTRY(int, Status_get_tag)(const MPI_Status* status, int* tag) {
  return get("MPI_Status_get_tag", status, &MPI_Status::MPI_TAG, tag, "tag");
}
ISTHMUS_ENTRY(int, Status_get_error)(const MPI_Status* status, int* error) {
  return get("MPI_Status_get_error", status, &MPI_Status::MPI_ERROR, error, "error");
}

ISTHMUS_ENTRY(int, Status_set_source)(MPI_Status* status, int source) {
  return set("MPI_Status_set_source", status, &MPI_Status::MPI_SOURCE, source);
}
ISTHMUS_ENTRY(int, Status_set_tag)(MPI_Status* status, int tag) {
  return set("MPI_Status_set_tag", status, &MPI_Status::MPI_TAG, tag);
}
ISTHMUS_ENTRY(int, Status_set_error)(MPI_Status* status, int error) {
  return set("MPI_Status_set_error", status, &MPI_Status::MPI_ERROR, error);
}

ISTHMUS_ENTRY(int, Status_set_cancelled)(MPI_Status* status, int flag) {
  return call_any_time("MPI_Status_set_cancelled", [&](Runtime&) -> Result<> {
    ISTHMUS_TRY(check_pointer(status, "status"));
    set_status_cancelled(*status, flag != 0);
    return {};
  });
}

}  // namespace isthmus::abi
