// jacobi3d_chares: jacobi3d as message-driven objects. Blocks are chares, one a process or more.
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <isthmus/chare.hpp>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/gpu/engine.hpp"
#include "common/session.hpp"
#include "decomposition.hpp"
#include "options.hpp"
#include "part.hpp"
#include "report.hpp"

namespace jacobi {
namespace {

namespace chare = isthmus::chare;

// What only this program takes, before jacobi3d's own options.
struct Own {
  int parts = 0;  // 0: one a process
  Carrier carrier = Carrier::entry;
};

constexpr const char* own_help =
    "  --parts N                   Chares in all (otherwise one a process); before all other options\n"
    "  --carrier NAME              entry: faces are arguments of an entry (default); mailbox: their memory "
    "is\n"
    "                              posted ahead\n";

// Takes its own options off the front.
std::variant<Own, apps::Refusal> take_own(std::vector<char*>& words) {
  Own own;
  while (words.size() > 2 &&
         (std::string_view(words[1]) == "--parts" || std::string_view(words[1]) == "--carrier")) {
    const std::string_view value = words[2];
    if (std::string_view(words[1]) == "--parts") {
      char* end = nullptr;
      const long parts = std::strtol(words[2], &end, 10);
      if (*end != '\0' || parts < 1 || parts > 1'000'000)
        return apps::Refusal::bad("--parts " + std::string(value) + ": expected a number from 1 to 1000000");
      own.parts = static_cast<int>(parts);
    } else if (value == "mailbox" || value == "entry") {
      own.carrier = value == "mailbox" ? Carrier::mailbox : Carrier::entry;
    } else {
      return apps::Refusal::bad("--carrier " + std::string(value) + ": expected entry or mailbox");
    }
    words.erase(words.begin() + 1, words.begin() + 3);
  }
  return own;
}

struct Job {
  Own own;
  Options options;
};

std::variant<Job, apps::Refusal> read(int argc, char** argv, int processes) {
  std::vector<char*> words(argv, argv + argc);
  auto own = take_own(words);
  if (auto* refusal = std::get_if<apps::Refusal>(&own)) return *refusal;
  Job job{.own = std::get<Own>(own), .options = {}};
  if (job.own.parts == 0) job.own.parts = processes;
  auto options = read_command_line(static_cast<int>(words.size()), words.data(), job.own.parts);
  if (auto* refusal = std::get_if<apps::Refusal>(&options)) {
    if (refusal->status == 0) refusal->message += own_help;
    return *refusal;
  }
  job.options = std::get<Options>(options);
  if (job.options.check || job.options.survive || job.options.output.json)
    return apps::Refusal::bad("chares take none of --check, --survive and --json");
  if (job.options.how.compares())
    return apps::Refusal::bad("chares take no --form: their faces go by entries or mailboxes (--carrier)");
  if (job.options.halo == HaloKind::datatype) job.options.halo = HaloKind::pack;  // nothing else travels here
  return job;
}

chare::Task start() {
  const Triple& grid = setting->grid;
  const auto parts = chare::Array<Part>::create({static_cast<std::uint64_t>(grid[0]) * grid[1] * grid[2]});
  if (setting->carrier == Carrier::mailbox) {
    const auto ready = chare::Future<>::make();
    parts.broadcast<&Part::open>(parts, ready.callback());
    co_await ready;
  }
  const auto done = chare::Future<>::make();
  parts.broadcast<&Part::run>(parts, done.callback());
  co_await done;
  chare::exit(0);
}

int run(const Job& job, const apps::Member& member) {
  if (job.own.parts < member.size) {
    if (member.speaks())
      std::fprintf(stderr, "jacobi3d_chares: %d parts are too few for %d processes\n", job.own.parts,
                   member.size);
    return 2;
  }
  const apps::gpu::Engine engine(job.options.how.place, member.comm);
  Setting all{.options = job.options,
              .problem = {job.options.n},
              .grid = *job.options.grid,
              .carrier = job.own.carrier,
              .device = engine.on_gpu() ? &engine.device() : nullptr,
              .solution = {}};
  setting = &all;
  Block block = block_of(0, all.grid, job.options.n);
  if (member.speaks() && job.own.parts != member.size)
    std::printf("%d parts in %d processes\n", job.own.parts, member.size);
  print_setting(job.options, block, member.comm);
  if (const int code = chare::run(start); code != 0) return code;
  const Solution& solution = all.solution;
  const Outcome outcome = outcome_of(job.options, apps::gpu::Form::sync, solution, member.comm);
  print_outcomes(job.options, {outcome}, member);
  return outcome.correct() ? 0 : 1;
}

}  // namespace
}  // namespace jacobi

int main(int argc, char** argv) {
  return apps::run_application("jacobi3d_chares", argc, argv, jacobi::read, jacobi::run);
}
