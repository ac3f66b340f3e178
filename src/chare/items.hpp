#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

#include <isthmus/chare_runtime.h>

namespace isthmus::chare {

using Item = isthmus_chare_item;

/// Whether each invocation says how many buffers it has.
[[nodiscard]] inline bool has_any_buffers(const Item& item) noexcept {
  return item.buffers == ISTHMUS_CHARE_ANY_BUFFERS;
}
/// Whether there is no invocation without buffers.
[[nodiscard]] inline bool needs_buffers(const Item& item) noexcept {
  return item.buffers != 0 && !has_any_buffers(item);
}

/// What the program has registered, numbered. There is no list that somebody keeps: items are sorted by their
/// mangled names, so the number of each follows from what the program contains, in whatever order its parts
/// were initialised. Processes with the same names have the same numbers, which is checked at the start.
class Items {
 public:
  /// Numbers them. One name twice is refused, and so are more than 65,535.
  static Result<Items> make(std::span<Item* const> items);

  [[nodiscard]] std::size_t size() const noexcept { return sorted_.size(); }
  /// The item with that number, of one of these kinds; null if there is none.
  [[nodiscard]] const Item* find(std::uint32_t number, std::uint32_t kind) const noexcept {
    if (number >= sorted_.size() || sorted_[number]->kind != kind) return nullptr;
    return sorted_[number];
  }
  /// Whether the program balances chares of that class anywhere.
  [[nodiscard]] bool has_balancer(const Item& type) const noexcept;
  /// The item of that mangled name; null if there is none.
  [[nodiscard]] const Item* find(std::string_view name) const noexcept;
  /// All names and kinds, for the comparison with another process.
  [[nodiscard]] std::string list() const;
  /// Why `theirs` is not the same list, naming the first that differs; empty if it is.
  [[nodiscard]] std::string difference(std::string_view theirs) const;

 private:
  std::vector<Item*> sorted_;
};

/// Of a kind of items, for people.
[[nodiscard]] std::string_view kind_name(std::uint32_t kind) noexcept;
/// A name for people: demangled, without what wraps it.
[[nodiscard]] std::string readable(std::string_view name);

}  // namespace isthmus::chare
