# What makes builds shorter.

# fmt: in its header alone it takes 2.5 s of each file that uses it. Debian's library would be one more to load: it is compiled once instead, where it
# is the version whose parts fmt.cpp knows.
if(fmt_VERSION VERSION_GREATER_EQUAL 9 AND fmt_VERSION VERSION_LESS 10)
  add_library(isthmus_fmt STATIC ${CMAKE_CURRENT_LIST_DIR}/fmt.cpp)
  target_include_directories(isthmus_fmt SYSTEM PUBLIC $<TARGET_PROPERTY:fmt::fmt,INTERFACE_INCLUDE_DIRECTORIES>)
else()
  add_library(isthmus_fmt INTERFACE)
  target_link_libraries(isthmus_fmt INTERFACE fmt::fmt-header-only)
endif()

# Headers: in builds for tests alone (sanitizers, fuzzers). The release build does without: it shows the linters what each file includes itself.

# isthmus_parse_once(TARGET <header>...): parses the headers once for all files of the target.
function(isthmus_parse_once target)
  if(ISTHMUS_SANITIZE)
    target_precompile_headers(${target} PRIVATE ${ARGN})
  endif()
endfunction()
set(isthmus_common_headers <algorithm> <array> <chrono> <functional> <memory> <mutex> <optional> <span> <string> <system_error>
    <unordered_map> <vector>)
