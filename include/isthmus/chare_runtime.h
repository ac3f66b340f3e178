/* What <isthmus/chare.hpp> calls in the library: message-driven objects without types. Programs include
   <isthmus/chare.hpp>; other languages may build on this.

   Words: a *chare* is an object of the program that lives in one process of the job and is reached by
   messages. A *collection* is an array of chares, or a group (one a process). An *item* is what the program
   registers: a class, a constructor, an entry, a function, a way to reduce.

   Threading: all functions are called by the thread that called isthmus_chare_open. Errors: none is returned.
   What cannot be done ends the job with a sentence that names the rank, the chare, the entry and the reason.
   No function that the program registers may throw. */

#ifndef ISTHMUS_CHARE_RUNTIME_H
#define ISTHMUS_CHARE_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct isthmus_chare_runtime isthmus_chare_runtime;
/* A chare of this process, from its constructor to its end. Owned by the library. */
typedef struct isthmus_chare_element isthmus_chare_element;

/* Names a chare in its collection. Arrays by number: the coordinates in row-major order, `high` 0. Groups:
   the rank, of node groups the node. By key: whatever the program makes of the key, the same in all
   processes. */
typedef struct isthmus_chare_index {
  uint64_t low;
  uint64_t high;
} isthmus_chare_index;

/* Kinds of items */
#define ISTHMUS_CHARE_TYPE 1u
#define ISTHMUS_CHARE_CONSTRUCTOR 2u
#define ISTHMUS_CHARE_ENTRY 3u
#define ISTHMUS_CHARE_FUNCTION 4u
#define ISTHMUS_CHARE_REDUCER 5u
#define ISTHMUS_CHARE_BALANCER 6u

/* Memory whose content goes apart from the other arguments, as a message of its own: of the host or of a GPU.
   What is sent must not change, and not be freed, before it has been taken over; where `has_sent` is 1,
   `sent` (with no value) says so. `owner` not null: the memory is given away, and `release(owner)` is called
   when it is not needed any more; within a process the receiver gets that memory itself, and its owner. */
typedef struct isthmus_chare_callback isthmus_chare_callback;
typedef struct isthmus_chare_buffer {
  void* address;
  uint64_t bytes;
  void* owner;
  void (*release)(void* owner);
  const isthmus_chare_callback* sent; /* null: nobody asks */
} isthmus_chare_buffer;

typedef struct isthmus_chare_item isthmus_chare_item;
/* What the program registers. It must live until isthmus_chare_close. Functions that its kind does not need
   are null. "Value" below: the object of a TYPE, the arguments of a CONSTRUCTOR, ENTRY or FUNCTION, the
   partial result of a REDUCER. */
struct isthmus_chare_item {
  const char* name;               /* the same in all processes, and no other item's: a mangled name */
  const isthmus_chare_item* type; /* of a CONSTRUCTOR, ENTRY or BALANCER: its class */
  uint32_t kind;
  uint32_t number; /* set by isthmus_chare_open: the same in all processes */
  /* ENTRY, FUNCTION: calls it on `object` (FUNCTION: null). `packed`: `arguments` are `bytes` bytes that
     `write` has written, of this process or of another; else a value, which may be moved from.
     BALANCER: sets `to` of the isthmus_chare_load at `arguments`; `object`: an isthmus_chare_balance. */
  void (*invoke)(void* object, void* arguments, size_t bytes, int packed);
  /* CONSTRUCTOR: a new object from packed arguments. TYPE: from what `write` has written; REDUCER: a value.
   */
  void* (*make)(const void* from, size_t bytes);
  /* REDUCER: a new value, a copy of one. */
  void* (*copy)(const void* value);
  /* REDUCER: combines a value into another. */
  void (*combine)(void* into, const void* value);
  /* How many bytes `write` writes for the value. Null for a TYPE that cannot migrate. */
  size_t (*measure)(const void* value);
  void (*write)(const void* value, void* to);
  /* Ends a value: TYPE, REDUCER: what `make` or `copy` has made, memory included; ENTRY, FUNCTION: in place.
   */
  void (*destroy)(void* value);
  /* ENTRY whose arguments have so many buffers, 1 to ISTHMUS_CHARE_BUFFERS; else 0, and the functions below
     are null. ISTHMUS_CHARE_ANY_BUFFERS: each invocation has as many as it says; one without any is made and
     called as that of an entry without. `measure`, `write` and packed arguments are without them. */
  uint32_t buffers;
  /* Of a value that is not packed: how many buffers it has, and what it sends. The owners are the caller's
     from now on. `sources` null: only how many. */
  uint32_t (*sources)(void* arguments, isthmus_chare_buffer* sources);
  /* The post entry: says where the data is to go. `buffers` come with the sizes of the data, and get
     addresses and the bytes that have room there, and an owner of that memory, if the entry is to have it. */
  void (*post)(void* object, void* arguments, size_t bytes, int packed, isthmus_chare_buffer* buffers,
               uint32_t count);
  /* Calls the entry, as `invoke` does, when the data is where `post` has said, or, of memory that was given
     away within this process, where it was. The owners are the entry's. */
  void (*invoke_with)(void* object, void* arguments, size_t bytes, int packed,
                      const isthmus_chare_buffer* buffers, uint32_t count);
};
#define ISTHMUS_CHARE_BUFFERS 64u
#define ISTHMUS_CHARE_ANY_BUFFERS 0xffffffffu

