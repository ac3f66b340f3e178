// Isthmus Bench: one benchmark on the ranks that it is started on, in plain MPI, for any MPI library.
//
//   mpiexec -n RANKS isthmus_bench NAME [options]      or by a name of its own:      mpiexec -n RANKS NAME
//   [options]
//
// Exit status: 0, 1 for a failure, 2 for a bad argument, 3 for wrong contents, 4 where library or machine
// lack what is measured.

#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <numeric>
#include <string>
#include <string_view>
#include <thread>
#include <variant>
#include <vector>

#include "suite/benchmarks/benchmark.hpp"
#include "suite/benchmarks/pair.hpp"
#include "suite/core/noise.hpp"
#include "suite/job/started.hpp"

namespace isthmus::bench {
namespace {

double& init_seconds() {
  static double seconds = 0;
  return seconds;
}

const Benchmark* find(std::string_view name) {
  if (name.starts_with("osu_")) name.remove_prefix(4);
  const auto& all = benchmarks();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Benchmark& each) { return each.name == name; });
  return found == all.end() ? nullptr : &*found;
}

std::string list() {
  std::string text;
  std::string_view group;
  for (const Benchmark& each : benchmarks()) {
    if (each.group != group) text += (text.empty() ? "" : "\n") + std::string(group = each.group) + "\n";
    std::string name = "  " + each.name;
    name.resize(std::max<std::size_t>(name.size() + 1, 34), ' ');
    text += name + each.meaning + "\n";
  }
  return text;
}

std::string help(const Benchmark& benchmark) {
  std::string text = benchmark.name + ": " + benchmark.meaning + "\n\nusage: mpiexec -n RANKS " +
                     benchmark.name + " [options]";
  if (has(benchmark.features, Feature::placement)) text += " [PLACEMENT [PLACEMENT]]";
  return text + "\n\n" + options_help(benchmark.features);
}

std::string ranks_trouble(const Benchmark& benchmark, int ranks) {
  const std::string here =
      " ranks, and there " + std::string(ranks == 1 ? "is 1" : "are " + std::to_string(ranks));
  if (benchmark.ranks == Ranks::two && ranks != 2) return benchmark.name + " needs exactly 2" + here;
  if (benchmark.ranks == Ranks::even && (ranks < 2 || ranks % 2 != 0))
    return benchmark.name + " needs an even number of" + here;
  return "";
}

// What share of the time went elsewhere while all ranks computed; the worst rank's, on rank 0.
double lost_to_others() {
  const double mine = measure_lost_share();
  double worst = 0;
  call(MPI_Reduce(&mine, &worst, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD), "MPI_Reduce");
  return worst;
}

void note_noise(const Job& job, const Output& output, double before, double after) {
  const double lost = std::max(before, after);
  if (lost < noisy_from) return;
  const bool crowded = static_cast<unsigned>(job.ranks()) > std::thread::hardware_concurrency();
  output.note("the machine was noisy: " + std::to_string(static_cast<int>(lost * 100)) +
              " % of a rank's time went elsewhere" +
              (crowded ? ", with more ranks than hardware threads" : "; do not trust small differences"));
}

void describe(const Benchmark& benchmark, const Options& options, const Output& output, int ranks) {
  output.fact("benchmark", benchmark.name + ": " + benchmark.meaning);
  output.fact("library", library_name());
  output.fact("ranks", std::to_string(ranks));
  if (has(benchmark.features, Feature::placement))
    output.fact("placement", std::string(name_of(options.placement[0])) + " - " +
                                 std::string(name_of(options.placement[1])));
}

// Of whole elements, and in which the layout's blocks fit once.
std::vector<std::size_t> sizes_for(const Benchmark& benchmark, const Options& options, Element element) {
  if (!has(benchmark.features, Feature::sizes)) return {0};
  std::vector<std::size_t> sizes = sizes_of(options, std::lcm(benchmark.unit, bytes_of(element)));
  const std::size_t least = options.layout.span * bytes_of(element);
  std::erase_if(sizes, [least](std::size_t size) { return size != 0 && size < least; });
  if (sizes.empty())
    throw Stop{status_bad_argument,
               "no size is left: " + benchmark.name + " needs multiples of " +
                   std::to_string(std::lcm(benchmark.unit, bytes_of(element))) + " bytes" +
                   (options.layout.has_gaps() ? ", at least " + std::to_string(least) : std::string())};
  return sizes;
}

void run_size(const Benchmark& benchmark, const Job& job, std::size_t bytes) {
  const std::size_t limit = job.options().memory_limit;
  const std::size_t needs = benchmark.needs ? benchmark.needs(job, bytes) : 2 * bytes;
  if (needs <= limit && bytes <= (std::size_t{1} << 30)) return benchmark.run(job, bytes);
  if (job.rank() == 0)
    job.output().note("size " + std::to_string(bytes) + " is left out: a rank would need " +
                      std::to_string(needs >> 20) + " MiB, and the limit (-M) is " +
                      std::to_string(limit >> 20) + " MiB");
}

