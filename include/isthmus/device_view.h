/* What a kernel gets of a device port: plain data, passed by value. <isthmus/device.cuh> has the functions of
   kernels on it, <isthmus/device_runtime.h> what makes it. It includes nothing, so that NVRTC compiles it;
   integers are those of CUDA: `unsigned long long` has 64 bits. Addresses are the GPU's. */
#ifndef ISTHMUS_DEVICE_VIEW_H
#define ISTHMUS_DEVICE_VIEW_H

/* 8-byte elements of a team operation that travel in one round. */
#define ISTHMUS_DEVICE_TEAM_WORDS 256u
/* Counters for kernels whose whole grid puts (ByGrid). */
#define ISTHMUS_DEVICE_GRID_COUNTERS 64u

/* A signal, and a packet of a team operation: 16 bytes that travel as one. */
typedef struct isthmus_device_line {
  unsigned long long value;
  unsigned long long word;
} isthmus_device_line;

/* What a process shares, as kernels of this one reach it. */
typedef struct isthmus_device_span {
  unsigned long long base; /* 0: not mapped */
  unsigned long long bytes;
} isthmus_device_span;

#define ISTHMUS_DEVICE_ATOMICS 1u /* kernels here may add to words there */
#define ISTHMUS_DEVICE_DETOUR \
  2u /* not all that it shares is mapped: signals go by the proxy, behind the bytes */
typedef struct isthmus_device_peer {
  unsigned long long signals; /* lines; 0: not mapped */
  unsigned long long packets; /* lines: [parity][sender][ISTHMUS_DEVICE_TEAM_WORDS] */
  unsigned long long flags;
  unsigned long long reserved;
} isthmus_device_peer;

/* In memory of this GPU; all 0 at first. */
typedef struct isthmus_device_state {
  unsigned long long epoch;   /* rounds of team operations that are over */
  unsigned long long tail;    /* requests for the proxy */
  unsigned long long refused; /* 1: somebody has written why */
  unsigned long long reserved;
  unsigned int counters[ISTHMUS_DEVICE_GRID_COUNTERS];
} isthmus_device_state;

/* Why a kernel's call was refused. */
#define ISTHMUS_DEVICE_BAD_RANK 1u
#define ISTHMUS_DEVICE_BAD_SHARE 2u
#define ISTHMUS_DEVICE_BAD_RANGE 3u
#define ISTHMUS_DEVICE_BAD_SIGNAL 4u
#define ISTHMUS_DEVICE_NO_WAY 5u /* not mapped, and no proxy does that */
#define ISTHMUS_DEVICE_NO_ATOMICS 6u
#define ISTHMUS_DEVICE_BAD_ROLE 7u  /* a role waits for one that may not have begun (<isthmus/fuse.cuh>) */
#define ISTHMUS_DEVICE_BAD_TAG 8u   /* a message is sent with the tag that stands for any */
#define ISTHMUS_DEVICE_TRUNCATED 9u /* a message is longer than the receive, whose room is `offset` */

/* What a kernel wanted. */
#define ISTHMUS_DEVICE_PUT 1u
#define ISTHMUS_DEVICE_GET 2u
#define ISTHMUS_DEVICE_SIGNAL 3u
#define ISTHMUS_DEVICE_WAIT 4u
#define ISTHMUS_DEVICE_TEAM 5u
#define ISTHMUS_DEVICE_ROLE 6u
#define ISTHMUS_DEVICE_SEND 7u
#define ISTHMUS_DEVICE_RECEIVE 8u

/* In pinned memory of the host. A line each for what different sides write. */
typedef struct isthmus_device_control {
  unsigned long long ended; /* by the host: 1: waits are over */
  unsigned long long reserved_1[15];
  unsigned long long done; /* by the host: requests up to this number are over */
  unsigned long long reserved_2[15];
  /* By kernels: the first call that was refused. `why` comes last. */
  unsigned long long why;
  unsigned long long what;
  unsigned long long rank;
  unsigned long long number; /* of the share, signal, role, message or operation */
  unsigned long long offset;
  unsigned long long bytes;
  unsigned long long reserved_3[10];
} isthmus_device_control;

/* A request for the proxy, in pinned memory; number n in slot n % slots, counted from 1. */
typedef struct isthmus_device_request {
  unsigned long long local; /* an address here */
  unsigned long long offset;
  unsigned long long bytes;
  unsigned long long value;
  unsigned long long word;
  int rank;
  unsigned int share;
  unsigned int signal; /* with `signals` */
  unsigned short kind;
  unsigned short signals;    /* ISTHMUS_DEVICE_SET, _ADD or _LINE; 0: none */
  unsigned long long number; /* comes last */
} isthmus_device_request;

/* As a share: what lies behind the packets of a process; `signal` counts lines from there, too. */
#define ISTHMUS_DEVICE_ROOM 0xffffffffu

#define ISTHMUS_DEVICE_SET 1u
#define ISTHMUS_DEVICE_ADD 2u
#define ISTHMUS_DEVICE_LINE 3u /* value and word */

typedef struct isthmus_device_view {
  const isthmus_device_peer* peers;
  const isthmus_device_span* spans; /* [share][rank] */
  isthmus_device_state* state;
  isthmus_device_control* control;
  isthmus_device_request* requests; /* null: there is no proxy */
  unsigned int slots;               /* of `requests` */
  unsigned int signals;             /* of each process */
  unsigned int shares;              /* numbers below have a span, perhaps of 0 bytes */
  int rank;
  int ranks;
  unsigned int is_team; /* 1: all are mapped, so that team operations work */
} isthmus_device_view;

#endif
