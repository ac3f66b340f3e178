/* ISTHMUS_CHECK: collectives that do not fit are named by rank and call, in all forms, and what follows goes
 * on. ranks: 2 3 5 */
#include <string>
#include <vector>

#include "../check.h"

static int rank, size;
static MPI_Comm comm;

/* All members hear the same, within 2 s of the call before. */
static void expect(int code, int error_class, const std::string& text) {
  static double before = -1;
  const double now = MPI_Wtime();
  CHECK_ERROR(code, error_class, text.c_str());
  CHECK(before < 0 || now - before < 2);
  before = now;
}
static int waited(int code, MPI_Request* request) {
  CHECK_MPI(code);
  return MPI_Wait(request, MPI_STATUS_IGNORE);
}
static bool odd() {
  return rank == size - 1;
}
static std::string last() {
  return "rank " + std::to_string(size - 1) + " ";
}

static void other_calls() {
  int in = rank, out = -1, word = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  expect(odd() ? MPI_Barrier(comm) : MPI_Allreduce(&in, &out, 1, MPI_INT, MPI_SUM, comm), MPI_ERR_OTHER,
         last() + "calls MPI_Barrier, rank 0 MPI_Allreduce");
  expect(waited(odd() ? MPI_Ibarrier(comm, &request)
                      : MPI_Iallreduce(&in, &out, 1, MPI_INT, MPI_SUM, comm, &request),
                &request),
         MPI_ERR_OTHER, last() + "calls MPI_Ibarrier, rank 0 MPI_Iallreduce");
  expect(odd() ? MPI_Barrier_init(comm, MPI_INFO_NULL, &request)
               : MPI_Allreduce_init(&in, &out, 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &request),
         MPI_ERR_OTHER, last() + "calls MPI_Barrier_init, rank 0 MPI_Allreduce_init");
  expect(odd() ? waited(MPI_Ibcast(&word, 1, MPI_INT, 0, comm, &request), &request)
               : MPI_Bcast(&word, 1, MPI_INT, 0, comm),
         MPI_ERR_OTHER, last() + "calls MPI_Ibcast, rank 0 MPI_Bcast");
  expect(odd() ? MPI_Bcast_init(&word, 1, MPI_INT, 0, comm, MPI_INFO_NULL, &request)
               : waited(MPI_Ibcast(&word, 1, MPI_INT, 0, comm, &request), &request),
         MPI_ERR_OTHER, last() + "calls MPI_Bcast_init, rank 0 MPI_Ibcast");
}

/* Those whose lengths only two members know: they go over messages, where each would wait for others for
 * ever. With all lengths alike, so that nothing but the call differs. */
struct VectorCalls {
  static constexpr int count = 4;
  std::vector<int> in, out, counts, places, offsets;
  std::vector<MPI_Datatype> types;
  VectorCalls()
      : in((size_t)(size * count)),
        out(in.size()),
        counts((size_t)size, count),
        types((size_t)size, MPI_INT) {
    for (int i = 0; i < size; ++i) {
      places.push_back(count * i);
      offsets.push_back(4 * count * i);
    }
  }

