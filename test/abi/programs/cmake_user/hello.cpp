#include <mpi.h>

#include <iostream>

int main() {
  int version = 0, subversion = 0;
  if (MPI_Get_version(&version, &subversion) != MPI_SUCCESS) return 1;
  std::cout << "hello from MPI " << version << '.' << subversion << '\n';
}
