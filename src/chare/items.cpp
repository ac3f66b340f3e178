#include "chare/items.hpp"

#include <cxxabi.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>

namespace isthmus::chare {

Result<Items> Items::make(std::span<Item* const> items) {
  if (items.size() > 0xffff)
    return fail(ErrorClass::arg,
                fmt::format("the program has {} entries and the like, more than 65535", items.size()));
  Items made;
  made.sorted_.assign(items.begin(), items.end());
  std::ranges::sort(made.sorted_, [](const Item* a, const Item* b) {
    return std::string_view(a->name) < std::string_view(b->name);
  });
  for (std::size_t i = 0; i < made.sorted_.size(); ++i) {
    if (i != 0 && std::string_view(made.sorted_[i - 1]->name) == made.sorted_[i]->name)
      return fail(ErrorClass::arg,
                  fmt::format("two are called {}: classes of one name in unnamed namespaces of two files?",
                              readable(made.sorted_[i]->name)));
    made.sorted_[i]->number = static_cast<std::uint32_t>(i);
  }
  return made;
}

bool Items::has_balancer(const Item& type) const noexcept {
  return std::ranges::any_of(
      sorted_, [&](const Item* item) { return item->kind == ISTHMUS_CHARE_BALANCER && item->type == &type; });
}

const Item* Items::find(std::string_view name) const noexcept {
  const auto found = std::ranges::lower_bound(sorted_, name, {},
                                              [](const Item* item) { return std::string_view(item->name); });
  return found != sorted_.end() && name == (*found)->name ? *found : nullptr;
}

std::string Items::list() const {
  std::string text;
  for (const Item* item : sorted_) {
    text += static_cast<char>('0' + item->kind);
    text += item->name;
    text += '\n';
  }
  return text;
}

std::string Items::difference(std::string_view theirs) const {
  const std::string own = list();
  std::string_view ours = own;
  while (!ours.empty() || !theirs.empty()) {
    const std::string_view a = ours.substr(0, ours.find('\n'));
    const std::string_view b = theirs.substr(0, theirs.find('\n'));
    if (a != b) {
      const bool only_here = !a.empty() && (b.empty() || a.substr(1) < b.substr(1));
      if (!only_here && (a.empty() || b.substr(1) < a.substr(1)))
        return fmt::format("{} is not here", readable(b.substr(1)));
      if (only_here) return fmt::format("{} is here alone", readable(a.substr(1)));
      return fmt::format("{} is of kind {} here and {} there", readable(a.substr(1)), a[0], b[0]);
    }
    ours.remove_prefix(std::min(ours.size(), a.size() + 1));
    theirs.remove_prefix(std::min(theirs.size(), b.size() + 1));
  }
  return {};
}

std::string_view kind_name(std::uint32_t kind) noexcept {
  static constexpr std::array<std::string_view, 7> names{"thing",    "class",   "constructor", "entry",
                                                         "function", "reducer", "balancer"};
  return kind < names.size() ? names[kind] : names[0];
}

std::string readable(std::string_view name) {
  std::string mangled(name);
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> made(
      abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status), std::free);
  if (status != 0 || !made) return mangled;
  std::string text = made.get();
  // `isthmus::chare::detail::EntryItem<&Cell::start>` is `Cell::start` to who wrote it.
  const std::string_view wrap = "isthmus::chare::detail::";
  if (const auto at = text.find('<'); text.starts_with(wrap) && at != std::string::npos && text.back() == '>')
    text = text.substr(at + 1, text.size() - at - 2);
  if (const auto at = text.rfind('&'); at != std::string::npos && text.starts_with('(')) text.erase(0, at);
  if (text.starts_with('&')) text.erase(0, 1);
  return text;
}

}  // namespace isthmus::chare
