#include "simulation.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace molecular {

using apps::gpu::Engine;
using apps::gpu::Exchange;
using apps::gpu::Form;
using apps::gpu::Route;

// Both neighbours along an axis.
struct Simulation::Ways {
  Ways(apps::gpu::Communication& communication, const Crystal& crystal, const Grid& grid, int axis) {
    atoms_out.slabs = atoms_in.slabs = {grid, axis, depth};
    slopes_out.slabs = slopes_in.slabs = {grid, axis, 1};
    for (int side = 0; side < side_count; ++side)
      atoms_out.shift[side] = crystal.shift(axis, side);
    const auto routes = [&](std::size_t bytes) {
      // What goes to the lower one comes from the upper one: 0.
      return std::vector<Route>{{crystal.neighbour(axis, 0), 0, 1, bytes, bytes},
                                {crystal.neighbour(axis, 1), 1, 0, bytes, bytes}};
    };
    atoms = communication.exchange(routes(static_cast<std::size_t>(atoms_out.slabs.cells()) * sizeof(Cell)));
    slopes = communication.exchange(
        routes(static_cast<std::size_t>(slopes_out.slabs.cells()) * capacity * sizeof(double)));
  }
  PackAtomsWork atoms_out{};
  UnpackAtomsWork atoms_in{};
  PackSlopesWork slopes_out{};
  UnpackSlopesWork slopes_in{};
  std::unique_ptr<Exchange> atoms, slopes;
};

Simulation::Simulation(const Options& options, const Crystal& crystal, const Engine& engine, Form form,
                       MPI_Comm comm)
    : options_(options),
      engine_(engine),
      form_(form),
      comm_(comm),
      grid_(crystal.grid()),
      communication_(engine, form == Form::kernel ? Form::sync : form, options.how.way, comm),
      first_cells_(engine, static_cast<std::size_t>(grid_.all())),
      second_cells_(engine, static_cast<std::size_t>(grid_.all())),
      now_(first_cells_.data()),
      sorted_(second_cells_.data()),
      sums_(engine, static_cast<std::size_t>(grid_.all()) * capacity),
      slopes_(engine, static_cast<std::size_t>(grid_.all()) * capacity),
      problems_(engine, 1) {
  engine_.prepare<MoveWork, PackAtomsWork, UnpackAtomsWork, SortWork, DensityWork, PackSlopesWork,
                  UnpackSlopesWork, ForceWork>();
  first_cells_.write(crystal.cells(grid_).data());
  for (int axis = 0; axis < 3; ++axis)
    ways_.push_back(std::make_unique<Ways>(communication_, crystal, grid_, axis));
  // Twice, as in each even number of steps, with nothing that moves.
  for (int i = 0; i < 2; ++i) {
    exchange_atoms();
    find_forces(0);
  }
  engine_.wait();
  if (form == Form::kernel)
    by_kernels_ =
        make_kernel_form(engine, comm, crystal,
                         {{now_, sorted_}, sums_.data(), slopes_.data(), problems_.data()}, options.step);
}

Simulation::~Simulation() {
  engine_.wait();
}

// Along one axis after the other: what has come goes on, so that corners arrive too. Then each cell's atoms.
void Simulation::exchange_atoms() {
  for (const auto& way : ways_) {
    way->atoms_out.cells = way->atoms_in.cells = now_;
    for (std::size_t side = 0; side < side_count; ++side)
      way->atoms_out.buffers[side] = static_cast<Cell*>(way->atoms->outgoing(side));
    engine_.launch(way->atoms_out);
    way->atoms->post();
    way->atoms->finish();
    for (std::size_t side = 0; side < side_count; ++side)
      way->atoms_in.buffers[side] = static_cast<const Cell*>(way->atoms->incoming(side));
    engine_.launch(way->atoms_in);
  }
  engine_.launch(SortWork{grid_, now_, sorted_, problems_.data()});
  std::swap(now_, sorted_);
}

void Simulation::find_forces(double step) {
  engine_.launch(DensityWork{grid_, now_, sums_.data(), slopes_.data()});
  for (const auto& way : ways_) {
    way->slopes_out.slopes = way->slopes_in.slopes = slopes_.data();
    for (std::size_t side = 0; side < side_count; ++side)
      way->slopes_out.buffers[side] = static_cast<double*>(way->slopes->outgoing(side));
    engine_.launch(way->slopes_out);
    way->slopes->post();
    way->slopes->finish();
    for (std::size_t side = 0; side < side_count; ++side)
      way->slopes_in.buffers[side] = static_cast<double*>(way->slopes->incoming(side));
    engine_.launch(way->slopes_in);
  }
  engine_.launch(ForceWork{grid_, now_, sums_.data(), slopes_.data(), step});
}

