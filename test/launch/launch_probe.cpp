/// A rank by the library's own way of joining a job, without MPI: it does what its arguments say, in order,
/// each for all ranks or, as `RANK:ACTION`, for one. It can die in states that a correct MPI program never
/// reaches.
///
///     join          joins the job (a singleton without mpiexec)
///     finalize      says in the roster that it has finalized
///     abort=CODE    what MPI_Abort leaves in the region, and the exit
///     scribble=N    fills the job's header words and the roster with the byte N
///     report        one line about the job and the rank's place
///     say=TEXT      prints TEXT and a newline, in two writes
///     start=TEXT    prints TEXT without a newline
///     flood=BYTES   prints that much in lines of 100 bytes that name the rank
///     close=FD      closes a descriptor
///     sleep=SECONDS, signal=NUMBER (to itself), exit=CODE, shell=COMMAND

#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "launch/job.hpp"

namespace {

using isthmus::Settings;
using isthmus::launch::Job;

class Rank {
 public:
  void perform(const std::string& word) {
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const auto action = actions().find(name);
    if (action == actions().end()) fail_with(2, "unknown action " + word);
    action->second(*this, equals == std::string::npos ? "" : word.substr(equals + 1));
  }

  [[nodiscard]] static long number() {
    const char* rank = std::getenv("ISTHMUS_WORLD_RANK");
    return rank ? std::atol(rank) : 0;
  }

 private:
  using Action = std::function<void(Rank&, const std::string&)>;

  [[noreturn]] static void fail_with(int status, const std::string& text) {
    std::fprintf(stderr, "launch_probe: %s\n", text.c_str());
    std::exit(status);
  }

  static void write_all(std::string_view text) {
    while (!text.empty()) {
      const ssize_t count = ::write(STDOUT_FILENO, text.data(), text.size());
      if (count < 0) fail_with(4, std::string("stdout: ") + std::strerror(errno));
      text.remove_prefix(static_cast<std::size_t>(count));
    }
  }

  void join() {
    const auto settings = Settings::read(environ);
    if (!settings) fail_with(3, settings.error().text());
    auto joined = isthmus::launch::join(*settings);
    if (!joined) fail_with(3, joined.error().text());
    job_ = std::move(*joined);
  }

  void report() const {
    const auto& header = job_->region.header();
    const auto& place = job_->region.block(job_->slot).place;
    std::printf(
        "rank=%u size=%u singleton=%d job=%s host=%s appnum=%d package=%d numa=%d core=%d idle=%s cores=%u "
        "universe=%u cells=%u bytes=%u pid_is_mine=%d\n",
        job_->rank, job_->size, job_->singleton, job_->name.c_str(), job_->host.c_str(), place.appnum,
        place.package, place.numa, place.core,
        header.idle == isthmus::wire::IdlePolicy::spin ? "spin" : "sleep", header.cores, header.universe,
        header.shape.geometry.cells, header.shape.geometry.data_bytes, place.pid == ::getpid());
    std::fflush(stdout);
  }

  void abort(const std::string& code) const {
    if (job_->launcher) job_->launcher->abort(std::atoi(code.c_str()), {});
    auto& header = job_->region.header();
    header.abort_code.store(std::atoi(code.c_str()));
    std::uint32_t none = 0;
    header.abort_state.compare_exchange_strong(none, job_->rank + 1);
    ::_exit(std::atoi(code.c_str()) & 0xff);
  }

  void scribble(const std::string& byte) const {
    const int value = std::atoi(byte.c_str());
    std::memset(job_->mapping->memory().data(), value, 4096);
    for (std::uint32_t rank = 0; rank < job_->size; ++rank)
      job_->region.roster(rank).store(static_cast<isthmus::wire::RosterState>(value));
  }

  static void flood(const std::string& bytes) {
    const std::string line = std::string(90, static_cast<char>('a' + number() % 26)) + " rank " +
                             std::to_string(number() + 100) + "\n";
    std::string block;
    while (block.size() < 3000)
      block += line;  // blocks that end within a pipe's page
    for (long left = std::atol(bytes.c_str()); left > 0; left -= static_cast<long>(block.size()))
      write_all(block);
  }

  static const std::map<std::string, Action>& actions() {
    static const std::map<std::string, Action> table{
        {"join", [](Rank& rank, const std::string&) { rank.join(); }},
        {"finalize",
         [](Rank& rank, const std::string&) {
           rank.job_->region.roster(rank.job_->rank).store(isthmus::wire::RosterState::finalized);
           if (rank.job_->launcher && !rank.job_->launcher->finalize()) fail_with(6, "finalize");
         }},
        {"abort", [](Rank& rank, const std::string& code) { rank.abort(code); }},
        {"scribble", [](Rank& rank, const std::string& byte) { rank.scribble(byte); }},
        {"report", [](Rank& rank, const std::string&) { rank.report(); }},
        {"say",
         [](Rank&, const std::string& text) {
           write_all(text);
           write_all("\n");
         }},
        {"start", [](Rank&, const std::string& text) { write_all(text); }},
        {"flood", [](Rank&, const std::string& bytes) { flood(bytes); }},
        {"close", [](Rank&, const std::string& fd) { ::close(std::atoi(fd.c_str())); }},
        {"sleep",
         [](Rank&, const std::string& seconds) {
           std::this_thread::sleep_for(std::chrono::duration<double>(std::atof(seconds.c_str())));
         }},
        {"signal", [](Rank&, const std::string& signal) { ::kill(::getpid(), std::atoi(signal.c_str())); }},
        {"exit", [](Rank&, const std::string& code) { ::_exit(std::atoi(code.c_str())); }},
        {"shell",
         [](Rank&, const std::string& command) {
           if (std::system(command.c_str()) != 0) fail_with(5, "failed: " + command);
         }},
    };
    return table;
  }

  std::optional<Job> job_;
};

}  // namespace

int main(int count, char** arguments) {
  Rank rank;
  for (int i = 1; i < count; ++i) {
    std::string word = arguments[i];
    const std::size_t colon = word.find(':');
    if (colon > 0 && colon != std::string::npos && word.find_first_not_of("0123456789") == colon) {
      if (std::atol(word.c_str()) != Rank::number()) continue;
      word.erase(0, colon + 1);
    }
    rank.perform(word);
  }
  return 0;
}
