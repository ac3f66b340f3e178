// The options by which an application's user chooses where and in which forms it runs.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "common/command_line.hpp"
#include "common/gpu/engine.hpp"
#include "common/gpu/form.hpp"

namespace apps::gpu {

struct FormOptions {
  Place place = Place::host;
  std::vector<Form> forms{Form::sync};  // without twice the same
  StreamWay way = StreamWay::prepared;

  [[nodiscard]] bool on_gpu() const { return place == Place::gpu; }
  // Whether any is held against the synchronous one.
  [[nodiscard]] bool compares() const { return forms != std::vector{Form::sync}; }
  // Those that run, one after the other: the synchronous one is the first.
  [[nodiscard]] std::vector<Form> all() const {
    std::vector<Form> result = forms;
    if (result.front() != Form::sync) result.insert(result.begin(), Form::sync);
    return result;
  }
};

// --gpu, --form and --by. `offered`: which forms the application has.
inline void add_form_options(CLI::App& app, FormOptions& options, const std::vector<Form>& offered) {
  app.add_flag_callback(
      "--gpu", [&options] { options.place = Place::gpu; },
      "Compute on a GPU, each process of a host on the next one");
  std::vector<std::string> names;
  names.reserve(offered.size());
  for (const Form form : offered)
    names.push_back(name_of(form));
  app.add_option_function<std::vector<std::string>>(
         "--form",
         [&options, offered](const std::vector<std::string>& words) {
           options.forms.clear();
           for (const Form form : offered)
             for (const std::string& word : words)
               if (word == name_of(form) && (options.forms.empty() || options.forms.back() != form))
                 options.forms.push_back(form);
         },
         "How processes exchange, separated by commas: sync, the host waits and calls MPI (default); stream, "
         "enqueued; graph, enqueued and captured once; kernel, by kernels. All but sync need --gpu, and are "
         "held against it")
      ->delimiter(',')
      ->check(CLI::IsMember(names))
      ->option_text("NAMES");
  add_choice<StreamWay>(app, "--by", options.way,
                        {{"prepared", StreamWay::prepared}, {"mpi", StreamWay::mpi}},
                        "What is enqueued: prepared, puts by the stream alone (default); mpi, "
                        "messages of MPI");
}

// Empty if all is well.
[[nodiscard]] inline std::string reconcile(const FormOptions& options) {
  for (const Form form : options.forms)
    if (form != Form::sync && options.place == Place::host) return "--form " + name_of(form) + " needs --gpu";
  return {};
}

}  // namespace apps::gpu
