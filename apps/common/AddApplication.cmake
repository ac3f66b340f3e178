# add_application(NAME SOURCES...): a program in plain MPI, and what all of them share. In a project of its own it is built with
# any MPI that find_package finds, as a part of Isthmus with ours.
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
if(NOT TARGET mpi_abi)
  set(MPI_CXX_SKIP_MPICXX TRUE)
  find_package(MPI REQUIRED COMPONENTS CXX)
endif()
if(NOT CMAKE_BUILD_TYPE AND PROJECT_IS_TOP_LEVEL)
  set(CMAKE_BUILD_TYPE Release)
endif()

function(add_application name)
  set(common ${CMAKE_CURRENT_FUNCTION_LIST_DIR})
  add_executable(${name} ${ARGN} ${common}/command_line.cpp ${common}/interruption.cpp ${common}/library.cpp
                         ${common}/progress.cpp)
  if(NOT DEFINED ISTHMUS_TOGETHER OR ISTHMUS_TOGETHER)
    set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 16)  # the headers of three libraries are read once
  endif()
  target_compile_features(${name} PRIVATE cxx_std_20)
  target_compile_options(${name} PRIVATE -Wall -Wextra -Wpedantic $<$<CONFIG:Release>:-O3>)  # -O2 leaves loops unvectorised
  target_include_directories(${name} PRIVATE ${common}/..)
  target_link_libraries(${name} PRIVATE CLI11::CLI11 nlohmann_json::nlohmann_json)
  if(TARGET mpi_abi)
    target_link_libraries(${name} PRIVATE mpi_abi)
    target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/include)
  else()
    target_link_libraries(${name} PRIVATE MPI::MPI_CXX)
  endif()
endfunction()
