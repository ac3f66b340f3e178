#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "commands.hpp"
#include "explain/command.hpp"
#include "model/command.hpp"
#include "simulate/command.hpp"
#include "trace/command.hpp"

namespace {

int version() {
  fmt::print("Isthmus {}, MPI 5.0 standard ABI\n", ISTHMUS_VERSION);
  return 0;
}

/// "a,b": two hosts, as mpiexec takes them.
std::string two_hosts(const std::string& text) {
  const std::size_t comma = text.find(',');
  const bool two = comma != std::string::npos && comma > 0 && comma + 1 < text.size() &&
                   text.find(',', comma + 1) == std::string::npos;
  return two ? "" : "'" + text + "' is not two hosts: A,B";
}

/// What follows a subcommand's own options.
std::vector<std::string> command_of(const CLI::App* subcommand) {
  std::vector<std::string> command = subcommand->remaining();
  if (!command.empty() && command[0] == "--") command.erase(command.begin());
  return command;
}

/// Of the name of a file to draw into; empty if there is none.
std::string picture_problem(const std::string& name) {
  const bool known = name.ends_with(".svg") || name.ends_with(".png") || name.ends_with(".pdf");
  return known ? "" : "'" + name + "' does not end in .svg, .png or .pdf";
}

CLI::App* add_explain(CLI::App& app, isthmus::tool::ExplainOptions& options) {
  CLI::App* explain = app.add_subcommand(
      "explain", "Run a command; its MPI jobs tell at their end which ways messages took, and why");
  explain->footer("The command follows, with all its options: isthmus explain mpiexec -n 4 ./solver");
  explain->prefix_command();
  CLI::Option* full = explain->add_flag("--full", options.full, "Each pair of ranks, instead of a summary");
  CLI::Option* json =
      explain->add_flag("--json", options.json, "One JSON object instead of text, as one line on stderr")
          ->excludes(full);
  explain
      ->add_option("--picture", options.picture,
                   "Also draw who sends how much to whom, and in which way: FILE.svg, .png or .pdf")
      ->type_name("FILE")
      ->excludes(full)
      ->excludes(json)
      ->check(CLI::Validator(picture_problem, "", "a picture"));
  explain->final_callback([explain, &options] {
    options.command = command_of(explain);
    if (options.command.empty())
      throw CLI::ValidationError("explain",
                                 "needs a command, such as: isthmus explain mpiexec -n 4 ./solver");
  });
  return explain;
}

CLI::App* add_model(CLI::App& app, isthmus::tool::ModelOptions& options) {
  CLI::App* model = app.add_subcommand(
      "model",
      "Run a command twice, time what its processes and their GPUs do, and say what they would gain if "
      "messages went in the order of streams, or were sent by kernels");
  model->footer("The command follows, with all its options: isthmus model mpiexec -n 2 ./solver");
  model->prefix_command();
  model->add_flag("--json", options.json,
                  "One JSON object instead of text; what the command prints is left out");
  model->add_option("--picture", options.picture, "Also draw it: FILE.svg, .png or .pdf")
      ->type_name("FILE")
      ->check(CLI::Validator(picture_problem, "", "a picture"));
  model->final_callback([model, &options] {
    options.command = command_of(model);
    if (options.command.empty())
      throw CLI::ValidationError("model", "needs a command, such as: isthmus model mpiexec -n 2 ./solver");
  });
  return model;
}

CLI::App* add_trace(CLI::App& app, isthmus::tool::TraceOptions& options) {
  CLI::App* trace = app.add_subcommand(
      "trace", "Run a command, write a timeline of its MPI job, and say who waited for whom");
  trace->footer("The command follows, with all its options: isthmus trace -o FILE mpiexec -n 4 ./solver");
  trace->prefix_command();
  CLI::Option* output =
      trace
          ->add_option("-o,--output", options.output,
                       "The timeline's file, for https://ui.perfetto.dev and chrome://tracing")
          ->type_name("FILE")
          ->capture_default_str();
  trace->add_flag("--summary-only", options.summary_only, "Write no timeline")->excludes(output);
  trace
      ->add_option("--from", options.from,
                   "Leave out of the timeline what is before, in seconds from the first event")
      ->type_name("SECONDS");
  trace->add_option("--to", options.to, "The same for what is after")->type_name("SECONDS");
  CLI::Option* limit = trace
                           ->add_option("--limit", options.limit,
                                        "The most that a rank writes: a number of bytes, 64M without it")
                           ->type_name("BYTES");
  trace
      ->add_option("--read", options.from_folder,
                   "Run nothing: read what a job has left in the folder that ISTHMUS_TRACE named")
      ->type_name("FOLDER")
      ->excludes(limit);
  trace->final_callback([trace, &options] {
    options.command = command_of(trace);
    if (options.command.empty() == options.from_folder.empty())
      throw CLI::ValidationError(
          "trace", options.command.empty() ? "needs a command, such as: isthmus trace mpiexec -n 4 ./solver"
                                           : "takes no command together with --read");
  });
  return trace;
}

CLI::App* add_simulate(CLI::App& app, isthmus::tool::SimulateOptions& options) {
  CLI::App* simulate = app.add_subcommand(
      "simulate", "Work out from measured costs how Jacobi3D scales on more GPUs than there are");
  simulate->footer("docs/simulate.md says what the file of costs has, and what makes one.");
  simulate->add_option("COSTS", options.costs, "A file of what was measured, in JSON")->required();
  simulate->add_option("--gpus", options.gpus, "Where the curves end")
      ->type_name("N")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  simulate
      ->add_option("--within", options.within,
                   "Fail where a measured point is further from what is worked out, in per cent")
      ->type_name("PERCENT")
      ->check(CLI::Range(0.001, 1000.0));
  simulate->add_flag("--json", options.json, "One JSON object instead of text");
  simulate->add_option("--picture", options.picture, "Also draw the curves: FILE.svg, .png or .pdf")
      ->type_name("FILE")
      ->check(CLI::Validator(picture_problem, "", "a picture"));
  return simulate;
}

/// Of `tune --from mpiexec ...`, what follows --from: the options of another program. 0: nothing.
int command_of_tune(int count, char** arguments) {
  if (count < 2 || std::string_view(arguments[1]) != "tune") return 0;
  for (int i = 2; i + 1 < count; ++i) {
    if (std::string_view(arguments[i]) != "--from") continue;
    const std::string_view next = arguments[i + 1];
    const std::string_view name = next.substr(next.rfind('/') + 1);
    return name == "mpiexec" || name == "mpirun" ? i + 1 : 0;
  }
  return 0;
}

CLI::App* add_tune(CLI::App& app, isthmus::tool::TuneOptions& options) {
  CLI::App* tune = app.add_subcommand(
      "tune", "Measure this machine with two ranks, and write a table of what suits it best");
  CLI::Option* quick =
      tune->add_flag("--quick", options.quick, "Few repetitions: seconds instead of minutes, and more noise");
  CLI::Option* gpu =
      tune->add_flag("--gpu", options.gpu, "Measure the ways of GPU memory too, between the first two GPUs");
  CLI::Option* output =
      tune->add_option("--output", options.output,
                       "The table's file; without it, the one that your later jobs load by themselves")
          ->type_name("FILE");
  CLI::Option* hosts =
      tune->add_option("--hosts", options.hosts,
                       "Measure the network between these two hosts, as in mpiexec --hosts; without it, "
                       "between two processes of this machine")
          ->type_name("A,B")
          ->check(CLI::Validator(two_hosts, "", "two hosts"));
  tune->add_option("--launcher", options.launcher, "How to reach them, as in mpiexec --launcher")
      ->type_name("CMD")
      ->needs(hosts);
  CLI::Option* plot =
      tune->add_option("--plot", options.plot, "Also draw the curves: PREFIX.png and PREFIX.svg")
          ->type_name("PREFIX");
  tune->add_option(
          "--from", options.from,
          "Measure nothing, draw the curves of this table (--plot); with mpiexec and its words instead of a "
          "table: run it, and write what its messages have taught of the ways of long ones")
      ->type_name("TABLE")
      ->needs(plot)
      ->excludes(quick)
      ->excludes(gpu)
      ->excludes(output)
      ->excludes(hosts);
  return tune;
}

}  // namespace

