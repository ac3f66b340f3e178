#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "abi/comm/communicator.hpp"
#include "abi/comm/topology.hpp"
#include "abi/core/call.hpp"
#include "abi/core/entry.hpp"
#include "coll/agree/agree.hpp"
#include "coll/call/coll.hpp"

// Graphs (MPI 5.0, chapter 8).
namespace isthmus::abi {
namespace {

Result<Graph> make_graph(const Communicator& comm, int nnodes, const int index[], const int edges[]) {
  if (nnodes < 0 || nnodes > comm.size())
    return fail(ErrorClass::arg, fmt::format("nnodes is {}, but comm has {} processes", nnodes, comm.size()));
  if (nnodes == 0) return Graph{};
  ISTHMUS_TRY(check_pointer(index, "index"));
  for (int i = 0; i < nnodes; ++i)
    if (index[i] < (i == 0 ? 0 : index[i - 1]))
      return fail(ErrorClass::arg, fmt::format("index[{}] is {}, less than the one before", i, index[i]));
  const int count = index[nnodes - 1];
  if (count > 0) ISTHMUS_TRY(check_pointer(edges, "edges"));
  for (int i = 0; i < count; ++i)
    if (edges[i] < 0 || edges[i] >= nnodes)
      return fail(ErrorClass::arg,
                  fmt::format("edges[{}] is {}, but the graph has {} nodes", i, edges[i], nnodes));
  return Graph{{index, index + nnodes}, {edges, edges + count}};
}

/// For functions on a communicator with a topology of kind `T`. `body`: `Result<>(Communicator&, const T&)`.
template <class T, class Body>
int call_with(const char* function, MPI_Comm comm, Body&& body) noexcept {
  return call(function, comm, [&](Communicator& c) -> Result<> {
    Result<const T*> topology = find_topology<T>(c);
    if (!topology) return std::unexpected(std::move(topology).error());
    return body(c, **topology);
  });
}

/// Copies as many numbers as the program has room for.
Result<> copy_numbers(std::span<const int> from, int room, int* to, const char* argument) {
  if (room < 0) return fail(ErrorClass::arg, fmt::format("room for {} numbers in {}", room, argument));
  const auto count = std::min(from.size(), static_cast<std::size_t>(room));
  if (count != 0) ISTHMUS_TRY(check_pointer(to, argument));
  std::ranges::copy(from.first(count), to);
  return {};
}

bool are_weights(const int* weights) {
  return weights != MPI_UNWEIGHTED && weights != MPI_WEIGHTS_EMPTY;
}

/// Ranks and weights of an argument pair; `degree` says how many.
Result<> check_edges(const Communicator& comm, int degree, const int* ranks, const int* weights,
                     const char* argument) {
  if (degree < 0) return fail(ErrorClass::arg, fmt::format("the number of {} is {}", argument, degree));
  if (degree == 0) return {};
  ISTHMUS_TRY(check_pointer(ranks, argument));
  if (are_weights(weights)) ISTHMUS_TRY(check_pointer(weights, "weights"));
  for (int i = 0; i < degree; ++i)
    if (ranks[i] < 0 || ranks[i] >= comm.size())
      return fail(ErrorClass::rank,
                  fmt::format("{}[{}] is {}, but comm has {} processes", argument, i, ranks[i], comm.size()));
  return {};
}

Result<> create_distributed(Communicator& comm, DistributedGraph graph, const Info* info, MPI_Comm* newcomm) {
  Result<Ref<Communicator>> made = coll::duplicate(comm);
  if (made) set_topology(**made, std::move(graph));
  return give(std::move(made), comm, info, newcomm);
}

/// An edge that one process names and two have to hear of.
struct Edge {
  int source, destination, weight;
};
constexpr int edge_integers = sizeof(Edge) / sizeof(int);

/// Sends `outgoing[i]` to rank i; returns what was sent here, in the order of senders.
Result<std::vector<Edge>> deliver(Communicator& comm, const std::vector<std::vector<Edge>>& outgoing) {
  const Datatype& integer = Datatype::basic(Basic::int_);
  const auto ranks = static_cast<std::size_t>(comm.size());
  std::vector<int> send_counts(ranks), send_places(ranks), counts(ranks), places(ranks);
  std::vector<Edge> sent;
  for (std::size_t i = 0; i < ranks; ++i) {
    send_places[i] = static_cast<int>(sent.size()) * edge_integers;
    send_counts[i] = static_cast<int>(outgoing[i].size()) * edge_integers;
    sent.insert(sent.end(), outgoing[i].begin(), outgoing[i].end());
  }
  ISTHMUS_TRY(coll::alltoall({send_counts.data(), 1, &integer}, {counts.data(), 1, &integer}, comm));
  int total = 0;
  for (std::size_t i = 0; i < ranks; ++i) {
    places[i] = total;
    total += counts[i];
  }
  std::vector<Edge> received(static_cast<std::size_t>(total / edge_integers));
  ISTHMUS_TRY(coll::alltoallv({sent.data(), send_counts.data(), send_places.data(), &integer},
                              {received.data(), counts.data(), places.data(), &integer}, comm));
  return received;
}

/// MPI_Dist_graph_create, whose edges may be named by any process: each goes to both of its ends.
Result<DistributedGraph> collect(Communicator& comm, std::span<const Edge> edges, bool weighted) {
  const auto ranks = static_cast<std::size_t>(comm.size());
  std::vector<std::vector<Edge>> to_sources(ranks), to_destinations(ranks);
  for (const Edge& edge : edges) {
    to_sources[static_cast<std::size_t>(edge.source)].push_back(edge);
    to_destinations[static_cast<std::size_t>(edge.destination)].push_back(edge);
  }
  Result<std::vector<Edge>> leaving = deliver(comm, to_sources);
  if (!leaving) return std::unexpected(std::move(leaving).error());
  Result<std::vector<Edge>> arriving = deliver(comm, to_destinations);
  if (!arriving) return std::unexpected(std::move(arriving).error());
  DistributedGraph graph;
  graph.weighted = weighted;
  for (const Edge& edge : *arriving) {
    graph.sources.push_back(edge.source);
    if (weighted) graph.source_weights.push_back(edge.weight);
  }
  for (const Edge& edge : *leaving) {
    graph.destinations.push_back(edge.destination);
    if (weighted) graph.destination_weights.push_back(edge.weight);
  }
  return graph;
}

}  // namespace

ISTHMUS_ENTRY(int, Graph_create)
(MPI_Comm comm_old, int nnodes, const int index[], const int edges[], int /*reorder*/, MPI_Comm* comm_graph) {
  return call("MPI_Graph_create", comm_old, [&](Communicator& c) -> Result<> {
    ISTHMUS_TRY(check_intra(c, "comm_old"));
    ISTHMUS_TRY(clear_output(comm_graph, "comm_graph"));
    Result<Graph> graph = make_graph(c, nnodes, index, edges);
    if (!graph) return std::unexpected(std::move(graph).error());
    Ref<Group> group = first_members(c, nnodes);
    Result<Ref<Communicator>> made = coll::create(c, group);
    if (made && *made) set_topology(**made, *std::move(graph));
    return give(std::move(made), c, nullptr, comm_graph);
  });
}

ISTHMUS_ENTRY(int, Graph_map)
(MPI_Comm comm, int nnodes, const int index[], const int edges[], int* newrank) {
  return call("MPI_Graph_map", comm, [&](Communicator& c) -> Result<> {
    ISTHMUS_TRY(check_intra(c));
    ISTHMUS_TRY(check_pointer(newrank, "newrank"));
    if (Result<Graph> graph = make_graph(c, nnodes, index, edges); !graph)
      return std::unexpected(std::move(graph).error());
    *newrank = c.rank() < nnodes ? c.rank() : MPI_UNDEFINED;
    return {};
  });
}

ISTHMUS_ENTRY(int, Graphdims_get)(MPI_Comm comm, int* nnodes, int* nedges) {
  return call_with<Graph>("MPI_Graphdims_get", comm, [&](Communicator&, const Graph& graph) -> Result<> {
    ISTHMUS_TRY(check_pointer(nnodes, "nnodes"));
    ISTHMUS_TRY(check_pointer(nedges, "nedges"));
    *nnodes = static_cast<int>(graph.index.size());
    *nedges = static_cast<int>(graph.edges.size());
    return {};
  });
}

ISTHMUS_ENTRY(int, Graph_get)(MPI_Comm comm, int maxindex, int maxedges, int index[], int edges[]) {
  return call_with<Graph>("MPI_Graph_get", comm, [&](Communicator&, const Graph& graph) -> Result<> {
    ISTHMUS_TRY(copy_numbers(graph.index, maxindex, index, "index"));
    return copy_numbers(graph.edges, maxedges, edges, "edges");
  });
}

ISTHMUS_ENTRY(int, Graph_neighbors_count)(MPI_Comm comm, int rank, int* nneighbors) {
  return call_with<Graph>("MPI_Graph_neighbors_count", comm,
                          [&](Communicator& c, const Graph& graph) -> Result<> {
                            ISTHMUS_TRY(check_rank(c, rank, false, "rank"));
                            ISTHMUS_TRY(check_pointer(nneighbors, "nneighbors"));
                            *nneighbors = static_cast<int>(graph.neighbors(rank).size());
                            return {};
                          });
}

ISTHMUS_ENTRY(int, Graph_neighbors)(MPI_Comm comm, int rank, int maxneighbors, int neighbors[]) {
  return call_with<Graph>("MPI_Graph_neighbors", comm, [&](Communicator& c, const Graph& graph) -> Result<> {
    ISTHMUS_TRY(check_rank(c, rank, false, "rank"));
    return copy_numbers(graph.neighbors(rank), maxneighbors, neighbors, "neighbors");
  });
}

ISTHMUS_ENTRY(int, Dist_graph_create_adjacent)
(MPI_Comm comm_old, int indegree, const int sources[], const int* sourceweights, int outdegree,
 const int destinations[], const int* destweights, MPI_Info info, int /*reorder*/,
 MPI_Comm* comm_dist_graph) {
  return call("MPI_Dist_graph_create_adjacent", comm_old, [&](Communicator& c) -> Result<> {
    ISTHMUS_TRY(check_intra(c, "comm_old"));
    ISTHMUS_TRY(clear_output(comm_dist_graph, "comm_dist_graph"));
    Result<Info*> hints = find_info(info);
    if (!hints) return std::unexpected(std::move(hints).error());
    ISTHMUS_TRY(check_edges(c, indegree, sources, sourceweights, "sources"));
    ISTHMUS_TRY(check_edges(c, outdegree, destinations, destweights, "destinations"));
    DistributedGraph graph;
    graph.weighted = sourceweights != MPI_UNWEIGHTED && destweights != MPI_UNWEIGHTED;
    graph.sources.assign(sources, sources + indegree);
    graph.destinations.assign(destinations, destinations + outdegree);
    if (graph.weighted) {
      if (indegree > 0) graph.source_weights.assign(sourceweights, sourceweights + indegree);
      if (outdegree > 0) graph.destination_weights.assign(destweights, destweights + outdegree);
    }
    return create_distributed(c, std::move(graph), *hints, comm_dist_graph);
  });
}

ISTHMUS_ENTRY(int, Dist_graph_create)
(MPI_Comm comm_old, int n, const int sources[], const int degrees[], const int destinations[],
 const int* weights, MPI_Info info, int /*reorder*/, MPI_Comm* comm_dist_graph) {
  return call("MPI_Dist_graph_create", comm_old, [&](Communicator& c) -> Result<> {
    ISTHMUS_TRY(check_intra(c, "comm_old"));
    ISTHMUS_TRY(clear_output(comm_dist_graph, "comm_dist_graph"));
    Result<Info*> hints = find_info(info);
    if (!hints) return std::unexpected(std::move(hints).error());
    ISTHMUS_TRY(check_edges(c, n, sources, MPI_UNWEIGHTED, "sources"));
    if (n > 0) ISTHMUS_TRY(check_pointer(degrees, "degrees"));
    std::vector<Edge> edges;
    const bool weighted = weights != MPI_UNWEIGHTED;
    int next = 0;
    for (int i = 0; i < n; ++i) {
      ISTHMUS_TRY(check_edges(c, degrees[i], destinations + next, weights, "destinations"));
      for (int k = 0; k < degrees[i]; ++k, ++next)
        edges.push_back({sources[i], destinations[next], weighted ? weights[next] : 0});
    }
    Result<DistributedGraph> graph = collect(c, edges, weighted);
    if (!graph) return std::unexpected(std::move(graph).error());
    return create_distributed(c, *std::move(graph), *hints, comm_dist_graph);
  });
}

ISTHMUS_ENTRY(int, Dist_graph_neighbors_count)(MPI_Comm comm, int* indegree, int* outdegree, int* weighted) {
  return call_with<DistributedGraph>("MPI_Dist_graph_neighbors_count", comm,
                                     [&](Communicator&, const DistributedGraph& graph) -> Result<> {
                                       ISTHMUS_TRY(check_pointer(indegree, "indegree"));
                                       ISTHMUS_TRY(check_pointer(outdegree, "outdegree"));
                                       ISTHMUS_TRY(check_pointer(weighted, "weighted"));
                                       *indegree = static_cast<int>(graph.sources.size());
                                       *outdegree = static_cast<int>(graph.destinations.size());
                                       *weighted = graph.weighted ? 1 : 0;
                                       return {};
                                     });
}

ISTHMUS_ENTRY(int, Dist_graph_neighbors)
(MPI_Comm comm, int maxindegree, int sources[], int* sourceweights, int maxoutdegree, int destinations[],
 int* destweights) {
  return call_with<DistributedGraph>(
      "MPI_Dist_graph_neighbors", comm, [&](Communicator&, const DistributedGraph& graph) -> Result<> {
        ISTHMUS_TRY(copy_numbers(graph.sources, maxindegree, sources, "sources"));
        ISTHMUS_TRY(copy_numbers(graph.destinations, maxoutdegree, destinations, "destinations"));
        if (are_weights(sourceweights))
          ISTHMUS_TRY(copy_numbers(graph.source_weights, maxindegree, sourceweights, "sourceweights"));
        if (are_weights(destweights))
          ISTHMUS_TRY(copy_numbers(graph.destination_weights, maxoutdegree, destweights, "destweights"));
        return {};
      });
}

}  // namespace isthmus::abi
