#include "survivor.hpp"

#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <stdexcept>
#include <utility>
#include <vector>

#include "decomposition.hpp"
#include "halo.hpp"
#include "method.hpp"
#include "solver.hpp"
#include "stepper.hpp"

namespace jacobi {

#ifdef MPIX_ERR_PROC_FAILED

namespace {

// Set by the error handler of the communicators here: a call has failed, because somebody has died or another
// has revoked the communicator.
bool& call_failed() {
  static bool failed = false;
  return failed;
}

void note_failure(MPI_Comm* /*comm*/, int* code, ...) {
  int error_class = MPI_SUCCESS;
  MPI_Error_class(*code, &error_class);
  if (error_class != MPIX_ERR_PROC_FAILED && error_class != MPIX_ERR_REVOKED &&
      error_class != MPI_ERR_IN_STATUS)
    MPI_Abort(MPI_COMM_WORLD, 1);
  call_failed() = true;
}

// Points that two blocks have in common, in the cube's indices.
struct Box {
  Triple begin, end;
  [[nodiscard]] std::size_t points() const {
    std::size_t count = 1;
    for (int axis = 0; axis < 3; ++axis)
      count *= static_cast<std::size_t>(std::max(end[axis] - begin[axis], 0));
    return count;
  }
};

Box common_points(const Block& first, const Block& second) {
  Box box{};
  for (int axis = 0; axis < 3; ++axis) {
    box.begin[axis] = std::max(first.offset[axis], second.offset[axis]);
    box.end[axis] = std::min(first.offset[axis] + first.size[axis], second.offset[axis] + second.size[axis]);
  }
  return box;
}

template <class Visit>
void for_each_point(const Box& box, Visit visit) {
  for (int z = box.begin[2]; z < box.end[2]; ++z)
    for (int y = box.begin[1]; y < box.end[1]; ++y)
      for (int x = box.begin[0]; x < box.end[0]; ++x)
        visit(x, y, z);
}

Box all_points(const Block& block) {
  return common_points(block, block);
}

// Where the iteration is, at one process.
struct State {
  int iteration = 0;
  Weights weights;
  Field now, older;
};

// What a process keeps of one iteration: the values of both fields, those of a point side by side.
struct Kept {
  int iteration = -1;
  Weights weights{Method::jacobi, 0};
  std::vector<double> own, neighbours;
};

// Time between two deaths: who shares the work, and how.
struct Epoch {
  MPI_Comm comm = MPI_COMM_NULL;
  std::vector<int> members;  // ranks in MPI_COMM_WORLD
  int rank = 0;
  Triple grid{};
  std::array<Kept, 2> kept;  // the last two: a neighbour may have come only to the one before

  [[nodiscard]] int size() const { return static_cast<int>(members.size()); }
  [[nodiscard]] const Kept* kept_at(int iteration) const {
    const auto found = std::ranges::find(kept, iteration, &Kept::iteration);
    return found != kept.end() ? &*found : nullptr;
  }
  [[nodiscard]] int newest() const { return std::max(kept[0].iteration, kept[1].iteration); }
};

class Survivor {
 public:
  Survivor(const Options& options, const Problem& problem, MPI_Comm comm)
      : options_(options),
        problem_(problem),
        rate_(theoretical_rate(options.method, problem.spectral_radius())),
        limit_(options.iterations > 0 ? options.iterations : default_limit(options, problem, rate_)) {
    MPI_Comm_create_errhandler(note_failure, &handler_);
    MPI_Comm own = MPI_COMM_NULL;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler_);
    // A communicator of one's own, as MPI_Comm_dup makes it, but also where somebody has died by now.
    if (MPIX_Comm_shrink(comm, &own) != MPI_SUCCESS) throw std::runtime_error("cannot begin");
    epoch_ = enter(own);
  }
  Survivor(const Survivor&) = delete;
  Survivor& operator=(const Survivor&) = delete;
  ~Survivor() {
    MPI_Comm_free(&epoch_.comm);
    MPI_Errhandler_free(&handler_);
  }

  Solution run() {
    State state = begin(epoch_);
    Solution solution;
    for (;;) {
      solution = {};
      solution.theoretical_rate = rate_;
      const bool done = iterate(state, solution);
      // Who does not need the dead, but this process, waits for it.
      if (!done) MPIX_Comm_revoke(epoch_.comm);
      // All come to an end, or none does.
      int all_done = done ? 1 : 0;
      const bool agreed = MPIX_Comm_agree(epoch_.comm, &all_done) == MPI_SUCCESS;
      if (agreed && all_done != 0) return solution;
      recover(state);
    }
  }

  [[nodiscard]] const Epoch& epoch() const { return epoch_; }
  [[nodiscard]] int recoveries() const { return recoveries_; }

 private:
  [[nodiscard]] Block block_at(const Epoch& epoch, int rank) const {
    return block_of(rank, epoch.grid, problem_.n);
  }
  [[nodiscard]] Block own_block(const Epoch& epoch) const { return block_at(epoch, epoch.rank); }

