// Several threads of each rank send, receive and wait at the same time: by tags of their own on one
// communicator, on communicators of their own, and with wildcards that only one of them may win.
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "../check.h"

namespace {

constexpr int threads = 4;
constexpr int rounds = 60;
int rank = 0;
int size = 0;

int length_of(int round) {
  static const int lengths[] = {1, 10, 300, 3000, 40000};
  return lengths[round % 5];
}
int value_of(int from, int thread, int round, int i) {
  return from * 100000 + thread * 10000 + round * 100 + i;
}

std::vector<int> message(int from, int thread, int round) {
  std::vector<int> data(static_cast<std::size_t>(length_of(round)));
  for (int i = 0; i < length_of(round); ++i)
    data[static_cast<std::size_t>(i)] = value_of(from, thread, round, i);
  return data;
}

template <class Body>
void in_threads(Body body) {
  std::vector<std::thread> all;
  for (int thread = 0; thread < threads; ++thread)
    all.emplace_back(body, thread);
  for (std::thread& thread : all)
    thread.join();
}

// Around the ring, blocking in even threads and nonblocking in odd ones.
void ring(MPI_Comm comm, int tag, int thread) {
  const int right = (rank + 1) % size;
  const int left = (rank + size - 1) % size;
  for (int round = 0; round < rounds; ++round) {
    const std::vector<int> out = message(rank, thread, round);
    std::vector<int> in(out.size());
    const int count = length_of(round);
    MPI_Status status;
    if (thread % 2 == 0) {
      CHECK_MPI(MPI_Sendrecv(out.data(), count, MPI_INT, right, tag, in.data(), count, MPI_INT, left, tag,
                             comm, &status));
    } else {
      MPI_Request requests[2];
      CHECK_MPI(MPI_Irecv(in.data(), count, MPI_INT, left, tag, comm, &requests[0]));
      CHECK_MPI(MPI_Isend(out.data(), count, MPI_INT, right, tag, comm, &requests[1]));
      if (round % 3 == 0) {
        int flag = 0;
        while (!flag)
          CHECK_MPI(MPI_Test(&requests[0], &flag, &status));
        CHECK_MPI(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
      } else {
        MPI_Status statuses[2];
        CHECK_MPI(MPI_Waitall(2, requests, statuses));
        status = statuses[0];
      }
    }
    CHECK_EQUAL(status.MPI_SOURCE, left);
    CHECK_EQUAL(status.MPI_TAG, tag);
    CHECK(in == message(left, thread, round));
  }
}

void test_tags() {
  in_threads([](int thread) { ring(MPI_COMM_WORLD, thread, thread); });
}

void test_communicators() {
  MPI_Comm comms[threads];
  for (MPI_Comm& comm : comms)
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  in_threads([&](int thread) { ring(comms[thread], 7, thread); });
  for (MPI_Comm& comm : comms)
    MPI_Comm_free(&comm);
}

// All threads of all other ranks to all threads of rank 0: every message arrives once, whoever gets it.
void test_any_source() {
  std::atomic<int> received{0};
  std::atomic<long long> sum{0};
  const int expected = (size - 1) * threads * rounds;
  in_threads([&](int thread) {
    if (rank != 0) {
      for (int round = 0; round < rounds; ++round) {
        const int value = value_of(rank, thread, round, 0);
        CHECK_MPI(MPI_Send(&value, 1, MPI_INT, 0, 3, MPI_COMM_WORLD));
      }
      return;
    }
    while (received.fetch_add(1) < expected) {
      int value = 0;
      if (thread % 2 == 0) {
        CHECK_MPI(MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
      } else {
        // Between a probe and a receive another thread could take the message; not so with a matched probe.
        MPI_Message matched = MPI_MESSAGE_NULL;
        CHECK_MPI(MPI_Mprobe(MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, &matched, MPI_STATUS_IGNORE));
        CHECK_MPI(MPI_Mrecv(&value, 1, MPI_INT, &matched, MPI_STATUS_IGNORE));
      }
      sum += value;
    }
  });
  long long wanted = 0;
  for (int from = 1; from < size; ++from)
    for (int thread = 0; thread < threads; ++thread)
      for (int round = 0; round < rounds; ++round)
        wanted += value_of(from, thread, round, 0);
  if (rank == 0) CHECK_EQUAL(sum.load(), wanted);
  MPI_Barrier(MPI_COMM_WORLD);
}

// One thread waits in MPI for what another thread of the same rank does: it must not keep the lock.
void test_local() {
  MPI_Request generalized = MPI_REQUEST_NULL;
  CHECK_MPI(MPI_Grequest_start(nullptr, nullptr, nullptr, nullptr, &generalized));
  int value = -1;
  std::thread receiver([&] {
    CHECK_MPI(MPI_Recv(&value, 1, MPI_INT, rank, 11, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK_MPI(MPI_Grequest_complete(generalized));
  });
  MPI_Request waited = generalized;
  std::thread waiter([&] { CHECK_MPI(MPI_Wait(&waited, MPI_STATUS_IGNORE)); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK_MPI(MPI_Ssend(&rank, 1, MPI_INT, rank, 11, MPI_COMM_WORLD));
  receiver.join();
  waiter.join();
  CHECK_EQUAL(value, rank);
}

// Errors are told per thread: the sentence of one thread's error is not that of another's.
void test_error_strings() {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  in_threads([](int thread) {
    int data = 0;
    const std::string text = "tag " + std::to_string(-100 - thread);
    for (int round = 0; round < rounds; ++round)
      CHECK_ERROR(MPI_Send(&data, 1, MPI_INT, 0, -100 - thread, MPI_COMM_WORLD), MPI_ERR_TAG, text.c_str());
  });
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

// Handles made, found and freed by all threads at once.
void test_handles() {
  in_threads([](int thread) {
    for (int round = 0; round < rounds; ++round) {
      int in[3] = {-1, -1, -1};
      MPI_Request requests[3];
      MPI_Datatype type = MPI_DATATYPE_NULL;
      MPI_Type_contiguous(1, MPI_INT, &type);
      MPI_Type_commit(&type);
      for (int i = 0; i < 3; ++i)
        CHECK_MPI(MPI_Irecv(&in[i], 1, type, rank, 100 * thread + i, MPI_COMM_WORLD, &requests[i]));
      MPI_Type_free(&type);
      for (int i = 0; i < 2; ++i)
        CHECK_MPI(MPI_Send(&round, 1, MPI_INT, rank, 100 * thread + i, MPI_COMM_WORLD));
      CHECK_MPI(MPI_Cancel(&requests[2]));
      int done = 0;
      while (done < 3) {
        int index = -1;
        CHECK_MPI(MPI_Waitany(3, requests, &index, MPI_STATUS_IGNORE));
        CHECK(index >= 0 && index < 3);
        ++done;
      }
      CHECK(in[0] == round && in[1] == round && in[2] == -1);
    }
  });
}

}  // namespace

int main(int argc, char** argv) {
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  CHECK_EQUAL(provided, MPI_THREAD_MULTIPLE);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  test_tags();
  test_communicators();
  test_any_source();
  test_local();
  test_error_strings();
  test_handles();
  MPI_Finalize();
  return 0;
}
