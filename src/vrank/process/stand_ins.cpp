#include "vrank/process/stand_ins.hpp"

#include <getopt.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "vrank/environment.hpp"
#include "vrank/process/process.hpp"

namespace isthmus::vrank {
namespace {

/// Null where the thread's stack is no rank's: of a thread that a rank has made.
Rank* current() noexcept {
  return Process::current();
}

/// Of this process, and not of the one whose child it is since a fork.
Rank* own_rank() noexcept {
  Rank* const rank = current();
  return rank && rank->process->is_own() ? rank : nullptr;
}

int begin_main(int (*main)(int, char**, char**)) {
  Rank& rank = *current();
  const int status = main(static_cast<int>(rank.words.size()), rank.arguments.data(), environ);
  rank.process->end_rank(status, true);
}

[[noreturn]] void rank_exit(int status) {
  // The child of a fork is a process of its own; and a thread of a rank ends all.
  Rank* const rank = own_rank();
  if (!rank) std::exit(status);
  rank->process->end_rank(status, true);
}

[[noreturn]] void rank_exit_at_once(int status) {
  Rank* const rank = own_rank();
  if (!rank) ::_exit(status);
  rank->process->end_rank(status, false);
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
  if (!current() || count < 1) return parse(count, arguments, options, names, index);
  Rank& rank = *current();
  rank.fiber.visit(0);
  const RankCopy::Variables& own = rank.copy.variables();
  OptionScan& scan = rank.options;
  int at = own.index ? *own.index : scan.left_at;
  const bool is_first = !std::exchange(scan.has_begun, true);
  const bool begins = is_first || (at != scan.left_at && at <= 1);
  if (begins) scan = {.has_begun = true, .left_at = 1, .moves = {}};
  at = std::max(at, 1);
  if (!rank.process->take_parser(rank) || begins)
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
  Rank& rank = *current();
  char**& environment = rank.process->environment_of(rank);
  char*** const shown = rank.copy.variables().environment;
  if (shown && *shown != rank.shown_environment) environment = *shown;
  const auto result = use(rank, environment);
  if (shown) *shown = rank.shown_environment = environment;
  return result;
}

char* rank_getenv(const char* name) {
  if (!current()) return std::getenv(name);
  return with_environment(
      [&](Rank& /*rank*/, char** environment) { return find_variable(environment, name); });
}

int rank_unsetenv(const char* name) {
  if (!current()) return ::unsetenv(name);
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
  if (!current()) return ::clearenv();
  return with_environment([](Rank& /*rank*/, char**& environment) {
    environment = nullptr;
    return 0;
  });
}

int rank_putenv(char* entry) {
  if (!current()) return ::putenv(entry);
  if (!std::strchr(entry, '=')) return rank_unsetenv(entry);
  return put(entry) ? 0 : -1;
}

int rank_setenv(const char* name, const char* value, int overwrites) {
  if (!current()) return ::setenv(name, value, overwrites);
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

}  // namespace

std::span<const Replacement> stand_ins() noexcept {
  return replacements;
}

}  // namespace isthmus::vrank
