/* Extensions of MPI that programs written for Open MPI or MPICH look for: may buffers lie in GPU memory, how
   does a program go on when processes of it have died, and what goes in the order of a CUDA stream? */

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

/* --- User-level failure mitigation (ULFM): a program goes on when processes of it have died.

   With an error handler that returns, a call that needs a process that is no more gives MPIX_ERR_PROC_FAILED,
   which is MPI_ERR_PROC_ABORTED; calls that do not need it go on. Under mpiexec: `--on-failure continue`. */

/* 1: all of the functions below are here. */
#define MPIX_HAVE_ULFM 1

#define MPIX_ERR_PROC_FAILED MPI_ERR_PROC_ABORTED
/* A receive from MPI_ANY_SOURCE may have lost its sender. It is not over: MPIX_Comm_ack_failed, then wait
 * again. */
#define MPIX_ERR_PROC_FAILED_PENDING 0x3ff0
#define MPIX_ERR_REVOKED 0x3ff1

/* Ends everything that is done on `comm`, at all its members, in MPIX_ERR_REVOKED. Local; not to be undone.
 */
int MPIX_Comm_revoke(MPI_Comm comm);
int MPIX_Comm_is_revoked(MPI_Comm comm, int* flag);
/* A communicator of those members who live. Collective among them, also on a revoked `comm`. */
int MPIX_Comm_shrink(MPI_Comm comm, MPI_Comm* newcomm);
int MPIX_Comm_ishrink(MPI_Comm comm, MPI_Comm* newcomm, MPI_Request* request);
/* `flag` becomes the bitwise and of what the members pass, the same on all who live. MPIX_ERR_PROC_FAILED on
   all of them, with that value, if a member has died that not all of them have acknowledged. Also on a
   revoked `comm`. Of an intercommunicator, the members of both groups. */
int MPIX_Comm_agree(MPI_Comm comm, int* flag);
int MPIX_Comm_iagree(MPI_Comm comm, int* flag, MPI_Request* request);
/* Members that this process knows to be dead. Local. */
int MPIX_Comm_get_failed(MPI_Comm comm, MPI_Group* failed);
/* Acknowledges the first `num_to_ack` of them, in the order of MPIX_Comm_get_failed; `num_acked`: how many
 * are. */
int MPIX_Comm_ack_failed(MPI_Comm comm, int num_to_ack, int* num_acked);
/* The older forms: acknowledges all that are known; those that are acknowledged. */
int MPIX_Comm_failure_ack(MPI_Comm comm);
int MPIX_Comm_failure_get_acked(MPI_Comm comm, MPI_Group* failed);

int PMPIX_Comm_revoke(MPI_Comm comm);
int PMPIX_Comm_is_revoked(MPI_Comm comm, int* flag);
int PMPIX_Comm_shrink(MPI_Comm comm, MPI_Comm* newcomm);
int PMPIX_Comm_ishrink(MPI_Comm comm, MPI_Comm* newcomm, MPI_Request* request);
int PMPIX_Comm_agree(MPI_Comm comm, int* flag);
int PMPIX_Comm_iagree(MPI_Comm comm, int* flag, MPI_Request* request);
int PMPIX_Comm_get_failed(MPI_Comm comm, MPI_Group* failed);
int PMPIX_Comm_ack_failed(MPI_Comm comm, int num_to_ack, int* num_acked);
int PMPIX_Comm_failure_ack(MPI_Comm comm);
int PMPIX_Comm_failure_get_acked(MPI_Comm comm, MPI_Group* failed);

/* --- Ranks that share a process (mpiexec --ranks-per-process; docs/virtual-ranks.md).

   The *workers* of a process are the threads that give its ranks their turns: one, or as many as
   `mpiexec --workers-per-process` says. A rank has its turns with one of them, and may move. Everything that
   it has goes along: it stays in its process. Elsewhere a rank is the only one of its process, whose only
   worker is 0. */

