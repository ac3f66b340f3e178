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

}  // namespace

Communicator::Communicator(Engine& engine, Ref<Group> group, Ref<Group> remote, ContextId context,
                           bool local_is_low)
    : engine_(engine),
      group_(std::move(group)),
      remote_group_(std::move(remote)),
      local_is_low_(local_is_low),
      context_id_(context) {
  const Group& other_side = remote_group_ ? *remote_group_ : *group_;
  peers_ = map_of(other_side);
  rank_ = static_cast<int>(group_->rank_of(engine.rank()).value());
  size_ = static_cast<int>(group_->size());
  remote_size_ = static_cast<int>(other_side.size());
  // Collectives on an intercommunicator send within the local group too, under ranks of that group.
  context_ = &engine.open_context(context, other_side.size());
  collective_context_ = &engine.open_context(context + 1, std::max(other_side.size(), group_->size()));
  context_->name_sources(other_side.members(), false);
  if (!remote_group_) collective_context_->name_sources(group_->members(), true);
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
