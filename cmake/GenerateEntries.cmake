# isthmus_generate_entries(STUBS <variable> COVERAGE <variable>)
#
# Has cmake/generate_entries.py compare include/mpi.h with the entries in src/abi/ whenever one of them changes. STUBS
# receives the path of the C++ file with an entry for every function that has none, to be compiled into the library; COVERAGE the
# name of a static library with the table of src/abi/core/coverage.hpp, for whoever reports it.

find_package(Python3 REQUIRED COMPONENTS Interpreter)

function(isthmus_generate_entries)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "STUBS;COVERAGE" "")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_STUBS OR NOT arg_COVERAGE)
    message(FATAL_ERROR "usage: isthmus_generate_entries(STUBS <variable> COVERAGE <variable>)")
  endif()

  set(generator ${PROJECT_SOURCE_DIR}/cmake/generate_entries.py)
  set(header ${PROJECT_SOURCE_DIR}/include/mpi.h)
  set(stubs ${PROJECT_BINARY_DIR}/generated/stubs.cpp)
  set(coverage ${PROJECT_BINARY_DIR}/generated/coverage.cpp)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/abi/*.cpp)
  add_custom_command(
    OUTPUT ${stubs} ${coverage}
    COMMAND ${Python3_EXECUTABLE} ${generator} --header ${header} --entries ${PROJECT_SOURCE_DIR}/src/abi
            --stubs ${stubs} --coverage ${coverage}
    DEPENDS ${generator} ${header} ${sources}
    COMMENT "Comparing mpi.h with the entries in src/abi"
    VERBATIM)

  add_library(isthmus_coverage STATIC ${coverage})
  target_include_directories(isthmus_coverage PUBLIC ${PROJECT_SOURCE_DIR}/src)

  set(${arg_STUBS} ${stubs} PARENT_SCOPE)
  set(${arg_COVERAGE} isthmus_coverage PARENT_SCOPE)
endfunction()
