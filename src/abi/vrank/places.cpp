#include "abi/vrank/places.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace isthmus::abi {
namespace {

/// From one process to another, by a rank that nobody writes to meanwhile.
Result<> change_process(Runtime& runtime, const HostWorker& there) {
  RankTurns& turns = *runtime.turns();
  Engine& engine = *runtime.engine;
  runtime.job->leave_process();
  Result<> result = turns.leave_for(there);
  Result<> entered = runtime.job->enter_process();
  if (entered) entered = engine.arrive();
  if (result) result = std::move(entered);
  runtime.has_changed_process();
  return result;
}

/// Where all processes are on one host.
Result<> go_on_here(Runtime& runtime, const HostWorker& there) {
  Engine& engine = *runtime.engine;
  Result<> result;
  engine.meet_at_rest();
  if (runtime.turns()->process() != there.process) result = change_process(runtime, there);
  engine.meet_at_rest();
  engine.renew_peers();
  return result;
}

/// Where they are on several, and ranks may go from one to another.
Result<> go_on_anywhere(Runtime& runtime, const HostWorker& there, std::span<const std::uint32_t> to) {
  Engine& engine = *runtime.engine;
  std::vector<UnexpectedMessage*> taken;
  runtime.messages.for_each([&](MatchedMessage& each) {
    if (each.message()) taken.push_back(each.message());
  });
  ISTHMUS_TRY(engine.come_to_rest(to, taken));
  engine.part();
  Result<> result;
  if (runtime.turns()->process() != there.process) {
    const bool leaves = runtime.job->lines()->own_host() != there.host;
    if (leaves) engine.leave_region();
    result = change_process(runtime, there);
    if (leaves) {
      runtime.job->enter_host();
      engine.enter_region();
    }
  }
  engine.go_on();
  return result;
}

}  // namespace

WorkerPlace worker_place(const RankTurns* turns) {
  if (!turns) return {};
  const auto workers = turns->host_workers();
  if (workers.empty()) return {turns->worker(), turns->workers()};
  const auto own = std::ranges::find_if(workers, [&](const HostWorker& each) {
    return each.process == turns->process() && each.worker == turns->worker();
  });
  return {static_cast<std::uint32_t>(own - workers.begin()), static_cast<std::uint32_t>(workers.size())};
}

bool is_migratable(const RankTurns* turns) noexcept {
  return turns && !turns->host_workers().empty();
}

std::string why_tied(Runtime& runtime) {
  return runtime.engine->uses_cuda() ? "it uses CUDA"
         : runtime.engine->trace()   ? "it is traced (isthmus trace)"
                                     : runtime.turns()->why_tied();
}

Result<> go_on(Runtime& runtime, std::span<const std::uint32_t> from, std::span<const std::uint32_t> to) {
  RankTurns& turns = *runtime.turns();
  const auto workers = turns.host_workers();
  std::vector<std::uint32_t> processes;
  bool is_far = false;
  for (std::size_t rank = 0; rank < to.size(); ++rank) {
    processes.push_back(workers[to[rank]].process);
    is_far = is_far || workers[from[rank]].process != processes.back();
  }
  const HostWorker there = workers[to[static_cast<std::size_t>(runtime.world->rank())]];
  if (turns.process() == there.process) turns.move_to(there.worker);
  if (!is_far) return {};
  return turns.lines() ? go_on_anywhere(runtime, there, processes) : go_on_here(runtime, there);
}

}  // namespace isthmus::abi