int main(int count, char** arguments) try {
  // Its options are those of mpiexec and of the benchmark.
  if (count > 1 && std::string_view(arguments[1]) == "bench")
    return isthmus::tool::bench({arguments + 2, arguments + count});
  CLI::App app{"Tells what Isthmus finds here, and why it does what it does."};
  app.name("isthmus");
  app.require_subcommand(1);
  app.set_version_flag("-V,--version", fmt::format("Isthmus {}", ISTHMUS_VERSION));
  app.footer(
      "Examples:\n"
      "  isthmus info                            this machine, and which ways messages can take on it\n"
      "  isthmus info --coverage                 what of MPI 5.0 there is, chapter by chapter\n"
      "  isthmus explain mpiexec -n 4 ./solver   which ways its messages took, and why not others\n"
      "  isthmus stuck                           what the ranks of your running job wait for, and why it "
      "hangs\n"
      "  isthmus model mpiexec -n 2 ./solver     what it would gain if its GPUs sent messages by "
      "themselves\n"
      "  isthmus trace mpiexec -n 4 ./solver     a timeline of it, and who waited for whom\n"
      "  isthmus tune                            measure this machine, for all your later jobs\n"
      "  isthmus simulate COSTS.json             how Jacobi3D scales on more GPUs, from what was measured\n"
      "  isthmus bench latency                   one of many benchmarks; isthmus bench --help lists them");

  CLI::App* info = app.add_subcommand("info", "Show this machine, the settings, or what of MPI there is");
  bool settings = false;
  bool json = false;
  std::string chapter;
  CLI::Option* settings_flag =
      info->add_flag("--settings", settings, "All ISTHMUS_* variables: value, where from, meaning");
  CLI::Option* coverage_option =
      info->add_option(
              "--coverage", chapter,
              "What of MPI 5.0 is implemented. With a part of a chapter's name, or 'all': which functions "
              "are not")
          ->type_name("[CHAPTER]")
          ->expected(0, 1)
          ->excludes(settings_flag);

  info->add_flag("--json", json, "This machine as one JSON object")
      ->excludes(settings_flag)
      ->excludes(coverage_option);

  isthmus::tool::ExplainOptions explain_options;
  CLI::App* explain = add_explain(app, explain_options);
  CLI::App* stuck = app.add_subcommand(
      "stuck", "Say of each rank of a running job what it waits for, and what of that cannot end");
  std::string stuck_pid;
  stuck->add_option("PID", stuck_pid,
                    "Of the job's mpiexec; without it, the only one of yours that runs here");
  isthmus::tool::ModelOptions model_options;
  CLI::App* model = add_model(app, model_options);
  isthmus::tool::TraceOptions trace_options;
  CLI::App* trace = add_trace(app, trace_options);
  isthmus::tool::SimulateOptions simulate_options;
  CLI::App* simulate = add_simulate(app, simulate_options);
  isthmus::tool::TuneOptions tune_options;
  CLI::App* tune = add_tune(app, tune_options);
  if (const int command = command_of_tune(count, arguments)) {
    tune_options.command.assign(arguments + command, arguments + count);
    count = command - 1;
  }
  app.add_subcommand("bench", "Measure MPI calls, with this library or beside others: isthmus bench --help");
  CLI::App* version_command = app.add_subcommand("version", "Show the version");

  try {
    app.parse(count, arguments);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (*version_command) return version();
  if (*stuck) return isthmus::tool::stuck(stuck_pid);
  if (*model) return isthmus::tool::model_job(model_options);
  if (*trace) return isthmus::tool::trace_job(trace_options);
  if (*simulate) return isthmus::tool::simulate_job(simulate_options);
  if (*tune) {
    const bool measures =
        tune_options.quick || tune_options.gpu || !tune_options.hosts.empty() || !tune_options.plot.empty();
    if (!tune_options.command.empty() && measures) {
      std::fputs(
          "isthmus: tune --from mpiexec ... measures and draws nothing: of its options only --output goes "
          "with it\n",
          stderr);
      return 2;
    }
    return isthmus::tool::tune(tune_options);
  }
  if (*explain) return isthmus::tool::explain(explain_options);
  if (*coverage_option) return isthmus::tool::print_coverage(chapter);
  return settings ? isthmus::tool::print_settings() : isthmus::tool::print_machine(json);
} catch (const std::exception& error) {
  std::fprintf(stderr, "isthmus: %s\n", error.what());
  return 1;
}