  Epoch enter(MPI_Comm comm) {
    MPI_Comm_set_errhandler(comm, handler_);
    Epoch epoch;
    epoch.comm = comm;
    int size = 0;
    MPI_Comm_rank(comm, &epoch.rank);
    MPI_Comm_size(comm, &size);
    MPI_Group here = MPI_GROUP_NULL;
    MPI_Group world = MPI_GROUP_NULL;
    MPI_Comm_group(comm, &here);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    std::vector<int> ranks(static_cast<std::size_t>(size));
    std::iota(ranks.begin(), ranks.end(), 0);
    epoch.members.resize(ranks.size());
    MPI_Group_translate_ranks(here, size, ranks.data(), world, epoch.members.data());
    MPI_Group_free(&here);
    MPI_Group_free(&world);
    const auto grid = choose_grid(size, problem_.n);
    if (!grid) throw std::runtime_error("the processes that live cannot share the cube among them");
    epoch.grid = *grid;
    return epoch;
  }

  [[nodiscard]] State begin(const Epoch& epoch) const {
    const Block block = own_block(epoch);
    Field initial(block.size);
    set_boundary(initial, problem_, block);
    return {0, Weights(options_.method, problem_.spectral_radius()), initial, initial};
  }

  // False where a call has failed.
  bool iterate(State& state, Solution& solution) {
    call_failed() = false;
    const Block block = own_block(epoch_);
    const Field source = scaled_source(problem_, block);
    const auto halo = make_halo(HaloKind::datatype, block, epoch_.comm);
    const double to_residual = 6 / (problem_.h() * problem_.h() * Problem::largest_source());
    for (;; ++state.iteration) {
      halo->exchange(state.now.data());
      const bool measure = state.iteration % options_.residual_every == 0 || state.iteration == limit_;
      const double change = sweep(state.now, state.older, source, state.weights.next(), measure);
      if (call_failed()) return false;
      if (measure) {
        solution.residual = to_residual * global_max(change, epoch_.comm);
        if (call_failed()) return false;
        solution.iterations = state.iteration;
        solution.converged = solution.residual <= options_.tolerance;
        if (solution.converged || state.iteration == limit_ || !std::isfinite(solution.residual)) break;
      }
      std::swap(state.now, state.older);
      if (measure && !keep(epoch_, state, state.iteration + 1)) return false;
    }
    solution.error = global_max(largest_error(state.now, problem_, block), epoch_.comm);
    solution.bound = problem_.error_bound(solution.residual * Problem::largest_source());
    return !call_failed();
  }

  // Keeps the values before `iteration`, and gives them to the neighbour to keep.
  bool keep(Epoch& epoch, const State& state, int iteration) const {
    const Block block = own_block(epoch);
    Kept kept{iteration, state.weights, {}, {}};
    for_each_point(all_points(block), [&](int x, int y, int z) {
      const Triple at{x - block.offset[0] + 1, y - block.offset[1] + 1, z - block.offset[2] + 1};
      kept.own.push_back(state.now.at(at[0], at[1], at[2]));
      kept.own.push_back(state.older.at(at[0], at[1], at[2]));
    });
    const int left = (epoch.rank + epoch.size() - 1) % epoch.size();
    kept.neighbours.resize(2 * all_points(block_at(epoch, left)).points());
    MPI_Sendrecv(kept.own.data(), static_cast<int>(kept.own.size()), MPI_DOUBLE,
                 (epoch.rank + 1) % epoch.size(), 0, kept.neighbours.data(),
                 static_cast<int>(kept.neighbours.size()), MPI_DOUBLE, left, 0, epoch.comm,
                 MPI_STATUS_IGNORE);
    if (call_failed()) return false;
    auto& older = epoch.kept[0].iteration < epoch.kept[1].iteration ? epoch.kept[0] : epoch.kept[1];
    older = std::move(kept);
    return true;
  }

  void recover(State& state) {
    MPI_Comm broken = epoch_.comm;
    for (;;) {
      ++recoveries_;
      MPIX_Comm_revoke(broken);
      MPI_Comm left = MPI_COMM_NULL;
      if (MPIX_Comm_shrink(broken, &left) != MPI_SUCCESS)
        throw std::runtime_error("cannot go on without the dead");
      if (broken != epoch_.comm) MPI_Comm_free(&broken);
      call_failed() = false;
      Epoch next = enter(left);
      int good = rebuild(next, state) ? 1 : 0;
      if (good == 0) MPIX_Comm_revoke(left);
      if (MPIX_Comm_agree(left, &good) == MPI_SUCCESS && good != 0) {
        MPI_Comm_free(&epoch_.comm);
        epoch_ = std::move(next);
        return;
      }
      broken = left;
    }
  }

  // The rank in `next` of who has the values of `rank`'s block in the present epoch; -1 if nobody has.
  [[nodiscard]] int holder(const Epoch& next, int rank) const {
    for (const int keeper : {rank, (rank + 1) % epoch_.size()}) {
      const auto found = std::ranges::find(next.members, epoch_.members[static_cast<std::size_t>(keeper)]);
      if (found != next.members.end()) return static_cast<int>(found - next.members.begin());
    }
    return -1;
  }

