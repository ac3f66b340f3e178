#pragma once

#include <mpi.h>

#include <initializer_list>
#include <string>
#include <utility>

#include "abi/request/request.hpp"

/// The steps that all functions of the wait and test families are made of (MPI 5.0, sections 3.7.3 to 3.7.6).
namespace isthmus::abi {

enum class RequestState { invalid, inactive, pending, ready };

/// An error of a completed operation and where it is raised.
struct Failure {
  Ref<Communicator> comm;
  Error error{ErrorClass::success};
};

/// How an array entry or single handle stands now. Makes no progress.
[[nodiscard]] RequestState state_of(Runtime& runtime, MPI_Request handle);

/// Reports an operation that is `ready`, and lets it go on being so (MPI_Request_get_status). `status` may be
/// MPI_STATUS_IGNORE. False if the operation failed; `failure` says how.
bool report(Runtime& runtime, MPI_Request handle, MPI_Status* status, Failure& failure);

/// Reports an operation that is `ready`, and ends it; `handle` becomes MPI_REQUEST_NULL unless persistent.
bool finish(Runtime& runtime, MPI_Request& handle, MPI_Status* status, Failure& failure);

/// Waits until a handle that is `pending` is `ready`. `has_looked`: `is_ready_soon` has been false.
void wait_until_ready(Runtime& runtime, MPI_Request handle, bool has_looked = false);
/// Whether an operation is under way and ready, or is so after a look of about a microsecond.
bool is_ready_soon(Runtime& runtime, Operation& operation);
/// As `finish`, of the operation of `request`, which is ready.
bool finish_operation(Runtime& runtime, Request& request, MPI_Request& handle, MPI_Status* status,
                      Failure& failure);

/// Raises on the communicator of the operation that failed.
[[gnu::cold]] int raise(const char* function, const Failure& failure) noexcept;
[[gnu::cold]] int raise_bad_request(const char* function, MPI_Request handle) noexcept;
/// For an entry of `array_of_requests`.
[[gnu::cold]] int raise_bad_request(const char* function, const MPI_Request* requests, int index);

/// The count and array of a function on several requests: MPI_SUCCESS, or the code of what was raised.
int check_array(const char* function, int count, const MPI_Request* requests,
                const char* count_name = "count");
/// Output pointers, with their names, that must not be null.
int check_outputs(const char* function, std::initializer_list<std::pair<const void*, const char*>> outputs);

// Looking over an array. No entry is changed.

/// Whether all can be completed now; also if one is invalid, which completing it will say.
bool all_ready(Runtime& runtime, int count, const MPI_Request* requests);
/// The index of an entry that is neither inactive nor pending, from `first` on; `count` if there is none.
/// Sets `active` if any entry is.
int find_ready(Runtime& runtime, int count, const MPI_Request* requests, int first, bool& active);
/// As `find_ready` from the start, after progress if there is none at first. Says in `active` whether any is.
int find_ready_now(Runtime& runtime, int count, const MPI_Request* requests, bool& active);
/// As `find_ready` from the start, after waiting; `count` if none is active.
int wait_for_ready(Runtime& runtime, int count, const MPI_Request* requests);

/// What the functions that complete several operations collect: MPI_ERR_IN_STATUS with an error in each
/// status, or success with the statuses' error fields untouched.
class Statuses {
 public:
  Statuses(const char* function, MPI_Status* statuses) : function_(function), statuses_(statuses) {}

  [[nodiscard]] MPI_Status* at(int index) const {
    return statuses_ == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : statuses_ + index;
  }
  /// Status `index` is that of a failed operation; all before it were successes or noted here.
  void add(int index, const Failure& failure);
  void add_success(int index) {
    if (failures_ != 0) set(index, MPI_SUCCESS);
  }
  /// What the function returns, after raising MPI_ERR_IN_STATUS if it has to.
  [[nodiscard]] int result(int completed) const {
    if (failures_ == 0) [[likely]]
      return MPI_SUCCESS;
    return raise_in_status(completed);
  }

 private:
  [[gnu::cold]] [[nodiscard]] int raise_in_status(int completed) const;
  void set(int index, int error) {
    if (statuses_ != MPI_STATUSES_IGNORE) statuses_[index].MPI_ERROR = error;
  }

  const char* function_;
  MPI_Status* statuses_;
  int failures_ = 0;
  Ref<Communicator> comm_;
  std::string first_;
};

/// Completes entry `index` of an array, waiting if it must. The entry may be null or inactive. False if it is
/// no request.
bool complete_entry(Runtime& runtime, MPI_Request& handle, int index, Statuses& statuses);

}  // namespace isthmus::abi