/* 1: all of the functions below are here but MPIX_Migrate_all; 2: that too. */
#define MPIX_HAVE_WORKERS 2

/* With which worker the calling rank has its turns, and how many workers its process has. Local. */
int MPIX_Get_worker(int* worker, int* workers);
/* The rank goes on with `worker`, one of its process's: 0 or more, and less than there are. Returns there,
   when that worker gives it a turn. Local, and allowed at any time: requests, messages under way and open
   files do not mind. MPI_ERR_ARG where there is no such worker. MPI_ERR_OTHER in a process that has several,
   as long as one of its ranks has not opened MPI yet (after MPI_Session_init alone). */
int MPIX_Migrate(int worker);
/* Deals the ranks of each process to its workers anew, by how long their turns have been since the last call,
   or since MPI_Init: the longest first, each to the worker with the least so far. Turns count by processor
   time: neither what has interrupted them counts, nor waiting. A rank that asks again and again (MPI_Test)
   works. No rank moves where that would save less than a fiftieth of the time, and none to another host where
   it would save less than a tenth. Collective over MPI_COMM_WORLD, and synchronizing. */
int MPIX_Load_balance(void);
/* With `mpiexec --migratable`, workers are those of all processes of the job, and ranks may go on in other
   processes, with their globals, stack, heap, thread-local storage, requests and communicators. Each rank
   says with which worker it goes on. MPI_ERR_ARG where there is no such worker, MPI_ERR_OTHER where something
   keeps the rank in its process (MPI_Error_string says what): it stays where it is, and the others move.
   Collective over MPI_COMM_WORLD, and synchronizing. MPIX_Migrate does not leave the process. */
int MPIX_Migrate_all(int worker);

int PMPIX_Get_worker(int* worker, int* workers);
int PMPIX_Migrate(int worker);
int PMPIX_Load_balance(void);
int PMPIX_Migrate_all(int worker);

/* --- Operations in the order of a CUDA stream, as MPICH has them (docs/streams.md).

   A communicator with a stream: what is enqueued on it begins when the stream gets there, and the stream goes
   on when it has ended, without the program's processor. The functions return at once, whether or not the
   other processes have called theirs. Matching is MPI's, in the order of the stream. Buffers in any memory,
   which belong to the operation until the stream has passed its end. What is enqueued while the stream is in
   capture is done at each launch of the graph, until the stream is freed. All of it at any thread level. */

/* 1: all of the functions below are here. */
#define MPIX_HAVE_STREAM 1

typedef struct MPIX_ABI_Stream* MPIX_Stream;
#define MPIX_STREAM_NULL ((MPIX_Stream)0)

/* Sets `key` to `value_size` bytes, two hexadecimal digits each. */
int MPIX_Info_set_hex(MPI_Info info, const char* key, const void* value, int value_size);
/* A stream of the program's: `type` of `info` is "cudaStream_t" and `value` its bytes, by MPIX_Info_set_hex.
   No default stream; none with mpiexec --ranks-per-process. Local. It must live until MPIX_Stream_free. */
int MPIX_Stream_create(MPI_Info info, MPIX_Stream* stream);
/* An error while communicators have it or operations on it are not over. */
int MPIX_Stream_free(MPIX_Stream* stream);
/* Tells of an operation on `stream` that has failed and that the program has not been told of yet, and does
   nothing else: operations go on without being asked. */
int MPIX_Stream_progress(MPIX_Stream stream);
/* A duplicate of the intracommunicator `comm`, without attributes, with `stream`, or without one where that
   is MPIX_STREAM_NULL. Collective. */
int MPIX_Stream_comm_create(MPI_Comm comm, MPIX_Stream stream, MPI_Comm* newcomm);
/* `index` 0; MPIX_STREAM_NULL where it has none. */
int MPIX_Comm_get_stream(MPI_Comm comm, int index, MPIX_Stream* stream);

/* A first part: on GPUs, messages of GPU memory without gaps have been seen to be right; what became of the
   rest is told in docs/streams.md. */
