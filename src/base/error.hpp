#pragma once

#include <expected>
#include <memory>
#include <string>
#include <utility>

namespace isthmus {

/// The error classes of the MPI standard ABI (MPI 5.0, section 9.4 and the ABI chapter), under this library's
/// names. The values are the ABI's, which `abi/` asserts, so that mapping an `Error` to a return code is a
/// cast.
enum class ErrorClass : int {
  success = 0,
  buffer = 1,
  count = 2,
  type = 3,
  tag = 4,
  comm = 5,
  rank = 6,
  request = 7,
  root = 8,
  group = 9,
  op = 10,
  topology = 11,
  dims = 12,
  arg = 13,
  unknown = 14,
  truncate = 15,
  other = 16,
  intern = 17,
  pending = 18,
  in_status = 19,
  base = 24,
  file = 30,
  conversion = 25,
  info_key = 31,
  info_nokey = 32,
  info_value = 33,
  info = 34,
  keyval = 36,
  name = 38,
  no_mem = 39,
  spawn = 53,
  unsupported_operation = 55,
  win = 56,
  proc_aborted = 58,
  value_too_large = 59,
  session = 60,
  errhandler = 61,
  abi = 62,
  // Of user-level failure mitigation; the standard has no numbers for them.
  proc_failed_pending = 0x3ff0,
  revoked = 0x3ff1,
};

/// Why an operation failed: a class for programs and a sentence for people. The sentence says what was wrong
/// with which value, without the name of the MPI call, which the edge adds. Move-only and two words wide, so
/// that a `Result` stays cheap to return.
class Error {
 public:
  explicit Error(ErrorClass error_class, std::string text = {})
      : class_(error_class), text_(text.empty() ? nullptr : std::make_unique<std::string>(std::move(text))) {}

  /// An error of a user-defined class or code (MPI_Add_error_code); `code` is returned to the program as it
  /// is.
  static Error from_code(int code) { return Error(static_cast<ErrorClass>(code)); }

  [[nodiscard]] ErrorClass error_class() const noexcept { return class_; }
  [[nodiscard]] int code() const noexcept { return static_cast<int>(class_); }
  [[nodiscard]] const std::string& text() const noexcept {
    static const std::string none;
    return text_ ? *text_ : none;
  }

 private:
  ErrorClass class_;
  std::unique_ptr<std::string> text_;
};

/// What every fallible function below `abi/` returns.
template <class T = void>
using Result = std::expected<T, Error>;

/// `return fail(ErrorClass::tag, "tag -7 is negative");`
[[nodiscard]] inline std::unexpected<Error> fail(ErrorClass error_class, std::string text = {}) {
  return std::unexpected<Error>(std::in_place, error_class, std::move(text));
}

}  // namespace isthmus

/// Leaves the enclosing function with the error of `expression` (a `Result`), if it has one.
#define ISTHMUS_TRY(expression)                                       \
  do {                                                                \
    if (auto isthmus_try_ = (expression); !isthmus_try_) [[unlikely]] \
      return std::unexpected(std::move(isthmus_try_).error());        \
  } while (false)
