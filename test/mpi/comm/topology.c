/* Grids and graphs. */
#include "../check.h"

static int size, rank;

static void test_grid(void) {
  int dims[3] = {0, 0, 0}, periods[3] = {0, 1, 1}, coords[3], found_dims[3], found_periods[3], count, kind;
  MPI_Comm grid, copy, plane, line;
  MPI_Dims_create(size, 3, dims);
  CHECK_EQUAL(dims[0] * dims[1] * dims[2], size);
  CHECK(dims[0] >= dims[1] && dims[1] >= dims[2]);
  MPI_Cart_create(MPI_COMM_WORLD, 3, dims, periods, 0, &grid);
  MPI_Topo_test(MPI_COMM_WORLD, &kind);
  CHECK_EQUAL(kind, MPI_UNDEFINED);
  /* A duplicate has the topology too. */
  MPI_Comm_dup(grid, &copy);
  MPI_Comm_free(&grid);
  MPI_Topo_test(copy, &kind);
  CHECK_EQUAL(kind, MPI_CART);
  MPI_Cartdim_get(copy, &count);
  CHECK_EQUAL(count, 3);
  MPI_Cart_get(copy, 3, found_dims, found_periods, coords);
  for (int i = 0; i < 3; ++i)
    CHECK(found_dims[i] == dims[i] && found_periods[i] == periods[i]);
  int there, up, down;
  MPI_Cart_rank(copy, coords, &there);
  CHECK_EQUAL(there, rank);
  /* Along every dimension, what I send up arrives from below. */
  for (int d = 0; d < 3; ++d) {
    int got = -1;
    MPI_Cart_shift(copy, d, 1, &down, &up);
    if (!periods[d]) CHECK((down == MPI_PROC_NULL) == (coords[d] == 0));
    MPI_Sendrecv(&rank, 1, MPI_INT, up, d, &got, 1, MPI_INT, down, d, copy, MPI_STATUS_IGNORE);
    CHECK_EQUAL(got, down == MPI_PROC_NULL ? -1 : down);
  }
  int keep[3] = {0, 1, 1}, none[3] = {0, 0, 0}, plane_coords[2], plane_size;
  MPI_Cart_sub(copy, keep, &plane);
  MPI_Comm_size(plane, &plane_size);
  CHECK_EQUAL(plane_size, dims[1] * dims[2]);
  MPI_Cart_get(plane, 2, found_dims, found_periods, plane_coords);
  CHECK(plane_coords[0] == coords[1] && plane_coords[1] == coords[2] && found_dims[0] == dims[1]);
  MPI_Cart_sub(copy, none, &line);
  MPI_Cartdim_get(line, &count);
  CHECK_EQUAL(count, 0);
  MPI_Comm_free(&line);
  MPI_Comm_free(&plane);
  MPI_Comm_free(&copy);
  /* A grid smaller than its parent leaves some out. */
  int one = 1, zero = 0;
  MPI_Cart_create(MPI_COMM_WORLD, 1, &one, &zero, 1, &grid);
  CHECK((grid != MPI_COMM_NULL) == (rank == 0));
  if (grid != MPI_COMM_NULL) MPI_Comm_free(&grid);
}

static void test_graphs(void) {
  /* A ring: rank i knows both neighbours. */
  const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  int *index = malloc(sizeof(int) * (size_t)size), *edges = malloc(sizeof(int) * 2 * (size_t)size), count,
      kind;
  for (int i = 0; i < size; ++i) {
    index[i] = 2 * (i + 1);
    edges[2 * i] = (i + size - 1) % size;
    edges[2 * i + 1] = (i + 1) % size;
  }
  MPI_Comm graph;
  MPI_Graph_create(MPI_COMM_WORLD, size, index, edges, 0, &graph);
  MPI_Topo_test(graph, &kind);
  CHECK_EQUAL(kind, MPI_GRAPH);
  MPI_Graph_neighbors_count(graph, rank, &count);
  CHECK_EQUAL(count, 2);
  int mine[2];
  MPI_Graph_neighbors(graph, rank, 2, mine);
  CHECK(mine[0] == previous && mine[1] == next);
  int nodes, all;
  MPI_Graphdims_get(graph, &nodes, &all);
  CHECK(nodes == size && all == 2 * size);
  MPI_Comm_free(&graph);

  int in, out, weighted, source, weight, destination, destination_weight, seven = 7;
  MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &previous, MPI_UNWEIGHTED, 1, &next, MPI_UNWEIGHTED,
                                 MPI_INFO_NULL, 0, &graph);
  MPI_Dist_graph_neighbors_count(graph, &in, &out, &weighted);
  CHECK(in == 1 && out == 1 && !weighted);
  MPI_Dist_graph_neighbors(graph, 1, &source, MPI_UNWEIGHTED, 1, &destination, MPI_UNWEIGHTED);
  CHECK(source == previous && destination == next);
  MPI_Comm_free(&graph);

  /* The edge that enters me is named by the process before the one that it leaves. */
  const int second = (rank + 2) % size;
  int degree = 1;
  MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &next, &degree, &second, &seven, MPI_INFO_NULL, 0, &graph);
  MPI_Topo_test(graph, &kind);
  CHECK_EQUAL(kind, MPI_DIST_GRAPH);
  MPI_Dist_graph_neighbors_count(graph, &in, &out, &weighted);
  CHECK(in == 1 && out == 1 && weighted);
  MPI_Dist_graph_neighbors(graph, 1, &source, &weight, 1, &destination, &destination_weight);
  CHECK(source == previous && destination == next && weight == 7 && destination_weight == 7);
  MPI_Comm_free(&graph);
  free(index), free(edges);
}

static void test_errors(void) {
  MPI_Comm made;
  int dims[2] = {size + 1, 1}, periods[2] = {0, 0}, bad[2] = {0, 1}, value, one = 1;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  CHECK_ERROR(MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &made), MPI_ERR_DIMS, "grid");
  CHECK_ERROR(MPI_Cart_create(MPI_COMM_WORLD, 2, bad, periods, 0, &made), MPI_ERR_DIMS, "dims[0] is 0");
  CHECK_ERROR(MPI_Cart_create(MPI_COMM_WORLD, -1, dims, periods, 0, &made), MPI_ERR_DIMS, "ndims");
  CHECK_ERROR(MPI_Cartdim_get(MPI_COMM_WORLD, &value), MPI_ERR_TOPOLOGY, "no topology");
  CHECK_ERROR(MPI_Graph_neighbors_count(MPI_COMM_WORLD, 0, &value), MPI_ERR_TOPOLOGY, "");
  CHECK_ERROR(MPI_Dims_create(5, 1, dims), MPI_ERR_DIMS, "nnodes");
  MPI_Cart_create(MPI_COMM_SELF, 1, &one, periods, 0, &made);
  CHECK_ERROR(MPI_Cart_shift(made, 1, 1, &value, &value), MPI_ERR_DIMS, "direction");
  CHECK_ERROR(MPI_Cart_rank(made, &one, &value), MPI_ERR_ARG, "coords[0]");
  CHECK_ERROR(MPI_Cart_coords(made, 0, 0, &value), MPI_ERR_ARG, "maxdims");
  CHECK_ERROR(MPI_Graphdims_get(made, &value, &value), MPI_ERR_TOPOLOGY, "another kind");
  MPI_Comm_free(&made);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  test_grid();
  test_graphs();
  test_errors();
  MPI_Finalize();
  return 0;
}
