#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace isthmus::mpiexec {

/// As in `Settings::trace`.
inline constexpr const char* trace_variable = "ISTHMUS_TRACE";

/// The environment of a program to start: `NAME=VALUE` strings, each name once.
class Environment {
 public:
  /// mpiexec's own.
  static Environment inherited();
  /// mpiexec's own without what another launcher, as whose rank mpiexec may run, has meant for mpiexec alone.
  static Environment inherited_by_ranks();

  void set(std::string_view name, std::string_view value);
  [[nodiscard]] std::optional<std::string_view> get(std::string_view name) const;

  [[nodiscard]] std::vector<std::string> names() const;
  /// As exec wants it; valid until the next change.
  [[nodiscard]] std::vector<const char*> pointers() const;

 private:
  [[nodiscard]] std::vector<std::string>::const_iterator find(std::string_view name) const;
  std::vector<std::string> entries_;
};

}  // namespace isthmus::mpiexec
