#include "vrank/process/process.hpp"

#include <fcntl.h>
#include <getopt.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ios>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/futex.hpp"
#include "base/log.hpp"
#include "base/settings.hpp"
#include "base/whole_number.hpp"
#include "channel/cma/cma.hpp"
#include "launch/region/shared_region.hpp"
#include "vrank/environment.hpp"
#include "vrank/process/move_steps.hpp"
#include "vrank/program_file.hpp"
#include "vrank/rank_copy.hpp"
#include "vrank/rank_space.hpp"
#include "vrank/rank_thread.hpp"

namespace isthmus::vrank {
namespace {

constexpr int status_cannot_run = 126;
constexpr std::size_t usual_stack = std::size_t{8} << 20;
/// The other process wakes who waits for it: this is for what is lost.
constexpr long wait_microseconds = 1'000'000;
/// Scripts like to use 3 to 9, bash 10 and 63 and their neighbours.
constexpr int lowest_fd = 40;

class Process;

/// How far a rank's options have been parsed: enough to bring the C library's parser there again.
struct OptionScan {
  bool has_begun = false;
  int left_at = 1;         ///< `optind` after the last call
  std::vector<int> moves;  ///< before each call: how far the program has moved `optind` itself
};

/// Where ranks go on in other processes, it lies in the rank's own memory.
struct Rank {
  Process* process = nullptr;
  std::uint32_t number = 0;  ///< in the job
  std::uint32_t slot = 0;    ///< in the region
  Fiber fiber;
  RankStack stack;
  ThreadLocalRange locals;  ///< when it leaves
  std::optional<Environment> environment;
  std::vector<std::string> words;
  std::vector<char*> arguments;
  RankCopy copy;
  std::uint64_t program_at = 0;        ///< the copy's address
  char** grown_environment = nullptr;  ///< that `setenv` has made
  char** shown_environment = nullptr;  ///< what has been written to the program's `environ`
  OptionScan options;
  bool is_ending = false;
  int status = 0;
};

class Process {
 public:
  Process(ProgramFile file, std::vector<Environment> environments, std::vector<std::string> words,
          const Edge& edge, const OwnMemory* memory)
      : file_(std::move(file)),
        environments_(std::move(environments)),
        words_(std::move(words)),
        edge_(edge),
        memory_(memory) {}

  Result<> prepare(std::uint32_t workers);
  int run();

  /// Null where the thread's stack is no rank's: of a thread that a rank has made.
  [[nodiscard]] Rank* current() noexcept;
  /// The environment of `rank`, whose turn it is.
  [[nodiscard]] char**& environment_of(Rank& rank) const noexcept {
    return scheduler_->switches_environment() ? environ : rank.fiber.environment;
  }
  /// The C library's option parser is for `rank` from now on; whether it was already. In turns of worker 0.
  bool take_parser(const Rank& rank) noexcept { return std::exchange(parser_, &rank) == &rank; }
  [[noreturn]] void end_rank(int status, bool runs_endings) noexcept;
  /// The process dies of `signal`, in the turn of one of its ranks.
  void tell_signal(int signal, const void* address) noexcept;
  /// `exit` has been called by a library.
  void exit_from_library(int status) noexcept;
  [[nodiscard]] bool is_own() const noexcept { return pid_ == ::getpid(); }
  [[nodiscard]] std::string why_tied(Rank& rank) const;

 private:
  static void begin(void* argument);
  struct Numbers {
    std::uint32_t own, slot, world;
  };
  static std::optional<Numbers> numbers_of(const Environment& environment);
  Result<> open_region(const Environment& environment);
  Result<> add_rank(Environment environment, const Numbers& numbers, std::size_t stack);
  Result<> make_rank(Environment& environment, const Numbers& numbers, std::size_t stack);
  Result<> allow_moves(std::uint32_t world);
  // porter.cpp: ranks that leave and come
  void depart(Rank& rank) noexcept;
  void carry(const std::stop_token& ends);
  void look_for_arrivals();
  void arrive(std::uint32_t slot) noexcept;
  Result<> take_in(std::uint32_t slot);
  void call_all() const noexcept;
  [[nodiscard]] bool have_all_ended() const noexcept;
  [[nodiscard]] RankSpace space_of(std::uint32_t number) const noexcept { return {number, world_}; }
  void load_and_run(Rank& rank);
  bool finish(Rank& rank);
  void give_turns(Worker& worker);
  void note(const Rank& rank, std::uint32_t ending) noexcept;
  static Result<> hand_on(Environment& environment, const char* variable);
  Result<> start_workers(std::uint32_t count);
  static void watch_signals();
  static void give_signals_a_stack();
  [[nodiscard]] static std::size_t stack_bytes(const Settings& settings);

