# isthmus_add_plugin(NAME MODULE LIBRARIES <library>... SOURCES <file>... WITHOUT <sentence>)
#
# The shared object lib/isthmus/libisthmus_NAME.so, linked with the foreign libraries that pkg-config knows as MODULE, and loaded by
# who needs it (src/base/plugin.hpp). Where pkg-config does not know them, there is no such target, and the sentence says so.
function(isthmus_add_plugin name module)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "WITHOUT" "LIBRARIES;SOURCES")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_LIBRARIES OR NOT arg_SOURCES OR NOT arg_WITHOUT)
    message(FATAL_ERROR "usage: isthmus_add_plugin(NAME MODULE LIBRARIES <library>... SOURCES <file>... WITHOUT <sentence>)")
  endif()
  string(TOUPPER ${module} foreign)
  find_package(PkgConfig QUIET)
  if(PkgConfig_FOUND)
    pkg_check_modules(${foreign} QUIET ${module})
  endif()
  if(NOT ${foreign}_FOUND)
    message(STATUS ${arg_WITHOUT})
    return()
  endif()

  set(target isthmus_${name})
  add_library(${target} MODULE ${arg_SOURCES})
  isthmus_compile_together(${target})
  target_include_directories(${target} SYSTEM PRIVATE ${${foreign}_INCLUDE_DIRS})
  target_link_directories(${target} PRIVATE ${${foreign}_LIBRARY_DIRS})
  target_link_libraries(${target} PRIVATE isthmus_core ${arg_LIBRARIES})
  # What it takes of isthmus_core stays its own.
  target_link_options(${target} PRIVATE -Wl,--exclude-libs,ALL)
  set_target_properties(${target} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib/isthmus
                        INSTALL_RPATH_USE_LINK_PATH ON)
  isthmus_install(${target} LIBRARY lib/isthmus)
endfunction()