/* A chare, as a balancer sees it. */
typedef struct isthmus_chare_load {
  isthmus_chare_index index;
  double seconds;    /* its load: 0 or more */
  uint32_t rank;     /* where it is */
  uint32_t to;       /* where it goes: set by the balancer, `rank` before */
  uint32_t is_fixed; /* 1: it cannot move now */
  uint32_t unused;
} isthmus_chare_load;
/* All chares of a collection, in no order. */
typedef struct isthmus_chare_balance {
  isthmus_chare_load* loads;
  size_t count;
  uint32_t processes;
} isthmus_chare_balance;

/* Where an invocation goes. */
#define ISTHMUS_CHARE_TO_ELEMENT 1u  /* `collection`, `index` */
#define ISTHMUS_CHARE_TO_ALL 2u      /* all chares of `collection` */
#define ISTHMUS_CHARE_TO_FUNCTION 3u /* process `rank` */
typedef struct isthmus_chare_target {
  uint64_t collection;
  isthmus_chare_index index;
  uint32_t kind;
  uint32_t rank;
} isthmus_chare_target;

/* An invocation that is made later, with a value that is not there yet. Plain bytes: it may be sent. */
struct isthmus_chare_callback {
  isthmus_chare_target target;
  uint64_t prefix;     /* goes before the value */
  uint32_t has_prefix; /* 0 or 1 */
  uint32_t item;       /* number of an ENTRY or FUNCTION */
};

#define ISTHMUS_CHARE_GROUP 1u      /* one chare a process */
#define ISTHMUS_CHARE_DENSE 2u      /* one for each number below `count`: all are made at once */
#define ISTHMUS_CHARE_SPARSE 3u     /* those that are inserted */
#define ISTHMUS_CHARE_NODE_GROUP 4u /* one a node; `count`: isthmus_chare_nodes */
typedef struct isthmus_chare_shape {
  uint64_t count;
  uint32_t kind;
  uint32_t dimensions; /* of a DENSE one for messages to people: 1 to 3; 0: a key */
  uint64_t extent[3];
} isthmus_chare_shape;

/* Where nobody says who: the home of the index. */
#define ISTHMUS_CHARE_HOME 0xffffffffu

/* Collective over MPI_COMM_WORLD. Starts MPI if the program has not. Numbers the items, which must have the
   same names in all processes: another name, or one name twice, ends the job and is named. One at a time. */
isthmus_chare_runtime* isthmus_chare_open(isthmus_chare_item* const* items, size_t count);
/* Works until isthmus_chare_exit. `start` is called first, on process 0 alone. Returns the exit code. */
int isthmus_chare_run(isthmus_chare_runtime* runtime, void (*start)(void*), void* context);

/* What isthmus_chare_run consists of, for a program with a loop of its own (asyncio, a user interface). Its
   process 0 begins by itself; all of them work until ENDED, and finish. */
#define ISTHMUS_CHARE_MORE 0  /* there is more to do */
#define ISTHMUS_CHARE_IDLE 1  /* nothing is to be done before a message comes */
#define ISTHMUS_CHARE_ENDED 2 /* somebody has called isthmus_chare_exit */
/* Calls up to `turns` entries, and looks for messages. `is_idle`: 1 if nothing of the program's own is ready
   that may invoke something; quiescence waits for that. Never waits. */
