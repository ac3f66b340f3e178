#include "solver.hpp"

#include <algorithm>
#include <utility>

namespace multigrid {

using apps::gpu::Buffer;
using apps::gpu::Engine;
using apps::gpu::Exchange;
using apps::gpu::Form;
using apps::gpu::Route;

// One level, and its faces' ways to other processes.
struct Solver::Grid {
  Grid(const Engine& engine, apps::gpu::Communication& communication, const Division& division, double alpha)
      : cells(cells_with_layers(division)), u(engine, cells), f(engine, cells) {
    const double h = Problem::h(division);
    level.n = division.n;
    level.inverse = 1 / (h * h);
    level.alpha = alpha;
    level.u = u.data();
    level.f = f.data();
    for (int axis = 0; axis < 3; ++axis) {
      level.boxes[axis] = division.boxes[static_cast<std::size_t>(axis)];
      level.first[axis] = division.first(axis);
      level.extent[axis] = division.extent(axis);
    }
    pack.level = unpack.level = local.level = level;
    std::vector<Route> routes;
    for (int face = 0; face < face_count; ++face) {
      const int neighbour = division.neighbour(face);
      local.is_remote[face] = neighbour >= 0;
      if (neighbour < 0) continue;
      const std::size_t bytes = static_cast<std::size_t>(points_of_face(level, face)) * sizeof(double);
      routes.push_back({neighbour, face, face ^ 1, bytes, bytes});
      faces.push_back(face);
    }
    messages = communication.exchange(std::move(routes));
  }

  static std::size_t cells_with_layers(const Division& division) {
    const auto side = static_cast<std::size_t>(division.n) + 2;
    std::size_t count = side * side * side;
    for (const int extent : division.boxes)
      count *= static_cast<std::size_t>(extent);
    return count;
  }

  std::size_t cells;
  Buffer<double> u, f;
  Level level{};
  LocalWork local{};
  PackWork pack{};
  UnpackWork unpack{};
  std::vector<int> faces;  // of the routes
  std::unique_ptr<Exchange> messages;
};

Solver::Solver(const Options& options, const Division& division, const Problem::Values& values,
               const Engine& engine, Form form, MPI_Comm comm)
    : options_(options),
      engine_(engine),
      form_(form),
      comm_(comm),
      communication_(engine, form == Form::kernel ? Form::sync : form, options.how.way, comm) {
  if (form == Form::kernel)
    by_kernels_ =
        std::make_unique<KernelForm>(engine, comm, 2 * std::max(options.sweeps, options.bottom_sweeps));
  engine_.prepare<LocalWork, PackWork, UnpackWork, SmoothWork, RestrictWork, InterpolateWork>();
  for (Division at = division; at.n >= 2; at.n /= 2) {
    levels_.push_back(std::make_unique<Grid>(engine, communication_, at, options.alpha));
    if (by_kernels_) by_kernels_->add(levels_.back()->level, at);
  }
  levels_.front()->f.write(values.f.data());
}

Solver::~Solver() {
  engine_.wait();
}

// Fills the layers around all boxes.
void Solver::exchange(Grid& grid) {
  for (std::size_t route = 0; route < grid.faces.size(); ++route)
    grid.pack.buffers[grid.faces[route]] = static_cast<double*>(grid.messages->outgoing(route));
  engine_.launch(grid.pack);
  grid.messages->post();
  engine_.launch(grid.local);
  grid.messages->finish();
  for (std::size_t route = 0; route < grid.faces.size(); ++route)
    grid.unpack.buffers[grid.faces[route]] = static_cast<double*>(grid.messages->incoming(route));
  engine_.launch(grid.unpack);
}

void Solver::smooth(std::size_t depth, int sweeps) {
  if (by_kernels_) return by_kernels_->smooth(depth, 2 * sweeps);
  Grid& grid = *levels_[depth];
  for (int sweep = 0; sweep < sweeps; ++sweep)
    for (int colour = 0; colour < 2; ++colour) {
      exchange(grid);
      engine_.launch(SmoothWork{grid.level, colour});
    }
}

void Solver::restrict_from(std::size_t depth) {
  if (by_kernels_) return by_kernels_->restrict_from(depth);
  exchange(*levels_[depth]);
  engine_.launch(RestrictWork{levels_[depth]->level, levels_[depth + 1]->level});
}

void Solver::interpolate_from(std::size_t depth) {
  if (by_kernels_) return by_kernels_->interpolate_from(depth);
  exchange(*levels_[depth]);
  engine_.launch(InterpolateWork{levels_[depth - 1]->level, levels_[depth]->level});
}

void Solver::cycle(std::size_t depth) {
  if (depth + 1 == levels_.size()) return smooth(depth, options_.bottom_sweeps);
  smooth(depth, options_.sweeps);
  restrict_from(depth);
  cycle(depth + 1);
  interpolate_from(depth + 1);
  smooth(depth, options_.sweeps);
}

// An even number: so each exchange of a graph finds the same one of its two places at each launch.
void Solver::cycles(int count) {
  if (form_ == Form::graph) {
    for (int i = 0; i < count; i += 2)
      engine_.device().launch(two_cycles_);
    return;
  }
  for (int i = 0; i < count; ++i)
    cycle(0);
}

double Solver::solve(bool is_watched) {
  if (form_ == Form::graph && !two_cycles_) {
    engine_.device().begin_capture();
    cycle(0);
    cycle(0);
    two_cycles_ = engine_.device().end_capture();
  }
  Grid& finest = *levels_.front();
  engine_.clear(finest.u.data(), finest.u.bytes());
  engine_.wait();
  MPI_Barrier(comm_);
  if (is_watched) MPI_Pcontrol(1);  // tools look at what lies between
  const double begin = MPI_Wtime();
  cycles(options_.cycles);
  engine_.wait();
  const double seconds = MPI_Wtime() - begin;
  if (is_watched) MPI_Pcontrol(0);
  communication_.check();
  if (by_kernels_) by_kernels_->check();
  return seconds;
}

std::vector<double> Solver::answer() const {
  std::vector<double> values(levels_.front()->cells);
  levels_.front()->u.read(values.data());
  return values;
}

std::vector<double> Solver::residual() {
  Grid& finest = *levels_.front();
  exchange(finest);
  exchange(finest);  // an even number, as in a graph
  std::vector<double> u = answer(), f(u.size()), residual(u.size());
  finest.f.read(f.data());
  Level on_host = finest.level;
  on_host.u = u.data();
  on_host.f = f.data();
  const int n = on_host.n;
  for (int box = 0; box < on_host.box_count(); ++box)
    for (int z = 1; z <= n; ++z)
      for (int y = 1; y <= n; ++y)
        for (int x = 1; x <= n; ++x) {
          const long at = on_host.index(box, x, y, z);
          residual[static_cast<std::size_t>(at)] = on_host.residual(at);
        }
  return residual;
}

long Solver::exchanges_of_cycle() const {
  const long coarser = static_cast<long>(levels_.size()) - 1;
  return coarser * (4L * options_.sweeps + 2) + 2L * options_.bottom_sweeps;
}

}  // namespace multigrid
