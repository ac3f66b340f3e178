#include "coll/call/coll.hpp"

#include <algorithm>
#include <utility>

#include "coll/call/host.hpp"
#include "coll/call/local.hpp"
#include "coll/call/operands.hpp"
#include "coll/context/footing.hpp"
#include "coll/context/same_call.hpp"
#include "coll/messages/algorithms.hpp"
#include "coll/messages/messages.hpp"
#include "coll/nodes/domains.hpp"
#include "coll/select/select.hpp"
#include "coll/team/direct.hpp"
#include "coll/team/flat.hpp"
#include "coll/team/staged.hpp"

namespace isthmus::coll {
namespace {

/// The chosen algorithm and, where that works in one, the team or the hosts.
struct Plan {
  Algorithm algorithm;
  Team* team;
  const Hierarchy* hierarchy;

  [[nodiscard]] Spread spread(Communicator& comm) const { return {comm, *hierarchy}; }
};

bool reduces(Collective collective) {
  return collective >= Collective::reduce;
}

/// What the choice depends on besides. `stageable`: all members know that the data may go through the shared
/// area, or from buffer to buffer.
[[gnu::always_inline]] inline void complete(Question& question, const Communicator& comm, const Team* team,
                                            const Hierarchy* hierarchy, bool stageable) {
  question.ranks = comm.size();
  question.shared = team && stageable;
  question.own_cores = !comm.engine().peers_sleep();
  const bool any_order = !reduces(question.collective) || question.commutative;
  if (team && !any_order && !team->in_order()) question.shared = false;
  if (hierarchy && (any_order || hierarchy->in_order()))
    question.domains = team ? Domains::sockets : Domains::hosts;
  question.even = hierarchy && hierarchy->is_even();
}

/// By the table. A derived type's elements cannot be packed for the program's own operation, nor cut at any
/// byte: reductions of them are not `stageable`.
Result<Plan> plan(Communicator& comm, Question question, bool stageable = true) {
  auto footing = Footing::of(comm);
  if (!footing) [[unlikely]]
    return std::unexpected(std::move(footing).error());
  Team* const team = (*footing)->team();
  const Hierarchy* const hierarchy = (*footing)->hierarchy();
  complete(question, comm, team, hierarchy, stageable);
  if (question.shared && asks_for_direct(question)) {
    auto direct = team->direct();
    if (!direct) [[unlikely]]
      return std::unexpected(std::move(direct).error());
    question.direct = *direct;
  }
  return Plan{select(question), team, hierarchy};
}

[[gnu::always_inline]] inline Question question_of(Collective collective, const Reduction& what) {
  return {.collective = collective,
          .bytes = bytes_of(what.count, *what.type),
          .commutative = what.op->commutative()};
}

/// By `reduce_staged`; false where the region has no room, which all members know.
Result<bool> reduced_staged(Team& team, const void* send, void* receive, const Reduction& what, int root) {
  auto stage = team.stage(reduce_stage_bytes(what));
  if (!stage) return std::unexpected(std::move(stage).error());
  if (!*stage) return false;
  ISTHMUS_TRY(reduce_staged(team, send, receive, what, root, *stage));
  return true;
}

/// As long as a call is under way of whose end its team is to be told.
class UnderWay {
 public:
  explicit UnderWay(Team& team) noexcept : team_(team) {}
  ~UnderWay() { team_.end_call(); }
  UnderWay(const UnderWay&) = delete;
  UnderWay& operator=(const UnderWay&) = delete;

 private:
  Team& team_;
};

/// What goes over messages in the midst of what goes through the team's memory takes a step there too: by
/// steps `Team` knows how far each member is.
class StepOverMessages {
 public:
  explicit StepOverMessages(Team& team) : team_(team), step_(team.begin_step()) {}
  ~StepOverMessages() { team_.finish_step(step_); }
  StepOverMessages(const StepOverMessages&) = delete;
  StepOverMessages& operator=(const StepOverMessages&) = delete;

