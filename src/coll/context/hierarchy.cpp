#include "coll/context/hierarchy.hpp"

#include <algorithm>

#include "coll/agree/circle.hpp"
#include "coll/team/flat.hpp"
#include "comm/split.hpp"

namespace isthmus::coll {
namespace {

/// What each member tells all others.
struct Whereabouts {
  ContextId context;       ///< for its host's communicator, if it leads
  PeerId place;            ///< the first process of the job in its region
  std::uint32_t reserved;  ///< 0
};

/// A claim of others decides who is thought to share memory, so that it has to agree with what is known here.
Result<> check(const Communicator& comm, std::span<const Whereabouts> all) {
  const launch::Job& job = comm.engine().job();
  for (int rank = 0; rank < comm.size(); ++rank) {
    const bool here = job.slot_of(comm.peer(rank)).has_value();
    if (here != (all[static_cast<std::size_t>(rank)].place == job.members.front()))
      return fail(ErrorClass::intern, "rank " + std::to_string(rank) + " named a host that it is not on");
  }
  return {};
}

/// The socket of each member; false where the members are not on several, or one on each.
bool read_sockets(const Communicator& comm, std::span<std::uint32_t> sockets) {
  const launch::Job& job = comm.engine().job();
  for (int rank = 0; rank < comm.size(); ++rank) {
    const std::int32_t socket = job.region.block(*job.slot_of(comm.peer(rank))).place.package;
    if (socket < 0) return false;
    sockets[static_cast<std::size_t>(rank)] = static_cast<std::uint32_t>(socket);
  }
  std::vector<std::uint32_t> different(sockets.begin(), sockets.end());
  std::ranges::sort(different);
  const auto count = static_cast<std::size_t>(std::ranges::unique(different).begin() - different.begin());
  return count > 1 && count < sockets.size();
}

}  // namespace

Result<std::unique_ptr<Hierarchy>> Hierarchy::of_hosts(Communicator& comm) {
  Engine& engine = comm.engine();
  const Whereabouts mine{engine.new_context_id(), engine.job().members.front(), 0};
  auto all = Circle::of_local_group(comm).gather_all(mine);
  if (!all) return std::unexpected(std::move(all).error());
  ISTHMUS_TRY(check(comm, *all));

  std::vector<std::uint32_t> places;
  std::ranges::transform(*all, std::back_inserter(places), &Whereabouts::place);
  std::unique_ptr<Hierarchy> made(new Hierarchy(comm, places));
  const int leader = made->leaders()[static_cast<std::size_t>(made->own_domain())];
  ISTHMUS_TRY(made->join(comm, {(*all)[static_cast<std::size_t>(leader)].context, comm.peer(leader)}));
  return made;
}

Result<std::unique_ptr<Hierarchy>> Hierarchy::of_sockets(Communicator& comm, Team& team) {
  // What rank 0 reads decides for all: records are in memory that others may write.
  struct Found {
    ContextId context = 0;
    std::uint64_t several = 0;  ///< 1 where there are; a member that is not honest may say anything
  } found;
  std::vector<std::uint32_t> sockets(static_cast<std::size_t>(comm.size()));
  if (comm.rank() == 0 && sockets.size() * sizeof(sockets[0]) <= slot_bytes && read_sockets(comm, sockets)) {
    found.context = comm.engine().new_context_id();
    found.several = 1;
  }
  ISTHMUS_TRY(bcast_flat(team, Payload::of(&found, sizeof found), 0));
  if (found.several == 0) return nullptr;
  ISTHMUS_TRY(bcast_flat(team, Payload::of(sockets.data(), sockets.size() * sizeof(sockets[0])), 0));
  std::unique_ptr<Hierarchy> made(new Hierarchy(comm, sockets));
  ISTHMUS_TRY(made->join(comm, {found.context, comm.peer(0)}));
  return made;
}

Result<> Hierarchy::join(Communicator& comm, const ContextProposal& proposal) {
  const std::span<const int> here = ranks_of(own_domain());
  auto local =
      Communicator::make_agreed(comm.engine(), select(*comm.group(), {here.begin(), here.end()}), proposal);
  if (!local) return std::unexpected(std::move(local).error());
  local_ = std::move(*local);
  // Who waits for its leader must hear of what keeps that from coming.
  comm.breaks_with(*local_);
  return {};
}

Hierarchy::Hierarchy(Communicator& comm, std::span<const std::uint32_t> places) {
  const int size = static_cast<int>(places.size());
  std::vector<std::pair<std::uint32_t, int>> known;  // ascending, with the number of the domain
  for (int rank = 0; rank < size; ++rank) {
    const std::uint32_t place = places[static_cast<std::size_t>(rank)];
    auto domain = std::ranges::lower_bound(known, place, {}, &std::pair<std::uint32_t, int>::first);
    if (domain == known.end() || domain->first != place) {
      domain = known.insert(domain, {place, count()});
      leaders_.push_back(rank);
    }
    domain_of_.push_back(domain->second);
  }
  begin_.assign(leaders_.size() + 1, 0);
  for (const int domain : domain_of_)
    ++begin_[static_cast<std::size_t>(domain) + 1];
  for (int domain = 0; domain < count(); ++domain)
    begin_[static_cast<std::size_t>(domain) + 1] += begin(domain);
  std::vector<int> next = begin_;
  order_.resize(places.size());
  for (int rank = 0; rank < size; ++rank) {
    const int at = next[static_cast<std::size_t>(domain_of(rank))]++;
    order_[static_cast<std::size_t>(at)] = rank;
    index_of_.push_back(at - begin(domain_of(rank)));
  }
  in_order_ = std::ranges::is_sorted(order_);
  for (int domain = 0; domain < count(); ++domain)
    even_ = even_ && members(domain) == members(0);
  own_domain_ = domain_of(comm.rank());
  if (!even_) return;
  for (int domain = 0; domain < count(); ++domain)
    slice_.push_back(ranks_of(domain)[static_cast<std::size_t>(index_of(comm.rank()))]);
}

std::vector<int> Hierarchy::speakers(int root) const {
  std::vector<int> speakers = leaders_;
  speakers[static_cast<std::size_t>(domain_of(root))] = root;
  return speakers;
}

}  // namespace isthmus::coll
