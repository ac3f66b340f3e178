/* MPI_Comm_split_type: the ranks of one host share memory; hardware splits are parts of their parent. */
#include "../check.h"

static int total(MPI_Comm comm) {
  int one = 1, sum = 0;
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
  return sum;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int size, rank, part_rank;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm part;
  MPI_Info info;

  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, -rank, MPI_INFO_NULL, &part);
  CHECK_EQUAL(total(part), size);
  MPI_Comm_rank(part, &part_rank);
  CHECK_EQUAL(part_rank, size - 1 - rank);
  MPI_Comm_free(&part);

  /* Some abstain. */
  MPI_Comm_split_type(MPI_COMM_WORLD, rank == 0 ? MPI_UNDEFINED : MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL,
                      &part);
  CHECK((part == MPI_COMM_NULL) == (rank == 0));
  if (part != MPI_COMM_NULL) {
    CHECK_EQUAL(total(part), size - 1);
    MPI_Comm_free(&part);
  }

  MPI_Info_create(&info);
  MPI_Info_set(info, "mpi_hw_resource_type", "mpi_shared_memory");
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_GUIDED, 0, info, &part);
  CHECK_EQUAL(total(part), size);
  MPI_Comm_free(&part);
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_RESOURCE_GUIDED, 0, info, &part);
  CHECK_EQUAL(total(part), size);
  MPI_Comm_free(&part);
  MPI_Info_set(info, "mpi_hw_resource_type", "no such thing");
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_GUIDED, 0, info, &part);
  CHECK(part == MPI_COMM_NULL);
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_GUIDED, 0, MPI_INFO_NULL, &part);
  CHECK(part == MPI_COMM_NULL);

  /* By core: all that have one are in a part with those on the same. */
  MPI_Info_set(info, "mpi_hw_resource_type", "hwloc://core");
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_GUIDED, 0, info, &part);
  if (part != MPI_COMM_NULL) {
    CHECK(total(part) <= size);
    MPI_Comm_free(&part);
  }

  /* Without guidance: smaller than the parent at every step, so it comes to an end. */
  MPI_Comm parent;
  MPI_Comm_dup(MPI_COMM_WORLD, &parent);
  for (int steps = 0; parent != MPI_COMM_NULL; ++steps) {
    CHECK(steps < 16);
    int before, after;
    MPI_Comm_size(parent, &before);
    MPI_Info_delete(info, "mpi_hw_resource_type");
    MPI_Comm_split_type(parent, MPI_COMM_TYPE_HW_UNGUIDED, 0, info, &part);
    MPI_Comm_free(&parent);
    char name[64];
    int length = sizeof name, flag;
    MPI_Info_get_string(info, "mpi_hw_resource_type", &length, name, &flag);
    if (part != MPI_COMM_NULL) {
      MPI_Comm_size(part, &after);
      CHECK(after < before);
      CHECK(flag);
    }
    if (!flag) MPI_Info_set(info, "mpi_hw_resource_type", "");
    parent = part;
  }
  MPI_Info_free(&info);
  MPI_Finalize();
  return 0;
}
