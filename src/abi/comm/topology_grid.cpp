#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "abi/comm/communicator.hpp"
#include "abi/comm/topology.hpp"
#include "abi/core/call.hpp"
#include "abi/core/entry.hpp"
#include "coll/agree/agree.hpp"

// Grids (MPI 5.0, chapter 8). Ranks keep their order: on one host no place is better than another.
namespace isthmus::abi {
namespace {

Result<Grid> make_grid(const Communicator& comm, int ndims, const int dims[], const int periods[]) {
  if (ndims < 0) return fail(ErrorClass::dims, fmt::format("ndims is {}", ndims));
  if (ndims > 0) {
    ISTHMUS_TRY(check_pointer(dims, "dims"));
    ISTHMUS_TRY(check_pointer(periods, "periods"));
  }
  std::vector<Grid::Dimension> dimensions;
  std::int64_t size = 1;
  for (int i = 0; i < ndims; ++i) {
    if (dims[i] < 1) return fail(ErrorClass::dims, fmt::format("dims[{}] is {}", i, dims[i]));
    size *= dims[i];
    if (size > comm.size())
      return fail(ErrorClass::dims, fmt::format("the grid has {} places or more, but comm has {} processes",
                                                size, comm.size()));
    dimensions.push_back({dims[i], periods[i] != 0});
  }
  return Grid(std::move(dimensions));
}

/// The first `count` processes, with `topology`.
Result<> create_with(Communicator& comm, int count, Topology topology, MPI_Comm* newcomm) {
  Ref<Group> group = first_members(comm, count);
  Result<Ref<Communicator>> made = coll::create(comm, group);
  if (made && *made) set_topology(**made, std::move(topology));
  return give(std::move(made), comm, nullptr, newcomm);
}

/// For functions on a communicator with a grid. `body`: `Result<>(Communicator&, const Grid&)`.
template <class Body>
int call_with_grid(const char* function, MPI_Comm comm, Body&& body) noexcept {
  return call(function, comm, [&](Communicator& c) -> Result<> {
    Result<const Grid*> grid = find_topology<Grid>(c);
    if (!grid) return std::unexpected(std::move(grid).error());
    return body(c, **grid);
  });
}

/// An array of the program with room for `maxdims` numbers.
Result<> check_room(const Grid& grid, int maxdims, const void* array, const char* argument) {
  const auto needed = static_cast<int>(grid.dimensions().size());
  if (maxdims < needed)
    return fail(ErrorClass::arg,
                fmt::format("maxdims is {}, but the grid has {} dimensions", maxdims, needed));
  return needed == 0 ? Result<>() : check_pointer(array, argument);
}

}  // namespace

ISTHMUS_ENTRY(int, Dims_create)(int nnodes, int ndims, int dims[]) {
  return call("MPI_Dims_create", [&](Runtime&) -> Result<> {
    if (nnodes < 1) return fail(ErrorClass::arg, fmt::format("nnodes is {}", nnodes));
    if (ndims < 0) return fail(ErrorClass::dims, fmt::format("ndims is {}", ndims));
    if (ndims > 0) ISTHMUS_TRY(check_pointer(dims, "dims"));
    return balance_dimensions(nnodes, {dims, static_cast<std::size_t>(ndims)});
  });
}

ISTHMUS_ENTRY(int, Cart_create)
(MPI_Comm comm_old, int ndims, const int dims[], const int periods[], int /*reorder*/, MPI_Comm* comm_cart) {
  return call("MPI_Cart_create", comm_old, [&](Communicator& c) -> Result<> {
    ISTHMUS_TRY(check_intra(c, "comm_old"));
    ISTHMUS_TRY(clear_output(comm_cart, "comm_cart"));
    Result<Grid> grid = make_grid(c, ndims, dims, periods);
    if (!grid) return std::unexpected(std::move(grid).error());
    const int size = grid->size();
    return create_with(c, size, *std::move(grid), comm_cart);
  });
}

ISTHMUS_ENTRY(int, Cart_map)
(MPI_Comm comm, int ndims, const int dims[], const int periods[], int* newrank) {
  return call("MPI_Cart_map", comm, [&](Communicator& c) -> Result<> {
    ISTHMUS_TRY(check_intra(c));
    ISTHMUS_TRY(check_pointer(newrank, "newrank"));
    const Result<Grid> grid = make_grid(c, ndims, dims, periods);
    if (!grid) return fail(grid.error().error_class(), grid.error().text());
    *newrank = c.rank() < grid->size() ? c.rank() : MPI_UNDEFINED;
    return {};
  });
}

ISTHMUS_ENTRY(int, Cartdim_get)(MPI_Comm comm, int* ndims) {
  return call_with_grid("MPI_Cartdim_get", comm, [&](Communicator&, const Grid& grid) -> Result<> {
    ISTHMUS_TRY(check_pointer(ndims, "ndims"));
    *ndims = static_cast<int>(grid.dimensions().size());
    return {};
  });
}

ISTHMUS_ENTRY(int, Cart_get)(MPI_Comm comm, int maxdims, int dims[], int periods[], int coords[]) {
  return call_with_grid("MPI_Cart_get", comm, [&](Communicator& c, const Grid& grid) -> Result<> {
    ISTHMUS_TRY(check_room(grid, maxdims, dims, "dims"));
    ISTHMUS_TRY(check_room(grid, maxdims, periods, "periods"));
    ISTHMUS_TRY(check_room(grid, maxdims, coords, "coords"));
    std::ranges::copy(grid.coordinates_of(c.rank()), coords);
    for (std::size_t i = 0; i < grid.dimensions().size(); ++i) {
      dims[i] = grid.dimensions()[i].size;
      periods[i] = grid.dimensions()[i].periodic ? 1 : 0;
    }
    return {};
  });
}

ISTHMUS_ENTRY(int, Cart_rank)(MPI_Comm comm, const int coords[], int* rank) {
  return call_with_grid("MPI_Cart_rank", comm, [&](Communicator&, const Grid& grid) -> Result<> {
    const std::size_t ndims = grid.dimensions().size();
    if (ndims > 0) ISTHMUS_TRY(check_pointer(coords, "coords"));
    ISTHMUS_TRY(check_pointer(rank, "rank"));
    Result<int> found = grid.rank_at({coords, ndims});
    if (!found) return std::unexpected(std::move(found).error());
    *rank = *found;
    return {};
  });
}

ISTHMUS_ENTRY(int, Cart_coords)(MPI_Comm comm, int rank, int maxdims, int coords[]) {
  return call_with_grid("MPI_Cart_coords", comm, [&](Communicator& c, const Grid& grid) -> Result<> {
    ISTHMUS_TRY(check_rank(c, rank, false, "rank"));
    ISTHMUS_TRY(check_room(grid, maxdims, coords, "coords"));
    std::ranges::copy(grid.coordinates_of(rank), coords);
    return {};
  });
}

ISTHMUS_ENTRY(int, Cart_shift)(MPI_Comm comm, int direction, int disp, int* rank_source, int* rank_dest) {
  return call_with_grid("MPI_Cart_shift", comm, [&](Communicator& c, const Grid& grid) -> Result<> {
    ISTHMUS_TRY(check_pointer(rank_source, "rank_source"));
    ISTHMUS_TRY(check_pointer(rank_dest, "rank_dest"));
    if (direction < 0 || static_cast<std::size_t>(direction) >= grid.dimensions().size())
      return fail(ErrorClass::dims, fmt::format("direction is {}, but the grid has {} dimensions", direction,
                                                grid.dimensions().size()));
    *rank_source = grid.neighbor(c.rank(), direction, -std::int64_t{disp});
    *rank_dest = grid.neighbor(c.rank(), direction, disp);
    return {};
  });
}

ISTHMUS_ENTRY(int, Cart_sub)(MPI_Comm comm, const int remain_dims[], MPI_Comm* newcomm) {
  return call_with_grid("MPI_Cart_sub", comm, [&](Communicator& c, const Grid& grid) -> Result<> {
    const auto dimensions = grid.dimensions();
    if (!dimensions.empty()) ISTHMUS_TRY(check_pointer(remain_dims, "remain_dims"));
    ISTHMUS_TRY(clear_output(newcomm, "newcomm"));
    // The part is named by the coordinates that are dropped, the rank in it by those that remain.
    const std::vector<int> coordinates = grid.coordinates_of(c.rank());
    int color = 0;
    int key = 0;
    std::vector<Grid::Dimension> remaining;
    for (std::size_t i = 0; i < dimensions.size(); ++i) {
      int& number = remain_dims[i] != 0 ? key : color;
      number = number * dimensions[i].size + coordinates[i];
      if (remain_dims[i] != 0) remaining.push_back(dimensions[i]);
    }
    Result<Ref<Communicator>> part = coll::split(c, color, key);
    if (part) set_topology(**part, Grid(std::move(remaining)));
    return give(std::move(part), c, nullptr, newcomm);
  });
}

ISTHMUS_ENTRY(int, Topo_test)(MPI_Comm comm, int* status) {
  return call("MPI_Topo_test", comm, [&](Communicator& c) -> Result<> {
    ISTHMUS_TRY(check_pointer(status, "status"));
    constexpr int kinds[] = {MPI_CART, MPI_GRAPH, MPI_DIST_GRAPH};
    const Topology* topology = topology_of(c);
    *status = topology != nullptr ? kinds[topology->index()] : MPI_UNDEFINED;
    return {};
  });
}

}  // namespace isthmus::abi