  ProgramFile file_;
  std::vector<Environment> environments_;
  std::vector<std::string> words_;
  const Edge& edge_;
  const pid_t pid_ = ::getpid();
  std::optional<Scheduler> scheduler_;
  const OwnMemory* memory_;  ///< null: ranks stay in this process
  std::uint32_t world_ = 1;
  std::vector<Rank*> ranks_;  ///< that it has been started with; they live as long as the process
  std::mutex mutex_;          ///< guards the next four
  std::map<std::uint32_t, std::unique_ptr<RankThread>> threads_;  ///< by rank
  std::condition_variable has_left_;
  std::set<std::uint32_t>
      leaving_;                    ///< ranks whose memory is still here; they may be back before it has gone
  std::set<std::uint32_t> rooms_;  ///< ranks for which there is a copy
  RegionFile region_file_;
  mutable std::mutex looking_;  ///< held by who opens files of /proc, which another would take for a rank's
  std::int64_t failed_rank_ = -1;  ///< the first that has ended here with another status than 0
  int failed_status_ = 0;
  std::jthread porter_;
  const Rank* parser_ = nullptr;
  std::optional<launch::SharedRegion> region_;  ///< where mpiexec looks how ranks have ended
  std::uint32_t first_slot_ = 0;
  std::vector<std::jthread> workers_;  ///< but the first, which is the process's first thread
  std::atomic<bool> ends_itself_{false};
};

/// The functions that stand in for those of the C library have no other way to find it.
Process* the_process = nullptr;

Rank& rank_of_turn() {
  return *the_process->current();
}

// What ranks call in place of the C library's and the C++ library's.

int begin_main(int (*main)(int, char**, char**)) {
  Rank& rank = rank_of_turn();
  const int status = main(static_cast<int>(rank.words.size()), rank.arguments.data(), environ);
  the_process->end_rank(status, true);
}

[[noreturn]] void rank_exit(int status) {
  // The child of a fork is a process of its own; and a thread of a rank ends all.
  if (!the_process->is_own() || !the_process->current()) std::exit(status);
  the_process->end_rank(status, true);
}

[[noreturn]] void rank_exit_at_once(int status) {
  if (!the_process->is_own() || !the_process->current()) ::_exit(status);
  the_process->end_rank(status, false);
}

/// Each rank has streams of its own, without buffers: they stay in step with those of C.
bool sync_with_stdio(bool /*sync*/) {
  return true;
}

using OptionParser = int (*)(int, char* const*, const char*, const option*, int*);

/// Brings the C library's parser, which has one state for all ranks, to where it was for this rank: by the
/// same calls, from the start. They find the same options, because moving the other words behind them, which
/// the parser does, changes nothing in the order of options.
void repeat_options(OptionParser parse, const OptionScan& scan, int count, char* const* arguments,
                    const char* options, const option* names) {
  std::vector<option> quiet;  // sets no variables
  for (; names && names->name; ++names)
    quiet.push_back({names->name, names->has_arg, nullptr, names->val});
  quiet.push_back({});
  const std::array<char*, 2> none{arguments[0], nullptr};
  opterr = 0;
  optind = 0;  // forgets what it was at
  parse(1, none.data(), options, quiet.data(), nullptr);
  optind = 1;
  for (const int move : scan.moves) {
    optind += move;
    parse(count, arguments, options, quiet.data(), nullptr);
  }
}

/// The C library's option parser works on variables of the library, and the rank on its own. All options are
/// parsed with worker 0, one call after the other.
int parse_option(OptionParser parse, int count, char* const* arguments, const char* options,
                 const option* names, int* index) {
  if (!the_process->current() || count < 1) return parse(count, arguments, options, names, index);
  Rank& rank = rank_of_turn();
  rank.fiber.visit(0);
  const RankCopy::Variables& own = rank.copy.variables();
  OptionScan& scan = rank.options;
  int at = own.index ? *own.index : scan.left_at;
  const bool is_first = !std::exchange(scan.has_begun, true);
  const bool begins = is_first || (at != scan.left_at && at <= 1);
  if (begins) scan = {.has_begun = true, .left_at = 1, .moves = {}};
  at = std::max(at, 1);
  if (!the_process->take_parser(rank) || begins)
    repeat_options(parse, scan, count, arguments, options, names);
  scan.moves.push_back(at - scan.left_at);
  optind = at;
  opterr = own.prints ? *own.prints : 1;
  const int result = parse(count, arguments, options, names, index);
  scan.left_at = optind;
  if (own.index) *own.index = optind;
  if (own.argument) *own.argument = optarg;
  if (own.unknown) *own.unknown = optopt;
  return result;
}

int rank_getopt(int count, char* const* arguments, const char* options) {
  return parse_option([](int n, char* const* words, const char* short_ones, const option* /*names*/,
                         int* /*index*/) { return ::getopt(n, words, short_ones); },
                      count, arguments, options, nullptr, nullptr);
}
int rank_getopt_long(int count, char* const* arguments, const char* options, const option* names,
                     int* index) {
  return parse_option(::getopt_long, count, arguments, options, names, index);
}
int rank_getopt_long_only(int count, char* const* arguments, const char* options, const option* names,
                          int* index) {
  return parse_option(::getopt_long_only, count, arguments, options, names, index);
}

// The C library keeps the array that setenv has made last, and makes the next of it, whoever's it is. So each
// rank has its own.

/// `use` of the environment of the rank whose turn it is. Its program may have a variable `environ` of its
/// own, and may have put another array there.
template <class Use>
auto with_environment(Use use) {
  Rank& rank = rank_of_turn();
  char**& environment = the_process->environment_of(rank);
  char*** const shown = rank.copy.variables().environment;
  if (shown && *shown != rank.shown_environment) environment = *shown;
  const auto result = use(rank, environment);
  if (shown) *shown = rank.shown_environment = environment;
  return result;
}

char* rank_getenv(const char* name) {
  if (!the_process->current()) return std::getenv(name);
  return with_environment(
      [&](Rank& /*rank*/, char** environment) { return find_variable(environment, name); });
}

int rank_unsetenv(const char* name) {
  if (!the_process->current()) return ::unsetenv(name);
  if (!name || *name == '\0' || std::strchr(name, '=')) {
    errno = EINVAL;
    return -1;
  }
  return with_environment([&](Rank& /*rank*/, char** environment) {
    remove_variable(environment, name);
    return 0;
  });
}

bool put(char* entry) {
  return with_environment([&](Rank& rank, char**& environment) {
    return put_variable(environment, rank.grown_environment, entry);
  });
}

int rank_clearenv() {
  if (!the_process->current()) return ::clearenv();
  return with_environment([](Rank& /*rank*/, char**& environment) {
    environment = nullptr;
    return 0;
  });
}

int rank_putenv(char* entry) {
  if (!the_process->current()) return ::putenv(entry);
  if (!std::strchr(entry, '=')) return rank_unsetenv(entry);
  return put(entry) ? 0 : -1;
}

int rank_setenv(const char* name, const char* value, int overwrites) {
  if (!the_process->current()) return ::setenv(name, value, overwrites);
  if (!name || *name == '\0' || std::strchr(name, '=')) {
    errno = EINVAL;
    return -1;
  }
  if (overwrites == 0 && rank_getenv(name)) return 0;
  char* entry = nullptr;
  if (::asprintf(&entry, "%s=%s", name, value) < 0) return -1;
  return put(entry) ? 0 : -1;
}

template <class Function>
Replacement replacement(std::string_view name, Function* function) {
  return {name, reinterpret_cast<void (*)()>(function)};
}

const std::array replacements{replacement("__libc_start_main", begin_main),
                              replacement("exit", rank_exit),
                              replacement("_exit", rank_exit_at_once),
                              replacement("_Exit", rank_exit_at_once),
                              replacement("quick_exit", rank_exit_at_once),
                              replacement("_ZNSt8ios_base15sync_with_stdioEb", sync_with_stdio),
                              replacement("setenv", rank_setenv),
                              replacement("putenv", rank_putenv),
                              replacement("getenv", rank_getenv),
                              replacement("secure_getenv", rank_getenv),
                              replacement("unsetenv", rank_unsetenv),
                              replacement("clearenv", rank_clearenv),
                              replacement("getopt", rank_getopt),
                              replacement("__posix_getopt", rank_getopt),
                              replacement("getopt_long", rank_getopt_long),
                              replacement("getopt_long_only", rank_getopt_long_only)};

// Signals that a program dies of.

constexpr std::array deadly{SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

void die_of(int signal, siginfo_t* info, void* /*context*/) {
  the_process->tell_signal(signal, info ? info->si_addr : nullptr);
  // As it would have without this handler: what has raised it is done once more.
  ::signal(signal, SIG_DFL);
  if (signal == SIGABRT || info->si_code <= 0) ::raise(signal);
}

/// Text without memory and without buffers, for signal handlers.
class Line {
 public:
  Line& operator<<(std::string_view text) noexcept {
    const std::size_t taken = std::min(text.size(), text_.size() - size_);
    std::memcpy(text_.data() + size_, text.data(), taken);
    size_ += taken;
    return *this;
  }
  Line& operator<<(std::uint64_t number) noexcept {
    std::array<char, 20> digits{};
    std::size_t at = digits.size();
    do
      digits[--at] = static_cast<char>('0' + number % 10);
    while ((number /= 10) != 0);
    return *this << std::string_view(digits.data() + at, digits.size() - at);
  }
  void print() noexcept {
    *this << "\n";
    static_cast<void>(::write(STDERR_FILENO, text_.data(), size_) < 0);
  }

 private:
  std::array<char, 400> text_{};
  std::size_t size_ = 0;
};

Result<> Process::hand_on(Environment& environment, const char* variable) {
  const auto text = environment.get(variable);
  const auto fd = text ? whole_number<std::uint32_t>(*text) : std::nullopt;
  if (!fd) return {};
  const int own = ::fcntl(static_cast<int>(*fd), F_DUPFD_CLOEXEC, lowest_fd);
  if (own < 0) return fail(ErrorClass::other, std::string(variable) + " names no open descriptor");
  environment.set(std::string(variable) + '=' + std::to_string(own));
  return {};
}

std::size_t Process::stack_bytes(const Settings& settings) {
  if (settings.rank_stack != 0) return settings.rank_stack;
  rlimit limit{};
  if (::getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return usual_stack;
  return std::max<std::size_t>(limit.rlim_cur, std::size_t{64} << 10);
}

std::optional<Process::Numbers> Process::numbers_of(const Environment& environment) {
  const auto number = [&](const char* name) {
    return whole_number<std::uint32_t>(environment.get(name).value_or(""));
  };
  const auto own = number(launcher_variable::rank), slot = number(launcher_variable::local_rank),
             world = number(launcher_variable::world_size);
  if (!own || !slot || !world || *own >= *world) return std::nullopt;
  return Numbers{*own, *slot, *world};
}

Result<> Process::open_region(const Environment& environment) {
  const auto text = environment.get(launcher_variable::region);
  const auto fd = text ? whole_number<std::uint32_t>(*text) : std::nullopt;
  if (!fd) return {};
  auto opened = launch::open_region(::fcntl(static_cast<int>(*fd), F_DUPFD_CLOEXEC, lowest_fd));
  if (!opened) return std::unexpected(std::move(opened).error());
  region_ = std::move(*opened);
  return {};
}

Result<> Process::prepare(std::uint32_t workers) {
  auto settings = Settings::read(environ);
  if (!settings) return std::unexpected(std::move(settings).error());
  const std::size_t stack = stack_bytes(*settings);
  for (Environment& environment : environments_) {
    const auto numbers = numbers_of(environment);
    if (!numbers || (!ranks_.empty() && numbers->own != ranks_.front()->number + ranks_.size()))
      return fail(ErrorClass::arg, std::string(launcher_variable::virtual_ranks) + " makes no sense");
    if (ranks_.empty()) {
      ranks_.reserve(environments_.size());
      world_ = numbers->world;
      first_slot_ = numbers->slot;
      const auto count = static_cast<std::uint32_t>(environments_.size());
      scheduler_.emplace(numbers->own, count, std::max(workers, std::uint32_t{1}), edge_);
      ISTHMUS_TRY(open_region(environment));
      if (memory_) ISTHMUS_TRY(allow_moves(numbers->world));
    }
    ISTHMUS_TRY(hand_on(environment, launcher_variable::region));
    ISTHMUS_TRY(hand_on(environment, launcher_variable::box));
    ISTHMUS_TRY(add_rank(std::move(environment), *numbers, stack));
  }
  the_process = this;
  watch_signals();
  give_signals_a_stack();
  // What runs outside of turns is of the first rank, as in a process of one.
  if (!ranks_.empty() && !memory_) edge_.make_current(ranks_.front()->fiber.runtime);
  ISTHMUS_TRY(start_workers(scheduler_ ? scheduler_->workers() : 1));
  if (memory_) region_file_.known = open_files();
  if (memory_) porter_ = std::jthread([this](const std::stop_token& ends) { carry(ends); });
  return {};
}

Result<> Process::add_rank(Environment environment, const Numbers& numbers, std::size_t stack) {
  const RankSpace space = space_of(numbers.own);
  // Its guard, and room beside it.
  if (stack > space.part_bytes() / 2)
    return fail(ErrorClass::arg, "ISTHMUS_RANK_STACK: a stack of " + std::to_string(stack >> 20) +
                                     " MiB is too large for a rank of " + std::to_string(numbers.world) +
                                     "; it may have " + std::to_string(space.part_bytes() >> 21));
  auto thread = RankThread::start(space.thread_end());
  if (!thread) return std::unexpected(std::move(thread).error());
  const std::uintptr_t pointer = (*thread)->pointer();
  threads_[numbers.own] = std::move(*thread);
  if (!memory_) return make_rank(environment, numbers, stack);
  RankMemory* const memory = memory_->open(numbers.own);
  if (!memory) return fail(ErrorClass::no_mem, "the heap of a rank: its addresses are taken");
  rooms_.insert(numbers.own);
  // By the thread pointer, what is allocated now is the rank's.
  const std::uintptr_t own = RankThread::own_pointer();
  RankThread::set_pointer(pointer);
  Result<> made = make_rank(environment, numbers, stack);
  if (made) memory->rank = ranks_.back();
  RankThread::set_pointer(own);
  return made;
}

/// All that it allocates is the rank's, but the list of ranks, which has its room.
[[gnu::noinline]] Result<> Process::make_rank(Environment& environment, const Numbers& numbers,
                                              std::size_t stack) {
  const RankSpace space = space_of(numbers.own);
  auto* const rank = new Rank;
  rank->process = this;
  rank->number = numbers.own;
  rank->slot = numbers.slot;
  rank->environment.emplace(environment);
  rank->words = words_;
  for (std::string& word : rank->words)
    rank->arguments.push_back(word.data());
  rank->arguments.push_back(nullptr);
  auto made = RankStack::make(space.stack_end(), stack);
  if (!made) return std::unexpected(std::move(made).error());
  rank->stack = std::move(*made);
  rank->program_at = space.program();
  rank->fiber.owner = rank;
  rank->fiber.thread = threads_[numbers.own]->pointer();
  rank->fiber.environment = rank->environment->pointers();
  rank->fiber.runtime = edge_.make(rank->fiber);
  scheduler_->add(rank->fiber, rank->stack, &Process::begin, rank);
  ranks_.push_back(rank);
  return {};
}

Result<> Process::start_workers(std::uint32_t count) {
  try {
    for (std::uint32_t i = 1; i < count; ++i)
      workers_.emplace_back([this, i] {
        give_signals_a_stack();
        give_turns(scheduler_->worker(i));
      });
    return {};
  } catch (const std::system_error& error) {
    return fail(ErrorClass::other, std::string("a thread cannot be made: ") + error.what());
  }
}

/// Each thread has its own, for who runs over the stack of a rank.
void Process::give_signals_a_stack() {
  constexpr std::size_t bytes = std::size_t{64} << 10;
  stack_t alternate{};
  alternate.ss_size = bytes;
  alternate.ss_sp = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (alternate.ss_sp != MAP_FAILED) ::sigaltstack(&alternate, nullptr);
}

void Process::watch_signals() {
  struct sigaction action{};
  action.sa_sigaction = die_of;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  for (const int signal : deadly)
    ::sigaction(signal, &action, nullptr);
}

Rank* Process::current() noexcept {
  const Fiber* const fiber = Scheduler::current();
  return fiber ? static_cast<Rank*>(fiber->owner) : nullptr;
}

void Process::begin(void* argument) {
  Rank& rank = *static_cast<Rank*>(argument);
  rank.process->load_and_run(rank);
}

void Process::load_and_run(Rank& rank) {
  Result<> loaded = memory_
                        ? rank.copy.load_quietly(file_, rank.program_at, replacements, *memory_->current())
                        : rank.copy.load(file_, rank.program_at, replacements);
  if (!loaded) {
    warn(words_.front() + " cannot be loaded for rank " + std::to_string(rank.number) + ": " +
         loaded.error().text());
    std::fflush(nullptr);
    ::_exit(status_cannot_run);
  }
  rank.shown_environment = environ;
  if (memory_) rank.copy.run_beginnings(static_cast<int>(rank.words.size()), rank.arguments.data(), environ);
  end_rank(
      rank.copy.run(static_cast<int>(rank.words.size()), rank.arguments.data(), environ, !workers_.empty()),
      true);
}

void Process::end_rank(int status, bool runs_endings) noexcept {
  Rank& rank = *current();
  // What atexit has been given may call exit.
  if (!std::exchange(rank.is_ending, true) && runs_endings) rank.copy.run_endings();
  rank.status = status & 0xff;
  Scheduler::end();
}

void Process::note(const Rank& rank, std::uint32_t ending) noexcept {
  if (!region_) return;
  if (rank.slot < region_->view.slots())
    region_->view.block(rank.slot).ending.store(ending, std::memory_order_release);
}

/// False where the process has to end now.
bool Process::finish(Rank& rank) {
  // What mpiexec would end the job for, were it a process.
  const bool fails =
      edge_.is_open(rank.fiber.runtime) || (rank.status != 0 && !edge_.has_finalized(rank.fiber.runtime));
  std::unique_ptr<RankThread> thread;
  {
    const std::lock_guard lock(mutex_);
    thread = std::move(threads_[rank.number]);
    threads_.erase(rank.number);
  }
  thread.reset();
  const std::lock_guard lock(mutex_);
  if (rank.status != 0 && (failed_rank_ < 0 || rank.number < failed_rank_)) {
    failed_rank_ = rank.number;
    failed_status_ = rank.status;
  }
  note(rank, wire::Ending::has_ended | static_cast<std::uint32_t>(rank.status));
  std::fflush(stdout);
  if (memory_) call_all();
  return !fails;
}

void Process::give_turns(Worker& worker) {
  while (const Fiber* const fiber = worker.run()) {
    Rank& rank = *static_cast<Rank*>(fiber->owner);
    if (fiber->leaves) {
      depart(rank);
      continue;
    }
    // The others may wait for it for ever, as for a process that ends so.
    if (!finish(rank)) {
      std::fflush(nullptr);
      ::_exit(rank.status);
    }
  }
}

int Process::run() {
  give_turns(scheduler_->worker(0));
  workers_.clear();
  porter_ = {};
  ends_itself_ = true;
  return failed_status_;
}

// --- ranks that go on in other processes
// -------------------------------------------------------------------------------------------------------------------------------

Result<> Process::allow_moves(std::uint32_t world) {
  const char* const text = std::getenv(launcher_variable::migratable);
  const std::string_view after = text ? std::string_view(text) : std::string_view();
  const auto colon = after.rfind(':');
  const auto each =
      colon == std::string_view::npos ? std::nullopt : whole_number<std::uint32_t>(after.substr(colon + 1));
  if (!each || *each == 0 || !region_ || region_->view.slots() != world)
    return fail(ErrorClass::arg, std::string(launcher_variable::migratable) + " makes no sense");
  struct stat status{};
  if (::fstat(region_->fd.get(), &status) != 0)
    return fail(ErrorClass::other, "fstat: " + std::generic_category().message(errno));
  region_file_ = {.fd = region_->fd.get(), .file = {status.st_dev, status.st_ino}, .known = {}};
  memory_->begin(world);
  HostMoves moves;
  const std::uint32_t workers = scheduler_->workers_asked();
  for (std::uint32_t first = 0; first < world; first += *each)
    for (std::uint32_t worker = 0; worker < std::min({workers, *each, world - first}); ++worker)
      moves.workers.push_back({first, worker});
  moves.process = first_slot_;
  moves.region = region_->fd.get();
  const auto box = environments_.front().get(launcher_variable::box);
  const auto fd = box ? whole_number<std::uint32_t>(*box) : std::nullopt;
  moves.box = fd ? ::fcntl(static_cast<int>(*fd), F_DUPFD_CLOEXEC, lowest_fd) : -1;
  moves.why_tied = [](Fiber& fiber) {
    Rank& rank = *static_cast<Rank*>(fiber.owner);
    return rank.process->why_tied(rank);
  };
  scheduler_->allow_moves(std::move(moves), world);
  for (std::uint32_t i = 0; i < scheduler_->workers(); ++i)
    scheduler_->worker(i).expect_ranks(region_->view.block(first_slot_ + i).process_wakes);
  return {};
}

std::string Process::why_tied(Rank& rank) const {
  if (auto locals = own_thread_locals(space_of(rank.number))) rank.locals = *locals;
  const std::lock_guard lock(looking_);
  return vrank::why_tied(space_of(rank.number), region_file_);
}

/// On the thread of its worker, when it has left its stack.
void Process::depart(Rank& rank) noexcept {
  const RankSpace space = space_of(rank.number);
  wire::Departure& departure = region_->view.block(rank.slot).departure;
  std::fflush(stdout);
  const std::uint32_t number = rank.number;
  {
    const std::lock_guard lock(mutex_);
    leaving_.insert(number);
  }
  scheduler_->leaves(number);
  {
    const HostWorker to = rank.fiber.destination;
    const std::vector<MoveStep> steps = [&] {
      const std::lock_guard lock(looking_);
      return steps_of(space, file_, reinterpret_cast<std::uint64_t>(rank.fiber.context), rank.locals,
                      likeness_here(memory_->process_top));
    }();
    // The process that it has come from may not have seen yet that it has.
    for (std::uint32_t state = 0;
         (state = departure.state.load(std::memory_order_acquire)) != wire::Departure::none;)
      futex_wait(departure.state, state, wait_microseconds);
    departure.process = to.process;
    departure.worker = to.worker;
    departure.steps = static_cast<std::uint32_t>(steps.size());
    departure.address = reinterpret_cast<std::uint64_t>(steps.data());
    departure.state.store(wire::Departure::asked, std::memory_order_seq_cst);
    wire::RankBlock& process = region_->view.block(to.process);
    process.calls.fetch_add(1, std::memory_order_seq_cst);
    futex_wake(process.calls);
    while (departure.state.load(std::memory_order_acquire) == wire::Departure::asked)
      futex_wait(departure.state, wire::Departure::asked, wait_microseconds);
  }
  const bool is_gone =
      departure.state.exchange(wire::Departure::none, std::memory_order_acq_rel) == wire::Departure::taken;
  futex_wake(departure.state);
  if (is_gone) let_go(space);
  {
    const std::lock_guard lock(mutex_);
    leaving_.erase(number);
  }
  has_left_.notify_all();
  if (is_gone) return;
  rank.fiber.why_not = "the other process could not take it over";
  scheduler_->comes(rank.number, rank.fiber, rank.fiber.home->index());
}

/// The thread that takes ranks in, and sees when there is nothing more to come.
void Process::carry(const std::stop_token& ends) {
  std::atomic<std::uint32_t>& calls = region_->view.block(first_slot_).calls;
  bool has_ended = false;
  while (!ends.stop_requested()) {
    const std::uint32_t seen = calls.load(std::memory_order_seq_cst);
    look_for_arrivals();
    if (!has_ended && have_all_ended()) {
      has_ended = true;
      scheduler_->end_of_moves();
    }
    if (has_ended) return;
    futex_wait(calls, seen, wait_microseconds);
  }
}

void Process::look_for_arrivals() {
  for (std::uint32_t slot = 0; slot < region_->view.slots(); ++slot) {
    const wire::Departure& departure = region_->view.block(slot).departure;
    if (departure.state.load(std::memory_order_acquire) == wire::Departure::asked &&
        departure.process == first_slot_)
      arrive(slot);
  }
}

void Process::arrive(std::uint32_t slot) noexcept {
  wire::Departure& departure = region_->view.block(slot).departure;
  Result<> taken = take_in(slot);
  if (!taken)
    warn("rank " + std::to_string(slot) + " cannot go on in another process: " + taken.error().text());
  departure.state.store(taken ? wire::Departure::taken : wire::Departure::failed, std::memory_order_seq_cst);
  futex_wake(departure.state);
  if (!taken) return;
  auto& rank = *static_cast<Rank*>(RankMemory::of(space_of(slot))->rank);
  scheduler_->comes(rank.number, rank.fiber, departure.worker);
}

Result<> Process::take_in(std::uint32_t slot) {
  wire::RankBlock& block = region_->view.block(slot);
  const RankSpace space = space_of(slot);
  const pid_t from = block.place.pid;
  std::vector<MoveStep> steps(block.departure.steps);
  ISTHMUS_TRY(cma::read(from, block.departure.address, steps.data(), steps.size() * sizeof(MoveStep)));
  std::unique_lock lock(mutex_);
  has_left_.wait(lock, [&] { return !leaving_.contains(slot); });
  if (!threads_.contains(slot)) {
    auto thread = RankThread::start(space.thread_end());
    if (!thread) return std::unexpected(std::move(thread).error());
    threads_[slot] = std::move(*thread);
  }
  if (!rooms_.contains(slot)) {
    ISTHMUS_TRY(RankCopy::make_room(file_, space.program()));
    rooms_.insert(slot);
  }
  ISTHMUS_TRY(take_over(steps, from, space, region_file_, likeness_here(memory_->process_top)));
  auto& rank = *static_cast<Rank*>(RankMemory::of(space)->rank);
  if (threads_[slot]->pointer() != rank.fiber.thread) {
    let_go(space);
    return fail(ErrorClass::other, "its thread-local storage would lie elsewhere");
  }
  rank.process = this;
  rank.copy.arrive(file_);
  block.process.store(first_slot_ + 1, std::memory_order_release);
  return {};
}

/// So that processes end whose ranks have gone elsewhere.
void Process::call_all() const noexcept {
  std::uint32_t last = ~std::uint32_t{0};
  for (const HostWorker& each : scheduler_->moves().workers) {
    if (std::exchange(last, each.process) == each.process) continue;
    std::atomic<std::uint32_t>& calls = region_->view.block(each.process).calls;
    calls.fetch_add(1, std::memory_order_seq_cst);
    futex_wake(calls);
  }
}

bool Process::have_all_ended() const noexcept {
  for (std::uint32_t slot = 0; slot < region_->view.slots(); ++slot)
    if (region_->view.block(slot).ending.load(std::memory_order_acquire) == 0) return false;
  return true;
}

void Process::exit_from_library(int status) noexcept {
  Rank* const rank = current();
  if (ends_itself_ || !is_own() || !rank) return;
  note(*rank, wire::Ending::has_ended | (static_cast<std::uint32_t>(status) & 0xff));
  if (ranks_.size() > 1)
    warn("rank " + std::to_string(rank->number) +
         " has ended its process by exit, called in a library: with it end all " +
         std::to_string(ranks_.size()) + " ranks of the process");
}

void Process::tell_signal(int signal, const void* address) noexcept {
  Rank* const rank = current();
  if (!is_own() || !rank) return;
  note(*rank, wire::Ending::was_killed | static_cast<std::uint32_t>(signal));
  if ((signal == SIGSEGV || signal == SIGBUS) && rank->stack.guards(address)) {
    Line line;
    line << "isthmus: rank " << rank->number << " has run over its stack of " << (rank->stack.bytes() >> 10)
         << " KiB; -x ISTHMUS_RANK_STACK=" << (rank->stack.bytes() >> 18)
         << "M or a higher `ulimit -s` gives the ranks of a process larger ones";
    line.print();
  }
}

/// Else the rank that first uses one allocates the buffer of all.
void give_streams_buffers() {
  for (std::FILE* const stream : {stdin, stdout})
    std::setvbuf(stream, static_cast<char*>(std::malloc(BUFSIZ)),
                 ::isatty(::fileno(stream)) != 0 ? _IOLBF : _IOFBF, BUFSIZ);
}

}  // namespace

int run_process(int count, char** arguments, std::size_t thread_local_room, const Edge& edge,
                const OwnMemory* memory) {
  const char* const virtual_ranks = std::getenv(launcher_variable::virtual_ranks);
  const char* const workers = std::getenv(launcher_variable::workers);
  if (count < 3 || !virtual_ranks) {
    warn(
        "this program holds the ranks of a process that has several, and is started by Isthmus' own mpiexec: "
        "mpiexec -n N --ranks-per-process M PROGRAM; under another launcher each rank is a process");
    return 2;
  }
  const std::uint32_t worker_count = whole_number<std::uint32_t>(workers ? workers : "").value_or(1);
  auto environments = environments_from(virtual_ranks);
  // Copies of the program take what std::cout is when they are loaded.
  const std::ios_base::Init streams;
  if (memory) give_streams_buffers();
  auto file = ProgramFile::open(arguments[1], thread_local_room);
  if (!file) {
    warn(file.error().text());
    return status_cannot_run;
  }
  if (memory && !file->is_executable()) {
    warn(std::string(arguments[1]) +
         " is a shared object, and ranks of such a program cannot go on in other "
         "processes (mpiexec --migratable): link it as an executable");
    return status_cannot_run;
  }
  if (memory) load_needed(*file);
  // It lives as long as the process, whose exit handlers ask for it.
  auto& process = *new Process(std::move(*file), std::move(environments), {arguments + 2, arguments + count},
                               edge, memory);
  if (auto prepared = process.prepare(worker_count); !prepared) {
    warn(prepared.error().text());
    return 1;
  }
  ::on_exit([](int status, void* of) { static_cast<Process*>(of)->exit_from_library(status); }, &process);
  return process.run();
}

}  // namespace isthmus::vrank
