/* Where what a rank has lies: the same in whichever process it runs, and elsewhere for each rank. */
#include <mpi.h>
#include <stdio.h>

static int data = 1;
static int zeros;
static const char* const text = "text";
static _Thread_local int local;

int main(int argc, char** argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  printf("rank %d: main %p data %p zeros %p text %p local %p stack %p\n", rank, (void*)(size_t)&main,
         (void*)&data, (void*)&zeros, (const void*)text, (void*)&local, (void*)&rank);
  MPI_Finalize();
  return data - 1 + zeros + local;
}
