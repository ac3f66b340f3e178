#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace isthmus::tool {

/// Parts what a job writes to stderr into reports of `isthmus explain --json`, each on a line, and the rest,
/// which goes on at once.
class ReportFilter {
 public:
  explicit ReportFilter(std::function<void(std::string_view)> rest) : rest_(std::move(rest)) {}
  void take(std::string_view bytes);
  /// Nothing more comes: what was held back and is no report goes on.
  void end();
  [[nodiscard]] const std::vector<std::string>& reports() const noexcept { return reports_; }

 private:
  static constexpr std::string_view mark = R"({"isthmus_explain":)";

  std::function<void(std::string_view)> rest_;
  std::string held_;  ///< a report that has begun, or what may begin one
  std::vector<std::string> reports_;
};

/// Where what is no report goes on to: all of it to stderr, as far as that takes it.
void write_errors(std::string_view text);

}  // namespace isthmus::tool
