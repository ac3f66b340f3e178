#include <mpi-ext.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "abi/core/call.hpp"
#include "abi/core/entry.hpp"
#include "abi/vrank/places.hpp"
#include "base/log.hpp"
#include "chare/strategies.hpp"
#include "coll/call/coll.hpp"
#include "coll/nodes/domains.hpp"

namespace isthmus::abi {
namespace {

/// What a new deal must save of the time that the slowest worker takes: less than that is noise, and a rank
/// that moves finds its data in another core's caches.
constexpr double least_saving = 0.02;

/// The same of a deal by which ranks change hosts: they find their peers behind a network then. A guess: how
/// much that takes is the program's.
constexpr double least_saving_between_hosts = 0.1;

double longest(std::span<const chare::Load> loads, std::uint32_t workers, std::uint32_t chare::Load::* with) {
  std::vector<double> sums(workers);
  for (const chare::Load& each : loads)
    sums[each.*with] += each.seconds;
  return *std::ranges::max_element(sums);
}

struct Said {
  std::uint64_t work;
  std::uint32_t worker;
  std::uint16_t is_tied;    ///< to its process
  std::uint16_t uses_cuda;  ///< so that messages in GPU memory may be under way to or from it
};

bool any_uses_cuda(std::span<const Said> said) {
  return std::ranges::any_of(said, [](const Said& each) { return each.uses_cuda != 0; });
}

/// Deals the ranks of each host to the workers of it. How long the slowest worker has then.
double place_on_hosts(std::span<chare::Load> loads, const RankTurns& turns) {
  const std::span<const HostWorker> workers = turns.host_workers();
  const std::uint32_t all = worker_place(&turns).all;
  std::uint32_t first = 0;
  do {
    std::uint32_t end = first + 1;
    while (end < all && (workers.empty() || workers[end].host == workers[first].host))
      ++end;
    std::vector<chare::Load> here;
    for (const chare::Load& each : loads)
      if (each.rank >= first && each.rank < end) {
        here.push_back(each);
        here.back().rank -= first;
      }
    chare::place_greedily(here, end - first);
    auto dealt = here.begin();
    for (chare::Load& each : loads)
      if (each.rank >= first && each.rank < end) each.to = (dealt++)->to + first;
    first = end;
  } while (first < all);
  return longest(loads, all, &chare::Load::to);
}

/// The worker for each rank of `said` that shares `workers` with `own`, which is the same whoever of them
/// asks; for others, where they are.
std::vector<std::uint32_t> choose(std::span<const Said> said, const RankTurns& turns) {
  const std::uint32_t workers = worker_place(&turns).all;
  std::vector<chare::Load> loads;
  std::vector<std::uint32_t> result, places;
  for (std::uint32_t rank = 0; rank < said.size(); ++rank) {
    result.push_back(said[rank].worker);
    if (!is_migratable(&turns) && !turns.is_here(rank)) continue;
    places.push_back(rank);
    loads.push_back({.index = {},
                     .seconds = static_cast<double>(said[rank].work),
                     .rank = said[rank].worker,
                     .to = said[rank].worker,
                     .is_fixed = said[rank].is_tied,
                     .unused = 0});
  }
  const double before = longest(loads, workers, &chare::Load::rank);
  const double on_hosts = place_on_hosts(loads, turns);
  const bool saves_on_hosts = on_hosts < (1 - least_saving) * before;
  const double least = saves_on_hosts ? on_hosts : before;
  const auto take = [&] {
    for (std::size_t i = 0; i < loads.size(); ++i)
      result[places[i]] = loads[i].to;
  };
  if (saves_on_hosts) take();
  if (!turns.lines() || any_uses_cuda(said)) return result;
  chare::place_greedily(loads, workers);
  if (longest(loads, workers, &chare::Load::to) < (1 - least_saving_between_hosts) * least) take();
  return result;
}

std::vector<std::uint32_t> workers_of(std::span<const Said> said) {
  std::vector<std::uint32_t> result;
  for (const Said& each : said)
    result.push_back(each.worker);
  return result;
}

Result<std::vector<Said>> gather(const Said& own, Communicator& world) {
  std::vector<Said> all(static_cast<std::size_t>(world.size()));
  const Datatype& bytes = coll::byte_type();
  ISTHMUS_TRY(coll::allgather({&own, sizeof own, &bytes}, {all.data(), sizeof own, &bytes}, world));
  return all;
}

/// What the program has in errno is what it has after the call.
class KeptErrno {
 public:
  KeptErrno() noexcept : kept_(errno) {}
  ~KeptErrno() { put_back(kept_); }
  KeptErrno(const KeptErrno&) = delete;
  KeptErrno& operator=(const KeptErrno&) = delete;

