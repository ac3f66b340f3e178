# isthmus_gpu_kernels(IMAGE <variable> TARGETS <variable>)
#
# Has nvcc compile src/kernels/kernels.cu for every GPU that it knows of since Volta, and as PTX for those to come. IMAGE receives the path of
# the image, TARGETS what it is for; both are empty where there is no nvcc. One is looked for on PATH, in a toolkit's usual place, and among the Python
# packages that ./dev setup installs into build/nvcc.

option(ISTHMUS_KERNELS "Build the kernels for GPUs where there is an nvcc" ON)

function(isthmus_gpu_kernels)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "IMAGE;TARGETS" "")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_IMAGE OR NOT arg_TARGETS)
    message(FATAL_ERROR "usage: isthmus_gpu_kernels(IMAGE <variable> TARGETS <variable>)")
  endif()
  set(${arg_IMAGE} "" PARENT_SCOPE)
  set(${arg_TARGETS} "" PARENT_SCOPE)
  # Sanitized programs run on the emulated driver alone, which looks at no more of an image and has twins of the kernels.
  if(ISTHMUS_SANITIZE)
    set(image ${PROJECT_BINARY_DIR}/generated/kernels.ptx)
    file(WRITE ${image} ".version 8.0\n.target sm_70\n")
    set(${arg_IMAGE} ${image} PARENT_SCOPE)
    set(${arg_TARGETS} compute_70 PARENT_SCOPE)
    return()
  endif()
  if(NOT ISTHMUS_KERNELS)
    message(STATUS "No kernels for GPUs: ISTHMUS_KERNELS is off")
    return()
  endif()
  file(GLOB packaged ${PROJECT_SOURCE_DIR}/build/nvcc/lib/python3*/site-packages/nvidia/*/bin)
  # What was found before may have gone with its Python environment.
  if(ISTHMUS_NVCC AND NOT EXISTS "${ISTHMUS_NVCC}")
    unset(ISTHMUS_NVCC CACHE)
  endif()
  find_program(ISTHMUS_NVCC nvcc HINTS ENV CUDA_HOME PATHS /usr/local/cuda ${packaged} PATH_SUFFIXES bin)
  set(known "")
  if(ISTHMUS_NVCC)
    execute_process(COMMAND ${ISTHMUS_NVCC} --list-gpu-code OUTPUT_VARIABLE known ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  endif()
  if(NOT known)
    set(why "No nvcc")
    if(ISTHMUS_NVCC)
      set(why "${ISTHMUS_NVCC} does not work")
    endif()
    message(STATUS "${why}: the library is built without its kernels for GPUs. ./dev setup installs an nvcc where there is none.")
    return()
  endif()

  # What is compiled for X.0 runs on all X.Y (CUDA C++ programming guide, binary compatibility).
  string(REGEX MATCHALL "sm_[0-9]+" known "${known}")
  set(targets "")
  foreach(target sm_70 sm_75 sm_80 sm_90 sm_100)
    if(target IN_LIST known)
      list(APPEND targets ${target})
    endif()
  endforeach()
  list(GET targets 0 oldest)
  string(REPLACE sm_ compute_ oldest_virtual ${oldest})
  list(APPEND targets ${oldest_virtual})
  set(generate "")
  foreach(target IN LISTS targets)
    string(REPLACE sm_ compute_ virtual ${target})
    list(APPEND generate -gencode arch=${virtual},code=${target})
  endforeach()

  set(image ${PROJECT_BINARY_DIR}/generated/kernels.fatbin)
  # Without --fmad=false products and sums would be rounded in other places than the host's.
  add_custom_command(
    OUTPUT ${image}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/generated
    COMMAND ${ISTHMUS_NVCC} -std=c++17 -O3 --fmad=false -fatbin -Xfatbin -compress-all ${generate} -I${PROJECT_SOURCE_DIR}/src -I${PROJECT_SOURCE_DIR}/include
            -ccbin ${CMAKE_CXX_COMPILER} -allow-unsupported-compiler -MD -MF ${image}.d -o ${image} ${PROJECT_SOURCE_DIR}/src/kernels/kernels.cu
    DEPENDS ${PROJECT_SOURCE_DIR}/src/kernels/kernels.cu
    DEPFILE ${image}.d
    COMMENT "Compiling kernels for ${targets}"
    VERBATIM)
  list(JOIN targets " " words)
  set(${arg_IMAGE} ${image} PARENT_SCOPE)
  set(${arg_TARGETS} ${words} PARENT_SCOPE)
endfunction()