/* An operation that has failed lets the stream go on. The next of these functions on its communicator returns
   the error by the communicator's error handler, and enqueues nothing. `status` is set when the operation has
   ended, at each launch of a graph. */
int MPIX_Send_enqueue(const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm);
int MPIX_Recv_enqueue(void* buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
                      MPI_Status* status);
/* `request` is for the next two functions alone. In a capture, its wait belongs into the same capture. */
int MPIX_Isend_enqueue(const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
                       MPI_Request* request);
int MPIX_Irecv_enqueue(void* buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
                       MPI_Request* request);
/* The stream waits; the program does not. All requests of one stream. */
int MPIX_Wait_enqueue(MPI_Request* request, MPI_Status* status);
int MPIX_Waitall_enqueue(int count, MPI_Request array_of_requests[], MPI_Status array_of_statuses[]);

int MPIX_Barrier_enqueue(MPI_Comm comm);
int MPIX_Bcast_enqueue(void* buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm);
int MPIX_Allgather_enqueue(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf,
                           int recvcount, MPI_Datatype recvtype, MPI_Comm comm);
int MPIX_Alltoall_enqueue(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf,
                          int recvcount, MPI_Datatype recvtype, MPI_Comm comm);
int MPIX_Allreduce_enqueue(const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
                           MPI_Comm comm);
int MPIX_Reduce_scatter_enqueue(const void* sendbuf, void* recvbuf, const int recvcounts[],
                                MPI_Datatype datatype, MPI_Op op, MPI_Comm comm);
int MPIX_Reduce_scatter_block_enqueue(const void* sendbuf, void* recvbuf, int recvcount,
                                      MPI_Datatype datatype, MPI_Op op, MPI_Comm comm);

int PMPIX_Query_cuda_support(void);
int PMPIX_GPU_query_support(int gpu_type, int* is_supported);

int PMPIX_Info_set_hex(MPI_Info info, const char* key, const void* value, int value_size);
int PMPIX_Stream_create(MPI_Info info, MPIX_Stream* stream);
int PMPIX_Stream_free(MPIX_Stream* stream);
int PMPIX_Stream_progress(MPIX_Stream stream);
int PMPIX_Stream_comm_create(MPI_Comm comm, MPIX_Stream stream, MPI_Comm* newcomm);
int PMPIX_Comm_get_stream(MPI_Comm comm, int index, MPIX_Stream* stream);
int PMPIX_Send_enqueue(const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm);
int PMPIX_Recv_enqueue(void* buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
                       MPI_Status* status);
int PMPIX_Isend_enqueue(const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
                        MPI_Request* request);
int PMPIX_Irecv_enqueue(void* buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
                        MPI_Request* request);
int PMPIX_Wait_enqueue(MPI_Request* request, MPI_Status* status);
int PMPIX_Waitall_enqueue(int count, MPI_Request array_of_requests[], MPI_Status array_of_statuses[]);
int PMPIX_Barrier_enqueue(MPI_Comm comm);
int PMPIX_Bcast_enqueue(void* buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm);
int PMPIX_Allgather_enqueue(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf,
                            int recvcount, MPI_Datatype recvtype, MPI_Comm comm);
int PMPIX_Alltoall_enqueue(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf,
                           int recvcount, MPI_Datatype recvtype, MPI_Comm comm);
int PMPIX_Allreduce_enqueue(const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
                            MPI_Comm comm);
int PMPIX_Reduce_scatter_enqueue(const void* sendbuf, void* recvbuf, const int recvcounts[],
                                 MPI_Datatype datatype, MPI_Op op, MPI_Comm comm);
int PMPIX_Reduce_scatter_block_enqueue(const void* sendbuf, void* recvbuf, int recvcount,
                                       MPI_Datatype datatype, MPI_Op op, MPI_Comm comm);

#ifdef __cplusplus
}
#endif

#endif