  // The state that all who live have come to last, shared out as `next` has it.
  bool rebuild(Epoch& next, State& state) {
    const int newest = epoch_.newest();
    int iteration = -1;
    MPI_Allreduce(&newest, &iteration, 1, MPI_INT, MPI_MIN, next.comm);
    if (call_failed()) return false;
    bool complete = iteration >= 0;
    for (int rank = 0; rank < epoch_.size(); ++rank)
      complete = complete && holder(next, rank) >= 0;
    State restored = begin(next);
    if (complete) {
      const Kept* const kept = epoch_.kept_at(iteration);
      if (!kept) throw std::runtime_error("a checkpoint that all have is missing here");
      restored.iteration = iteration;
      restored.weights = kept->weights;
      if (!share_out(next, *kept, restored)) return false;
    }
    if (!keep(next, restored, restored.iteration)) return false;
    state = std::move(restored);
    return true;
  }

  bool share_out(const Epoch& next, const Kept& kept, State& restored) const {
    struct Piece {
      Box box;
      std::vector<double> values;
    };
    std::vector<Piece> arriving;
    std::vector<std::vector<double>> leaving;
    std::vector<MPI_Request> requests;
    const int all = epoch_.size() * next.size();
    arriving.reserve(static_cast<std::size_t>(all));
    leaving.reserve(static_cast<std::size_t>(all));
    for (int from = 0; from < epoch_.size(); ++from) {
      const Block old_block = block_at(epoch_, from);
      const int sender = holder(next, from);
      for (int to = 0; to < next.size(); ++to) {
        const Box box = common_points(old_block, block_at(next, to));
        if (box.points() == 0) continue;
        if (to == next.rank) {
          Piece& piece = arriving.emplace_back(box, std::vector<double>(2 * box.points()));
          requests.push_back(MPI_REQUEST_NULL);
          MPI_Irecv(piece.values.data(), static_cast<int>(piece.values.size()), MPI_DOUBLE, sender, from,
                    next.comm, &requests.back());
        }
        if (sender == next.rank) {
          leaving.push_back(cut(from == epoch_.rank ? kept.own : kept.neighbours, old_block, box));
          requests.push_back(MPI_REQUEST_NULL);
          MPI_Isend(leaving.back().data(), static_cast<int>(leaving.back().size()), MPI_DOUBLE, to, from,
                    next.comm, &requests.back());
        }
      }
    }
    MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
    if (call_failed()) return false;
    const Block block = own_block(next);
    for (const Piece& piece : arriving) {
      std::size_t i = 0;
      for_each_point(piece.box, [&](int x, int y, int z) {
        const Triple at{x - block.offset[0] + 1, y - block.offset[1] + 1, z - block.offset[2] + 1};
        restored.now.at(at[0], at[1], at[2]) = piece.values[i++];
        restored.older.at(at[0], at[1], at[2]) = piece.values[i++];
      });
    }
    return true;
  }

  // The part `box` of the values of a block.
  static std::vector<double> cut(const std::vector<double>& values, const Block& block, const Box& box) {
    std::vector<double> part;
    part.reserve(2 * box.points());
    for_each_point(box, [&](int x, int y, int z) {
      const std::size_t row =
          static_cast<std::size_t>((z - block.offset[2]) * block.size[1] + y - block.offset[1]);
      const std::size_t point =
          row * static_cast<std::size_t>(block.size[0]) + static_cast<std::size_t>(x - block.offset[0]);
      part.push_back(values[2 * point]);
      part.push_back(values[2 * point + 1]);
    });
    return part;
  }

  const Options& options_;
  const Problem problem_;
  const double rate_;
  const int limit_;
  MPI_Errhandler handler_ = MPI_ERRHANDLER_NULL;
  Epoch epoch_;
  int recoveries_ = 0;
};

}  // namespace

bool can_survive() {
  return true;
}

int solve_surviving(const Options& options, const Problem& problem, MPI_Comm comm) {
  int began = 0;
  MPI_Comm_size(comm, &began);
  Survivor survivor(options, problem, comm);
  if (survivor.epoch().rank == 0) {
    std::printf("jacobi3d: %d^3 points, %d processes, of which some may die\n", options.n,
                survivor.epoch().size());
    std::fflush(stdout);
  }
  const Solution solution = survivor.run();
  const bool correct = solution.within_bound() && (solution.converged || options.tolerance == 0);
  if (survivor.epoch().rank == 0) {
    std::printf("%d of %d processes have come to the end, %d recoveries\n", survivor.epoch().size(), began,
                survivor.recoveries());
    std::printf("iterations %d, residual %.17g, error %.17g against %.3g: %s\n", solution.iterations,
                solution.residual, solution.error, solution.bound, correct ? "correct" : "WRONG");
  }
  return correct ? 0 : 1;
}

#else

bool can_survive() {
  return false;
}

int solve_surviving(const Options& /*options*/, const Problem& /*problem*/, MPI_Comm /*comm*/) {
  return 1;
}

#endif

}  // namespace jacobi
