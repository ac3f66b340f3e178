#include "coll/agree.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "coll/circle.hpp"
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

ContextId context_of(const Communicator& inter, const Offers& offers) {
  return (inter.local_is_low() ? offers.mine : offers.theirs).context;
}

Result<Ref<Group>> group_from(Engine& engine, std::vector<PeerId> members) {
  for (const PeerId process : members)
    if (process >= engine.size())
      return fail(ErrorClass::intern,
                  fmt::format("the other group names process {} of {}", process, engine.size()));
  return make_ref<Group>(std::move(members));
}

Result<Ref<Communicator>> create_in(Communicator& comm, const Ref<Group>& group, int tag) {
  Engine& engine = comm.engine();
  if (!group->contains(engine.rank())) return Ref<Communicator>();
  Circle circle = Circle::of(comm, *group, tag);
  ContextId context = circle.position() == 0 ? engine.new_context_id() : 0;
  ISTHMUS_TRY(circle.broadcast(context));
  return Communicator::make(engine, group, context);
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
  Result<Ref<Group>> remote = group_from(engine, std::move(members));
  if (!remote) return std::unexpected(std::move(remote).error());
  return Communicator::make_inter(engine, group, *remote, context_of(inter, *offers), inter.local_is_low());
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
  const SplitEntry& first = inter.local_is_low() ? local[static_cast<std::size_t>(here[0])]
                                                 : remote[static_cast<std::size_t>(there[0])];
  return Communicator::make_inter(inter.engine(), select(*inter.group(), here),
                                  select(*inter.remote_group(), there), first.proposal, inter.local_is_low());
}

/// Where the leader of one side finds that of the other.
struct Meeting {
  Communicator* peer = nullptr;  ///< null at all but the leader
  int remote_leader = 0;         ///< rank in `peer`
  int tag = 0;                   ///< in its collective context
};

/// The leaders' half of `join_groups`. An error is in the offers, so that all processes of the side hear of
/// it.
Offers meet(Engine& engine, const Group& local, const Meeting& meeting, std::vector<PeerId>& members) {
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
  } else if (intersect(local, Group(members))->size() != 0) {
    offers.theirs.error_class = static_cast<int>(ErrorClass::comm);
  }
  return offers;
}

/// `side`: the processes of `local`, beginning with the leader.
Result<Ref<Communicator>> join_groups(Engine& engine, const Ref<Group>& local, Circle side,
                                      const Meeting& meeting) {
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

  Result<Ref<Group>> remote = group_from(engine, std::move(members));
  if (!remote) return std::unexpected(std::move(remote).error());
  const bool low = offers.mine.leader < offers.theirs.leader;
  return Communicator::make_inter(engine, local, *remote, (low ? offers.mine : offers.theirs).context, low);
}

/// FNV-1a (Fowler, Noll and Vo), folded into the tags for names.
int tag_of(std::string_view name) {
  std::uint32_t hash = 2166136261U;
  for (const char character : name)
    hash = (hash ^ static_cast<unsigned char>(character)) * 16777619U;
  return agree_name_tag + static_cast<int>(hash % (agree_user_tag - agree_name_tag));
}

}  // namespace

Result<Ref<Communicator>> duplicate(Communicator& comm) {
  Engine& engine = comm.engine();
  Circle circle = Circle::of_local_group(comm);
  ContextId context = circle.position() == 0 ? engine.new_context_id() : 0;
  if (!comm.is_inter()) {
    ISTHMUS_TRY(circle.broadcast(context));
    return Communicator::make(engine, comm.group(), context);
  }
  Result<Offers> offers = swap_offers(comm, circle, {.context = context});
  if (!offers) return std::unexpected(std::move(offers).error());
  return Communicator::make_inter(engine, comm.group(), comm.remote_group(), context_of(comm, *offers),
                                  comm.local_is_low());
}

Duplication::Duplication(Communicator& comm) : comm_(Ref<Communicator>::share(&comm)) {
  Engine& engine = comm.engine();
  const Payload fact = Payload::of(&context_, sizeof context_);
  // Rank 0 of the low side; `source` is 0 whichever side hears it.
  if (comm.rank() != 0 || !comm.local_is_low()) {
    pending_.push_back(engine.start_receive(comm.collective_context(), 0, agree_later_tag, fact));
    return;
  }
  context_ = engine.new_context_id();
  for (const Group* group : {comm.group().get(), comm.remote_group().get()}) {
    if (group == nullptr) continue;
    for (const PeerId process : group->members()) {
      if (process == engine.rank()) continue;
      if (Request* send = engine.start_send({process, comm.context_id() + 1, 0, agree_later_tag}, fact))
        pending_.push_back(send);
    }
  }
}

Duplication::~Duplication() {
  for (Request* request : pending_)
    comm_->engine().free(request);
}

bool Duplication::ready() const noexcept {
  return std::ranges::all_of(pending_, [](const Request* request) { return request->complete; });
}

Result<Ref<Communicator>> Duplication::make() {
  for (const Request* request : pending_)
    if (request->error() != 0) return std::unexpected(Error::from_code(request->error()));
  Communicator& comm = *comm_;
  if (!comm.is_inter()) return Communicator::make(comm.engine(), comm.group(), context_);
  return Communicator::make_inter(comm.engine(), comm.group(), comm.remote_group(), context_,
                                  comm.local_is_low());
}

Result<Ref<Communicator>> create(Communicator& comm, const Ref<Group>& group) {
  if (comm.is_inter()) return create_inter(comm, group);
  return create_in(comm, group, agree_local_tag);
}

Result<Ref<Communicator>> create_group(Communicator& comm, const Ref<Group>& group, int tag) {
  return create_in(comm, group, agree_user_tag + tag);
}

Result<Ref<Communicator>> split(Communicator& comm, int color, int key) {
  Engine& engine = comm.engine();
  const SplitEntry entry{color, key, color == undefined ? 0 : engine.new_context_id()};
  Circle circle = Circle::of_local_group(comm);
  Result<std::vector<SplitEntry>> table = circle.gather_all(entry);
  if (!table) return std::unexpected(std::move(table).error());
  if (comm.is_inter()) return split_inter(comm, entry, *table);
  if (color == undefined) return Ref<Communicator>();
  const std::vector<int> part = part_of(*table, color);
  const ContextId context = (*table)[static_cast<std::size_t>(part[0])].proposal;
  return Communicator::make(engine, select(*comm.group(), part), context);
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
  Meeting meeting{.peer = nullptr, .remote_leader = 0, .tag = tag};
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
  return Communicator::make(engine, unite(first, second), context_of(inter, *offers));
}

}  // namespace isthmus::coll
