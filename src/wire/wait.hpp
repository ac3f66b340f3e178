#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

/// What a rank that has waited for long says of its wait, in the region of its launcher. The rank writes it
/// alone. Who reads it (mpiexec) needs nothing of the rank, which may hang, and trusts nothing of what stands
/// there.
namespace isthmus::wire {

/// In place of a rank or a tag: any.
inline constexpr std::int32_t wait_any_peer = -1;
inline constexpr std::int32_t wait_any_tag = -2;
/// In place of a number of bytes: not known.
inline constexpr std::uint64_t wait_unknown_bytes = ~std::uint64_t{0};

/// A message that is waited for, or one that has come and that nobody has asked for.
struct WaitItem {
  enum class Kind : std::uint32_t {
    receive = 1,
    send = 2,
    probe = 3,
    unmatched = 4,   ///< has come from `peer`, and matches nothing here
    collective = 5,  ///< one that does not block: what is waited for are its other members
  };
  Kind kind;
  std::int32_t peer;      ///< rank in MPI_COMM_WORLD, or `wait_any_peer`
  std::int32_t tag;       ///< or `wait_any_tag`
  std::uint32_t flags;    ///< `awaited`, `matched`, `inner`
  std::uint64_t context;  ///< of the communicator
  std::uint64_t bytes;    ///< of a receive: room

  static constexpr std::uint32_t awaited = 1;  ///< the call waits for it; else it is merely not complete
  static constexpr std::uint32_t matched = 2;  ///< both sides have met, and its bytes are on their way
  static constexpr std::uint32_t inner = 4;    ///< the library's own: a part of a collective
};

/// A communicator that the report speaks of.
struct WaitComm {
  std::uint64_t context;
  std::uint64_t calls;  ///< blocking collectives that the rank has begun there
  std::uint32_t size;
  std::uint32_t unused;
  std::array<char, 48> name;  ///< zero-terminated, printable; empty: it has none
};

/// Ranks `first`, `first + stride`, ...: `count` of them.
struct WaitRange {
  std::uint32_t first;
  std::uint32_t count;
  std::uint32_t stride;
};

/// What a rank says. As large as it is to be copied by words.
struct WaitReport {
  std::uint64_t waits;  ///< 1: it waits; 0: it has ended the wait that it spoke of last
  std::int64_t began;   ///< nanoseconds of CLOCK_MONOTONIC of the rank's kernel
  std::int64_t told;    ///< the same, of this report
  /// The blocking collective: its communicator, and which of them there (1: the first).
  std::uint64_t collective_context;
  std::uint64_t collective_number;  ///< 0: the call is none
  std::uint64_t collective_bytes;   ///< or `wait_unknown_bytes`
  std::int32_t collective_root;     ///< rank in the communicator, or -1
  std::int32_t root_process;        ///< the same in MPI_COMM_WORLD
  std::uint32_t others;             ///< further threads of the rank that wait in MPI
  std::uint32_t any;                ///< 1: one of the items that are awaited is enough
  std::uint32_t comms, ranges, items;
  std::uint32_t left_out;  ///< items that there was no room for
  /// 1: `range` names all members of the collective's communicator.
  std::uint32_t knows_members;
  std::uint32_t unused;
  std::array<char, 40> call;  ///< "MPI_Recv", zero-terminated; empty: not known
  std::array<WaitComm, 4> comm;
  std::array<WaitRange, 16> range;
  std::array<WaitItem, 24> item;
};
static_assert(sizeof(WaitReport) % sizeof(std::uint64_t) == 0);

/// Where a rank says it. Empty as zeros.
class alignas(64) WaitBoard {
 public:
  /// By its rank alone, one thread at a time.
  void write(const WaitReport& report) noexcept;
  /// The rank waits no more. Costs two stores.
  void clear() noexcept;
  /// A copy that was not changed meanwhile, as it stands there, unchecked; nothing where the rank writes all
  /// the time. Takes microseconds, whatever stands there.
  [[nodiscard]] std::optional<WaitReport> read() const noexcept;

 private:
  static constexpr std::size_t words = sizeof(WaitReport) / sizeof(std::uint64_t);
  std::atomic<std::uint64_t> version_;  ///< odd while it is being written
  std::array<std::atomic<std::uint64_t>, words> words_;
};

/// The report made safe to be used: counts within their arrays, ranks within `world`, texts that end and that
/// a terminal can be shown. What makes no sense is left out, and what is left may still be wrong.
[[nodiscard]] WaitReport checked(const WaitReport& report, std::uint32_t world) noexcept;

}  // namespace isthmus::wire
