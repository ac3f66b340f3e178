/* Nonblocking and persistent collectives in shared memory among more members than look at each other's lines:
 * neighbours in rank have one who speaks for them. ranks: 17 35 */
#include <string>
#include <vector>

#include "../check.h"

static int rank, size;

/* x -> a x + b, one after the other: the order of operands counts. */
struct Step {
  unsigned a, b;
};
static Step after(const Step& first, const Step& second) {
  return {first.a * second.a, second.a * first.b + second.b};
}
static Step step_of(int member, int element) {
  return {2u * (unsigned)member + 3u, (unsigned)(7 * member + element)};
}
static Step all_steps(int element) {
  Step done = {1, 0};
  for (int i = 0; i < size; ++i)
    done = after(done, step_of(i, element));
  return done;
}

extern "C" {
static void one_after_the_other(void* in, void* inout, int* count, MPI_Datatype*) {
  const Step* const first = (const Step*)in;
  Step* const second = (Step*)inout;
  for (int i = 0; i < *count; ++i)
    second[i] = after(first[i], second[i]);
}
}

static std::vector<Step> mine(int count) {
  std::vector<Step> steps;
  for (int i = 0; i < count; ++i)
    steps.push_back(step_of(rank, i));
  return steps;
}
static void check_result(const std::vector<Step>& result) {
  for (size_t i = 0; i < result.size(); ++i) {
    const Step wanted = all_steps((int)i);
    CHECK_EQUAL(result[i].a, wanted.a);
    CHECK_EQUAL(result[i].b, wanted.b);
  }
}

/* What fits into a line, a short slot and a long one. */
static void in_order(MPI_Comm comm, MPI_Datatype type, MPI_Op op) {
  for (const int count : {1, 6, 100, 1000}) {
    const std::vector<Step> in = mine(count);
    std::vector<Step> out((size_t)count), again = in;
    MPI_Request requests[3];
    CHECK_MPI(MPI_Iallreduce(in.data(), out.data(), count, type, op, comm, &requests[0]));
    CHECK_MPI(MPI_Ibarrier(comm, &requests[1]));
    CHECK_MPI(MPI_Iallreduce(MPI_IN_PLACE, again.data(), count, type, op, comm, &requests[2]));
    CHECK_MPI(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
    check_result(out);
    check_result(again);
    /* One who speaks for others, the last one, one in between. */
    for (const int root : {0, 5, 16, size - 1}) {
      std::vector<Step> at_root((size_t)count, Step{0, 0});
      CHECK_MPI(MPI_Ireduce(in.data(), at_root.data(), count, type, op, root, comm, requests));
      CHECK_MPI(MPI_Wait(requests, MPI_STATUS_IGNORE));
      if (rank == root) check_result(at_root);
    }
    CHECK_MPI(MPI_Allreduce_init(in.data(), out.data(), count, type, op, comm, MPI_INFO_NULL, requests));
    for (int i = 0; i < 6; ++i) {
      out.assign((size_t)count, Step{0, 0});
      CHECK_MPI(MPI_Start(requests));
      CHECK_MPI(MPI_Wait(requests, MPI_STATUS_IGNORE));
      check_result(out);
    }
    CHECK_MPI(MPI_Request_free(requests));
  }
}

/* None waits for another: they end in the reverse order of their starts. */
static void many_under_way(MPI_Comm comm) {
  static constexpr int n = 100;
  std::vector<int> in(n), out(n, -1);
  std::vector<MPI_Request> requests(n);
  for (int i = 0; i < n; ++i) {
    in[(size_t)i] = rank + i;
    CHECK_MPI(
        MPI_Iallreduce(&in[(size_t)i], &out[(size_t)i], 1, MPI_INT, MPI_SUM, comm, &requests[(size_t)i]));
  }
  for (int i = n - 1; i >= 0; --i) {
    CHECK_MPI(MPI_Wait(&requests[(size_t)i], MPI_STATUS_IGNORE));
    CHECK_EQUAL(out[(size_t)i], size * (size - 1) / 2 + size * i);
  }
}

/* All hear of a call that does not fit, and of whose it is, also those for whom another speaks. */
static void another_call(MPI_Comm comm, int who) {
  int in = rank, out = -1;
  MPI_Request request;
  const std::string named = "rank " + std::to_string(who) + " ";
  if (rank == who)
    CHECK_MPI(MPI_Ibarrier(comm, &request));
  else
    CHECK_MPI(MPI_Iallreduce(&in, &out, 1, MPI_INT, MPI_SUM, comm, &request));
  CHECK_ERROR(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_ERR_OTHER,
              rank == who ? "allreduce" : named.c_str());
}

int main(int argc, char** argv) {
  MPI_Comm comm;
  MPI_Datatype type;
  MPI_Op op;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Type_contiguous(2, MPI_UNSIGNED, &type);
  MPI_Type_commit(&type);
  MPI_Op_create(&one_after_the_other, 0, &op);
  in_order(comm, type, op);
  many_under_way(comm);
  for (const int who : {0, 3, 16, size - 1})
    another_call(comm, who);
  in_order(comm, type, op);
  MPI_Op_free(&op);
  MPI_Type_free(&type);
  MPI_Comm_free(&comm);
  MPI_Finalize();
  return 0;
}
