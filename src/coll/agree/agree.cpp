#include "coll/agree/agree.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "coll/agree/circle.hpp"
#include "coll/messages/algorithms.hpp"
#include "comm/split.hpp"

namespace isthmus::coll {
namespace {

/// What the leader of one side of a new intercommunicator tells the other.
struct Offer {
  ContextId context = 0;      ///< proposed; the low side's counts
  std::uint32_t members = 0;  ///< of the side's group, which follows
  PeerId leader = 0;
  std::int32_t high = 0;         ///< MPI_Intercomm_merge: comes last
  std::int32_t error_class = 0;  ///< why the leader gave up; then nothing follows
};

/// Both sides' offers, as one side's processes hear of them.
struct Offers {
  Offer mine, theirs;
};

template <class T>
Result<> swap_facts(Communicator& comm, int rank, int tag, std::span<const T> mine, std::span<T> theirs) {
  return swap(comm, rank, tag, std::as_bytes(mine), std::as_writable_bytes(theirs));
}

/// The leaders (ranks 0) of both sides of `inter` swap offers; everybody hears both.
Result<Offers> swap_offers(Communicator& inter, Circle& side, Offer mine) {
  Offers offers{mine, {}};
  if (inter.rank() == 0)
    ISTHMUS_TRY(swap_facts<Offer>(inter, 0, agree_tag, {&offers.mine, 1}, {&offers.theirs, 1}));
  ISTHMUS_TRY(side.broadcast(offers));
  return offers;
}

/// The process that decides for both sides: rank 0 of the low one.
PeerId first_of(const Communicator& inter) {
  return (inter.local_is_low() ? *inter.group() : *inter.remote_group()).process(0);
}

ContextProposal proposal_of(const Communicator& inter, const Offers& offers) {
  return {(inter.local_is_low() ? offers.mine : offers.theirs).context, first_of(inter)};
}

/// The other side's group; it comes from the same session as `local`.
Result<Ref<Group>> group_from(const Engine& engine, const Group& local, std::vector<PeerId> members) {
  std::vector<bool> seen(engine.size());
  for (const PeerId process : members) {
    if (process >= engine.size())
      return fail(ErrorClass::intern,
                  fmt::format("the other group names process {} of {}", process, engine.size()));
    if (seen[process] || local.contains(process))
      return fail(ErrorClass::intern,
                  fmt::format("the other group names process {} of this group, or twice", process));
    seen[process] = true;
  }
  return make_ref<Group>(std::move(members), local.session_buffer());
}

Result<Ref<Communicator>> create_in(Communicator& comm, const Ref<Group>& group, int tag) {
  Engine& engine = comm.engine();
  if (!group->contains(engine.rank())) return Ref<Communicator>();
  Circle circle = Circle::of(comm, *group, tag);
  ContextId context = circle.position() == 0 ? engine.new_context_id() : 0;
  ISTHMUS_TRY(circle.broadcast(context));
  return Communicator::make_agreed(engine, group, {context, circle.first()});
}

Result<Ref<Communicator>> create_inter(Communicator& inter, const Ref<Group>& group) {
  Engine& engine = inter.engine();
  Circle side = Circle::of_local_group(inter);
  const ContextId proposal = inter.rank() == 0 ? engine.new_context_id() : 0;
  Result<Offers> offers = swap_offers(inter, side, {.context = proposal, .members = group->size()});
  if (!offers) return std::unexpected(std::move(offers).error());

  std::vector<PeerId> members(
      std::min(offers->theirs.members, static_cast<std::uint32_t>(inter.remote_size())));
  if (inter.rank() == 0) ISTHMUS_TRY(swap_facts<PeerId>(inter, 0, agree_tag, group->members(), members));
  ISTHMUS_TRY(side.broadcast(members));
  if (members.empty() || !group->contains(engine.rank())) return Ref<Communicator>();
  Result<Ref<Group>> remote = group_from(engine, *group, std::move(members));
  if (!remote) return std::unexpected(std::move(remote).error());
  return Communicator::make_agreed_inter(engine, group, *remote, proposal_of(inter, *offers),
                                         inter.local_is_low());
}

Result<Ref<Communicator>> split_inter(Communicator& inter, const SplitEntry& entry,
                                      std::span<const SplitEntry> local) {
  Circle side = Circle::of_local_group(inter);
  std::vector<SplitEntry> remote(static_cast<std::size_t>(inter.remote_size()));
  if (inter.rank() == 0) ISTHMUS_TRY(swap_facts<SplitEntry>(inter, 0, agree_tag, local, remote));
  ISTHMUS_TRY(side.broadcast(remote));
  if (entry.color == undefined) return Ref<Communicator>();

  const std::vector<int> here = part_of(local, entry.color);
  const std::vector<int> there = part_of(remote, entry.color);
  if (there.empty()) return Ref<Communicator>();
  Ref<Group> group = select(*inter.group(), here);
  Ref<Group> remote_group = select(*inter.remote_group(), there);
  const ContextProposal proposal =
      inter.local_is_low()
          ? ContextProposal{local[static_cast<std::size_t>(here[0])].proposal, group->process(0)}
          : ContextProposal{remote[static_cast<std::size_t>(there[0])].proposal, remote_group->process(0)};
  return Communicator::make_agreed_inter(inter.engine(), std::move(group), std::move(remote_group), proposal,
                                         inter.local_is_low());
}

/// Where the leader of one side finds that of the other.
struct LeaderMeeting {
  Communicator* peer = nullptr;  ///< null at all but the leader
  int remote_leader = 0;         ///< rank in `peer`
  int tag = 0;                   ///< in its collective context
};

/// The leaders' half of `join_groups`. An error is in the offers, so that all processes of the side hear of
/// it.
Offers meet(Engine& engine, const Group& local, const LeaderMeeting& meeting, std::vector<PeerId>& members) {
  Offers offers{
      .mine = {.context = engine.new_context_id(), .members = local.size(), .leader = engine.rank()},
      .theirs = {}};
  const auto& [peer, remote_leader, tag] = meeting;
  Result<> met = swap_facts<Offer>(*peer, remote_leader, tag, {&offers.mine, 1}, {&offers.theirs, 1});
  if (met) {
    members.resize(std::min(offers.theirs.members, engine.size()));
    met = swap_facts<PeerId>(*peer, remote_leader, tag, local.members(), members);
  }
  if (!met) {
    offers.theirs.error_class = met.error().code();
  } else if (offers.theirs.leader != peer->peer(remote_leader)) {
    offers.theirs.error_class = static_cast<int>(ErrorClass::intern);
  } else if (intersect(local, Group(members))->size() != 0) {
    offers.theirs.error_class = static_cast<int>(ErrorClass::comm);
  }
  return offers;
}

/// `side`: the processes of `local`, beginning with the leader.
Result<Ref<Communicator>> join_groups(Engine& engine, const Ref<Group>& local, Circle side,
                                      const LeaderMeeting& meeting) {
  std::vector<PeerId> members;
  Offers offers;
  if (side.position() == 0) offers = meet(engine, *local, meeting, members);
  ISTHMUS_TRY(side.broadcast(offers));
  if (offers.theirs.error_class == static_cast<int>(ErrorClass::comm))
    return fail(ErrorClass::comm, "the two groups have processes in common");
  if (offers.theirs.error_class != 0)
    return fail(static_cast<ErrorClass>(offers.theirs.error_class), "the leaders could not meet");
  members.resize(std::min(offers.theirs.members, engine.size()));
  ISTHMUS_TRY(side.broadcast(members));

  Result<Ref<Group>> remote = group_from(engine, *local, std::move(members));
  if (!remote) return std::unexpected(std::move(remote).error());
  const PeerId leader = offers.theirs.leader;
  if (!(*remote)->contains(leader))
    return fail(ErrorClass::intern,
                fmt::format("process {}, which leads the other group, is not in it", leader));
  const bool low = side.first() < leader;
  return Communicator::make_agreed_inter(engine, local, *remote,
                                         low ? ContextProposal{offers.mine.context, side.first()}
                                             : ContextProposal{offers.theirs.context, leader},
                                         low);
}

/// FNV-1a (Fowler, Noll and Vo), folded into the tags for names.
int tag_of(std::string_view name) {
  std::uint32_t hash = 2166136261U;
  for (const char character : name)
    hash = (hash ^ static_cast<unsigned char>(character)) * 16777619U;
  return agree_name_tag + static_cast<int>(hash % (agree_user_tag - agree_name_tag));
}

/// Whose context the duplicate of `comm` gets: that of rank 0, of two groups of the low one.
ContextId propose_context(Communicator& comm) {
  return comm.rank() == 0 && comm.local_is_low() ? comm.engine().new_context_id() : 0;
}

/// Tells it to all.
Flow spread_context(Ranks ranks, ContextId* context) {
  const Communicator& comm = ranks.comm();
  const Payload fact = Payload::of(context, sizeof *context);
  if (!comm.is_inter()) {
    co_await bcast_binomial(ranks, fact, 0);
    co_return;
  }
  if (comm.rank() == 0) {
    if (comm.local_is_low())
      co_await ranks.send(0, fact);
    else
      co_await ranks.receive(0, fact);
  }
  co_await bcast_binomial(ranks.own_group(), fact, 0);
}

/// The same groups in `context`, which `propose_context` made somewhere.
Result<Ref<Communicator>> duplicate_in(Communicator& comm, ContextId context) {
  if (!comm.is_inter())
    return Communicator::make_agreed(comm.engine(), comm.group(), {context, comm.group()->process(0)});
  return Communicator::make_agreed_inter(comm.engine(), comm.group(), comm.remote_group(),
                                         {context, first_of(comm)}, comm.local_is_low());
}

}  // namespace

Result<Ref<Communicator>> duplicate(Communicator& comm) {
  if (comm.is_broken()) return std::unexpected(comm.why_broken());
  ContextId context = propose_context(comm);
  ISTHMUS_TRY(spread_context({comm, Tag::set_up}, &context).result());
  return duplicate_in(comm, context);
}

void Duplication::begin() {
  context_ = propose_context(*comm_);
  flow_.emplace(spread_context({*comm_, Lane::nonblocking(*comm_, driver_)}, &context_));
}

Result<Ref<Communicator>> Duplication::make() {
  ISTHMUS_TRY(flow_->result());
  if (comm_->is_broken()) return std::unexpected(comm_->why_broken());
  return duplicate_in(*comm_, context_);
}

Result<Ref<Communicator>> create(Communicator& comm, const Ref<Group>& group) {
  if (comm.is_broken()) return std::unexpected(comm.why_broken());
  if (comm.is_inter()) return create_inter(comm, group);
  return create_in(comm, group, agree_local_tag);
}

Result<Ref<Communicator>> create_group(Communicator& comm, const Ref<Group>& group, int tag) {
  return create_in(comm, group, agree_user_tag + tag);
}

Result<Ref<Communicator>> split(Communicator& comm, int color, int key) {
  if (comm.is_broken()) return std::unexpected(comm.why_broken());
  Engine& engine = comm.engine();
  const SplitEntry entry{color, key, color == undefined ? 0 : engine.new_context_id()};
  Circle circle = Circle::of_local_group(comm);
  Result<std::vector<SplitEntry>> table = circle.gather_all(entry);
  if (!table) return std::unexpected(std::move(table).error());
  if (comm.is_inter()) return split_inter(comm, entry, *table);
  if (color == undefined) return Ref<Communicator>();
  const std::vector<int> part = part_of(*table, color);
  Ref<Group> group = select(*comm.group(), part);
  const ContextProposal proposal{(*table)[static_cast<std::size_t>(part[0])].proposal, group->process(0)};
  return Communicator::make_agreed(engine, std::move(group), proposal);
}

Result<Ref<Communicator>> join(Communicator& local, int local_leader, Communicator* peer, int remote_leader,
                               int tag) {
  return join_groups(local.engine(), local.group(), Circle::of_local_group(local, local_leader),
                     {peer, remote_leader, agree_user_tag + tag});
}

Result<Ref<Communicator>> create_from_group(Communicator& world, const Ref<Group>& group,
                                            std::string_view name) {
  return create_in(world, group, tag_of(name));
}

Result<Ref<Communicator>> join_from_groups(Communicator& world, const Ref<Group>& local, int local_leader,
                                           const Group* remote, int remote_leader, std::string_view name) {
  const int tag = tag_of(name);
  LeaderMeeting meeting{.peer = nullptr, .remote_leader = 0, .tag = tag};
  if (remote != nullptr) {
    const PeerId leader = remote->process(static_cast<std::uint32_t>(remote_leader));
    meeting.peer = &world;
    meeting.remote_leader = static_cast<int>(world.group()->rank_of(leader).value());
  }
  return join_groups(world.engine(), local,
                     Circle::of(world, *local, tag, static_cast<std::uint32_t>(local_leader)), meeting);
}

Result<Ref<Communicator>> merge(Communicator& inter, bool high) {
  Engine& engine = inter.engine();
  Circle side = Circle::of_local_group(inter);
  const ContextId proposal = inter.rank() == 0 ? engine.new_context_id() : 0;
  Result<Offers> offers = swap_offers(inter, side, {.context = proposal, .high = high});
  if (!offers) return std::unexpected(std::move(offers).error());

  const bool tie = offers->mine.high == offers->theirs.high;
  const bool local_first = tie ? inter.local_is_low() : offers->mine.high == 0;
  const Group& first = local_first ? *inter.group() : *inter.remote_group();
  const Group& second = local_first ? *inter.remote_group() : *inter.group();
  return Communicator::make_agreed(engine, unite(first, second), proposal_of(inter, *offers));
}

}  // namespace isthmus::coll