void run(const Benchmark& benchmark, const Options& options) {
  Output output(benchmark.name, options, has(benchmark.features, Feature::sizes));
  Job job(options, output);
  if (const std::string why = ranks_trouble(benchmark, job.ranks()); !why.empty())
    throw Stop{status_bad_argument, why};
  const bool moves = is_managed(options.placement[0]) || is_managed(options.placement[1]);
  if (moves && !has(benchmark.features, Feature::managed))
    throw Stop{status_bad_argument,
               benchmark.name +
                   " does not measure managed memory: latency, bw, bibw and the blocking collectives do"};
  if (options.faults && !moves)
    throw Stop{status_bad_argument,
               "--faults counts page faults of managed memory: name MH or MD as a placement"};
  if (benchmark.group == "collective" && options.placement[0] != options.placement[1])
    throw Stop{status_bad_argument, "all ranks of a collective have the same placement: name one"};
  job.place(benchmark.ranks == Ranks::any ? 0 : side_of(job));
  const std::vector<Element> elements =
      options.elements.empty() ? std::vector{benchmark.element} : options.elements;
  for (const Element element : elements)
    static_cast<void>(
        sizes_for(benchmark, options, element));  // what cannot be is said before anything is measured
  if (job.rank() == 0) describe(benchmark, options, output, job.ranks());
  const double before = lost_to_others();
  for (const Element element : elements) {
    if (job.rank() == 0 && !options.elements.empty()) output.fact("datatype", name_of(element));
    job.use(element);
    for (const std::size_t bytes : sizes_for(benchmark, options, element))
      run_size(benchmark, job, bytes);
  }
  const double after = lost_to_others();
  if (job.rank() == 0) note_noise(job, output, before, after);
}

struct Request {
  const Benchmark* benchmark = nullptr;
  std::vector<std::string> words;
  std::string trouble;
};

// The benchmark's name is the program's own, or the first argument.
Request request_of(int count, char** arguments) {
  Request request;
  std::string own = arguments[0];
  own = own.substr(own.find_last_of('/') + 1);
  request.words.assign(arguments + 1, arguments + count);
  request.benchmark = find(own);
  if (request.benchmark == nullptr && !request.words.empty() && !request.words[0].starts_with('-')) {
    request.benchmark = find(request.words[0]);
    if (request.benchmark == nullptr)
      request.trouble = "there is no benchmark '" + request.words[0] + "'; --list shows all";
    request.words.erase(request.words.begin());
  }
  return request;
}

int print_if_first(int rank, FILE* where, const std::string& text, int status) {
  if (rank == 0) std::fputs(text.c_str(), where);
  return status;
}

int serve(const Request& request, int rank) {
  if (!request.trouble.empty())
    return print_if_first(rank, stderr, "isthmus bench: " + request.trouble + "\n", status_bad_argument);
  if (request.benchmark == nullptr) return print_if_first(rank, stdout, list(), 0);
  const Benchmark& benchmark = *request.benchmark;
  const auto parsed = parse_options(request.words, benchmark.features);
  if (const auto* refusal = std::get_if<Refusal>(&parsed))
    return print_if_first(rank, stderr, "isthmus bench " + benchmark.name + ": " + refusal->why + "\n",
                          status_bad_argument);
  const Options& options = std::get<Options>(parsed);
  if (options.help) return print_if_first(rank, stdout, help(benchmark), 0);
  try {
    run(benchmark, options);
    return 0;
  } catch (const Stop& stop) {
    const bool tell = !stop.by_all || rank == 0;
    const std::string sentence = "isthmus bench " + benchmark.name + ": " +
                                 (stop.by_all ? "" : "rank " + std::to_string(rank) + ": ") + stop.why + "\n";
    if (tell) {
      std::fflush(stdout);
      std::fputs(sentence.c_str(), stderr);
      if (options.format == Format::json && rank == 0)
        std::printf("{\"stopped\": %d, \"why\": \"%s\"}\n", stop.status, json_text(stop.why).c_str());
      std::fflush(stdout);
    }
    if (!stop.by_all) MPI_Abort(MPI_COMM_WORLD, stop.status);
    return stop.status;
  }
}

int start(int* count, char*** arguments) {
  const Request request = request_of(*count, *arguments);
  const int wanted =
      request.benchmark != nullptr && request.benchmark->threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE;
  int provided = MPI_THREAD_SINGLE;
  const double before = now_seconds();
  if (MPI_Init_thread(count, arguments, wanted, &provided) != MPI_SUCCESS) return status_failed;
  init_seconds() = now_seconds() - before;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  int status = 0;
  if (provided < wanted) {
    status = print_if_first(rank, stderr,
                            "isthmus bench: " + library_name() + " does not provide MPI_THREAD_MULTIPLE\n",
                            status_absent);
  } else {
    status = serve(request, rank);
  }
  MPI_Finalize();
  return status;
}

}  // namespace

double seconds_in_init() {
  return init_seconds();
}

}  // namespace isthmus::bench

// Before MPI, so that neither a build nor a script needs ranks for it: --names, one a line; --list, with
// their meanings.
int main(int count, char** arguments) try {
  using namespace isthmus::bench;
  const std::string_view word = count > 1 ? arguments[1] : "";
  if (word == "--names") {
    for (const Benchmark& each : benchmarks())
      std::puts(each.name.c_str());
    return 0;
  }
  if (word == "--list") {
    std::fputs(list().c_str(), stdout);
    return 0;
  }
  return start(&count, &arguments);
} catch (const std::exception& error) {
  std::fprintf(stderr, "isthmus bench: %s\n", error.what());
  return 1;
}
