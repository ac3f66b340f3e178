#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trace/record.hpp"

/// What the ranks of a job have written of themselves (`src/trace`), and what follows from it. Pure
/// functions: nothing here looks at files. Times are nanoseconds of one clock.
namespace isthmus::tool::trace {

inline constexpr std::int64_t unknown_time = -1;
inline constexpr std::size_t nowhere = ~std::size_t{0};

/// A member's part in a collective.
struct Collective {
  isthmus::trace::Collective what{};
  std::uint64_t start = 0;  ///< how often a persistent one had been started before
  std::int64_t begin = 0;
  std::size_t call = nowhere;  ///< in `Rank::calls`: that it is, or that completed it
};

/// A call of an MPI function by one thread.
struct Call {
  std::string name;
  std::uint32_t thread = 0;
  std::int64_t begin = 0, end = 0;
  bool has_ended = false;  ///< else `end` is that of the file
  bool is_outermost = true;
  std::size_t collective = nowhere;  ///< in `Rank::collectives`: the blocking one that it is

  // From `analyse`.
  std::int64_t waits_until = 0;  ///< from `begin` on; at most `begin` where it did not wait
  std::int32_t waits_for = -1;   ///< the process that came late; -1: nobody
  const char* why = nullptr;     ///< in words
  bool moves_data = false;       ///< what is no waiting is copying
};

struct Send {
  std::uint32_t thread = 0;
  std::int64_t begin = 0;
  std::int64_t end = unknown_time;  ///< unknown: it was complete when its call returned, or never
  bool is_at_once = false;
  bool is_cancelled = false;
  std::uint64_t context = 0, bytes = 0;
  std::int32_t to = -1, tag = 0;
};

struct Receive {
  std::uint32_t thread = 0;      ///< that began it
  std::uint32_t end_thread = 0;  ///< that completed it
  std::int64_t begin = 0;
  std::int64_t carried = unknown_time;  ///< from when on its bytes came; unknown: with the envelope
  std::int64_t end = unknown_time;
  bool is_matched = false;
  std::uint64_t context = 0, bytes = 0;
  std::int32_t from = -1, tag = 0;  ///< as wanted until it has matched
  std::uint16_t way = 0xffff;
  std::uint64_t order = 0;  ///< among those of the rank
};

struct Comm {
  std::string name;
  std::uint32_t size = 0;
};

/// One rank's file.
struct Rank {
  std::uint32_t rank = 0, size = 0;
  std::int32_t pid = 0;
  std::string host, boot;
  std::int64_t realtime_ahead = 0;  ///< of the clock of `begin` and `end`
  std::int64_t clock_error = 0;     ///< of the times beside those of the first rank, at most; from `analyse`
  std::uint64_t dropped = 0;
  bool is_cut = false;  ///< it holds something that is no record
  std::vector<Call> calls;
  std::vector<Collective> collectives;
  std::vector<Send> sends;
  std::vector<Receive> receives;
  std::map<std::uint64_t, Comm> comms;
  std::int64_t first = 0, last = 0;
};

struct Message {
  std::size_t from_rank = nowhere, send = nowhere;   ///< in `Job::ranks`, and there
  std::size_t to_rank = nowhere, receive = nowhere;  ///< the same
};

struct Job {
  std::uint32_t size = 0;
  std::vector<Rank> ranks;  ///< those that have written, ascending
  std::vector<Message> messages;
  std::uint32_t kernels = 1;        ///< whose clocks the ranks have
  std::int64_t clock_error = 0;     ///< of those that messages have aligned, at most
  bool is_aligned_roughly = false;  ///< some clocks are aligned by the time of day
};

/// Reads one file, as far as it is whole. Why it is none, in words.
std::expected<Rank, std::string> read(std::span<const std::byte> bytes);
/// Puts the ranks on one clock, pairs sends with receives, and finds out who waited for whom.
std::expected<Job, std::string> analyse(std::vector<Rank> ranks);
/// Chrome's JSON trace event format. `from`, `to`: seconds from the first event on; what lies outside is left
/// out.
std::string to_json(const Job& job, double from, double to);
/// What a person reads in a terminal.
std::string summary(const Job& job);

/// The name that people know a communicator by.
std::string name_of_comm(const Job& job, std::uint64_t context);
std::string name_of_way(std::uint16_t way);
/// Whose work the bytes of a way are: that of copies by GPUs, of couriers on them, or of no GPU.
enum class Carrier : std::uint8_t { processor, gpu, courier };
Carrier carrier_of(std::uint16_t way);
/// Whether a message belongs to a collective, and is the library's own.
bool is_inner(const Job& job, std::uint64_t context);

}  // namespace isthmus::tool::trace
