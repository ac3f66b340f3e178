#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.hpp"

namespace isthmus::abi {

/// What this library says about a class of the ABI.
struct ErrorClassInfo {
  int error_class;
  std::string_view name;      ///< "MPI_ERR_TAG"
  std::string_view sentence;  ///< "a tag is not valid"
};
/// Null for numbers that are no predefined class. MPI_SUCCESS is one.
[[nodiscard]] const ErrorClassInfo* predefined_class(int error_class) noexcept;

/// Error classes and codes that the program adds (MPI 5.0, section 9.5). Guarded by the runtime's early lock.
class ErrorCodes {
 public:
  [[nodiscard]] int add_class();
  [[nodiscard]] Result<int> add_code(int error_class);
  // Predefined ones, those with a string, and classes with codes left cannot be removed.
  [[nodiscard]] Result<> remove_class(int error_class);
  [[nodiscard]] Result<> remove_code(int code);
  [[nodiscard]] Result<> set_string(int code, std::string text);
  [[nodiscard]] Result<> remove_string(int code);

  /// Class of a class or code, predefined or not.
  [[nodiscard]] std::optional<int> class_of(int code) const;
  /// What the program said about its own code; null where it said nothing.
  [[nodiscard]] const std::string* string_of(int code) const;

 private:
  struct Entry {
    int error_class;  ///< the number itself if it is a class
    std::optional<std::string> text;
  };
  [[nodiscard]] Result<Entry*> own(int code, std::string_view argument);

  [[nodiscard]] static Result<> check_no_string(std::string_view argument, int code, const Entry& entry);

  static constexpr int last_predefined = 0x3fff;  ///< MPI_ERR_LASTCODE
  std::map<int, Entry> entries_;
  int next_ = last_predefined + 1;
};

}  // namespace isthmus::abi
