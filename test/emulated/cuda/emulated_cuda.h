#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a test may ask of the emulated driver beyond the driver's own functions. All of these are exported by
 * the emulated libcuda.so.1 and found there with dlsym; README.md beside this file lists the environment
 * variables. */

/* How a launch reaches a host twin. Addresses of device memory go through emulated_cuda_view first. */
typedef struct EmulatedLaunch {
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
  int device;        /* ordinal in this process */
  void** parameters; /* as in cuLaunchKernel; copies, made at the launch */
} EmulatedLaunch;

/* Returns 0, or the CUresult that becomes the context's sticky error, e.g. 700. */
typedef int (*EmulatedKernel)(const EmulatedLaunch* launch);

/* A kernel by name with its host twin. `parameter_bytes` ends with a 0. */
typedef struct EmulatedTwin {
  const char* name;
  EmulatedKernel run;
  const size_t* parameter_bytes;
} EmulatedTwin;

/* Makes the twins known; the array ends with a name that is NULL and must live on. An object named in
 * EMULATED_CUDA_TWINS exports such an array as `emulated_twins`. */
void emulated_cuda_register(const EmulatedTwin* twins);

/* Where the copy engine sees the device memory at `address`, NULL if there is none, or if a kernel asks whose
 * device may not reach it. */
void* emulated_cuda_view(unsigned long long address);

/* Sets a fault or a setting as the environment variable EMULATED_CUDA_<NAME> does, from now on. Returns 0, or
 * -1 for one that there is not. */
int emulated_cuda_set(const char* name, const char* value);

/* Calls of the driver's functions so far. */
unsigned long long emulated_cuda_calls(void);

/* How many handles are open; writes what they are into `text`. */
unsigned emulated_cuda_open_handles(char* text, size_t bytes);

#ifdef __cplusplus
}
#endif
