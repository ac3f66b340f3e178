// A chare program is an MPI program: calls of MPI before, in entries, and after.
#include <mpi.h>
#include <isthmus/chare.hpp>

#include "chare_check.h"

namespace chare = isthmus::chare;

namespace {

class Member : public chare::Chare {
 public:
  /// All are in MPI at a time, and messages of chares come meanwhile.
  void together(const chare::Callback<int>& done) {
    int rank = -1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    CHECK_EQUAL(rank, chare::rank());
    int sum = 0;
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    const int size = static_cast<int>(chare::size());
    CHECK_EQUAL(sum, size * (size - 1) / 2);
    int got = -1;
    MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 5, &got, 1, MPI_INT, (rank + size - 1) % size,
                 MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK_EQUAL(got, (rank + size - 1) % size);
    contribute<chare::Sum>(1, done);
  }
};

chare::Task start(int repeat, int code) {
  const auto members = chare::Group<Member>::create();
  for (int i = 0; i < repeat; ++i) {
    const auto done = chare::Future<int>::make();
    members.broadcast<&Member::together>(done.callback());
    CHECK_EQUAL(co_await done, chare::size());
  }
  chare::exit(code);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  // Twice: chares may begin again.
  CHECK_EQUAL(chare::run([] { return start(20, 3); }), 3);
  MPI_Barrier(MPI_COMM_WORLD);
  CHECK_EQUAL(chare::run([] { return start(1, 0); }), 0);
  int sum = 0;
  const int one = 1;
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  CHECK_EQUAL(sum, size);
  MPI_Finalize();
  return 0;
}
