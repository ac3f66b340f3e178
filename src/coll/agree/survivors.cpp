#include "coll/agree/survivors.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace isthmus::coll {
namespace {

using Value = Agreements::Value;

/// The members of both groups, by number: in the same order for all of them.
std::vector<PeerId> members_of(const Communicator& comm) {
  const auto processes = comm.collective_context().processes();
  std::vector<PeerId> members(processes.begin(), processes.end());
  std::ranges::sort(members);
  return members;
}

std::vector<std::uint64_t> bits_of(const std::vector<PeerId>& members, const std::vector<PeerId>& some) {
  std::vector<std::uint64_t> words(Agreements::words_for(members.size()));
  for (const PeerId process : some)
    Agreements::set(words,
                    static_cast<std::uint32_t>(std::ranges::lower_bound(members, process) - members.begin()));
  return words;
}

Ref<Group> living(const Group& group, const std::vector<PeerId>& members, const Value& outcome) {
  std::vector<PeerId> left;
  for (const PeerId process : group.members()) {
    const auto index = std::ranges::lower_bound(members, process) - members.begin();
    if (!Agreements::has(outcome.words, static_cast<std::uint32_t>(index))) left.push_back(process);
  }
  return make_ref<Group>(std::move(left));
}

}  // namespace

std::vector<PeerId> failed_members(const Communicator& comm) {
  const auto members = comm.collective_context().processes();
  std::vector<PeerId> failed;
  for (const PeerId process : comm.engine().lost())
    if (std::ranges::find(members, process) != members.end()) failed.push_back(process);
  return failed;
}

void join_agree(Communicator& comm, int flag, const std::vector<PeerId>& acknowledged,
                std::function<void(const Value&)> done) {
  const std::vector<PeerId> members = members_of(comm);
  comm.engine().agreements().join(comm.context_id(), members, Agreements::Kind::agree,
                                  {.flag = flag, .failed = false, .words = bits_of(members, acknowledged)},
                                  std::move(done));
}

void join_shrink(Communicator& comm, std::function<void(const Value&)> done) {
  Engine& engine = comm.engine();
  const std::vector<PeerId> members = members_of(comm);
  Value mine{.flag = 0, .failed = false, .words = bits_of(members, failed_members(comm))};
  mine.words.push_back(engine.new_context_id());
  engine.agreements().join(comm.context_id(), members, Agreements::Kind::shrink, std::move(mine),
                           std::move(done));
}

Result<Ref<Communicator>> make_shrunk(Communicator& comm, const Value& outcome) {
  const std::vector<PeerId> members = members_of(comm);
  if (outcome.words.size() <= Agreements::words_for(members.size()))
    return fail(ErrorClass::intern, "the members have agreed on something else");
  const ContextId context = outcome.words.back();
  Ref<Group> group = living(*comm.group(), members, outcome);
  if (!group->contains(comm.engine().rank()))
    return fail(ErrorClass::proc_aborted, "the other members take this process for dead");
  // Whoever has proposed it, the id is one of its own and new.
  const ContextProposal proposal{context, ContextIds::maker_of(context)};
  if (!comm.is_inter()) return Communicator::make_agreed(comm.engine(), std::move(group), proposal);
  Ref<Group> remote = living(*comm.remote_group(), members, outcome);
  if (remote->size() == 0) return Ref<Communicator>();
  return Communicator::make_agreed_inter(comm.engine(), std::move(group), std::move(remote), proposal,
                                         comm.local_is_low());
}

Result<Ref<Communicator>> shrink(Communicator& comm) {
  std::optional<Value> outcome;
  join_shrink(comm, [&](const Value& value) { outcome = value; });
  comm.engine().wait_for([&] { return outcome.has_value(); });
  return make_shrunk(comm, *outcome);
}

bool agree(Communicator& comm, bool yes) {
  std::optional<Value> outcome;
  join_agree(comm, yes ? 1 : 0, {}, [&](const Value& value) { outcome = value; });
  comm.engine().wait_for([&] { return outcome.has_value(); });
  return outcome->flag != 0 && !outcome->failed;
}

}  // namespace isthmus::coll
