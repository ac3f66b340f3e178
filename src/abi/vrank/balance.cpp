#include <mpi-ext.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "abi/core/call.hpp"
#include "abi/core/entry.hpp"
#include "chare/strategies.hpp"
#include "coll/call/coll.hpp"
#include "coll/nodes/domains.hpp"

namespace isthmus::abi {
namespace {

/// What a new deal must save of the time that the slowest worker takes: less than that is noise, and a rank
/// that moves finds its data in another core's caches.
constexpr double least_saving = 0.02;

double longest(std::span<const chare::Load> loads, std::uint32_t workers, std::uint32_t chare::Load::* with) {
  std::vector<double> sums(workers);
  for (const chare::Load& each : loads)
    sums[each.*with] += each.seconds;
  return *std::ranges::max_element(sums);
}

struct Said {
  std::uint64_t work;
  std::uint64_t worker;
};

/// The worker for rank `own`, which is the same whoever of its process asks.
std::uint32_t choose(std::span<const Said> said, std::uint32_t own, const RankTurns& turns) {
  std::vector<chare::Load> loads;
  std::size_t place = 0;
  for (std::uint32_t rank = 0; rank < said.size(); ++rank) {
    if (!turns.is_here(rank)) continue;
    if (rank == own) place = loads.size();
    const auto worker = static_cast<std::uint32_t>(said[rank].worker);
    loads.push_back({.index = {},
                     .seconds = static_cast<double>(said[rank].work),
                     .rank = worker,
                     .to = worker,
                     .is_fixed = 0,
                     .unused = 0});
  }
  chare::place_greedily(loads, turns.workers());
  const double before = longest(loads, turns.workers(), &chare::Load::rank);
  const double after = longest(loads, turns.workers(), &chare::Load::to);
  return after < (1 - least_saving) * before ? loads[place].to : loads[place].rank;
}

}  // namespace

ISTHMUS_EXTENSION(int, Get_worker)(int* worker, int* workers) {
  return call("MPIX_Get_worker", [&](Runtime& runtime) -> Result<> {
    ISTHMUS_TRY(check_pointer(worker, "worker"));
    ISTHMUS_TRY(check_pointer(workers, "workers"));
    const RankTurns* const turns = runtime.turns();
    *worker = turns ? static_cast<int>(turns->worker()) : 0;
    *workers = turns ? static_cast<int>(turns->workers()) : 1;
    return {};
  });
}

ISTHMUS_EXTENSION(int, Migrate)(int worker) {
  return call("MPIX_Migrate", [&](Runtime& runtime) -> Result<> {
    RankTurns* const turns = runtime.turns();
    const std::uint32_t workers = turns ? turns->workers() : 1;
    if (worker < 0 || static_cast<std::uint32_t>(worker) >= workers)
      return fail(ErrorClass::arg, "worker " + std::to_string(worker) +
                                       " is none of this process, which has " + std::to_string(workers) +
                                       " (mpiexec --workers-per-process)");
    if (!turns) return {};
    if (!turns->can_move())
      return fail(ErrorClass::other, "another rank of this process has not opened MPI yet");
    turns->move_to(static_cast<std::uint32_t>(worker));
    return {};
  });
}

ISTHMUS_EXTENSION(int, Load_balance)() {
  return call("MPIX_Load_balance", MPI_COMM_WORLD, [&](Communicator& world) -> Result<> {
    RankTurns* const turns = Runtime::get().turns();
    if (turns) turns->await_all();
    const Said own = turns ? Said{turns->take_work(), turns->worker()} : Said{};
    std::vector<Said> all(world.size());
    const Datatype& bytes = coll::byte_type();
    ISTHMUS_TRY(coll::allgather({&own, sizeof own, &bytes}, {all.data(), sizeof own, &bytes}, world));
    if (turns && turns->workers() > 1)
      turns->move_to(choose(all, static_cast<std::uint32_t>(world.rank()), *turns));
    return {};
  });
}

}  // namespace isthmus::abi