 private:
  [[gnu::noinline]] static void put_back(int value) noexcept { errno = value; }
  int kept_;
};

/// From now on, until the call is over, no rank opens anything of its own.
Result<> all_in_call(Communicator& world) {
  auto met = gather({}, world);
  if (!met) return std::unexpected(std::move(met).error());
  return {};
}

bool changes_host(const RankTurns* turns, std::uint32_t worker) {
  return turns && turns->lines() && turns->host_workers()[worker].host != turns->lines()->own_host();
}

/// Says once for each rank what keeps it.
bool is_tied(Runtime& runtime) {
  const std::string why = why_tied(runtime);
  if (!why.empty() && runtime.settings.warn && !std::exchange(runtime.has_told_of_tie, true))
    warn("rank " + std::to_string(runtime.job->rank) + " stays in its process: " + why);
  return !why.empty();
}

}  // namespace

ISTHMUS_EXTENSION(int, Get_worker)(int* worker, int* workers) {
  return call("MPIX_Get_worker", [&](Runtime& runtime) -> Result<> {
    ISTHMUS_TRY(check_pointer(worker, "worker"));
    ISTHMUS_TRY(check_pointer(workers, "workers"));
    const WorkerPlace place = worker_place(runtime.turns());
    *worker = static_cast<int>(place.own);
    *workers = static_cast<int>(place.all);
    return {};
  });
}

ISTHMUS_EXTENSION(int, Migrate)(int worker) {
  return call("MPIX_Migrate", [&](Runtime& runtime) -> Result<> {
    RankTurns* const turns = runtime.turns();
    const std::uint32_t workers = worker_place(turns).all;
    if (worker < 0 || static_cast<std::uint32_t>(worker) >= workers)
      return fail(ErrorClass::arg, "worker " + std::to_string(worker) +
                                       " is none of this process, which has " + std::to_string(workers) +
                                       " (mpiexec --workers-per-process)");
    if (!turns) return {};
    if (is_migratable(turns)) {
      const HostWorker to = turns->host_workers()[static_cast<std::size_t>(worker)];
      if (to.process != turns->process())
        return fail(ErrorClass::arg,
                    "worker " + std::to_string(worker) +
                        " is of another process, to which ranks go together (MPIX_Migrate_all, "
                        "MPIX_Load_balance)");
      worker = static_cast<int>(to.worker);
    }
    if (!turns->can_move())
      return fail(ErrorClass::other, "another rank of this process has not opened MPI yet");
    turns->move_to(static_cast<std::uint32_t>(worker));
    return {};
  });
}

ISTHMUS_EXTENSION(int, Load_balance)() {
  const KeptErrno kept;
  return call("MPIX_Load_balance", MPI_COMM_WORLD, [&](Communicator& world) -> Result<> {
    Runtime& runtime = Runtime::get();
    RankTurns* const turns = runtime.turns();
    if (turns) turns->await_all();
    const bool moves = is_migratable(turns);
    Said own = turns ? Said{turns->take_work(), worker_place(turns).own, 0, 0} : Said{};
    own.uses_cuda = runtime.engine->uses_cuda() ? 1 : 0;
    if (moves) {
      ISTHMUS_TRY(all_in_call(world));
      own.is_tied = is_tied(runtime) ? 1 : 0;
    }
    auto all = gather(own, world);
    if (!all) return std::unexpected(std::move(all).error());
    if (!turns || worker_place(turns).all == 1) return {};
    const auto to = choose(*all, *turns);
    if (moves) return go_on(runtime, workers_of(*all), to);
    turns->move_to(to[static_cast<std::size_t>(world.rank())]);
    return {};
  });
}

ISTHMUS_EXTENSION(int, Migrate_all)(int worker) {
  const KeptErrno kept;
  return call("MPIX_Migrate_all", MPI_COMM_WORLD, [&](Communicator& world) -> Result<> {
    Runtime& runtime = Runtime::get();
    RankTurns* const turns = runtime.turns();
    if (turns) turns->await_all();
    const WorkerPlace place = worker_place(turns);
    const bool exists = worker >= 0 && static_cast<std::uint32_t>(worker) < place.all;
    Said own{0, exists ? static_cast<std::uint32_t>(worker) : place.own, 0, 0};
    const Said here{0, place.own, 0, static_cast<std::uint16_t>(runtime.engine->uses_cuda() ? 1 : 0)};
    auto from = gather(here, world);
    if (!from) return std::unexpected(std::move(from).error());
    // Who cannot leave takes part: the others may. Asked when all are in this call: what others have open for
    // a moment is none of this rank's.
    std::string why;
    if (is_migratable(turns) && turns->host_workers()[own.worker].process != turns->process())
      why = why_tied(runtime);
    if (why.empty() && changes_host(turns, own.worker) && any_uses_cuda(*from))
      why = "it would go to another host, and a rank of the job uses CUDA";
    if (!why.empty()) own.worker = place.own;
    auto to = gather(own, world);
    if (!to) return std::unexpected(std::move(to).error());
    Result<> moved;
    if (is_migratable(turns))
      moved = go_on(runtime, workers_of(*from), workers_of(*to));
    else if (turns)
      turns->move_to(own.worker);
    if (!exists)
      return fail(ErrorClass::arg,
                  "worker " + std::to_string(worker) + " is none of " + std::to_string(place.all));
    if (!why.empty()) return fail(ErrorClass::other, "this rank stays in its process: " + why);
    return moved;
  });
}

}  // namespace isthmus::abi
