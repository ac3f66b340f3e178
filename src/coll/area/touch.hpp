#pragma once

#include <cstddef>
#include <cstdint>

namespace isthmus::coll {

/// Has this process's pages of shared memory there, before what goes through it is measured: a page that is
/// used for the first time takes longer than what it is used for. A member may be writing to it: nobody looks
/// at what is read, so that is no race that matters, and ThreadSanitizer is not asked.
[[gnu::no_sanitize_thread, gnu::noinline]] inline void touch_pages(const std::byte* memory,
                                                                   std::uint64_t bytes) noexcept {
  constexpr std::uint64_t page_bytes = 4096;
  for (std::uint64_t at = 0; at < bytes; at += page_bytes)
    static_cast<void>(*static_cast<const volatile std::byte*>(memory + at));
}

}  // namespace isthmus::coll
