#include "coll/hierarchy.hpp"

#include <algorithm>

#include "coll/circle.hpp"
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

}  // namespace

Result<std::unique_ptr<Hierarchy>> Hierarchy::make(Communicator& comm) {
  Engine& engine = comm.engine();
  const Whereabouts mine{engine.new_context_id(), engine.job().members.front(), 0};
  auto all = Circle::of_local_group(comm).gather_all(mine);
  if (!all) return std::unexpected(std::move(all).error());
  ISTHMUS_TRY(check(comm, *all));

  std::vector<PeerId> places;
  std::ranges::transform(*all, std::back_inserter(places), &Whereabouts::place);
  std::unique_ptr<Hierarchy> made(new Hierarchy);
  made->number(places);
  if (made->hosts() == comm.size()) return nullptr;
  made->own_host_ = made->host_of(comm.rank());
  const std::span<const int> here = made->ranks_of(made->own_host_);
  made->local_ = Communicator::make(engine, select(*comm.group(), {here.begin(), here.end()}),
                                    (*all)[static_cast<std::size_t>(here.front())].context);
  if (made->even_)
    for (int host = 0; host < made->hosts(); ++host)
      made->slice_.push_back(made->ranks_of(host)[static_cast<std::size_t>(made->index_of(comm.rank()))]);
  return made;
}

void Hierarchy::number(std::span<const PeerId> places) {
  const int size = static_cast<int>(places.size());
  std::vector<std::pair<PeerId, int>> known;  // ascending, with the number of the host
  for (int rank = 0; rank < size; ++rank) {
    const PeerId place = places[static_cast<std::size_t>(rank)];
    auto host = std::ranges::lower_bound(known, place, {}, &std::pair<PeerId, int>::first);
    if (host == known.end() || host->first != place) {
      host = known.insert(host, {place, hosts()});
      leaders_.push_back(rank);
    }
    host_of_.push_back(host->second);
  }
  begin_.assign(leaders_.size() + 1, 0);
  for (const int host : host_of_)
    ++begin_[static_cast<std::size_t>(host) + 1];
  for (int host = 0; host < hosts(); ++host)
    begin_[static_cast<std::size_t>(host) + 1] += begin(host);
  std::vector<int> next = begin_;
  order_.resize(places.size());
  for (int rank = 0; rank < size; ++rank) {
    const int at = next[static_cast<std::size_t>(host_of(rank))]++;
    order_[static_cast<std::size_t>(at)] = rank;
    index_of_.push_back(at - begin(host_of(rank)));
  }
  in_order_ = std::ranges::is_sorted(order_);
  for (int host = 0; host < hosts(); ++host)
    even_ = even_ && members(host) == members(0);
}

std::vector<int> Hierarchy::speakers(int root) const {
  std::vector<int> speakers = leaders_;
  speakers[static_cast<std::size_t>(host_of(root))] = root;
  return speakers;
}

}  // namespace isthmus::coll
