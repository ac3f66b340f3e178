// ranks: 2
// A thread frees what a call of another thread still works with: communicators beside a blocking receive,
// probe and collective, and datatype and operation beside a collective. The calls complete (MPI 5.0,
// sections 2.4.1, 2.5.1).
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "../check.h"

namespace {

int rank = 0;

enum class Way { receive, probe, matched_probe };

// The thread of rank 0 says that it waits by the message that it sends first, in the same call.
void test_point_to_point(Way way, int count) {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Datatype pairs = MPI_DATATYPE_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Type_create_resized(MPI_2INT, 0, 3 * sizeof(int), &pairs);
  MPI_Type_commit(&pairs);
  std::vector<int> data(3 * static_cast<std::size_t>(count), rank == 0 ? -1 : 5);
  if (rank == 0) {
    std::thread waits([&, comm, pairs] {
      MPI_Status status;
      if (way == Way::receive) {
        CHECK_MPI(MPI_Sendrecv(nullptr, 0, MPI_INT, 1, 1, data.data(), count, pairs, 1, 2, comm, &status));
      } else if (way == Way::probe) {
        CHECK_MPI(MPI_Send(nullptr, 0, MPI_INT, 1, 1, comm));
        CHECK_MPI(MPI_Probe(1, 2, comm, &status));
      } else {
        MPI_Message message = MPI_MESSAGE_NULL;
        CHECK_MPI(MPI_Send(nullptr, 0, MPI_INT, 1, 1, comm));
        CHECK_MPI(MPI_Mprobe(1, 2, comm, &message, &status));
        CHECK_MPI(MPI_Mrecv(data.data(), count, pairs, &message, &status));
      }
      CHECK_EQUAL(status.MPI_TAG, 2);
    });
    MPI_Recv(nullptr, 0, MPI_INT, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    // A probe begins after its message; a matched message wants its datatype still.
    if (way != Way::receive) usleep(100'000);
    if (way == Way::receive) CHECK_MPI(MPI_Type_free(&pairs));
    CHECK_MPI(MPI_Comm_free(&comm));
    MPI_Send(nullptr, 0, MPI_INT, 1, 4, MPI_COMM_WORLD);
    waits.join();
    if (way != Way::receive) CHECK_MPI(MPI_Type_free(&pairs));
    if (way != Way::probe) CHECK_EQUAL(data[data.size() - 3], 5);
    return;
  }
  CHECK_MPI(MPI_Recv(nullptr, 0, MPI_INT, 0, 1, comm, MPI_STATUS_IGNORE));
  MPI_Send(nullptr, 0, MPI_INT, 0, 3, MPI_COMM_WORLD);
  MPI_Recv(nullptr, 0, MPI_INT, 0, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Request request = MPI_REQUEST_NULL;
  CHECK_MPI(MPI_Isend(data.data(), count, pairs, 0, 2, comm, &request));
  if (way == Way::probe) {
    CHECK_MPI(MPI_Cancel(&request));
  }
  CHECK_MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
  MPI_Type_free(&pairs);
  MPI_Comm_free(&comm);
}

void add(void* in, void* inout, int* length, MPI_Datatype*) {
  for (int i = 0; i < *length; ++i)
    static_cast<int*>(inout)[2 * i] += static_cast<int*>(in)[2 * i];
}

// The other rank comes late: meanwhile all that the call was given is freed.
void test_collective(int count, bool reduces) {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Op op = MPI_OP_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &type);
  MPI_Type_commit(&type);
  MPI_Op_create(add, 1, &op);
  std::vector<int> data(2 * static_cast<std::size_t>(count), rank == 1 ? 7 : 1), sum(data.size(), -1);
  const auto run = [&, comm, type, op] {
    if (reduces)
      CHECK_MPI(MPI_Allreduce(data.data(), sum.data(), count, type, op, comm));
    else
      CHECK_MPI(MPI_Bcast(data.data(), count, type, 1, comm));
  };
  std::thread waits;
  if (rank == 0) {
    std::atomic<bool> begun{false};
    waits = std::thread([&begun, run] {
      begun = true;
      run();
    });
    while (!begun)
      std::this_thread::yield();
    usleep(100'000);
  } else {
    MPI_Recv(nullptr, 0, MPI_INT, 0, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    run();
  }
  CHECK_MPI(MPI_Op_free(&op));
  CHECK_MPI(MPI_Type_free(&type));
  CHECK_MPI(MPI_Comm_free(&comm));
  if (rank == 0) MPI_Send(nullptr, 0, MPI_INT, 1, 4, MPI_COMM_WORLD);
  if (waits.joinable()) waits.join();
  CHECK_EQUAL(reduces ? sum[data.size() - 2] : data[data.size() - 2], reduces ? 8 : 7);
}

// Returns when what is pending has ended: here a receive that another thread waits in, and one that was
// freed.
void test_disconnect() {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  int got = -1, freed = -1;
  if (rank == 1) {
    CHECK_MPI(MPI_Recv(nullptr, 0, MPI_INT, 0, 1, comm, MPI_STATUS_IGNORE));
    const int values[2]{5, 6};
    MPI_Send(nullptr, 0, MPI_INT, 0, 3, MPI_COMM_WORLD);
    MPI_Recv(nullptr, 0, MPI_INT, 0, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK_MPI(MPI_Send(&values[0], 1, MPI_INT, 0, 5, comm));
    CHECK_MPI(MPI_Send(&values[1], 1, MPI_INT, 0, 2, comm));
    CHECK_MPI(MPI_Comm_disconnect(&comm));
    CHECK(comm == MPI_COMM_NULL);
    return;
  }
  MPI_Request request = MPI_REQUEST_NULL;
  CHECK_MPI(MPI_Irecv(&freed, 1, MPI_INT, 1, 5, comm, &request));
  CHECK_MPI(MPI_Request_free(&request));
  std::thread waits([&, comm] {
    CHECK_MPI(MPI_Sendrecv(nullptr, 0, MPI_INT, 1, 1, &got, 1, MPI_INT, 1, 2, comm, MPI_STATUS_IGNORE));
  });
  MPI_Recv(nullptr, 0, MPI_INT, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Send(nullptr, 0, MPI_INT, 1, 4, MPI_COMM_WORLD);
  CHECK_MPI(MPI_Comm_disconnect(&comm));
  CHECK_EQUAL(got, 6);
  CHECK_EQUAL(freed, 5);
  waits.join();
}

}  // namespace

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  CHECK_EQUAL(provided, MPI_THREAD_MULTIPLE);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (const int count : {1, 1000, 100'000})
    test_point_to_point(Way::receive, count);
  test_point_to_point(Way::probe, 10);
  test_point_to_point(Way::matched_probe, 10);
  for (const int count : {1, 1000, 100'000})
    for (const bool reduces : {false, true})
      test_collective(count, reduces);
  test_disconnect();
  MPI_Finalize();
  return 0;
}
