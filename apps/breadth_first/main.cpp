// breadth_first: searches of a graph on GPUs in plain MPI, in two forms of communication. See --help.
#include <mpi.h>

#include <algorithm>
#include <vector>

#include "common/session.hpp"
#include "common/statistics.hpp"
#include "graph.hpp"
#include "options.hpp"
#include "report.hpp"
#include "search.hpp"

namespace breadth_first {
namespace {

using apps::gpu::Engine;
using apps::gpu::Form;

// Of this process's vertices, of the searches from each root.
std::vector<std::vector<int>> right_levels(const Options& options, const Grid& grid) {
  std::vector<std::vector<int>> all;
  for (int i = 0; i < options.roots; ++i) {
    std::vector<int> levels = serial_levels(options.graph, options.graph.root(i));
    levels.resize(static_cast<std::size_t>(grid.part) * static_cast<std::size_t>(grid.rows * grid.columns),
                  never);
    const auto first = levels.begin() + static_cast<std::ptrdiff_t>(grid.self()) * grid.part;
    all.emplace_back(first, first + grid.part);
  }
  return all;
}

Outcome search(const Options& options, const Grid& grid, const LocalEdges& edges, const Engine& engine,
               Form form, const std::vector<std::vector<int>>& right, MPI_Comm comm) {
  Search search(options, grid, edges, engine, form, comm);
  Outcome outcome;
  outcome.form = form;
  long here[2] = {0, 0};
  for (int i = 0; i < options.roots; ++i) {
    search.run(options.graph.root(i), false);  // what is only done once
    outcome.levels += static_cast<double>(search.depth()) / options.roots;
    const std::vector<int> levels = search.levels();
    const std::vector<int>& expected = right[static_cast<std::size_t>(i)];
    for (std::size_t vertex = 0; vertex < levels.size(); ++vertex) {
      here[0] += levels[vertex] != expected[vertex] ? 1 : 0;
      here[1] += levels[vertex] != never ? 1 : 0;
    }
  }
  long all[2];
  MPI_Allreduce(here, all, 2, MPI_LONG, MPI_SUM, comm);
  outcome.wrong = all[0];
  outcome.reached = all[1];
  std::vector<double> seconds;
  for (int repeat = 0; repeat < options.repeats; ++repeat) {
    double mine = 0, slowest = 0;
    for (int i = 0; i < options.roots; ++i)
      mine += search.run(options.graph.root(i), form == Form::sync);
    MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, comm);
    seconds.push_back(slowest / options.roots);
  }
  outcome.step_seconds = apps::median(seconds);
  outcome.edges_a_second = static_cast<double>(options.graph.edges()) / outcome.step_seconds;
  return outcome;
}

int run(const Options& options, const apps::Member& member) {
  const Grid grid = share_out(options.graph, member.rank, member.size);
  const Engine engine(options.how.place, member.comm);
  print_setting(options, grid, member);
  const LocalEdges edges = local_edges(options.graph, grid);
  const auto right = right_levels(options, grid);
  const std::vector<Form> forms = options.how.all();
  std::vector<Outcome> outcomes;
  outcomes.reserve(forms.size());
  for (const Form form : forms)
    outcomes.push_back(search(options, grid, edges, engine, form, right, member.comm));
  print_outcomes(options, outcomes, member);
  return std::ranges::all_of(outcomes, &Outcome::correct) ? 0 : 1;
}

}  // namespace
}  // namespace breadth_first

int main(int argc, char** argv) {
  return apps::run_application("breadth_first", argc, argv, breadth_first::read_command_line,
                               breadth_first::run);
}
