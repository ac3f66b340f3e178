/* What <isthmus/stream.hpp> calls in the library: the prepared API without types. C++ programs include
   <isthmus/stream.hpp>; other languages may build on this.

   Words: a *port* is a communicator's processes and their GPUs, with some *words* of 32 bits in each process
   that streams and processors write and wait for. A *share* is memory of each process that the others put
   into and get from. A *descriptor* is a prepared put or get.

   Errors: 0, or a class of MPI (MPI_ERR_ARG, MPIX_ERR_PROC_FAILED and so on) with a sentence by
   isthmus_stream_error; no error handler is called. Threading: one thread at a time for a port and what
   belongs to it. `stream`: a cudaStream_t of the port's GPU, no default stream. */
#ifndef ISTHMUS_STREAM_RUNTIME_H
#define ISTHMUS_STREAM_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;
struct MPI_ABI_Comm;
typedef struct isthmus_stream_port isthmus_stream_port;
typedef struct isthmus_stream_share isthmus_stream_share;
typedef struct isthmus_stream_descriptor isthmus_stream_descriptor;

/* The sentence of the last error of this thread; it lasts until the next. */
const char* isthmus_stream_error(void);

/* Collective over `comm`, on the GPU whose CUDA context is current. `words`: of each process, 1 to 65536, all
   0. Fails on all processes where one cannot, as none can with mpiexec --ranks-per-process. */
int isthmus_stream_port_make(struct MPI_ABI_Comm* comm, uint32_t words, isthmus_stream_port** port);
/* The same of a port whose words streams alone set and wait for: calls on words with `stream` null are
   refused. Where the GPUs are one for each process, reach each other and have kernels, the words lie in their
   memory, and a wait is a kernel of one warp: 8 bytes of a put arrive in half the time. */
int isthmus_stream_port_make_for_streams(struct MPI_ABI_Comm* comm, uint32_t words,
                                         isthmus_stream_port** port);
/* Not collective. The shares must be freed before, the streams must have passed what is on them, and no graph
   with something of the port may be launched any more. A proxy goes on in the background until all processes
   have freed the port. MPI_Finalize cancels a port that is left. */
int isthmus_stream_port_free(isthmus_stream_port* port);
/* 0 while all processes of the port live, no proxy has failed, and nobody has cancelled it here. */
int isthmus_stream_port_check(isthmus_stream_port* port);
/* Lets all streams go on that wait for words here, now and from now on. Nothing more can be posted; what
   others have put comes still. */
int isthmus_stream_port_cancel(isthmus_stream_port* port);

/* Collective over the port. `address`: memory of a GPU, or pinned; null with 0 bytes: none. The memory stays
   the program's, and must live until isthmus_stream_share_free. */
int isthmus_stream_share_make(isthmus_stream_port* port, void* address, size_t bytes,
                              isthmus_stream_share** share);
/* Not collective. Refused while there are descriptors of it. What a proxy brings later is dropped. */
int isthmus_stream_share_free(isthmus_stream_share* share);
/* 0 where a stream of this process reaches what process `rank` shares; else why not: then a proxy carries
   what is put there and got from there. */
int isthmus_stream_share_reach(const isthmus_stream_share* share, int rank);

#define ISTHMUS_STREAM_PUT 1u
#define ISTHMUS_STREAM_GET 2u
/* Offsets and lengths in bytes. */
typedef struct isthmus_stream_transfer {
  uint32_t kind;
  int32_t rank; /* whose memory is put into, or got from */
  const isthmus_stream_share* local;
  const isthmus_stream_share* remote;
  size_t local_offset;
  size_t remote_offset;
  size_t bytes; /* 0: the notification alone */
  uint32_t notifies;
  uint32_t word; /* of process `rank`: gets `value` when the bytes are there, or have been read */
  uint32_t value;
} isthmus_stream_transfer;
int isthmus_stream_prepare(const isthmus_stream_transfer* transfer, isthmus_stream_descriptor** descriptor);
/* Posts in the order of `stream`; null: now. As a batch: no copy waits for another's notification, and all
   notifications of a process come behind all copies to it. */
int isthmus_stream_post(isthmus_stream_descriptor* const* descriptors, size_t count,
                        struct CUstream_st* stream);
/* The processor waits until the last post is over: the memory on this side is free. Not after a capture. */
int isthmus_stream_finish(isthmus_stream_descriptor* descriptor);
/* Refused while a post is not over. */
int isthmus_stream_descriptor_free(isthmus_stream_descriptor* descriptor);

/* Sets a word of any process, in the order of `stream`; null: now. */
int isthmus_stream_set(isthmus_stream_port* port, int rank, uint32_t word, uint32_t value,
                       struct CUstream_st* stream);
#define ISTHMUS_STREAM_EQUAL 1u
#define ISTHMUS_STREAM_AT_LEAST 2u /* (int32_t)(word - value) >= 0 */
#define ISTHMUS_STREAM_ANY_BIT 3u  /* (word & value) != 0 */
/* `stream` waits for a word of this process, and kernels behind see what was put before its notification;
   null: the processor waits. `resets`: 1: the word is 0 from then on, for the next. */
int isthmus_stream_wait(isthmus_stream_port* port, uint32_t word, uint32_t condition, uint32_t value,
                        uint32_t resets, struct CUstream_st* stream);
/* The same for several words, all of which are to fulfil the condition. `words` is read during the call. */
int isthmus_stream_wait_all(isthmus_stream_port* port, const uint32_t* words, size_t count,
                            uint32_t condition, uint32_t value, uint32_t resets, struct CUstream_st* stream);

#ifdef __cplusplus
}
#endif
#endif
