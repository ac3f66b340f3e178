#pragma once

#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "base/settings.hpp"
#include "launch/region/shared_region.hpp"
#include "vrank/environment.hpp"
#include "vrank/process/porter.hpp"
#include "vrank/process/rank.hpp"
#include "vrank/process/rank_threads.hpp"
#include "vrank/program_file.hpp"
#include "vrank/rank_memory.hpp"
#include "vrank/scheduler.hpp"

namespace isthmus::vrank {

/// The process and the ranks that it holds, from their start to their ends.
class Process {
 public:
  /// `memory`: null where ranks stay in this process. `process_top`: where its heap ended when libraries
  /// alone had been begun.
  Process(ProgramFile file, std::vector<Environment> environments, std::vector<std::string> words,
          const Edge& edge, const OwnMemory* memory, std::uintptr_t process_top)
      : file_(std::move(file)),
        environments_(std::move(environments)),
        words_(std::move(words)),
        edge_(edge),
        memory_(memory),
        process_top_(process_top) {}

  /// Makes the ranks and the threads on which they have their turns.
  Result<> prepare(std::uint32_t workers);
  /// Gives turns until all ranks have ended. The process's exit status.
  int run();

  /// The rank whose turn it is on this thread. Null where the thread's stack is no rank's: of a thread that a
  /// rank has made.
  [[nodiscard]] static Rank* current() noexcept;
  /// Not the child of a fork.
  [[nodiscard]] bool is_own() const noexcept { return pid_ == ::getpid(); }
  /// The environment of `rank`, whose turn it is.
  [[nodiscard]] char**& environment_of(Rank& rank) const noexcept;
  /// The C library's option parser is for `rank` from now on; whether it was already. In turns of worker 0.
  [[nodiscard]] bool take_parser(const Rank& rank) noexcept { return parser_.exchange(&rank) == &rank; }
  /// The rank whose turn it is ends.
  [[noreturn]] void end_rank(int status, bool runs_endings) noexcept;
  /// `exit` has been called by a library.
  void exit_from_library(int status) noexcept;
  /// How `rank` has ended (`wire::Ending`), for mpiexec.
  void note(const Rank& rank, std::uint32_t ending) noexcept;

  [[nodiscard]] std::string why_tied(Rank& rank) const { return porter_->why_tied(rank); }
  /// `rank` has come from another process.
  void take_in(Rank& rank) noexcept;

 private:
  struct Numbers {
    std::uint32_t own, slot, world;
  };
  static std::optional<Numbers> numbers_of(const Environment& environment);
  static Result<> hand_on(Environment& environment, const char* variable);
  [[nodiscard]] static std::size_t stack_bytes(const Settings& settings);
  static void begin(void* argument);
  Result<> open(const Environment& environment, const Numbers& first, std::uint32_t workers);
  Result<> open_region(const Environment& environment);
  Result<> add_rank(Environment environment, const Numbers& numbers, std::size_t stack);
  Result<> make_rank(Environment& environment, const Numbers& numbers, std::size_t stack,
                     std::uintptr_t thread);
  Result<> start_workers();
  void load_and_run(Rank& rank);
  void give_turns(Worker& worker);
  bool finish(Rank& rank);

  ProgramFile file_;
  std::vector<Environment> environments_;
  std::vector<std::string> words_;
  const Edge& edge_;
  const OwnMemory* memory_;
  const std::uintptr_t process_top_;
  const pid_t pid_ = ::getpid();
  std::uint32_t world_ = 1;
  std::optional<Scheduler> scheduler_;
  std::optional<launch::SharedRegion> region_;  ///< where mpiexec looks how ranks have ended
  std::vector<Rank*> ranks_;  ///< that it has been started with; they live as long as the process
  RankThreads threads_;
  std::optional<Porter> porter_;       ///< with `memory_`
  std::vector<std::jthread> workers_;  ///< but the first, which is the process's first thread
  std::atomic<const Rank*> parser_{nullptr};
  std::mutex ending_;              ///< guards the next two
  std::int64_t failed_rank_ = -1;  ///< the first that has ended here with another status than 0
  int failed_status_ = 0;
  std::atomic<bool> ends_itself_{false};
};

}  // namespace isthmus::vrank
