#pragma once

namespace isthmus {

/// Whether this program is built with ThreadSanitizer.
#if defined(__has_feature)  // clang
inline constexpr bool under_thread_sanitizer = __has_feature(thread_sanitizer);
#elif defined(__SANITIZE_THREAD__)  // g++
inline constexpr bool under_thread_sanitizer = true;
#else
inline constexpr bool under_thread_sanitizer = false;
#endif

}  // namespace isthmus
