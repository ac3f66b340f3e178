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

# Three quarters of the time of a file goes into its headers: g++ 12 takes 3.9 s for src/p2p/engine.cpp, and 6.6 s for all 26 files of src/p2p
# in one. Folders have few files each: the 113 unit tests take 270 s one by one and 118 s by eight, across folders.
# So files are compiled several at a time. OFF shows what each file includes itself: ./dev lint reads that build's commands.
option(ISTHMUS_TOGETHER "Compile several files at a time, and parse common headers once" ON)

# isthmus_compile_together(TARGET [FILES <number>] [ACROSS_FOLDERS]): so many files of a folder, or of all, at a time, in the order of their names. Two
# files of a target must not give one name to two things of a namespace, not in their anonymous ones either. Files with options of their own are compiled alone (CMake does so).
function(isthmus_compile_together target)
  if(NOT ISTHMUS_TOGETHER)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 arg "ACROSS_FOLDERS" "FILES" "")
  if(NOT arg_FILES)
    set(arg_FILES 12)
  endif()
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "\\.cpp$")
  list(SORT sources)
  set(last "-")
  foreach(source IN LISTS sources)
    get_filename_component(folder ${source} DIRECTORY)
    string(REPLACE ${CMAKE_CURRENT_SOURCE_DIR}/ "" folder "${folder}/")
    if(arg_ACROSS_FOLDERS)
      set(folder "")
    endif()
    if(NOT folder STREQUAL last)
      set(number 0)
      set(last "${folder}")
    endif()
    math(EXPR part "${number} / ${arg_FILES}")
    math(EXPR number "${number} + 1")
    string(MAKE_C_IDENTIFIER "${folder}${part}" group)
    set_source_files_properties(${source} TARGET_DIRECTORY ${target} PROPERTIES UNITY_GROUP ${group})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  # A coroutine's frame holds what is local to its file; g++ takes that for a mistake where the file is one of several.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endfunction()

# isthmus_parse_once(TARGET <header>...): parses the headers once for all files of the target.
function(isthmus_parse_once target)
  if(ISTHMUS_TOGETHER)
    target_precompile_headers(${target} PRIVATE ${ARGN})
  endif()
endfunction()
