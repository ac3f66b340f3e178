#include <mpi.h>
#include <stdio.h>

#ifndef GREETING
#define GREETING "hello"
#endif

/* Asks only what may be asked before MPI_Init, so that it runs without a launcher. */
int main(void) {
  int version, subversion;
  if (MPI_Get_version(&version, &subversion) != MPI_SUCCESS) return 1;
  printf("%s from MPI %d.%d\n", GREETING, version, subversion);
  return 0;
}
