#include "command/environment.hpp"

#include <unistd.h>

#include <algorithm>

#include "base/trace_file.hpp"
#include "launch/launcher/key_values.hpp"

namespace isthmus::mpiexec {

Environment Environment::inherited() {
  Environment environment;
  for (char** entry = environ; entry && *entry; ++entry)
    environment.entries_.emplace_back(*entry);
  return environment;
}

Environment Environment::inherited_by_ranks() {
  Environment environment = inherited();
  std::erase_if(environment.entries_, [](std::string_view entry) {
    const std::string_view name = entry.substr(0, entry.find('='));
    return launch::is_key_values_variable(name) || name == trace_file_variable;
  });
  return environment;
}

std::vector<std::string>::const_iterator Environment::find(std::string_view name) const {
  return std::find_if(entries_.begin(), entries_.end(), [&](const std::string& entry) {
    return entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=';
  });
}

void Environment::set(std::string_view name, std::string_view value) {
  std::string entry = std::string(name) + '=' + std::string(value);
  const auto found = find(name);
  if (found == entries_.end())
    entries_.push_back(std::move(entry));
  else
    entries_[static_cast<std::size_t>(found - entries_.begin())] = std::move(entry);
}

std::optional<std::string_view> Environment::get(std::string_view name) const {
  const auto found = find(name);
  if (found == entries_.end()) return std::nullopt;
  return std::string_view(*found).substr(name.size() + 1);
}

std::vector<std::string> Environment::names() const {
  std::vector<std::string> names;
  names.reserve(entries_.size());
  for (const std::string& entry : entries_)
    names.push_back(entry.substr(0, entry.find('=')));
  return names;
}

std::vector<const char*> Environment::pointers() const {
  std::vector<const char*> pointers;
  pointers.reserve(entries_.size() + 1);
  for (const std::string& entry : entries_)
    pointers.push_back(entry.c_str());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace isthmus::mpiexec
