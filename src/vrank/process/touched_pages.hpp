#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/unique_fd.hpp"

namespace isthmus::vrank {

/// Which pages of this process's own memory have been used, as the kernel tells (/proc/self/pagemap): others
/// are zeros. Where it does not tell, all have been.
class TouchedPages {
 public:
  static constexpr std::uint64_t page = 4096;
  /// Fewer untouched pages than these go with those around them: a step of a move costs more than to copy
  /// some.
  static constexpr std::uint64_t least_gap = 8 * page;

  TouchedPages();

  /// Calls `visit(begin, bytes)` for what of [begin, begin + bytes) may be other than 0, in order.
  template <class Visit>
  void for_each(std::uint64_t begin, std::uint64_t bytes, Visit visit) const {
    const std::uint64_t end = begin + bytes;
    std::uint64_t from = end, to = end;  // touched, and not told yet
    for (std::uint64_t at = begin / page * page; at < end;) {
      std::array<bool, most_pages> touched{};
      const std::uint64_t pages = std::min<std::uint64_t>((end - at + page - 1) / page, touched.size());
      look(at, std::span(touched).first(pages));
      for (std::uint64_t i = 0; i < pages; ++i, at += page) {
        if (!touched[i]) continue;
        if (from < end && at - to >= least_gap) {
          visit(from, to - from);
          from = end;
        }
        if (from == end) from = std::max(at, begin);
        to = std::min(at + page, end);
      }
    }
    if (from < end) visit(from, to - from);
  }

 private:
  static constexpr std::size_t most_pages = 1024;

  /// Of the pages from `begin` on.
  void look(std::uint64_t begin, std::span<bool> touched) const noexcept;

  UniqueFd file_;
};

}  // namespace isthmus::vrank
