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
  /// What the table gives; another algorithm only where that has the same result.
  Algorithm by_table = algorithm;
  bool is_live = false;  ///< `team` is to be told of its end

  /// Where there is no room to stage.
  [[nodiscard]] Algorithm without_stage() const {
    return algorithm == Algorithm::staged ? by_table : algorithm;
  }
  [[nodiscard]] Spread spread(Communicator& comm) const { return {comm, *hierarchy}; }
};

bool reduces(Collective collective) {
  return collective >= Collective::reduce;
}

/// As long as a call is under way; for those whose team is to be told of its end.
class UnderWay {
 public:
  explicit UnderWay(const Plan& plan) noexcept : team_(plan.is_live ? plan.team : nullptr) {}
  ~UnderWay() {
    if (team_) [[unlikely]]
      team_->end_call();
  }
  UnderWay(const UnderWay&) = delete;
  UnderWay& operator=(const UnderWay&) = delete;

 private:
  Team* team_;
};

/// A compiler may round the products of complex numbers otherwise in a loop than alone.
bool is_elementwise(const Reduction& what) {
  if (!what.op->code() || !what.type->as_basic()) return false;
  return *what.op->code() != OpCode::prod || info(*what.type->as_basic()).type_class != TypeClass::complex;
}

/// Of a call that its team may carry out in several ways with the same result: by what earlier ones took.
[[gnu::noinline]] Result<Plan> live_plan(Team& team, const Hierarchy* hierarchy, Question question,
                                         const Reduction* what) {
  auto direct = team.direct();
  if (!direct) [[unlikely]]
    return std::unexpected(std::move(direct).error());
  question.direct = *direct;
  const Algorithm by_table = select(question);
  Plan plan{.algorithm = by_table, .team = &team, .hierarchy = hierarchy};
  const auto assumed = way_of(by_table, question.collective);
  const TeamWays possible =
      ways_of(question, {.elementwise = what && is_elementwise(*what), .in_order = team.in_order()});
  if (!assumed || !possible.has(*assumed) || possible.count() < 2) return plan;
  const TeamWay way = team.begin_call(question, *assumed, possible);
  if (way != *assumed) plan.algorithm = algorithm_of(way, question);
  plan.is_live = true;
  return plan;
}

/// What goes over messages in the midst of what goes through the team's memory: it takes a step there too, by
/// which `Team` knows how far each member is.
class StepOverMessages {
 public:
  explicit StepOverMessages(const Plan& plan)
      : team_(plan.is_live ? plan.team : nullptr), step_(team_ ? team_->begin_step() : 0) {}
  ~StepOverMessages() {
    if (team_) team_->finish_step(step_);
  }
  StepOverMessages(const StepOverMessages&) = delete;
  StepOverMessages& operator=(const StepOverMessages&) = delete;

 private:
  Team* team_;
  std::uint64_t step_;
};

/// `stageable`: all members know that the data may go through the shared area, or from buffer to buffer.
/// `what`: of a reduction.
Result<Plan> plan(Communicator& comm, Question question, bool stageable = true,
                  const Reduction* what = nullptr) {
  auto footing = Footing::of(comm);
  if (!footing) [[unlikely]]
    return std::unexpected(std::move(footing).error());
  Team* const team = (*footing)->team();
  const Hierarchy* const hierarchy = (*footing)->hierarchy();
  question.ranks = comm.size();
  question.shared = team && stageable;
  question.own_cores = !comm.engine().peers_sleep();
  const bool any_order = !reduces(question.collective) || question.commutative;
  if (team && !any_order && !team->in_order()) question.shared = false;
  if (hierarchy && (any_order || hierarchy->in_order()))
    question.domains = team ? Domains::sockets : Domains::hosts;
  question.even = hierarchy && hierarchy->is_even();
  if (question.shared && team->has_live(question.bytes)) [[unlikely]]
    return live_plan(*team, hierarchy, question, what);
  if (question.shared && asks_for_direct(question)) {
    auto direct = team->direct();
    if (!direct) [[unlikely]]
      return std::unexpected(std::move(direct).error());
    question.direct = *direct;
  }
  return Plan{.algorithm = select(question), .team = team, .hierarchy = hierarchy};
}

/// A derived type's elements cannot be packed for the program's own operation, nor cut at any byte.
Result<Plan> plan_reduction(Communicator& comm, Collective collective, std::int64_t count,
                            const Reduction& what) {
  return plan(
      comm,
      {.collective = collective, .bytes = bytes_of(count, *what.type), .commutative = what.op->commutative()},
      what.type->is_contiguous(), &what);
}

