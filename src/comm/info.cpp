#include "comm/info.hpp"

#include <algorithm>

namespace isthmus {

Info::Info(std::initializer_list<Entry> entries) {
  for (const auto& [key, value] : entries)
    set(key, value);
}

const std::string* Info::find(std::string_view key) const noexcept {
  const auto found = std::ranges::find(entries_, key, &Entry::first);
  return found == entries_.end() ? nullptr : &found->second;
}

void Info::set(std::string_view key, std::string_view value) {
  if (const auto found = std::ranges::find(entries_, key, &Entry::first); found != entries_.end())
    found->second = value;
  else
    entries_.emplace_back(key, value);
}

bool Info::erase(std::string_view key) {
  return std::erase_if(entries_, [key](const Entry& entry) { return entry.first == key; }) != 0;
}

Ref<Info> Info::duplicate() const {
  Ref<Info> copy = make_ref<Info>();
  copy->entries_ = entries_;
  return copy;
}

}  // namespace isthmus