  static constexpr int functions = 6, forms = 3;
  static std::string name(int function, int form) {
    static const char* const names[functions] = {"gatherv",   "scatterv",  "allgatherv",
                                                 "alltoallv", "alltoallw", "reduce_scatter"};
    std::string text = names[function];
    if (form != 1) text[0] = (char)(text[0] - 'a' + 'A');
    return (form == 1 ? "MPI_I" : "MPI_") + text + (form == 2 ? "_init" : "");
  }

#define IN_FORM(name, nonblocking, ...)                                           \
  (form == 0   ? MPI_##name(__VA_ARGS__, comm)                                    \
   : form == 1 ? waited(MPI_##nonblocking(__VA_ARGS__, comm, &request), &request) \
               : MPI_##name##_init(__VA_ARGS__, comm, MPI_INFO_NULL, &request))
  /* A persistent one that is made, against expectation, is the caller's to free. */
  int call(int function, int form, MPI_Request& request) {
    int *const a = in.data(), *const b = out.data(), *const n = counts.data(), *const at = places.data();
    switch (function) {
      case 0:
        return IN_FORM(Gatherv, Igatherv, a, count, MPI_INT, b, n, at, MPI_INT, 0);
      case 1:
        return IN_FORM(Scatterv, Iscatterv, a, n, at, MPI_INT, b, count, MPI_INT, 0);
      case 2:
        return IN_FORM(Allgatherv, Iallgatherv, a, count, MPI_INT, b, n, at, MPI_INT);
      case 3:
        return IN_FORM(Alltoallv, Ialltoallv, a, n, at, MPI_INT, b, n, at, MPI_INT);
      case 4:
        return IN_FORM(Alltoallw, Ialltoallw, a, n, offsets.data(), types.data(), b, n, offsets.data(),
                       types.data());
      default:
        return IN_FORM(Reduce_scatter, Ireduce_scatter, a, b, n, MPI_INT, MPI_SUM);
    }
  }
#undef IN_FORM
};

static void other_vector_calls() {
  VectorCalls calls;
  MPI_Request request = MPI_REQUEST_NULL;
  for (int form = 0; form < VectorCalls::forms; ++form)
    for (int theirs = 0; theirs < VectorCalls::functions; ++theirs) {
      for (int mine = 0; mine < VectorCalls::functions; ++mine)
        if (mine != theirs)
          expect(calls.call(odd() ? mine : theirs, form, request), MPI_ERR_OTHER,
                 last() + "calls " + VectorCalls::name(mine, form) + ", rank 0 " +
                     VectorCalls::name(theirs, form));
      CHECK_MPI(calls.call(theirs, form, request));
      if (form == 2) CHECK_MPI(MPI_Request_free(&request));
    }
}

/* Two that change places: each is held against what stands in its place. */
static void another_order() {
  int in = rank, out = -1, word = 0;
  MPI_Request requests[2];
  for (int i = 0; i < 2; ++i)
    CHECK_MPI((i == 0) == odd() ? MPI_Ibcast(&word, 1, MPI_INT, 0, comm, &requests[i])
                                : MPI_Iallreduce(&in, &out, 1, MPI_INT, MPI_SUM, comm, &requests[i]));
  expect(MPI_Wait(&requests[1], MPI_STATUS_IGNORE), MPI_ERR_OTHER,
         last() + "calls MPI_Iallreduce, rank 0 MPI_Ibcast");
  expect(MPI_Wait(&requests[0], MPI_STATUS_IGNORE), MPI_ERR_OTHER,
         last() + "calls MPI_Ibcast, rank 0 MPI_Iallreduce");
}

static void other_roots() {
  int word = 0, all[8];
  MPI_Request request = MPI_REQUEST_NULL;
  const int root = odd() ? 1 : 0;
  const std::string named = last() + "names root 1, rank 0 root 0";
  expect(MPI_Bcast(&word, 1, MPI_INT, root, comm), MPI_ERR_ROOT, "MPI_Bcast: " + named);
  expect(MPI_Reduce(&word, all, 1, MPI_INT, MPI_SUM, root, comm), MPI_ERR_ROOT, "MPI_Reduce: " + named);
  expect(MPI_Gather(&word, 1, MPI_INT, all, 1, MPI_INT, root, comm), MPI_ERR_ROOT, "MPI_Gather: " + named);
  expect(waited(MPI_Iscatter(all, 1, MPI_INT, &word, 1, MPI_INT, root, comm, &request), &request),
         MPI_ERR_ROOT, "MPI_Iscatter: " + named);
  expect(MPI_Bcast_init(&word, 1, MPI_INT, root, comm, MPI_INFO_NULL, &request), MPI_ERR_ROOT,
         "MPI_Bcast_init: " + named);
}

static void other_counts() {
  std::vector<int> in(100000), out(100000);
  MPI_Request request = MPI_REQUEST_NULL;
  for (const int count : {1, 4000, 90000}) { /* on every way */
    const int mine = odd() ? count + 1 : count;
    const std::string bytes =
        last() + "passes " + std::to_string(4 * count + 4) + " bytes, rank 0 " + std::to_string(4 * count);
    expect(MPI_Allreduce(in.data(), out.data(), mine, MPI_INT, MPI_SUM, comm), MPI_ERR_TRUNCATE, bytes);
    expect(MPI_Bcast(in.data(), mine, MPI_INT, 0, comm), MPI_ERR_TRUNCATE, bytes);
    expect(waited(MPI_Iallreduce(in.data(), out.data(), mine, MPI_INT, MPI_SUM, comm, &request), &request),
           MPI_ERR_TRUNCATE, bytes);
    expect(MPI_Scan_init(in.data(), out.data(), mine, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &request),
           MPI_ERR_TRUNCATE, bytes);
  }
  const std::vector<int> counts((size_t)size, 2);
  std::vector<int> places((size_t)size);
  for (int i = 0; i < size; ++i)
    places[(size_t)i] = 2 * i;
  const std::string to_root = last() + "passes 12 bytes for rank 0, which expects 8";
  expect(MPI_Gatherv(in.data(), odd() ? 3 : 2, MPI_INT, out.data(), counts.data(), places.data(), MPI_INT, 0,
                     comm),
         MPI_ERR_TRUNCATE, "MPI_Gatherv: " + to_root);
  std::vector<int> leaving = counts;
  if (odd()) leaving[0] = 3;
  expect(waited(MPI_Ialltoallv(in.data(), leaving.data(), places.data(), MPI_INT, out.data(), counts.data(),
                               places.data(), MPI_INT, comm, &request),
                &request),
         MPI_ERR_TRUNCATE, "MPI_Ialltoallv: " + to_root);
  expect(MPI_Reduce_scatter(in.data(), out.data(), leaving.data(), MPI_INT, MPI_SUM, comm), MPI_ERR_TRUNCATE,
         "MPI_Reduce_scatter: " + to_root);
}

/* As many bytes of other basic types. The same ones may be made of other types. */
static void other_types() {
  int words[12] = {0}, out[12];
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Datatype pair, mixed;
  const int blocks[2] = {1, 1};
  const MPI_Aint places[2] = {0, 4};
  const MPI_Datatype parts[2] = {MPI_INT, MPI_FLOAT}, turned[2] = {MPI_FLOAT, MPI_INT};
  CHECK_MPI(MPI_Type_vector(2, 1, 2, MPI_INT, &pair));
  CHECK_MPI(MPI_Type_create_struct(2, blocks, places, odd() ? turned : parts, &mixed));
  CHECK_MPI(MPI_Type_commit(&pair));
  CHECK_MPI(MPI_Type_commit(&mixed));
  expect(MPI_Bcast(words, 4, odd() ? MPI_FLOAT : MPI_INT, 0, comm), MPI_ERR_TYPE, last() + "passes 16 bytes");
  expect(MPI_Bcast(words, 1, mixed, 0, comm), MPI_ERR_TYPE, "signatures");
  expect(waited(MPI_Ibcast(words, 2, mixed, 0, comm, &request), &request), MPI_ERR_TYPE, "signatures");
  expect(MPI_Allreduce(words, out, 1, odd() ? MPI_FLOAT : MPI_INT, MPI_SUM, comm), MPI_ERR_TYPE,
         "signatures");
  expect(MPI_Allreduce(words, out, 1, MPI_INT, odd() ? MPI_MAX : MPI_SUM, comm), MPI_ERR_OP,
         last() + "names MPI_MAX, rank 0 MPI_SUM");
  CHECK_MPI(odd() ? MPI_Bcast(words, 2, pair, 0, comm) : MPI_Bcast(words, 4, MPI_INT, 0, comm));
  CHECK_MPI(waited(odd() ? MPI_Ibcast(words, 2, pair, 0, comm, &request)
                         : MPI_Ibcast(words, 4, MPI_INT, 0, comm, &request),
                   &request));
  MPI_Type_free(&pair);
  MPI_Type_free(&mixed);
}

static void all_fits() {
  int out = -1, sum = -1;
  MPI_Request request;
  std::vector<int> all((size_t)size, -1);
  CHECK_MPI(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm));
  CHECK_EQUAL(sum, size * (size - 1) / 2);
  CHECK_MPI(waited(MPI_Iallreduce(&rank, &out, 1, MPI_INT, MPI_SUM, comm, &request), &request));
  CHECK_EQUAL(out, sum);
  CHECK_MPI(MPI_Allreduce_init(&rank, &out, 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &request));
  for (int i = 0; i < 3; ++i) {
    out = -1;
    CHECK_MPI(MPI_Start(&request));
    CHECK_MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_EQUAL(out, sum);
  }
  CHECK_MPI(MPI_Request_free(&request));
  all[(size_t)rank] = rank;
  CHECK_MPI(MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all.data(), 1, MPI_INT, comm));
  for (int i = 0; i < size; ++i)
    CHECK_EQUAL(all[(size_t)i], i);
}

