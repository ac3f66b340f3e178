#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace isthmus::vrank {

/// The environment that a rank begins with. The program may change the array, and what it has lives on.
class Environment {
 public:
  explicit Environment(char** from);

  void remove(std::string_view name);
  /// `entry`: NAME=VALUE.
  void set(std::string_view entry);
  [[nodiscard]] std::optional<std::string> get(std::string_view name) const;
  /// As `environ` has it.
  [[nodiscard]] char** pointers();

 private:
  std::vector<std::string> entries_;
  std::vector<char*> pointers_;
};

/// Lines NAME=VALUE for each rank, an empty line between two. What lines do not name is as in this process,
/// without what is for the process alone.
std::vector<Environment> environments_from(std::string_view text);

// What getenv, putenv and unsetenv do, with an array of a rank's own, which ends with null or is null.

[[nodiscard]] char* find_variable(char** array, std::string_view name) noexcept;
/// `entry`, NAME=VALUE, stays in the array. `grown`: the array that this has made for the same rank before,
/// or null. False without memory.
[[nodiscard]] bool put_variable(char**& array, char**& grown, char* entry) noexcept;
void remove_variable(char** array, std::string_view name) noexcept;

}  // namespace isthmus::vrank
