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

# add_kernels(NAME FOLDER HEADERS...): what an application NAME that can use GPUs has beside its own sources, and its kernels,
# FOLDER/kernels.cu, for the GPUs that nvcc knows and, as PTX, for later ones. Without nvcc the program says that it has none.
# After add_application.
function(add_kernels name folder)
  set(common ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/gpu)
  target_sources(${name} PRIVATE ${common}/device.cpp ${common}/engine.cpp ${common}/exchange.cpp ${common}/image.cpp)
  target_include_directories(${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${CMAKE_DL_LIBS})
  # Without it sums would be rounded in other places than the GPU's, where --fmad=false says the same.
  target_compile_options(${name} PRIVATE -ffp-contract=off)
  if(ISTHMUS_SANITIZE)
    # The driver's functions return an enumeration, and an int as this program declares them.
    target_compile_options(${name} PRIVATE $<$<CXX_COMPILER_ID:Clang>:-fno-sanitize=function>)
  endif()
  find_program(ISTHMUS_NVCC nvcc HINTS ENV CUDA_HOME PATHS /usr/local/cuda PATH_SUFFIXES bin)
  if(NOT ISTHMUS_NVCC OR (DEFINED ISTHMUS_KERNELS AND NOT ISTHMUS_KERNELS))
    message(STATUS "No nvcc: ${name} is built without kernels for GPUs")
    return()
  endif()
  # Headers of Isthmus for kernels, where it is the MPI.
  if(TARGET mpi_abi)
    set(headers -I${CMAKE_SOURCE_DIR}/include)
    set(headers_of_isthmus ${CMAKE_SOURCE_DIR}/include/isthmus/device.cuh ${CMAKE_SOURCE_DIR}/include/isthmus/fuse.cuh)
  else()
    set(headers ${MPI_CXX_COMPILER_INCLUDE_DIRS} ${MPI_CXX_HEADER_DIR})
    list(TRANSFORM headers PREPEND -I)
  endif()
  set(image ${CMAKE_CURRENT_BINARY_DIR}/kernels.fatbin)
  add_custom_command(
    OUTPUT ${image}
    COMMAND ${ISTHMUS_NVCC} -std=c++17 -O3 --fmad=false -fatbin -gencode arch=compute_90,code=sm_90 -gencode
            arch=compute_75,code=compute_75 -ccbin ${CMAKE_CXX_COMPILER} -I${CMAKE_CURRENT_SOURCE_DIR}
            -I${common}/../.. ${headers} -o ${image} ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/kernels.cu
    DEPENDS ${folder}/kernels.cu ${ARGN} ${common}/points.hpp ${common}/fused.hpp ${headers_of_isthmus}
    COMMENT "Compiling ${name}'s kernels"
    VERBATIM)
  set_source_files_properties(${common}/image.cpp PROPERTIES OBJECT_DEPENDS ${image}
                                                             COMPILE_DEFINITIONS "APPLICATION_KERNELS=\"${image}\"")
endfunction()