 private:
  Team& team_;
  std::uint64_t step_;
};

/// Where there is no room to stage a reduction, which all members know, it goes as the table has it.
Result<Algorithm> with_room(Team& team, Algorithm algorithm, Algorithm by_table, const Reduction* what) {
  if (!what || algorithm != Algorithm::staged) return algorithm;
  auto stage = team.stage(reduce_stage_bytes(*what));
  if (!stage) return std::unexpected(std::move(stage).error());
  return *stage ? algorithm : by_table;
}

/// Runs `run(plan)` for a call that its team may carry out in several ways with the same result: the way
/// that earlier ones speak for. `what`: of a reduction.
template <class Run>
Result<> run_live(Team& team, const Hierarchy* hierarchy, Question question, const Reduction* what,
                  const Run& run) {
  auto direct = team.direct();
  if (!direct) return std::unexpected(std::move(direct).error());
  question.direct = *direct;
  Plan plan{select(question), &team, hierarchy};
  const auto assumed = way_of(plan.algorithm, question.collective);
  const TeamWays possible =
      ways_of(question, {.elementwise = what && is_elementwise(*what), .in_order = team.in_order()});
  if (!assumed || !possible.has(*assumed) || possible.count() < 2) return run(plan);
  const TeamWay way = team.begin_call(question, *assumed, possible);
  const UnderWay under_way(team);
  if (way == TeamWay::messages || way == TeamWay::tree) {
    plan.algorithm = algorithm_of(way, question);
    const StepOverMessages step(team);
    return run(plan);
  }
  auto algorithm = with_room(team, algorithm_of(way, question), plan.algorithm, what);
  if (!algorithm) return std::unexpected(std::move(algorithm).error());
  plan.algorithm = *algorithm;
  return run(plan);
}

/// Runs `run(plan)` for a call of so many bytes that it may be live.
template <class Run>
[[gnu::noinline]] Result<> run_long(Communicator& comm, Question question, const Run& run,
                                    const Reduction* what = nullptr) {
  auto footing = Footing::of(comm);
  if (!footing) return std::unexpected(std::move(footing).error());
  Team* const team = (*footing)->team();
  const bool stageable = !what || what->type->is_contiguous();
  if (team && stageable && team->has_live()) {
    complete(question, comm, team, (*footing)->hierarchy(), stageable);
    if (question.shared) return run_live(*team, (*footing)->hierarchy(), question, what, run);
  }
  auto chosen = plan(comm, question, stageable);
  if (!chosen) return std::unexpected(std::move(chosen).error());
  return run(*chosen);
}

/// Runs `run(plan)` for a collective that only moves data.
template <class Run>
[[gnu::always_inline]] inline Result<> carry_out(Communicator& comm, const Question& question,
                                                 const Run& run) {
  if (LiveCalls::covers(question.bytes)) return run_long(comm, question, run);
  auto chosen = plan(comm, question);
  if (!chosen) return std::unexpected(std::move(chosen).error());
  return run(*chosen);
}

/// The same for a reduction.
template <class Run>
Result<> carry_out(Communicator& comm, Collective collective, const Reduction& what, const Run& run) {
  const Question question = question_of(collective, what);
  if (LiveCalls::covers(question.bytes)) return run_long(comm, question, run, &what);
  auto chosen = plan(comm, question, what.type->is_contiguous());
  if (!chosen) return std::unexpected(std::move(chosen).error());
  return run(*chosen);
}

template <class Call>
Result<> run_alltoall_of_any_lengths(Collective collective, const Call& c, Communicator& comm) {
  if (!comm.is_inter() && comm.size() > 1)
    ISTHMUS_TRY(meet_in_call(comm, collective, 0, [&](int rank) {
      const bool sends_long = c.send.buffer != in_place && block(c.send, rank).bytes > most_sent_ahead;
      return sends_long || block(c.receive, rank).bytes != 0;
    }));
  return over_messages({comm, Tag::alltoall}, c).result();
}

template <class Receive>
Result<> allgather_by_plan(const Plan& plan, const In& send, const Receive& receive, Communicator& comm) {
  if (plan.algorithm == Algorithm::flat) return allgather_flat(*plan.team, send, receive);
  if (plan.algorithm == Algorithm::staged) return allgather_staged(*plan.team, send, receive);
  if (plan.algorithm == Algorithm::direct) return allgather_direct(*plan.team, send, receive);
  const Ranks ranks(comm, Tag::allgather);
  if (send.buffer != in_place) copy(whole(send), block(receive, comm.rank()));
  if (plan.algorithm == Algorithm::leaders) return allgather_leaders(plan.spread(comm), receive);
  if (plan.algorithm == Algorithm::slices) return allgather_slices(plan.spread(comm), receive);
  if (plan.algorithm == Algorithm::along) return allgather_along(plan.spread(comm), receive);
  return allgather_by(plan.algorithm, ranks, receive).result();
}

template <class Receive>
Result<> run_allgather(const In& send, const Receive& receive, std::uint64_t bytes, Communicator& comm) {
  return carry_out(comm, {.collective = Collective::allgather, .bytes = bytes},
                   [&](const Plan& plan) { return allgather_by_plan(plan, send, receive, comm); });
}

[[gnu::always_inline]] inline Result<> allreduce_by_plan(const Plan& plan, Communicator& comm,
                                                         const void* send, void* receive,
                                                         const Reduction& what) {
  if (plan.algorithm == Algorithm::staged) {
    auto done = reduced_staged(*plan.team, send, receive, what, everybody);
    if (!done) return std::unexpected(std::move(done).error());
    if (*done) return {};
  }
  switch (plan.algorithm) {
    case Algorithm::flat:
      return allreduce_flat(*plan.team, send, receive, what);
    case Algorithm::counted:
      return reduce_counted(*plan.team, send, receive, what, everybody);
    case Algorithm::direct_all:
      return allreduce_direct_all(*plan.team, send, receive, what);
    case Algorithm::direct:
      return allreduce_direct(*plan.team, send, receive, what);
    case Algorithm::leaders:
      return allreduce_leaders(plan.spread(comm), send, receive, what);
    case Algorithm::slices:
      return allreduce_slices(plan.spread(comm), send, receive, what);
    default:
      return allreduce_by(plan.algorithm, Ranks(comm, Tag::allreduce), send, receive, what).result();
  }
}

/// Apart, because a short one pays for all that it could do.
[[gnu::noinline]] Result<> long_allreduce(Communicator& comm, const void* mine, void* receive,
                                          const Reduction& what) {
  return run_long(
      comm, question_of(Collective::allreduce, what),
      [&](const Plan& plan) { return allreduce_by_plan(plan, comm, mine, receive, what); }, &what);
}

Result<> reduce_scatter_by_plan(const Plan& plan, Communicator& comm, const void* send, void* receive,
                                const Integers& counts, const Reduction& what) {
  const Ranks ranks(comm, Tag::reduce_scatter);
  switch (plan.algorithm) {
    case Algorithm::flat:
      return reduce_scatter_flat(*plan.team, send, receive, counts, what);
    case Algorithm::direct:
      return reduce_scatter_direct(*plan.team, send, receive, counts, what);
    case Algorithm::pairwise:
      return reduce_scatter_pairwise(ranks, send, receive, counts, what).result();
    default:
      return reduce_scatter_by_root(ranks, send, receive, counts, what).result();
  }
}

Result<> run_reduce_scatter(Communicator& comm, const void* send, void* receive, const Integers& counts,
                            const Reduction& what) {
  std::int64_t total = 0;
  for (int i = 0; i < comm.size(); ++i)
    total += counts[i];
  const Reduction all{total, what.type, what.op};
  return carry_out(comm, Collective::reduce_scatter, all, [&](const Plan& plan) {
    return reduce_scatter_by_plan(plan, comm, send, receive, counts, what);
  });
}

Result<> bcast_by_plan(const Plan& plan, const Out& buffer, const Payload& data, int root,
                       Communicator& comm) {
  switch (plan.algorithm) {
    case Algorithm::flat:
      return bcast_flat(*plan.team, data, root);
    case Algorithm::staged:
      return bcast_staged(*plan.team, data, root);
    case Algorithm::direct:
      return bcast_direct(*plan.team, data, root);
    case Algorithm::direct_both:
      return bcast_direct_both(*plan.team, data, root);
    case Algorithm::leaders:
      return bcast_leaders(plan.spread(comm), buffer, root);
    case Algorithm::segments:
      return bcast_segments(plan.spread(comm), buffer, root);
    default:
      return bcast_by(plan.algorithm, Ranks(comm, Tag::bcast), data, root).result();
  }
}

Result<> gather_by_plan(const Plan& plan, const Ranks& ranks, const In& send, const Out& receive, int root) {
  if (plan.algorithm == Algorithm::flat) return gather_flat(*plan.team, send, receive, root);
  if (plan.algorithm == Algorithm::binomial) return gather_binomial(ranks, send, receive, root).result();
  return gather_linear(ranks, send, receive, root).result();
}

Result<> scatter_by_plan(const Plan& plan, const Ranks& ranks, const In& send, const Out& receive, int root) {
  if (plan.algorithm == Algorithm::flat) return scatter_flat(*plan.team, send, receive, root);
  if (plan.algorithm == Algorithm::binomial) return scatter_binomial(ranks, send, receive, root).result();
  return scatter_linear(ranks, send, receive, root).result();
}

Result<> alltoall_by_plan(const Plan& plan, const Ranks& ranks, const In& send, const Out& receive,
                          Communicator& comm) {
  if (plan.algorithm == Algorithm::flat) return alltoall_flat(*plan.team, send, receive);
  if (plan.algorithm == Algorithm::direct) return alltoall_direct(*plan.team, send, receive);
  if (plan.algorithm == Algorithm::staged) {
    auto stage = plan.team->stage(bytes_of(receive.count * comm.size(), *receive.type));
    if (!stage) return std::unexpected(std::move(stage).error());
    if (*stage) return alltoall_staged(*plan.team, send, receive, *stage);
  }
  // These copy all blocks before any arrives, so that the receive buffer can be read as the send buffer.
  const In source = send.buffer == in_place ? In{receive.buffer, receive.count, receive.type} : send;
  if (plan.algorithm == Algorithm::leaders) return alltoall_leaders(plan.spread(comm), source, receive);
  if (plan.algorithm == Algorithm::bruck) return alltoall_bruck(ranks, source, receive).result();
  if (send.buffer == in_place) return alltoall_in_place(ranks, receive).result();
  return alltoall_pairwise(ranks, send, receive).result();
}

Result<> reduce_by_plan(const Plan& plan, Communicator& comm, const void* mine, void* receive,
                        const Reduction& what, int root) {
  if (plan.algorithm == Algorithm::staged) {
    auto done = reduced_staged(*plan.team, mine, receive, what, root);
    if (!done) return std::unexpected(std::move(done).error());
    if (*done) return {};
  }
  switch (plan.algorithm) {
    case Algorithm::flat:
      return reduce_flat(*plan.team, mine, receive, what, root);
    case Algorithm::counted:
      return reduce_counted(*plan.team, mine, receive, what, root);
    case Algorithm::direct:
      return reduce_direct(*plan.team, mine, receive, what, root);
    case Algorithm::leaders:
      return reduce_leaders(plan.spread(comm), mine, receive, what, root);
    case Algorithm::along:
      return reduce_along(plan.spread(comm), mine, receive, what, root);
    default:
      return reduce_by(plan.algorithm, Ranks(comm, Tag::reduce), mine, receive, what, root).result();
  }
}

}  // namespace

namespace host {

Result<> barrier(Communicator& comm) {
  if (comm.is_inter() || comm.size() == 1)
    return over_messages({comm, Tag::barrier}, call::Barrier{}).result();
  auto chosen = plan(comm, {.collective = Collective::barrier});
  if (!chosen) return std::unexpected(std::move(chosen).error());
  if (chosen->algorithm == Algorithm::flat) return barrier_flat(*chosen->team);
  if (chosen->algorithm == Algorithm::counted) return barrier_counted(*chosen->team);
  if (chosen->algorithm == Algorithm::leaders) return barrier_leaders(chosen->spread(comm));
  return barrier_dissemination(Ranks(comm, Tag::barrier)).result();
}

Result<> bcast(void* buffer, std::int64_t count, const Datatype& type, int root, Communicator& comm) {
  if (comm.is_inter() || comm.size() == 1)
    return over_messages({comm, Tag::bcast}, call::Bcast{buffer, count, &type, root}).result();
  const Payload data = Payload::of(buffer, count, type);
  return carry_out(comm, {.collective = Collective::bcast, .bytes = data.bytes}, [&](const Plan& plan) {
    return bcast_by_plan(plan, {buffer, count, &type}, data, root, comm);
  });
}

Result<> gather(const In& send, const Out& receive, int root, Communicator& comm) {
  const Ranks ranks(comm, Tag::gather);
  if (comm.is_inter() || comm.size() == 1)
    return over_messages(ranks, call::Gather{send, receive, root}).result();
  const bool at_root = comm.rank() == root;
  const std::uint64_t bytes =
      at_root ? bytes_of(receive.count, *receive.type) : bytes_of(send.count, *send.type);
  return carry_out(comm, {.collective = Collective::gather, .bytes = bytes},
                   [&](const Plan& plan) { return gather_by_plan(plan, ranks, send, receive, root); });
}

Result<> gatherv(const In& send, const OutV& receive, int root, Communicator& comm) {
  if (!comm.is_inter() && comm.size() > 1)
    ISTHMUS_TRY(meet_in_call(comm, Collective::gatherv, root, [&](int rank) {
      return comm.rank() == root || (rank == root && bytes_of(send.count, *send.type) > most_sent_ahead);
    }));
  return over_messages({comm, Tag::gather}, call::Gatherv{send, receive, root}).result();
}

Result<> scatter(const In& send, const Out& receive, int root, Communicator& comm) {
  const Ranks ranks(comm, Tag::scatter);
  if (comm.is_inter() || comm.size() == 1)
    return over_messages(ranks, call::Scatter{send, receive, root}).result();
  const bool at_root = comm.rank() == root;
  const std::uint64_t bytes =
      at_root ? bytes_of(send.count, *send.type) : bytes_of(receive.count, *receive.type);
  return carry_out(comm, {.collective = Collective::scatter, .bytes = bytes},
                   [&](const Plan& plan) { return scatter_by_plan(plan, ranks, send, receive, root); });
}

Result<> scatterv(const InV& send, const Out& receive, int root, Communicator& comm) {
  if (!comm.is_inter() && comm.size() > 1)
    ISTHMUS_TRY(meet_in_call(comm, Collective::scatterv, root, [&](int rank) {
      return comm.rank() == root ? block(send, rank).bytes > most_sent_ahead : rank == root;
    }));
  return over_messages({comm, Tag::scatter}, call::Scatterv{send, receive, root}).result();
}

Result<> allgather(const In& send, const Out& receive, Communicator& comm) {
  if (comm.is_inter() || comm.size() == 1)
    return over_messages({comm, Tag::allgather}, call::Allgather{send, receive}).result();
  return run_allgather(send, receive, bytes_of(receive.count, *receive.type), comm);
}

Result<> allgatherv(const In& send, const OutV& receive, Communicator& comm) {
  if (comm.is_inter() || comm.size() == 1)
    return over_messages({comm, Tag::allgather}, call::Allgatherv{send, receive}).result();
  return run_allgather(send, receive, largest_block(receive, comm.size()), comm);
}

Result<> alltoall(const In& send, const Out& receive, Communicator& comm) {
  const Ranks ranks(comm, Tag::alltoall);
  if (comm.is_inter() || comm.size() == 1)
    return over_messages(ranks, call::Alltoall{send, receive}).result();
  return carry_out(comm,
                   {.collective = Collective::alltoall, .bytes = bytes_of(receive.count, *receive.type)},
                   [&](const Plan& plan) { return alltoall_by_plan(plan, ranks, send, receive, comm); });
}

Result<> alltoallv(const InV& send, const OutV& receive, Communicator& comm) {
  return run_alltoall_of_any_lengths(Collective::alltoallv, call::Alltoallv{send, receive}, comm);
}

Result<> alltoallw(const InW& send, const OutW& receive, Communicator& comm) {
  return run_alltoall_of_any_lengths(Collective::alltoallw, call::Alltoallw{send, receive}, comm);
}

Result<> reduce(const void* send, void* receive, const Reduction& what, int root, Communicator& comm) {
  if (comm.is_inter() || comm.size() == 1)
    return over_messages({comm, Tag::reduce}, call::Reduce{send, receive, what, root}).result();
  const void* const mine = operand(send, receive);
  return carry_out(comm, Collective::reduce, what,
                   [&](const Plan& plan) { return reduce_by_plan(plan, comm, mine, receive, what, root); });
}

Result<> allreduce(const void* send, void* receive, const Reduction& what, Communicator& comm) {
  if (comm.is_inter() || comm.size() == 1)
    return over_messages({comm, Tag::allreduce}, call::Allreduce{send, receive, what}).result();
  const void* const mine = operand(send, receive);
  if (LiveCalls::covers(bytes_of(what.count, *what.type))) [[unlikely]]
    return long_allreduce(comm, mine, receive, what);
  auto chosen = plan(comm, question_of(Collective::allreduce, what), what.type->is_contiguous());
  if (!chosen) return std::unexpected(std::move(chosen).error());
  return allreduce_by_plan(*chosen, comm, mine, receive, what);
}

Result<> reduce_scatter(const void* send, void* receive, const Integers& counts, const Reduction& what,
                        Communicator& comm) {
  if (comm.is_inter() || comm.size() == 1)
    return over_messages({comm, Tag::reduce_scatter}, call::ReduceScatter{send, receive, what, counts})
        .result();
  return run_reduce_scatter(comm, operand(send, receive), receive, counts, what);
}

Result<> reduce_scatter_block(const void* send, void* receive, const Reduction& what, Communicator& comm) {
  const Integers counts = Integers::same(what.count);
  return host::reduce_scatter(send, receive, counts, what, comm);
}

Result<> scan(const void* send, void* receive, const Reduction& what, Communicator& comm) {
  if (comm.size() == 1) return over_messages({comm, Tag::scan}, call::Scan{send, receive, what}).result();
  auto chosen = plan(comm, question_of(Collective::scan, what), what.type->is_contiguous());
  if (!chosen) return std::unexpected(std::move(chosen).error());
  const void* mine = operand(send, receive);
  if (chosen->algorithm == Algorithm::flat) return scan_flat(*chosen->team, mine, receive, what);
  return scan_doubling(Ranks(comm, Tag::scan), mine, receive, what).result();
}

Result<> exscan(const void* send, void* receive, const Reduction& what, Communicator& comm) {
  if (comm.size() == 1) return {};
  auto chosen = plan(comm, question_of(Collective::scan, what), what.type->is_contiguous());
  if (!chosen) return std::unexpected(std::move(chosen).error());
  const void* mine = operand(send, receive);
  if (chosen->algorithm == Algorithm::flat) return exscan_flat(*chosen->team, mine, receive, what);
  return exscan_doubling(Ranks(comm, Tag::scan), mine, receive, what).result();
}

}  // namespace host
}  // namespace isthmus::coll