/// By `reduce_staged`; false where the region has no room, which all members know.
Result<bool> reduced_staged(Team& team, const void* send, void* receive, const Reduction& what, int root) {
  auto stage = team.stage(reduce_stage_bytes(what));
  if (!stage) return std::unexpected(std::move(stage).error());
  if (!*stage) return false;
  ISTHMUS_TRY(reduce_staged(team, send, receive, what, root, *stage));
  return true;
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
Result<> run_allgather(const In& send, const Receive& receive, std::uint64_t bytes, Communicator& comm) {
  auto chosen = plan(comm, {.collective = Collective::allgather, .bytes = bytes});
  if (!chosen) return std::unexpected(std::move(chosen).error());
  const UnderWay under_way(*chosen);
  if (chosen->algorithm == Algorithm::flat) return allgather_flat(*chosen->team, send, receive);
  if (chosen->algorithm == Algorithm::direct) return allgather_direct(*chosen->team, send, receive);
  const StepOverMessages step(*chosen);
  const Ranks ranks(comm, Tag::allgather);
  if (send.buffer != in_place) copy(whole(send), block(receive, comm.rank()));
  if (chosen->algorithm == Algorithm::leaders) return allgather_leaders(chosen->spread(comm), receive);
  if (chosen->algorithm == Algorithm::slices) return allgather_slices(chosen->spread(comm), receive);
  if (chosen->algorithm == Algorithm::along) return allgather_along(chosen->spread(comm), receive);
  return allgather_by(chosen->algorithm, ranks, receive).result();
}

Result<> run_allreduce(const Plan& plan, Communicator& comm, const void* send, void* receive,
                       const Reduction& what) {
  if (plan.algorithm == Algorithm::staged) {
    auto done = reduced_staged(*plan.team, send, receive, what, everybody);
    if (!done) return std::unexpected(std::move(done).error());
    if (*done) return {};
  }
  switch (plan.without_stage()) {
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
      return allreduce_by(plan.without_stage(), Ranks(comm, Tag::allreduce), send, receive, what).result();
  }
}

Result<> run_reduce_scatter(Communicator& comm, const void* send, void* receive, const Integers& counts,
                            const Reduction& what) {
  std::int64_t total = 0;
  for (int i = 0; i < comm.size(); ++i)
    total += counts[i];
  auto chosen = plan_reduction(comm, Collective::reduce_scatter, total, what);
  if (!chosen) return std::unexpected(std::move(chosen).error());
  const UnderWay under_way(*chosen);
  const Ranks ranks(comm, Tag::reduce_scatter);
  switch (chosen->algorithm) {
    case Algorithm::flat:
      return reduce_scatter_flat(*chosen->team, send, receive, counts, what);
    case Algorithm::direct:
      return reduce_scatter_direct(*chosen->team, send, receive, counts, what);
    case Algorithm::pairwise:
      return reduce_scatter_pairwise(ranks, send, receive, counts, what).result();
    default:
      return reduce_scatter_by_root(ranks, send, receive, counts, what).result();
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
  auto chosen = plan(comm, {.collective = Collective::bcast, .bytes = data.bytes});
  if (!chosen) return std::unexpected(std::move(chosen).error());
  const UnderWay under_way(*chosen);
  switch (chosen->algorithm) {
    case Algorithm::flat:
      return bcast_flat(*chosen->team, data, root);
    case Algorithm::staged:
      return bcast_staged(*chosen->team, data, root);
    case Algorithm::direct:
      return bcast_direct(*chosen->team, data, root);
    case Algorithm::direct_both:
      return bcast_direct_both(*chosen->team, data, root);
    case Algorithm::leaders:
      return bcast_leaders(chosen->spread(comm), {buffer, count, &type}, root);
    case Algorithm::segments:
      return bcast_segments(chosen->spread(comm), {buffer, count, &type}, root);
    default:
      const StepOverMessages step(*chosen);
      return bcast_by(chosen->algorithm, Ranks(comm, Tag::bcast), data, root).result();
  }
}

Result<> gather(const In& send, const Out& receive, int root, Communicator& comm) {
  const Ranks ranks(comm, Tag::gather);
  if (comm.is_inter() || comm.size() == 1)
    return over_messages(ranks, call::Gather{send, receive, root}).result();
  const bool at_root = comm.rank() == root;
  const std::uint64_t bytes =
      at_root ? bytes_of(receive.count, *receive.type) : bytes_of(send.count, *send.type);
  auto chosen = plan(comm, {.collective = Collective::gather, .bytes = bytes});
  if (!chosen) return std::unexpected(std::move(chosen).error());
  const UnderWay under_way(*chosen);
  if (chosen->algorithm == Algorithm::flat) return gather_flat(*chosen->team, send, receive, root);
  const StepOverMessages step(*chosen);
  if (chosen->algorithm == Algorithm::binomial) return gather_binomial(ranks, send, receive, root).result();
  return gather_linear(ranks, send, receive, root).result();
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
  auto chosen = plan(comm, {.collective = Collective::scatter, .bytes = bytes});
  if (!chosen) return std::unexpected(std::move(chosen).error());
  const UnderWay under_way(*chosen);
  if (chosen->algorithm == Algorithm::flat) return scatter_flat(*chosen->team, send, receive, root);
  const StepOverMessages step(*chosen);
  if (chosen->algorithm == Algorithm::binomial) return scatter_binomial(ranks, send, receive, root).result();
  return scatter_linear(ranks, send, receive, root).result();
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
  auto chosen =
      plan(comm, {.collective = Collective::alltoall, .bytes = bytes_of(receive.count, *receive.type)});
  if (!chosen) return std::unexpected(std::move(chosen).error());
  const UnderWay under_way(*chosen);
  if (chosen->algorithm == Algorithm::flat) return alltoall_flat(*chosen->team, send, receive);
  if (chosen->algorithm == Algorithm::direct) return alltoall_direct(*chosen->team, send, receive);
  if (chosen->algorithm == Algorithm::staged) {
    auto stage = chosen->team->stage(bytes_of(receive.count * comm.size(), *receive.type));
    if (!stage) return std::unexpected(std::move(stage).error());
    if (*stage) return alltoall_staged(*chosen->team, send, receive, *stage);
  }
  const StepOverMessages step(*chosen);
  // These copy all blocks before any arrives, so that the receive buffer can be read as the send buffer.
  const In source = send.buffer == in_place ? In{receive.buffer, receive.count, receive.type} : send;
  if (chosen->algorithm == Algorithm::leaders) return alltoall_leaders(chosen->spread(comm), source, receive);
  if (chosen->algorithm == Algorithm::bruck) return alltoall_bruck(ranks, source, receive).result();
  if (send.buffer == in_place) return alltoall_in_place(ranks, receive).result();
  return alltoall_pairwise(ranks, send, receive).result();
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
  auto chosen = plan_reduction(comm, Collective::reduce, what.count, what);
  if (!chosen) return std::unexpected(std::move(chosen).error());
  const UnderWay under_way(*chosen);
  const void* mine = operand(send, receive);
  if (chosen->algorithm == Algorithm::staged) {
    auto done = reduced_staged(*chosen->team, mine, receive, what, root);
    if (!done) return std::unexpected(std::move(done).error());
    if (*done) return {};
  }
  switch (chosen->without_stage()) {
    case Algorithm::flat:
      return reduce_flat(*chosen->team, mine, receive, what, root);
    case Algorithm::counted:
      return reduce_counted(*chosen->team, mine, receive, what, root);
    case Algorithm::direct:
      return reduce_direct(*chosen->team, mine, receive, what, root);
    case Algorithm::leaders:
      return reduce_leaders(chosen->spread(comm), mine, receive, what, root);
    case Algorithm::along:
      return reduce_along(chosen->spread(comm), mine, receive, what, root);
    default:
      return reduce_by(chosen->without_stage(), Ranks(comm, Tag::reduce), mine, receive, what, root).result();
  }
}

Result<> allreduce(const void* send, void* receive, const Reduction& what, Communicator& comm) {
  if (comm.is_inter() || comm.size() == 1)
    return over_messages({comm, Tag::allreduce}, call::Allreduce{send, receive, what}).result();
  auto chosen = plan_reduction(comm, Collective::allreduce, what.count, what);
  if (!chosen) return std::unexpected(std::move(chosen).error());
  const UnderWay under_way(*chosen);
  return run_allreduce(*chosen, comm, operand(send, receive), receive, what);
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
  auto chosen = plan_reduction(comm, Collective::scan, what.count, what);
  if (!chosen) return std::unexpected(std::move(chosen).error());
  const void* mine = operand(send, receive);
  if (chosen->algorithm == Algorithm::flat) return scan_flat(*chosen->team, mine, receive, what);
  return scan_doubling(Ranks(comm, Tag::scan), mine, receive, what).result();
}

Result<> exscan(const void* send, void* receive, const Reduction& what, Communicator& comm) {
  if (comm.size() == 1) return {};
  auto chosen = plan_reduction(comm, Collective::scan, what.count, what);
  if (!chosen) return std::unexpected(std::move(chosen).error());
  const void* mine = operand(send, receive);
  if (chosen->algorithm == Algorithm::flat) return exscan_flat(*chosen->team, mine, receive, what);
  return exscan_doubling(Ranks(comm, Tag::scan), mine, receive, what).result();
}

}  // namespace host
}  // namespace isthmus::coll
