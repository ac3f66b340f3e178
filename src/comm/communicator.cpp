#include "comm/communicator.hpp"

#include <algorithm>
#include <utility>

namespace isthmus {
namespace {

/// Null where rank i is process i.
std::unique_ptr<PeerId[]> map_of(const Group& group) {
  const auto members = group.members();
  bool identity = true;
  for (std::uint32_t rank = 0; rank < group.size() && identity; ++rank)
    identity = members[rank] == rank;
  if (identity) return nullptr;
  auto peers = std::make_unique<PeerId[]>(group.size());
  std::ranges::copy(members, peers.get());
  return peers;
}

Result<> check_member(const Engine& engine, const Group& group) {
  if (group.contains(engine.rank())) return {};
  return fail(ErrorClass::intern,
              "others have left this process out of the communicator that it takes part in");
}

}  // namespace

Communicator::Communicator(Engine& engine, Ref<Group> group, Ref<Group> remote, ContextId context,
                           bool local_is_low)
    : checks(engine.settings().check),
      engine_(engine),
      group_(std::move(group)),
      remote_group_(std::move(remote)),
      local_is_low_(local_is_low),
      context_id_(context) {
  const Group& other_side = remote_group_ ? *remote_group_ : *group_;
  peers_ = map_of(other_side);
  rank_ = static_cast<int>(group_->rank_of(engine.rank()).value());
  size_ = static_cast<int>(group_->size());
  remote_size_ = static_cast<int>(other_side.size());
  if (remote_group_) {
    const auto here = group_->members();
    const auto there = remote_group_->members();
    both_groups_.reserve(there.size() + here.size());
    both_groups_.assign(there.begin(), there.end());
    both_groups_.insert(both_groups_.end(), here.begin(), here.end());
  }
  // The last that may find no memory. Collectives on an intercommunicator send within the local group too,
  // under ranks of that group.
  const auto opened =
      engine.open_contexts(context, other_side.size(), std::max(other_side.size(), group_->size()));
  context_ = &opened.first;
  collective_context_ = &opened.second;
  ranks_in_reach_ = remote_size_;
  context_->name_sources(other_side.members());
  context_->reaches(ranks_in_reach_);
  collective_context_->name_sources(remote_group_ ? std::span<const PeerId>(both_groups_)
                                                  : group_->members());
  collective_context_->work_together(together_tags, broken_);
  engine.recall_losses(*context_);
  engine.recall_losses(*collective_context_);
  engine.agreements().opened(context);
}

void Communicator::breaks_with(Communicator& part) {
  collective_context_->has_part(part.context_id());
  if (is_broken())
    engine_.break_off(part.context_id(), is_revoked() ? context_->why_broken() : ErrorClass::proc_aborted);
}

Error Communicator::why_broken() const {
  if (is_revoked()) return Error(context_->why_broken(), "the communicator has been revoked");
  for (const PeerId process : collective_context_->processes())
    if (engine_.has_lost(process))
      return Error(ErrorClass::proc_aborted,
                   "process " + std::to_string(process) + ", a member of the communicator, is no more");
  return Error(ErrorClass::proc_aborted, "a member of the communicator is no more");
}

Communicator::~Communicator() {
  engine_.close_context(*context_);
  engine_.close_context(*collective_context_);
}

Ref<Communicator> Communicator::make(Engine& engine, Ref<Group> group, ContextId context) {
  return Ref<Communicator>::adopt(new Communicator(engine, std::move(group), nullptr, context, true));
}

Ref<Communicator> Communicator::make_inter(Engine& engine, Ref<Group> local, Ref<Group> remote,
                                           ContextId context, bool local_is_low) {
  return Ref<Communicator>::adopt(
      new Communicator(engine, std::move(local), std::move(remote), context, local_is_low));
}

Result<Ref<Communicator>> Communicator::make_agreed(Engine& engine, Ref<Group> group,
                                                    const ContextProposal& proposal) {
  ISTHMUS_TRY(engine.check(proposal));
  ISTHMUS_TRY(check_member(engine, *group));
  return make(engine, std::move(group), proposal.context);
}

Result<Ref<Communicator>> Communicator::make_agreed_inter(Engine& engine, Ref<Group> local, Ref<Group> remote,
                                                          const ContextProposal& proposal,
                                                          bool local_is_low) {
  ISTHMUS_TRY(engine.check(proposal));
  ISTHMUS_TRY(check_member(engine, *local));
  return make_inter(engine, std::move(local), std::move(remote), proposal.context, local_is_low);
}

Comparison compare(const Communicator& first, const Communicator& second) {
  if (&first == &second) return Comparison::identical;
  if (first.is_inter() != second.is_inter()) return Comparison::unequal;
  const Comparison local = compare(*first.group(), *second.group());
  const Comparison remote =
      first.is_inter() ? compare(*first.remote_group(), *second.remote_group()) : Comparison::identical;
  const Comparison worse = std::max(local, remote);
  return worse == Comparison::identical ? Comparison::congruent : worse;
}

}  // namespace isthmus
