#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

/// What a rank writes while `isthmus trace` looks on: a file of a header and of records of one size, in the
/// order in which they were written. Files are read on the machine that wrote them, or on one of its make.
namespace isthmus::trace {

inline constexpr std::array<char, 8> magic{'I', 'S', 'T', 'H', 'T', 'R', 'C', '2'};

/// At the beginning of a file. All but `dropped` is written once, before the first record.
struct Header {
  std::array<char, 8> magic;
  std::uint32_t header_bytes;  ///< where the first record lies
  std::uint32_t record_bytes;
  std::uint32_t rank;      ///< in MPI_COMM_WORLD
  std::uint32_t size;      ///< processes of the job
  std::int64_t monotonic;  ///< CLOCK_MONOTONIC in nanoseconds, of the same moment as
  std::int64_t realtime;   ///< CLOCK_REALTIME, in nanoseconds
  std::uint64_t dropped;   ///< records for which there was no room: all after the last one
  std::int32_t pid;        ///< as the rank sees it
  std::uint32_t reserved;
  std::array<char, 40> boot;  ///< names the kernel, whose processes have one clock; ends in zeros
  std::array<char, 64> host;  ///< its name; ends in zeros
};
inline constexpr std::size_t header_bytes = 4096;
static_assert(sizeof(Header) <= header_bytes && std::is_trivially_copyable_v<Header>);

enum class Kind : std::uint32_t {
  none,            ///< not written (yet): the end of the file
  name,            ///< `name` stands for a function: `text`
  comm,            ///< `context` is that of a communicator of `bytes` members: `text`
  call_begin,      ///< of the function `name`
  call_end,        ///< of the innermost call of this thread
  collective,      ///< begins: where it blocks it is the call, else the call has started it
  collective_end,  ///< in this call, of a collective that does not block
  send,            ///< begins: to process `peer`; `number`: its request, 0 where it is complete already
  receive,         ///< begins: its request is `number`; `peer`: the wanted process, or -1
  take,            ///< a matched probe has taken the message `number`
  receive_taken,   ///< as `receive`, of the message `bytes` that `take` has named
  complete,        ///< of request `number`
  carry,  ///< the receive `number` has matched, and takes its bytes, which did not come with the envelope
};
inline constexpr auto last_kind = Kind::carry;

/// Of which members of a collective another needs something before it can go on.
enum class Needs : std::uint8_t {
  all,         ///< each needs all
  root,        ///< all need the root, as in a broadcast
  for_root,    ///< the root needs all, as in a reduction to one
  before,      ///< each needs those of lower rank, as in a scan
  neighbours,  ///< each needs those that it has messages of in the collective
};
enum class Form : std::uint8_t { blocking, nonblocking, persistent };

/// A collective, as its members agree on it. Those of one form are numbered in the order of calls on a
/// communicator; a persistent one has its number again in each start.
struct Collective {
  std::uint64_t number;
  std::uint64_t bytes;
  std::uint64_t context;
  std::int32_t root;    ///< its process; -1: none
  std::int32_t member;  ///< this process's rank in the communicator
  std::int32_t tag;     ///< of its messages; 0 where it blocks
  Needs needs;
  Form form;
};

/// The flags of `Record::flags`.
enum Flag : std::uint32_t {
  is_send = 1,       ///< `complete`: of a send
  is_cancelled = 2,  ///< `complete`
  is_matched =
      4,  ///< `complete`, of a receive: `peer`, `tag`, `bytes`, `context` and `way` are the message's
};

/// `way` where it is not known.
inline constexpr std::uint16_t unknown_way = 0xffff;

/// One thing that happened. Valid once `kind` is not zero: it is stored last, so that a rank that is killed
/// leaves no record in part.
struct Record {
  Kind kind;
  std::uint32_t thread;  ///< its kernel's id
  std::int64_t time;     ///< CLOCK_MONOTONIC in nanoseconds
  union {
    struct {
      std::uint64_t number;
      std::uint64_t bytes;
      std::uint64_t context;
      std::int32_t peer;
      std::int32_t tag;
      std::uint32_t flags;
      std::uint16_t name;
      std::uint16_t way;  ///< a `Protocol`
    } of;
    Collective collective;  ///< with `Kind::collective` and `Kind::collective_end`
    /// With `Kind::name` and `Kind::comm`.
    struct {
      std::uint64_t context;
      std::uint32_t bytes;
      std::uint16_t name;
      std::array<char, 34> text;  ///< ends in a zero
    } is;
  };
};
static_assert(sizeof(Record) == 64 && std::is_trivially_copyable_v<Record>);

}  // namespace isthmus::trace