int isthmus_chare_work(isthmus_chare_runtime* runtime, uint32_t turns, int is_idle);
/* Waits until a message has come that isthmus_chare_work can do something with, or one of `count` MPI
   requests is complete (it stays as it is; null ones do not count), or `microseconds` are over. Where ranks
   share cores it sleeps, and may be 20 ms late for the time. Other threads may call MPI meanwhile, if MPI was
   started for several. */
struct MPI_ABI_Request;
void isthmus_chare_wait(isthmus_chare_runtime* runtime, uint64_t microseconds,
                        struct MPI_ABI_Request* const* requests, int count);
/* Whether processes that wait sleep, because they share cores. */
int isthmus_chare_sleeps(const isthmus_chare_runtime* runtime);
/* Collective, after ENDED: waits for what the others have sent. Returns the exit code. */
int isthmus_chare_finish(isthmus_chare_runtime* runtime);
/* The same from the checkpoint at `path`, of any number of processes and of the same program; instead of a
   start, what the checkpoint says is invoked when all chares are there. A file that is no such checkpoint, or
   is damaged, ends the job. All processes must see the same files. */
int isthmus_chare_restart(isthmus_chare_runtime* runtime, const char* path);
/* Writes all chares to files at and beside `path` when no invocation is under way or waits anywhere.
   `written` gets a text (8 bytes of its length, and that many): empty, or why there is no checkpoint; then
   what was at `path` before is as it was. `restarted` is invoked after a restart; not with a prefix. */
void isthmus_chare_checkpoint(isthmus_chare_runtime* runtime, const char* path,
                              const isthmus_chare_callback* written, const isthmus_chare_callback* restarted);
/* The same in memory: each process keeps what its chares write, and a copy of what another's have written.
   `written`: when all copies are there; with a text if there is no checkpoint, and then the older one holds.
   From then on a process may die, where the launcher lets the others live: they agree on who they are, forget
   all that has been since the last checkpoint, chares and invocations, and make the chares anew from it.
   Ranks are those of the processes that live then, in their order. `restarted` is invoked when all chares are
   there, and again after each death; a FUNCTION in the process that it has named, or in 0 if that is no more.
   What is needed of a process that has died with its buddy ends the job, and so does a death before the first
   checkpoint. */
void isthmus_chare_checkpoint_in_memory(isthmus_chare_runtime* runtime, const isthmus_chare_callback* written,
                                        const isthmus_chare_callback* restarted);
/* `forget` is called when this process goes back to a checkpoint, before the chares end: for what waits in
   the program. */
void isthmus_chare_when_going_back(isthmus_chare_runtime* runtime, void (*forget)(void));
/* How often this process has gone back to a checkpoint in memory. */
uint32_t isthmus_chare_rollbacks(const isthmus_chare_runtime* runtime);
/* Collective. Destroys all chares. Ends MPI if isthmus_chare_open has started it. */
void isthmus_chare_close(isthmus_chare_runtime* runtime);

uint32_t isthmus_chare_rank(const isthmus_chare_runtime* runtime);
/* How many processes have chares: those of the lowest ranks. All, if nobody has said otherwise. */
uint32_t isthmus_chare_size(const isthmus_chare_runtime* runtime);
/* How many there are. */
uint32_t isthmus_chare_processes(const isthmus_chare_runtime* runtime);
/* A node is the processes with chares that share memory: those of a host, as a rule. Nodes are numbered in
   the order of their lowest ranks; the process of the lowest rank has the node's chares. */
uint32_t isthmus_chare_nodes(const isthmus_chare_runtime* runtime);
/* Of process `rank`, which has chares. */
uint32_t isthmus_chare_node_of(const isthmus_chare_runtime* runtime, uint32_t rank);
/* Collective, before isthmus_chare_run or isthmus_chare_restart: chares begin in so many processes; the
   others wait for isthmus_chare_resize. All name the same number, or the job ends. */
void isthmus_chare_begin_in(isthmus_chare_runtime* runtime, uint32_t processes);
/* Chares are in so many processes from now on, when no invocation is under way or waits anywhere: those of
   processes that leave move to others, and some of the others to processes that come. Of a group, a new
   process gets a copy of the chare of its rank modulo the number of before, and those of processes that leave
   end. `done` gets a text when all are there: empty, or why nothing has changed (a suspended coroutine of a
   chare, a reduction under way, a class without `write`, another checkpoint or change). */
void isthmus_chare_resize(isthmus_chare_runtime* runtime, uint32_t processes,
                          const isthmus_chare_callback* done);
