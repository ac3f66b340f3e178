#include "base/system/process_stat.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <string_view>

#include "base/unique_fd.hpp"

namespace isthmus {
namespace {

template <class Number>
Number number_in(std::string_view text) {
  Number value = 0;
  std::from_chars(text.begin(), text.end(), value);
  return value;
}

std::optional<ProcessStat> read(const char* path) {
  const UniqueFd file(::open(path, O_RDONLY | O_CLOEXEC));
  std::array<char, 1024> bytes{};
  const ssize_t count = file ? ::read(file.get(), bytes.data(), bytes.size()) : 0;
  if (count <= 0) return std::nullopt;
  std::string_view text(bytes.data(), static_cast<std::size_t>(count));
  // The second field is a name in parentheses, which may hold any; the third follows it.
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string_view::npos) return std::nullopt;
  text.remove_prefix(std::min(name_end + 2, text.size()));
  ProcessStat result;
  for (int field = 3; !text.empty(); ++field) {
    const std::string_view word = text.substr(0, text.find(' '));
    if (field == 3) result.state = word.front();
    if (field == 4) result.parent = number_in<pid_t>(word);
    if (field == 22) result.start_time = number_in<std::uint64_t>(word);
    if (field == 47) result.heap_begin = number_in<std::uint64_t>(word);
    text.remove_prefix(std::min(word.size() + 1, text.size()));
  }
  return result.state == 0 ? std::nullopt : std::optional(result);
}

}  // namespace

std::optional<ProcessStat> ProcessStat::of_self() {
  return read("/proc/self/stat");
}

std::optional<ProcessStat> ProcessStat::of(pid_t pid) {
  return read(("/proc/" + std::to_string(pid) + "/stat").c_str());
}

}  // namespace isthmus
