// molecular: molecular dynamics for GPUs in plain MPI, in several forms of communication. See --help.
#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "common/session.hpp"
#include "common/statistics.hpp"
#include "crystal.hpp"
#include "options.hpp"
#include "report.hpp"
#include "simulation.hpp"

namespace molecular {
namespace {

using apps::gpu::Engine;
using apps::gpu::Form;

bool same(const std::vector<Atom>& a, const std::vector<Atom>& b, MPI_Comm comm) {
  return apps::on_all(a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(Atom)) == 0,
                      comm);
}

Outcome simulate(const Options& options, const Crystal& crystal, const Engine& engine, Form form,
                 MPI_Comm comm, std::vector<Atom>& sync_atoms) {
  Simulation simulation(options, crystal, engine, form, comm);
  Outcome outcome;
  outcome.form = form;
  outcome.begin = simulation.totals();
  const double at_rest = energy_at_rest() * static_cast<double>(crystal.atoms());
  outcome.rest_error = std::abs(outcome.begin.potential / at_rest - 1);
  simulation.run(2, false);  // what is only done once
  std::vector<double> seconds;
  for (int repeat = 0; repeat < options.repeats; ++repeat) {
    const double here = simulation.run(options.steps, form == Form::sync);
    double slowest = 0;
    MPI_Allreduce(&here, &slowest, 1, MPI_DOUBLE, MPI_MAX, comm);
    seconds.push_back(slowest / options.steps);
  }
  outcome.step_seconds = apps::median(seconds);
  outcome.end = simulation.totals();
  const std::vector<Atom> atoms = simulation.atoms();
  if (form == Form::sync) sync_atoms = atoms;
  outcome.same_bits = same(atoms, sync_atoms, comm);
  return outcome;
}

int run(const Options& options, const apps::Member& member) {
  const Triple grid = choose_grid(member.size);
  const Crystal crystal{
      grid,
      {member.rank % grid[0], member.rank / grid[0] % grid[1], member.rank / grid[0] / grid[1]},
      options.edge,
      options.temperature};
  const Engine engine(options.how.place, member.comm);
  print_setting(options, crystal, member);
  const std::vector<Form> forms = options.how.all();
  std::vector<Outcome> outcomes;
  outcomes.reserve(forms.size());
  std::vector<Atom> sync_atoms;
  for (const Form form : forms)
    outcomes.push_back(simulate(options, crystal, engine, form, member.comm, sync_atoms));
  print_outcomes(options, crystal, outcomes, member);
  return std::ranges::all_of(outcomes, &Outcome::correct) ? 0 : 1;
}

}  // namespace
}  // namespace molecular

int main(int argc, char** argv) {
  return apps::run_application("molecular", argc, argv, molecular::read_command_line, molecular::run);
}