/* All processes leave isthmus_chare_run after the entry that they are in, with `code`. What is still under
   way is dropped. */
void isthmus_chare_exit(isthmus_chare_runtime* runtime, int code);
/* Ends the job with `reason`, beside the chare and the entry that are at work. `entry`: the name of the item
   whose coroutine is at work; null: the one that is called. Does not return. */
void isthmus_chare_fail(isthmus_chare_runtime* runtime, const char* reason, const char* entry);

/* The chare that is being made or called; null in a function. */
isthmus_chare_element* isthmus_chare_self(const isthmus_chare_runtime* runtime);
/* The CONSTRUCTOR, or the TYPE of a chare that has moved here, that makes a chare now; null outside. */
const isthmus_chare_item* isthmus_chare_making(const isthmus_chare_runtime* runtime);
/* The item that is being called; null outside. */
const isthmus_chare_item* isthmus_chare_current(const isthmus_chare_runtime* runtime);
isthmus_chare_index isthmus_chare_index_of(const isthmus_chare_element* element);
uint64_t isthmus_chare_collection_of(const isthmus_chare_element* element);
void isthmus_chare_shape_of(const isthmus_chare_element* element, isthmus_chare_shape* shape);
/* What its constructor has made; null while that is at work. */
void* isthmus_chare_object_of(const isthmus_chare_element* element);

/* The chare, where it lives in this process; else null. */
isthmus_chare_element* isthmus_chare_find(isthmus_chare_runtime* runtime, uint64_t collection,
                                          isthmus_chare_index index);
/* Memory for the arguments of one invocation in this process, aligned to 16 bytes. */
void* isthmus_chare_take(isthmus_chare_runtime* runtime, size_t bytes);
/* Invokes `item` on `element` with the value in memory of isthmus_chare_take, which the library ends and
   takes back. `element` null: a FUNCTION. Smaller priorities go first; 0 is the usual one, in order of
   coming. */
void isthmus_chare_post(isthmus_chare_runtime* runtime, isthmus_chare_element* element,
                        const isthmus_chare_item* item, void* arguments, int32_t priority);
/* The same for any target: returns where `bytes` packed bytes are to be written before isthmus_chare_send. */
void* isthmus_chare_begin(isthmus_chare_runtime* runtime, const isthmus_chare_target* target,
                          const isthmus_chare_item* item, size_t bytes, int32_t priority);
void isthmus_chare_send(isthmus_chare_runtime* runtime);
/* The same of an ENTRY with buffers, for one chare: their content is sent apart, by isthmus_chare_send.
   `buffers`: `count` of them, as many as the item has. Their owners are the library's from now on. */
void* isthmus_chare_begin_with(isthmus_chare_runtime* runtime, const isthmus_chare_target* target,
                               const isthmus_chare_item* item, size_t bytes, int32_t priority,
                               const isthmus_chare_buffer* buffers, uint32_t count);
/* Copies between memory of the host or of GPUs, whichever, and waits. */
void isthmus_chare_copy(isthmus_chare_runtime* runtime, void* to, const void* from, size_t bytes);

/* Mailboxes: memory that is named before anything is sent, so that data need not wait for a message that says
   where it goes. One lives in the process that has opened it. Its number there, beside the process's rank,
   names it for all: rank << 32 | number. Quiescence does not see what is under way to a mailbox. */
uint64_t isthmus_chare_mailbox_open(isthmus_chare_runtime* runtime);
/* What is posted there is taken back; the memory is not touched any more. `runtime` null: it has been closed.
 */
void isthmus_chare_mailbox_close(isthmus_chare_runtime* runtime, uint64_t mailbox);
/* The next data that comes goes to `address`, in items of `item_bytes`; those posted are used in their order.
   `came` is invoked with their number as 8 bytes. Data that does not fit ends the job. */
void isthmus_chare_mailbox_post(isthmus_chare_runtime* runtime, uint64_t mailbox, void* address,
                                uint64_t bytes, uint32_t item_bytes, const isthmus_chare_callback* came);
/* Of one sender, in order. */
void isthmus_chare_mailbox_send(isthmus_chare_runtime* runtime, uint64_t mailbox,
                                const isthmus_chare_buffer* buffer);
/* In an ENTRY or FUNCTION that is called with packed arguments: their memory is the program's from now on, so
   that long ones need no copy. It ends with isthmus_chare_release. Null where that is not possible: for
   arguments of a broadcast, which are for several chares, and short ones, whose memory is soon used again. */
