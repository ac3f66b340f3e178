// ranks: 3, live plans: what they learn takes memory too
// Memory runs out at the n-th allocation of one member's collective, for every n, in all three forms: that
// member's call succeeds or fails with MPI_ERR_NO_MEM, and its buffers are its own again. The others may wait
// for it, until it revokes the communicator; who has success has the right data.
#include <mpi-ext.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "../check.h"
#include "../failing_new.h"

namespace {

int rank = 0, size = 0, root = 0, victim = 0;
MPI_Datatype gaps;
MPI_Op add;

enum class Form { blocking, nonblocking, persistent };
constexpr const char* form_names[]{"blocking", "nonblocking", "persistent"};

/// What a block consists of.
struct Kind {
  int count;
  bool has_gaps;
  [[nodiscard]] MPI_Datatype type() const { return has_gaps ? gaps : MPI_INT; }
  [[nodiscard]] int step() const { return has_gaps ? 3 : 1; }
};
constexpr Kind kinds[]{{2, false}, {100'000, false}, {2000, true}};

int value(int from, int element) {
  return from * 1000 + element % 101;
}
int sum(int ranks, int element) {
  int all = 0;
  for (int i = 0; i < ranks; ++i)
    all += value(i, element);
  return all;
}

/// The arguments of a collective.
struct Buffers {
  Kind kind;
  std::vector<int> send, receive, counts, places, bytes;
  std::vector<MPI_Datatype> types;

  explicit Buffers(const Kind& of) : kind(of) {
    const int n = size * kind.count * kind.step();
    send.resize(n);
    receive.assign(n, -1);
    for (int i = 0; i < size * kind.count; ++i)
      send[i * kind.step()] = value(rank, i);
    counts.assign(size, kind.count);
    for (int i = 0; i < size; ++i) {
      places.push_back(i * kind.count);
      bytes.push_back(i * kind.count * kind.step() * static_cast<int>(sizeof(int)));
    }
    types.assign(size, kind.type());
  }
  [[nodiscard]] const int* in() const { return send.data(); }
  int* out() { return receive.data(); }
  /// The element of a result.
  [[nodiscard]] int at(int element) const { return receive[element * kind.step()]; }
};

/// `run` gets the form, and where that has one a place for its request.
struct Collective {
  const char* name;
  std::function<int(Buffers&, MPI_Comm, Form, MPI_Request*)> run;
  std::function<void(const Buffers&)> check;
};

#define IN_FORMS(name, iname, ...)                                                               \
  #name, [](Buffers& b, MPI_Comm comm, Form form, MPI_Request* request) {                        \
    static_cast<void>(b);                                                                        \
    if (form == Form::blocking) return MPI_##name(__VA_ARGS__ __VA_OPT__(, ) comm);              \
    if (form == Form::nonblocking) return MPI_##iname(__VA_ARGS__ __VA_OPT__(, ) comm, request); \
    return MPI_##name##_init(__VA_ARGS__ __VA_OPT__(, ) comm, MPI_INFO_NULL, request);           \
  }
#define COUNT b.kind.count
#define TYPE b.kind.type()

/// Element `i` of each block of `blocks` is what `expected(block, i)` says.
template <class Expected>
void check_blocks(const Buffers& b, int blocks, Expected expected) {
  for (int block = 0; block < blocks; ++block)
    for (int i = 0; i < b.kind.count; i += 1 + i / 50)
      CHECK_EQUAL(b.at(block * b.kind.count + i), expected(block, i));
}

void check_gathered(const Buffers& b) {
  check_blocks(b, size, value);
}
void check_gathered_at_root(const Buffers& b) {
  if (rank == root) check_gathered(b);
}
void check_scattered(const Buffers& b) {
  check_blocks(b, 1, [&](int, int i) { return value(root, rank * b.kind.count + i); });
}
void check_exchanged(const Buffers& b) {
  check_blocks(b, size, [&](int from, int i) { return value(from, rank * b.kind.count + i); });
}
void check_reduced(const Buffers& b) {
  check_blocks(b, 1, [&](int, int i) { return sum(size, i); });
}
void check_share(const Buffers& b) {
  check_blocks(b, 1, [&](int, int i) { return sum(size, rank * b.kind.count + i); });
}
void check_nothing(const Buffers&) {}

const std::vector<Collective>& collectives() {
  static const std::vector<Collective> all{
      {IN_FORMS(Barrier, Ibarrier), check_nothing},
      {IN_FORMS(Bcast, Ibcast, rank == root ? b.send.data() : b.out(), COUNT, TYPE, root),
       [](const Buffers& b) {
         if (rank != root) check_blocks(b, 1, [](int, int i) { return value(root, i); });
       }},
      {IN_FORMS(Gather, Igather, b.in(), COUNT, TYPE, b.out(), COUNT, TYPE, root), check_gathered_at_root},
      {IN_FORMS(Gatherv, Igatherv, b.in(), COUNT, TYPE, b.out(), b.counts.data(), b.places.data(), TYPE,
                root),
       check_gathered_at_root},
      {IN_FORMS(Scatter, Iscatter, b.in(), COUNT, TYPE, b.out(), COUNT, TYPE, root), check_scattered},
      {IN_FORMS(Scatterv, Iscatterv, b.in(), b.counts.data(), b.places.data(), TYPE, b.out(), COUNT, TYPE,
                root),
       check_scattered},
      {IN_FORMS(Allgather, Iallgather, b.in(), COUNT, TYPE, b.out(), COUNT, TYPE), check_gathered},
      {IN_FORMS(Allgatherv, Iallgatherv, b.in(), COUNT, TYPE, b.out(), b.counts.data(), b.places.data(),
                TYPE),
       check_gathered},
      {IN_FORMS(Alltoall, Ialltoall, b.in(), COUNT, TYPE, b.out(), COUNT, TYPE), check_exchanged},
      {IN_FORMS(Alltoallv, Ialltoallv, b.in(), b.counts.data(), b.places.data(), TYPE, b.out(),
                b.counts.data(), b.places.data(), TYPE),
       check_exchanged},
      {IN_FORMS(Alltoallw, Ialltoallw, b.in(), b.counts.data(), b.bytes.data(), b.types.data(), b.out(),
                b.counts.data(), b.bytes.data(), b.types.data()),
       check_exchanged},
      {IN_FORMS(Reduce, Ireduce, b.in(), b.out(), COUNT, TYPE, add, root),
       [](const Buffers& b) {
         if (rank == root) check_reduced(b);
       }},
      {IN_FORMS(Allreduce, Iallreduce, b.in(), b.out(), COUNT, TYPE, add), check_reduced},
      {IN_FORMS(Reduce_scatter_block, Ireduce_scatter_block, b.in(), b.out(), COUNT, TYPE, add), check_share},
      {IN_FORMS(Reduce_scatter, Ireduce_scatter, b.in(), b.out(), b.counts.data(), TYPE, add), check_share},
      {IN_FORMS(Scan, Iscan, b.in(), b.out(), COUNT, TYPE, add),
       [](const Buffers& b) { check_blocks(b, 1, [](int, int i) { return sum(rank + 1, i); }); }},
      {IN_FORMS(Exscan, Iexscan, b.in(), b.out(), COUNT, TYPE, add),
       [](const Buffers& b) {
         if (rank != 0) check_blocks(b, 1, [](int, int i) { return sum(rank, i); });
       }},
  };
  return all;
}

int complete(const Collective& collective, Buffers& buffers, MPI_Comm comm, Form form) {
  MPI_Request request = MPI_REQUEST_NULL;
  int code = collective.run(buffers, comm, form, &request);
  if (form == Form::blocking) return code;
  if (code == MPI_SUCCESS && form == Form::persistent) code = MPI_Start(&request);
  if (code == MPI_SUCCESS)
    code = MPI_Wait(&request, MPI_STATUS_IGNORE);
  else if (form == Form::nonblocking)
    CHECK(request == MPI_REQUEST_NULL);
  if (form == Form::persistent && request != MPI_REQUEST_NULL) {
    const long left = std::exchange(countdown, 0);
    CHECK_MPI(MPI_Request_free(&request));
    countdown = left;
  }
  return code;
}

void check_no_mem(int code, const std::string& what) {
  int error_class = MPI_SUCCESS;
  MPI_Error_class(code, &error_class);
  if (error_class == MPI_ERR_NO_MEM) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  check_failed(__FILE__, __LINE__, (what + ": " + text).c_str(),
               "fails with another class than MPI_ERR_NO_MEM");
}

/// Whether an allocation failed. `is_warm`: the communicator has seen the collective before.
bool fails_at(long number, const Collective& collective, const Kind& kind, Form form, bool is_warm,
              const std::string& what) {
  MPI_Comm comm = MPI_COMM_NULL;
  CHECK_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  if (is_warm) {
    Buffers first(kind);
    CHECK_MPI(complete(collective, first, comm, form));
    collective.check(first);
    CHECK_MPI(MPI_Barrier(MPI_COMM_WORLD));
  }
  Buffers buffers(kind);
  has_failed = false;
  countdown = rank == victim ? number : 0;
  const int code = complete(collective, buffers, comm, form);
  countdown = 0;
  const bool was_hit = has_failed;
  if (rank == victim && code != MPI_SUCCESS) {
    CHECK(was_hit);
    check_no_mem(code, what);
    for (std::vector<int>* each : {&buffers.send, &buffers.receive})
      each->assign(each->size(), -77);
    CHECK_MPI(MPIX_Comm_revoke(comm));
  }
  int outcome[2]{was_hit, code};
  CHECK_MPI(MPI_Bcast(outcome, 2, MPI_INT, victim, MPI_COMM_WORLD));
  if (outcome[1] == MPI_SUCCESS) CHECK_MPI(code);
  if (code == MPI_SUCCESS) collective.check(buffers);
  // The others are through: whatever they have written late is there.
  CHECK_MPI(MPI_Barrier(MPI_COMM_WORLD));
  if (rank == victim && code != MPI_SUCCESS)
    for (const std::vector<int>* each : {&buffers.send, &buffers.receive})
      for (const int found : *each)
        if (found != -77) check_failed(__FILE__, __LINE__, what.c_str(), "wrote to a buffer after its end");
  CHECK_MPI(MPI_Comm_free(&comm));
  return outcome[0] != 0;
}

void add_elements(void* in, void* inout, int* count, MPI_Datatype* type) {
  const int step = *type == gaps ? 3 : 1;
  // Without a sign: what a rank without memory has sent may be anything.
  for (int i = 0; i < *count; ++i)
    static_cast<unsigned*>(inout)[i * step] += static_cast<unsigned*>(in)[i * step];
}

void test(const Collective& collective, const Kind& kind, Form form, bool is_warm) {
  const std::string what = std::string(collective.name) + " of " + std::to_string(kind.count) +
                           (kind.has_gaps ? " with gaps" : "") + ", " + form_names[static_cast<int>(form)] +
                           (is_warm ? ", warm" : "");
  for (const int each : {0, size - 1}) {
    victim = each;
    for (long number = 1;; ++number) {
      const std::string now = what + ", victim " + std::to_string(victim) + ", " + std::to_string(number);
      if (std::getenv("ALLOCATION_VERBOSE") && rank == 0) std::fprintf(stderr, "%s\n", now.c_str());
      if (!fails_at(number, collective, kind, form, is_warm, now)) break;
      CHECK(number < 2000);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Type_create_resized(MPI_INT, 0, 3 * sizeof(int), &gaps);
  MPI_Type_commit(&gaps);
  MPI_Op_create(add_elements, 1, &add);
  const char* const only = std::getenv("ALLOCATION_ONLY");
  for (const Collective& collective : collectives())
    for (const Kind& kind : kinds)
      for (const Form form : {Form::blocking, Form::nonblocking, Form::persistent})
        for (const bool is_warm : {false, true})
          if (is_warm && form == Form::persistent)
            continue;  // as the nonblocking ones
          else if (!only || std::string(collective.name) == only)
            test(collective, kind, form, is_warm);
  MPI_Op_free(&add);
  MPI_Type_free(&gaps);
  MPI_Finalize();
  return 0;
}
