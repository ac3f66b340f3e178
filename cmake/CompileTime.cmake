# What makes builds for tests alone (sanitizers, fuzzers) shorter. The release build does without: it shows the linters what each file
# includes itself, and depends on no library that it can do without.

# fmt: compiled into what uses it, 3 s a file with a sanitizer, or else Debian's library.
add_library(isthmus_fmt INTERFACE)
if(ISTHMUS_SANITIZE)
  target_link_libraries(isthmus_fmt INTERFACE fmt::fmt)
else()
  target_link_libraries(isthmus_fmt INTERFACE fmt::fmt-header-only)
endif()

# isthmus_parse_once(TARGET <header>...): parses the headers once for all files of the target.
function(isthmus_parse_once target)
  if(ISTHMUS_SANITIZE)
    target_precompile_headers(${target} PRIVATE ${ARGN})
  endif()
endfunction()
set(isthmus_common_headers <algorithm> <array> <chrono> <functional> <memory> <mutex> <optional> <span> <string> <system_error>
    <unordered_map> <vector>)
