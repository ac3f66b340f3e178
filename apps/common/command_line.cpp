#include "common/command_line.hpp"

#include <cstdio>
#include <sstream>

namespace apps {

int refuse(const char* program, const Refusal& refusal, const Member& member) {
  if (!member.speaks()) return refusal.status;
  if (refusal.status == 0) {
    std::fputs(refusal.message.c_str(), stdout);
  } else {
    std::fprintf(stderr, "%s: %s", program, refusal.message.c_str());
  }
  return refusal.status;
}

void add_progress_options(CLI::App& app, ProgressStyle& style) {
  add_choice<ProgressStyle>(app, "--progress", style,
                            {{"auto", ProgressStyle::automatic},
                             {"bar", ProgressStyle::bar},
                             {"lines", ProgressStyle::lines},
                             {"none", ProgressStyle::none}},
                            "bar, lines, none or auto (default): a bar on a terminal, lines elsewhere");
  app.add_flag_callback(
      "-q,--quiet", [&style] { style = ProgressStyle::none; }, "No progress, only the result");
}

void add_output_options(CLI::App& app, Output& output) {
  add_progress_options(app, output.progress);
  app.add_flag("--json", output.json, "The result as one JSON object, and no progress");
}

std::optional<Refusal> parse(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::ostringstream out;
    const bool bad = app.exit(error, out, out) != 0;
    return Refusal{out.str(), bad ? 2 : 0};
  }
  return {};
}

}  // namespace apps