void Simulation::one_step() {
  engine_.launch(MoveWork{grid_, now_, sums_.data(), options_.step, problems_.data()});
  exchange_atoms();
  find_forces(options_.step);
}

double Simulation::run(int steps, bool is_watched) {
  if (form_ == Form::graph && !two_steps_) {
    engine_.device().begin_capture();
    one_step();
    one_step();
    two_steps_ = engine_.device().end_capture();
  }
  engine_.wait();
  MPI_Barrier(comm_);
  if (is_watched) MPI_Pcontrol(1);  // tools look at what lies between
  const double begin = MPI_Wtime();
  if (by_kernels_) by_kernels_->run(steps);
  for (int i = 0; i < steps && !by_kernels_; i += 2) {
    if (form_ == Form::graph) {
      engine_.device().launch(two_steps_);
      continue;
    }
    one_step();
    one_step();
  }
  engine_.wait();
  const double seconds = MPI_Wtime() - begin;
  if (is_watched) MPI_Pcontrol(0);
  communication_.check();
  if (by_kernels_) by_kernels_->check();
  return seconds;
}

std::vector<Atom> Simulation::atoms() const {
  std::vector<Cell> cells(static_cast<std::size_t>(grid_.all()));
  (now_ == first_cells_.data() ? first_cells_ : second_cells_).read(cells.data());
  std::vector<Atom> atoms;
  for (long i = 0; i < grid_.own(); ++i) {
    int at[3];
    grid_.place(i, 0, at);
    const Cell& cell = cells[static_cast<std::size_t>(grid_.index(at[0], at[1], at[2]))];
    atoms.insert(atoms.end(), cell.atoms, cell.atoms + cell.count);
  }
  return atoms;
}

Totals Simulation::totals() const {
  long problem = 0;
  problems_.read(&problem);
  if (problem == 1)
    throw std::runtime_error("an atom has gone further than a cell in one step: take a shorter --step");
  if (problem == 2)
    throw std::runtime_error("more atoms have come to a cell than it can hold: take a lower --temperature");
  Totals here;
  for (const Atom& atom : atoms()) {
    ++here.atoms;
    here.numbers += atom.number();
    for (int axis = 0; axis < 3; ++axis) {
      here.momentum[axis] += atom.momentum[axis];
      here.kinetic += atom.momentum[axis] * atom.momentum[axis] / (2 * mass);
    }
  }
  std::vector<Cell> cells(static_cast<std::size_t>(grid_.all()));
  std::vector<Sums> sums(sums_.size());
  (now_ == first_cells_.data() ? first_cells_ : second_cells_).read(cells.data());
  sums_.read(sums.data());
  for (long i = 0; i < grid_.own(); ++i) {
    int at[3];
    grid_.place(i, 0, at);
    const auto cell = static_cast<std::size_t>(grid_.index(at[0], at[1], at[2]));
    for (std::size_t slot = 0; slot < static_cast<std::size_t>(cells[cell].count); ++slot) {
      const Sums& of_atom = sums[cell * capacity + slot];
      here.potential += of_atom.energy;
      for (const double force : of_atom.force)
        here.force = std::max(here.force, std::abs(force));
    }
  }
  Totals all;
  const double mine[5] = {here.potential, here.kinetic, here.momentum[0], here.momentum[1], here.momentum[2]};
  double sum[5];
  MPI_Allreduce(mine, sum, 5, MPI_DOUBLE, MPI_SUM, comm_);
  all.potential = sum[0];
  all.kinetic = sum[1];
  std::copy(sum + 2, sum + 5, all.momentum);
  MPI_Allreduce(&here.force, &all.force, 1, MPI_DOUBLE, MPI_MAX, comm_);
  const long counts[2] = {here.atoms, here.numbers};
  long total[2];
  MPI_Allreduce(counts, total, 2, MPI_LONG, MPI_SUM, comm_);
  all.atoms = total[0];
  all.numbers = total[1];
  return all;
}

}  // namespace molecular
