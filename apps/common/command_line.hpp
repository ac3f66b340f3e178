// What the command lines of all applications have in common.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <optional>
#include <string>

#include "common/member.hpp"
#include "common/progress.hpp"

namespace apps {

// How a program speaks.
struct Output {
  ProgressStyle progress = ProgressStyle::automatic;
  bool json = false;  // the result as one JSON object, and nothing else on standard output
};

// Why the program is not to run: it was asked for help, or the arguments are bad.
struct Refusal {
  std::string message;
  int status;  // 0: help; 2: bad arguments

  static Refusal bad(const std::string& message) { return {message + "\n", 2}; }
};

// Prints on one process. The status to exit with.
[[nodiscard]] int refuse(const char* program, const Refusal& refusal, const Member& member);

// An option whose value is one of a few words.
template <class T>
void add_choice(CLI::App& app, const std::string& name, T& target, const std::map<std::string, T>& choices,
                const std::string& help) {
  app.add_option_function<std::string>(
         name, [&target, choices](const std::string& word) { target = choices.at(word); }, help)
      ->check(CLI::IsMember(choices))
      ->option_text("NAME");
}

// --progress and --quiet.
void add_progress_options(CLI::App& app, ProgressStyle& style);
// The same and --json.
void add_output_options(CLI::App& app, Output& output);

// Fills in what was added to `app`; nothing if that went well.
[[nodiscard]] std::optional<Refusal> parse(CLI::App& app, int argc, char** argv);

}  // namespace apps
