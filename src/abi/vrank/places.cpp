#include "abi/vrank/places.hpp"

#include <algorithm>
#include <cerrno>

namespace isthmus::abi {

WorkerPlace worker_place(const RankTurns* turns) {
  if (!turns) return {};
  const auto workers = turns->host_workers();
  if (workers.empty()) return {turns->worker(), turns->workers()};
  const auto own = std::ranges::find(workers, HostWorker{turns->process(), turns->worker()});
  return {static_cast<std::uint32_t>(own - workers.begin()), static_cast<std::uint32_t>(workers.size())};
}

bool is_migratable(const RankTurns* turns) noexcept {
  return turns && !turns->host_workers().empty();
}

std::string why_tied(Runtime& runtime) {
  const int kept = errno;
  std::string why = runtime.engine->uses_cuda() ? "it uses CUDA"
                    : runtime.engine->trace()   ? "it is traced (isthmus trace)"
                                                : runtime.turns()->why_tied();
  errno = kept;
  return why;
}

Result<> go_on(Runtime& runtime, std::span<const std::uint32_t> from, std::span<const std::uint32_t> to) {
  RankTurns& turns = *runtime.turns();
  const auto workers = turns.host_workers();
  const auto process_of = [&](std::uint32_t place) { return workers[place].process; };
  bool is_far = false;
  for (std::size_t rank = 0; rank < to.size(); ++rank)
    is_far = is_far || process_of(from[rank]) != process_of(to[rank]);
  const auto own = static_cast<std::size_t>(runtime.world->rank());
  const HostWorker there = workers[to[own]];
  if (process_of(from[own]) == there.process) turns.move_to(there.worker);
  if (!is_far) return {};
  const int kept = errno;
  Engine& engine = *runtime.engine;
  engine.meet_at_rest();
  Result<> result;
  if (process_of(from[own]) != there.process) {
    runtime.job->leave_process();
    result = turns.leave_for(there);
    Result<> entered = runtime.job->enter_process();
    if (entered) entered = engine.arrive();
    if (result) result = std::move(entered);
    runtime.has_changed_process();
  }
  engine.meet_at_rest();
  engine.renew_peers();
  errno = kept;
  return result;
}

}  // namespace isthmus::abi
