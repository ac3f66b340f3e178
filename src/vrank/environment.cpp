#include "vrank/environment.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <utility>

#include "base/settings.hpp"

namespace isthmus::vrank {
namespace {

bool is(std::string_view entry, std::string_view name) noexcept {
  return entry.starts_with(name) && entry.substr(name.size()).starts_with('=');
}

}  // namespace

Environment::Environment(char** from) {
  for (; *from; ++from)
    entries_.emplace_back(*from);
}

void Environment::remove(std::string_view name) {
  std::erase_if(entries_, [&](const std::string& entry) { return is(entry, name); });
}

void Environment::set(std::string_view entry) {
  remove(entry.substr(0, entry.find('=')));
  entries_.emplace_back(entry);
}

std::optional<std::string> Environment::get(std::string_view name) const {
  for (const std::string& entry : entries_)
    if (is(entry, name)) return entry.substr(name.size() + 1);
  return std::nullopt;
}

char** Environment::pointers() {
  pointers_.clear();
  for (std::string& entry : entries_)
    pointers_.push_back(entry.data());
  pointers_.push_back(nullptr);
  return pointers_.data();
}

std::vector<Environment> environments_from(std::string_view text) {
  std::vector<Environment> result;
  Environment common(environ);
  common.remove(launcher_variable::virtual_ranks);
  common.remove(launcher_variable::workers);
  bool begins = true;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.empty()) {
      begins = true;
      continue;
    }
    if (std::exchange(begins, false)) result.push_back(common);
    result.back().set(line);
  }
  return result;
}

char* find_variable(char** array, std::string_view name) noexcept {
  for (; array && *array; ++array)
    if (is(*array, name)) return *array + name.size() + 1;
  return nullptr;
}

bool put_variable(char**& array, char**& grown, char* entry) noexcept {
  const std::string_view text = entry, name = text.substr(0, text.find('='));
  std::size_t count = 0;
  for (; array && array[count]; ++count)
    if (is(array[count], name)) {
      array[count] = entry;
      return true;
    }
  auto** const larger = static_cast<char**>(std::malloc((count + 2) * sizeof(char*)));
  if (!larger) return false;
  std::copy_n(array, count, larger);
  larger[count] = entry;
  larger[count + 1] = nullptr;
  if (grown && grown == array) std::free(static_cast<void*>(grown));
  array = grown = larger;
  return true;
}

void remove_variable(char** array, std::string_view name) noexcept {
  if (!array) return;
  char** kept = array;
  for (; *array; ++array)
    if (!is(*array, name)) *kept++ = *array;
  *kept = nullptr;
}

}  // namespace isthmus::vrank
