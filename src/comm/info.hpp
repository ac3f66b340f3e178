#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ref.hpp"

namespace isthmus {

/// Hints and facts as pairs of strings (MPI 5.0, chapter 10), in the order in which the keys were first set.
/// A few dozen at most, so looked up one after the other. Guarded by the engine's lock.
class Info final : public RefCounted {
 public:
  using Entry = std::pair<std::string, std::string>;

  Info() = default;
  Info(std::initializer_list<Entry> entries);

  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }
  /// `index` below `size()`.
  [[nodiscard]] const Entry& entry(std::size_t index) const noexcept { return entries_[index]; }
  /// The value, or null if the key is not there.
  [[nodiscard]] const std::string* find(std::string_view key) const noexcept;

  /// Adds the key or replaces its value, which keeps its place.
  void set(std::string_view key, std::string_view value);
  /// False if the key is not there.
  bool erase(std::string_view key);
  [[nodiscard]] Ref<Info> duplicate() const;

 private:
  std::vector<Entry> entries_;
};

}  // namespace isthmus
