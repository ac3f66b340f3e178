#include "coll/messages/neighbor.hpp"

#include <cassert>
#include <memory>
#include <variant>

#include "coll/call/call.hpp"
#include "coll/call/local.hpp"
#include "coll/messages/messages.hpp"
#include "comm/topology.hpp"

namespace isthmus::coll {
namespace {

/// The block for each destination.
Payload block_for(const call::NeighborAllgather& c, int) {
  return whole(c.send);
}
Payload block_for(const call::NeighborAllgatherv& c, int) {
  return whole(c.send);
}
Payload block_for(const auto& c, int i) {
  return block(c.send, i);
}

/// All messages at once: neighbours are few. Blocks without bytes travel too, for one side alone cannot know
/// that the other has none.
template <class Call>
Flow exchange(Ranks ranks, Call c, const Neighborhood* neighbors) {
  Batch batch(ranks);
  for (int i = 0; const int source : neighbors->sources()) {
    if (source != null_process) batch.receive(source, block(c.receive, i));
    ++i;
  }
  const auto out = static_cast<int>(neighbors->destinations().size());
  for (int i = 0; i < out; ++i) {
    const int leaving = neighbors->leaving(i);
    const int destination = neighbors->destinations()[static_cast<std::size_t>(leaving)];
    if (destination != null_process) batch.send(destination, block_for(c, leaving));
  }
  co_await batch;
}

Flow failed(Ranks, Error error) {
  co_await Result<>(std::unexpect, std::move(error));
}

template <class Call>
Flow with_neighbors(Ranks ranks, const Call& c) {
  auto neighbors = Neighborhood::of(ranks.comm());
  if (!neighbors) return failed(ranks, std::move(neighbors).error());
  return exchange(ranks, c, *neighbors);
}

}  // namespace

Result<const Neighborhood*> Neighborhood::of(Communicator& comm) {
  if (comm.neighborhood) return static_cast<const Neighborhood*>(comm.neighborhood.get());
  const Topology* const topology = topology_of(comm);
  if (!topology) return fail(ErrorClass::topology, "comm has no topology");
  auto made = std::make_unique<Neighborhood>();
  if (const Grid* const grid = std::get_if<Grid>(topology)) {
    made->is_grid_ = true;
    for (int d = 0; d < static_cast<int>(grid->dimensions().size()); ++d)
      for (const int displacement : {-1, 1})
        made->sources_.push_back(grid->neighbor(comm.rank(), d, displacement));
    made->destinations_ = made->sources_;
  } else if (const Graph* const graph = std::get_if<Graph>(topology)) {
    const auto neighbors = graph->neighbors(comm.rank());
    made->sources_.assign(neighbors.begin(), neighbors.end());
    made->destinations_ = made->sources_;
  } else {
    const auto& distributed = std::get<DistributedGraph>(*topology);
    made->sources_ = distributed.sources;
    made->destinations_ = distributed.destinations;
  }
  comm.neighborhood = std::move(made);
  return static_cast<const Neighborhood*>(comm.neighborhood.get());
}

Flow over_messages(Ranks ranks, const call::NeighborAllgather& c) {
  return with_neighbors(ranks, c);
}
Flow over_messages(Ranks ranks, const call::NeighborAllgatherv& c) {
  return with_neighbors(ranks, c);
}
Flow over_messages(Ranks ranks, const call::NeighborAlltoall& c) {
  return with_neighbors(ranks, c);
}
Flow over_messages(Ranks ranks, const call::NeighborAlltoallv& c) {
  return with_neighbors(ranks, c);
}
Flow over_messages(Ranks ranks, const call::NeighborAlltoallw& c) {
  return with_neighbors(ranks, c);
}

}  // namespace isthmus::coll
