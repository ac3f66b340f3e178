/* What makes the ports that kernels communicate by (<isthmus/device.cuh>), for every language:
   docs/device.md. C++ programs include <isthmus/device.hpp>.

   Errors: 0, or a class of MPI with a sentence by isthmus_device_error; no error handler is called.
   Threading: one thread at a time for a port. A kernel gets the port as an isthmus_device_view, by value. */
#ifndef ISTHMUS_DEVICE_RUNTIME_H
#define ISTHMUS_DEVICE_RUNTIME_H

#include <isthmus/device_view.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct MPI_ABI_Comm;
typedef struct isthmus_device_port isthmus_device_port;

/* The sentence of the last error of this thread; it lasts until the next. */
const char* isthmus_device_error(void);

/* Collective over `comm`, on the GPU whose CUDA context is current. `signals`: of each process, 1 to 65536,
   all 0. `most_shares`: how many shares there may be at a time, 1 to 4096. Fails on all processes where one
   cannot: on none with mpiexec --ranks-per-process (MPI_ERR_UNSUPPORTED_OPERATION). */
int isthmus_device_make(struct MPI_ABI_Comm* comm, uint32_t signals, uint32_t most_shares,
                        isthmus_device_port** port);
/* Collective, when no kernel uses the port any more: meets the others, because their kernels write here, and
   waits for what proxies still carry. Where a process has died, or the port was cancelled, it meets nobody.
   MPI_Finalize ends a port that is left. */
int isthmus_device_free(isthmus_device_port* port);

/* Collective. Memory of each process that kernels of the others put into and get from, under the number that
   `share` gets, the same on all. `address`: memory of a GPU; or pinned, which only proxies reach; null with 0
   bytes: none. It stays the program's and must live until isthmus_device_unshare. */
int isthmus_device_share(isthmus_device_port* port, void* address, size_t bytes, uint32_t* share);
/* Collective, when no kernel uses that share any more. The number may be given again. */
int isthmus_device_unshare(isthmus_device_port* port, uint32_t share);
/* 0 where kernels of this process reach what process `rank` shares by their own loads and stores; else why
   not: then a proxy carries what they put and get. */
int isthmus_device_reach(const isthmus_device_port* port, uint32_t share, int rank);

/* What kernels that are launched from now on get. Fails as isthmus_device_check does. It is good until the
   next share or unshare. */
int isthmus_device_view_of(isthmus_device_port* port, isthmus_device_view* view);

/* 0 while all processes of the port live, nobody has cancelled it here, no call of a kernel was refused, and
   what is shared has not been freed. What a kernel was refused is told once. */
int isthmus_device_check(isthmus_device_port* port);
/* Ends all waits of this process's kernels, now and from now on. */
int isthmus_device_cancel(isthmus_device_port* port);

#ifdef __cplusplus
}
#endif
#endif
