#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "base/ref.hpp"

namespace isthmus {

/// What happens when an operation on an object fails (MPI 5.0, section 9.3).
class Errhandler final : public RefCounted {
 public:
  enum class Action : std::uint8_t {
    fatal,   ///< MPI_ERRORS_ARE_FATAL: ends all connected processes
    abort,   ///< MPI_ERRORS_ABORT: ends the processes of the object
    report,  ///< MPI_ERRORS_RETURN: the function returns the code
    call,    ///< the program's function
  };
  /// The kind of object it was made for; predefined handlers serve all.
  enum class Subject : std::uint8_t { any, communicator, window, file, session };

  /// Called with the handle of the object and the code, which it may change: the changed code is what the
  /// failed MPI function returns. Closes over the program's function and its calling convention, which only
  /// `abi/` knows.
  using Function = std::function<void(std::uintptr_t handle, int& code)>;

  /// A predefined handler; `action` is not `call`.
  explicit Errhandler(Action action) : action_(action) {}
  Errhandler(Subject subject, Function function)
      : action_(Action::call), subject_(subject), function_(std::move(function)) {}

  [[nodiscard]] Action action() const noexcept { return action_; }
  [[nodiscard]] Subject subject() const noexcept { return subject_; }
  [[nodiscard]] bool serves(Subject subject) const noexcept {
    return subject_ == Subject::any || subject_ == subject;
  }
  /// Only where `action()` is `call`.
  [[nodiscard]] const Function& function() const noexcept { return function_; }

 private:
  Action action_;
  Subject subject_ = Subject::any;
  Function function_;
};

}  // namespace isthmus