void* isthmus_chare_keep(isthmus_chare_runtime* runtime);
/* `runtime` null: it has been closed since. By the thread that works, or while it waits. */
void isthmus_chare_release(isthmus_chare_runtime* runtime, void* kept);
/* Sends what waits to be sent together with more. Needed only by an entry that goes on for long. */
void isthmus_chare_flush(isthmus_chare_runtime* runtime);

/* A new collection, known to all processes; its chares are made by `constructor` of packed arguments. Those
   of this process are made at once. Null constructor: a SPARSE one. */
uint64_t isthmus_chare_create(isthmus_chare_runtime* runtime, const isthmus_chare_shape* shape,
                              const isthmus_chare_item* type, const isthmus_chare_item* constructor,
                              const void* arguments, size_t bytes);
/* A new chare in a SPARSE collection, in process `rank` or ISTHMUS_CHARE_HOME. */
void isthmus_chare_insert(isthmus_chare_runtime* runtime, uint64_t collection, isthmus_chare_index index,
                          uint32_t rank, const isthmus_chare_item* constructor, const void* arguments,
                          size_t bytes);
/* No more chares will be inserted by anybody: those that are there are counted, for reductions. */
void isthmus_chare_done_inserting(isthmus_chare_runtime* runtime, uint64_t collection);
/* Ends a chare of this process after the entry that it is in. */
void isthmus_chare_destroy(isthmus_chare_runtime* runtime, isthmus_chare_element* element);
/* Moves a chare of this process to process `rank`, after the entry that it is in. It is written, and made
   anew there; none of its coroutines may be suspended. Not of a group. */
void isthmus_chare_migrate(isthmus_chare_runtime* runtime, isthmus_chare_element* element, uint32_t rank);
/* The chare has come to where it may be moved. When all of its collection have, `balancer` places them in the
   process that has made the collection, and `next`, an ENTRY without arguments, is invoked on each where it
   is then. Meanwhile the chare takes invocations, but neither moves by itself nor ends. Its load is the time
   spent in its entries since the last time, if it has not been set. Not of a group. */
void isthmus_chare_at_sync(isthmus_chare_runtime* runtime, isthmus_chare_element* element,
                           const isthmus_chare_item* next, const isthmus_chare_item* balancer);
/* Moves chares of the collection now, wherever they are at; those with a suspended coroutine, and those at
   isthmus_chare_at_sync, stay. `callback`: when all that move have arrived. One at a time for a collection.
 */
void isthmus_chare_balance_now(isthmus_chare_runtime* runtime, uint64_t collection,
                               const isthmus_chare_item* balancer, const isthmus_chare_callback* callback);
/* The chare's load is this many seconds from now on, not what is measured. Not less than 0. */
void isthmus_chare_set_load(isthmus_chare_runtime* runtime, isthmus_chare_element* element, double seconds);
/* What a balancer may do: the heaviest first, to where the least is. */
void isthmus_chare_place_greedily(isthmus_chare_balance* balance);
/* The same with few moves: from processes with more than 1.02 of the mean to those with the least. */
void isthmus_chare_refine(isthmus_chare_balance* balance);
/* A coroutine of the chare is suspended (+1), or not any more (-1): meanwhile it neither moves nor ends. */
void isthmus_chare_hold(isthmus_chare_runtime* runtime, isthmus_chare_element* element, int change);

/* Calls `step` as if an entry of the chare did: what goes on with a coroutine. Null: of no chare. */
void isthmus_chare_resume(isthmus_chare_runtime* runtime, isthmus_chare_element* element, void (*step)(void*),
                          void* context);

/* The chare's part in the next reduction of its collection. When all have given theirs, `callback` gets the
   result. All give the same reducer and callback. `value` stays the caller's. */
void isthmus_chare_contribute(isthmus_chare_runtime* runtime, isthmus_chare_element* element,
                              const isthmus_chare_item* reducer, const void* value,
                              const isthmus_chare_callback* callback);
/* Makes the invocation now, with packed bytes of a value. */
void isthmus_chare_call(isthmus_chare_runtime* runtime, const isthmus_chare_callback* callback,
                        const void* value, size_t bytes);
/* Calls `callback` once when no invocation is under way or waits in any process. */
void isthmus_chare_quiescence(isthmus_chare_runtime* runtime, const isthmus_chare_callback* callback);

#ifdef __cplusplus
}
#endif

#endif