/* Between two groups, those of the root's group who have no part in a call are not compared, and what follows
 * goes on. */
static void between_groups() {
  MPI_Comm local, inter;
  const bool high = rank == size - 1;
  int word = high ? -1 : 7;
  MPI_Request request;
  CHECK_MPI(MPI_Comm_split(comm, high, rank, &local));
  CHECK_MPI(MPI_Intercomm_create(local, 0, comm, high ? 0 : size - 1, 5, &inter));
  for (int i = 0; i < 3; ++i) {
    CHECK_MPI(MPI_Bcast(&word, 1, MPI_INT, high ? 0 : rank == 0 ? MPI_ROOT : MPI_PROC_NULL, inter));
    CHECK_EQUAL(word, 7);
    CHECK_MPI(waited(MPI_Ibarrier(inter, &request), &request));
    CHECK_MPI(MPI_Barrier_init(inter, MPI_INFO_NULL, &request));
    CHECK_MPI(MPI_Start(&request));
    CHECK_MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_MPI(MPI_Request_free(&request));
  }
  MPI_Comm_free(&inter);
  MPI_Comm_free(&local);
}

int main(int argc, char** argv) {
  setenv("ISTHMUS_CHECK", "1", 1);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  other_vector_calls();
  for (int i = 0; i < 2; ++i) {
    other_calls();
    another_order();
    other_roots();
    other_counts();
    other_types();
    all_fits();
  }
  between_groups();
  MPI_Comm_free(&comm);
  MPI_Finalize();
  return 0;
}
