// An even division of things in a row among processes in a row.
#pragma once

#include <algorithm>

namespace apps {

template <class Int>
struct Share {
  Int begin;
  Int size;

  [[nodiscard]] Int end() const { return begin + size; }
  [[nodiscard]] bool holds(Int index) const { return index >= begin && index < end(); }
};

// The `part`th of `parts` shares of `count` things: sizes differ by one at most, the larger ones come first.
template <class Int>
[[nodiscard]] constexpr Share<Int> share_of(Int count, int parts, int part) {
  const Int each = count / parts;
  const Int extra = count % parts;
  return {part * each + std::min<Int>(part, extra), each + (part < extra ? 1 : 0)};
}

}  // namespace apps
