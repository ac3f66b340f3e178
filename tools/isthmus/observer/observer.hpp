#pragma once

#include <dlfcn.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

/// One process of a job as `isthmus model` sees it: a library that is loaded before all others (LD_PRELOAD)
/// and stands before calls of MPI (as every tool with the profiling interface) and of the CUDA driver (whose
/// functions programs ask dlsym and cuGetProcAddress for). Two runs: `host` times calls; `kernels` has each
/// kernel start behind a closed gate, alone, and takes the time that the GPU has with it, which costs the
/// host much.
///
/// Observed is what lies between MPI_Pcontrol(1) and MPI_Pcontrol(0), all such passages together. In a
/// program that calls neither: from its first message on to the last call.
namespace isthmus::observer {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// What a call does.
enum class Kind { launch, gpu_wait, send, wait, collective };
inline constexpr std::size_t kind_count = 5;

struct Sum {
  std::uint64_t count = 0;
  double seconds = 0;
};

/// What a process has sent to one other and got from it between two waits; in MPI_COMM_WORLD.
struct Traffic {
  std::uint64_t out = 0, in = 0;  // bytes
  std::uint32_t messages_out = 0, messages_in = 0;
};
/// All that was sent and received up to a wait, by peer.
using ExchangeRecord = std::map<int, Traffic>;

/// What the least piece of work takes that a GPU can be told to do: what launches cost beside the work.
struct Pieces {
  /// Seconds of the GPU, of many in a row, and of one right behind a wait for a word.
  struct Place {
    double in_a_row = 0, behind_wait = 0;
  };
  double alone = 0;  ///< seconds of one timed by itself, as the `kernels` run times all
  Place stream, graph;
  double graph_enqueue = 0;  ///< seconds of the host, for each piece of a graph that it launches
};

/// What was measured behind the `host` run, by itself.
struct Replayed {
  std::uint64_t exchanges = 0;
  double stream_seconds = 0;   ///< that a stream is kept by the messages of these exchanges
  double enqueue_seconds = 0;  ///< that the host is by enqueueing them
  double graph_seconds = 0;    ///< of a stream, where they come in a graph
  double bare_seconds = 0;     ///< the same, of messages of 8 bytes at most
  Pieces pieces;
  double meeting = 0;          ///< seconds in which kernels of all processes meet
  std::string why_not;         ///< empty: all but `meeting` was measured
  std::string why_no_meeting;  ///< empty: that too
};

class Observer {
 public:
  static Observer& self();

  [[nodiscard]] bool is_on() const { return !folder_.empty(); }
  [[nodiscard]] bool times_kernels() const { return kernels_; }
  /// A call of this thread that is one of the observer's own, or inside another one.
  static bool& is_inside();

  void begin_passage();
  void end_passage();
  /// Whether calls count now.
  [[nodiscard]] bool is_open() const;

  void count(Kind kind, Clock::time_point begin);
  void sends_to(int peer, std::uint64_t bytes);
  void receives_from(int peer, std::uint64_t bytes);
  /// The host is to wait for messages: that is the end of an exchange if anything was sent or received.
  void waits();
  /// A kernel or copy of so many seconds.
  void ran(double seconds);
  /// Where kernels are launched.
  void note_device(int device) { device_ = device; }

  /// In MPI_Finalize: measures what is left to be measured, and writes the file.
  void finish();

 private:
  Observer();
  /// What ran last was no A, if it does not become one now.
  void settle_latest(Sum& sum);
  void write(int rank, int size, const Replayed& replayed) const;

  std::recursive_mutex mutex_;
  std::string folder_;
  bool kernels_ = false;
  bool is_steered_ = false;  ///< by MPI_Pcontrol
  bool is_open_ = false;
  Clock::time_point opened_, last_;
  double total_ = 0;
  Sum sums_[kind_count];
  Sum a_, b_, c_;                 ///< of the GPU
  std::optional<double> latest_;  ///< A if a message follows, else C
  std::uint64_t kernels_seen_ = 0;
  bool has_sent_ = false;  ///< since the last wait
  ExchangeRecord current_;
  std::vector<ExchangeRecord> exchanges_;  ///< the first ones
  std::uint64_t exchange_count_ = 0, message_count_ = 0, byte_count_ = 0;
  int device_ = -1;
};

/// Counts a call, if it is one of the program's own.
template <class Call>
auto observe(Kind kind, Call call) {
  bool& inside = Observer::is_inside();
  if (inside || !Observer::self().is_open()) return call();
  inside = true;
  const auto begin = Clock::now();
  const auto result = call();
  inside = false;
  Observer::self().count(kind, begin);
  return result;
}

/// The real dlsym.
void* find_symbol(void* library, const char* name);
/// A function of the libraries that the program has loaded; false where none has it.
template <class Function>
bool find_in_program(Function& function, const char* name) {
  function = reinterpret_cast<Function>(find_symbol(RTLD_DEFAULT, name));
  return function != nullptr;
}

}  // namespace isthmus::observer
