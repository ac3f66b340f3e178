/* Extensions of MPI that programs written for Open MPI or MPICH look for: may buffers lie in GPU memory? */

#ifndef ISTHMUS_MPI_EXT_H
#define ISTHMUS_MPI_EXT_H

#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What Isthmus was built with, for programs that decide when they are compiled: 1 if buffers in CUDA memory
   may be passed, 0 if not. As a program may run on another library than the one it was compiled against,
   those that can wait ask MPIX_Query_cuda_support. */
#define MPIX_CUDA_AWARE_SUPPORT 1

/* 1 if buffers in CUDA memory may be passed here and now, 0 if not: whether there is a CUDA driver, of
   release 12.2 or later. May be called at any time. Loads the driver and does not initialise it. */
int MPIX_Query_cuda_support(void);

/* Kinds of GPU for MPIX_GPU_query_support, with the values that MPICH gave them */
#define MPIX_GPU_SUPPORT_CUDA 0
#define MPIX_GPU_SUPPORT_ZE 1
#define MPIX_GPU_SUPPORT_HIP 2

/* Sets `is_supported` to 1 if buffers in the memory of that kind of GPU may be passed here and now, to 0 if
   not. May be called at any time. An unknown kind is MPI_ERR_ARG. */
int MPIX_GPU_query_support(int gpu_type, int* is_supported);

int PMPIX_Query_cuda_support(void);
int PMPIX_GPU_query_support(int gpu_type, int* is_supported);

#ifdef __cplusplus
}
#endif

#endif
