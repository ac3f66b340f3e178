// ranks: 2
// Memory runs out at the n-th allocation of a call, for every n: the call succeeds, or fails with
// MPI_ERR_NO_MEM and has left nothing behind, so that the same call succeeds the next time, with a peer that
// has noticed nothing.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "../check.h"
#include "../failing_new.h"

namespace {

constexpr int token_tag = 99;
int rank = 0;
int peer = 0;
int victim = 0;
/// The n-th allocation fails in this round.
long round_number = 0;
bool failed_in_round = false;
MPI_Datatype gaps;

using Call = std::function<int()>;

void check_no_mem(int code, const char* what) {
  int error_class = MPI_SUCCESS;
  MPI_Error_class(code, &error_class);
  if (code == MPI_SUCCESS || error_class == MPI_ERR_NO_MEM) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  std::fprintf(stderr, "%s, allocation %ld: %s\n", what, round_number, text);
  check_failed(__FILE__, __LINE__, what, "fails with another class than MPI_ERR_NO_MEM");
}

/// At the victim an allocation of the call fails; if the call fails with it, it is called again.
void call(const char* what, const Call& function) {
  if (rank != victim || failed_in_round) {
    CHECK_MPI(function());
    return;
  }
  countdown = round_number;
  has_failed = false;
  const int code = function();
  const bool was_hit = has_failed;
  // The next allocations count on, if this call had too few.
  round_number = countdown;
  countdown = 0;
  has_failed = false;
  if (!was_hit) {
    CHECK_MPI(code);
    return;
  }
  failed_in_round = true;
  check_no_mem(code, what);
  if (code != MPI_SUCCESS) CHECK_MPI(function());
}

/// A message of no bytes that is not part of a scenario.
void tell() {
  CHECK_MPI(MPI_Send(nullptr, 0, MPI_INT, peer, token_tag, MPI_COMM_WORLD));
}
void hear() {
  CHECK_MPI(MPI_Recv(nullptr, 0, MPI_INT, peer, token_tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

/// Runs `scenario` with the first allocation of its calls failing at the victim, then the second, until there
/// is none. `shared`: both ranks run it; else the victim alone.
void exhaust(const char* name, const std::function<void()>& scenario, bool shared = true) {
  for (victim = 0; victim < 2; ++victim) {
    if (!shared && rank != victim) continue;
    for (long number = 1;; ++number) {
      if (std::getenv("ALLOCATION_VERBOSE"))
        std::fprintf(stderr, "%d: %s, victim %d, %ld\n", rank, name, victim, number);
      round_number = number;
      failed_in_round = false;
      scenario();
      int again = failed_in_round ? 1 : 0;
      if (shared) MPI_Bcast(&again, 1, MPI_INT, victim, MPI_COMM_WORLD);
      if (!again) break;
      CHECK(number < 2000);
    }
  }
}

/// A message in a buffer with room before and behind that must not change.
struct Buffer {
  static constexpr int margin = 64;
  std::vector<int> data;
  int* begin() { return data.data() + margin; }
  explicit Buffer(std::size_t ints, int value) : data(ints + 2 * margin, -7) {
    for (std::size_t i = 0; i < ints; ++i)
      data[margin + i] = value;
  }
  void check(std::size_t first, int value, std::size_t step = 1) const {
    for (std::size_t i = first; i < data.size() - 2 * margin; i += step)
      CHECK_EQUAL(data[margin + i], value);
    for (int i = 0; i < margin; ++i) {
      CHECK_EQUAL(data[static_cast<std::size_t>(i)], -7);
      CHECK_EQUAL(data[data.size() - 1 - static_cast<std::size_t>(i)], -7);
    }
  }
};

/// What a message consists of.
struct Kind {
  int count;
  bool has_gaps;
  [[nodiscard]] MPI_Datatype type() const { return has_gaps ? gaps : MPI_INT; }
  [[nodiscard]] std::size_t ints() const { return static_cast<std::size_t>(count) * (has_gaps ? 3 : 1); }
  [[nodiscard]] std::size_t step() const { return has_gaps ? 3 : 1; }
};
constexpr Kind kinds[]{{0, false}, {2, false}, {100, false}, {3000, false},  {100'000, false},
                       {1, true},  {20, true}, {1000, true}, {100'000, true}};

/// Once from rank 0 to rank 1. `early`: the message is there before its receive.
void message(const Kind& kind, bool early, bool synchronous) {
  Buffer buffer(kind.ints(), rank == 0 ? 5 : -1);
  if (rank == 0) {
    if (!early) hear();
    call("MPI_Send", [&] {
      return synchronous ? MPI_Ssend(buffer.begin(), kind.count, kind.type(), 1, 1, MPI_COMM_WORLD)
                         : MPI_Send(buffer.begin(), kind.count, kind.type(), 1, 1, MPI_COMM_WORLD);
    });
    return;
  }
  MPI_Request request = MPI_REQUEST_NULL;
  if (early) {
    MPI_Probe(0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    call("MPI_Recv", [&] {
      return MPI_Recv(buffer.begin(), kind.count, kind.type(), 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    });
  } else {
    call("MPI_Irecv",
         [&] { return MPI_Irecv(buffer.begin(), kind.count, kind.type(), 0, 1, MPI_COMM_WORLD, &request); });
    tell();
    call("MPI_Wait", [&] { return MPI_Wait(&request, MPI_STATUS_IGNORE); });
  }
  buffer.check(0, 5, kind.step());
}

void exchange(const Kind& kind) {
  Buffer out(kind.ints(), rank), in(kind.ints(), -1);
  call("MPI_Sendrecv", [&] {
    return MPI_Sendrecv(out.begin(), kind.count, kind.type(), peer, 2, in.begin(), kind.count, kind.type(),
                        peer, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  });
  in.check(0, peer, kind.step());
}

void several(const Kind& kind) {
  constexpr int many = 5;
  std::vector<Buffer> in(many, Buffer(kind.ints(), -1)), out(many, Buffer(kind.ints(), rank));
  MPI_Request requests[2 * many];
  for (int i = 0; i < many; ++i) {
    call("MPI_Irecv", [&] {
      return MPI_Irecv(in[i].begin(), kind.count, kind.type(), peer, 3, MPI_COMM_WORLD, &requests[i]);
    });
    call("MPI_Isend", [&] {
      return MPI_Isend(out[i].begin(), kind.count, kind.type(), peer, 3, MPI_COMM_WORLD, &requests[many + i]);
    });
  }
  call("MPI_Waitall", [&] { return MPI_Waitall(2 * many, requests, MPI_STATUSES_IGNORE); });
  for (const Buffer& each : in)
    each.check(0, peer, kind.step());
}

/// Messages that nobody waits for yet come in while the call waits for another.
void unexpected(const Kind& kind) {
  constexpr int many = 6;
  Buffer buffer(kind.ints(), 0);
  if (rank == 0) {
    MPI_Request requests[many];
    hear();
    for (MPI_Request& request : requests)
      MPI_Isend(buffer.begin(), kind.count, kind.type(), 1, 4, MPI_COMM_WORLD, &request);
    tell();
    MPI_Waitall(many, requests, MPI_STATUSES_IGNORE);
    return;
  }
  tell();
  call("MPI_Recv beside others",
       [&] { return MPI_Recv(nullptr, 0, MPI_INT, 0, token_tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE); });
  for (int i = 0; i < many; ++i) {
    Buffer in(kind.ints(), -1);
    MPI_Recv(in.begin(), kind.count, kind.type(), 0, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    in.check(0, 0, kind.step());
  }
}

void probes(const Kind& kind) {
  Buffer buffer(kind.ints(), rank == 0 ? 5 : -1);
  if (rank == 0) {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Issend(buffer.begin(), kind.count, kind.type(), 1, 5, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    return;
  }
  MPI_Message found = MPI_MESSAGE_NULL;
  call("MPI_Probe", [&] { return MPI_Probe(0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE); });
  call("MPI_Mprobe", [&] { return MPI_Mprobe(0, 5, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE); });
  call("MPI_Mrecv",
       [&] { return MPI_Mrecv(buffer.begin(), kind.count, kind.type(), &found, MPI_STATUS_IGNORE); });
  buffer.check(0, 5, kind.step());
}

void persistent(const Kind& kind) {
  Buffer in(kind.ints(), -1), out(kind.ints(), rank);
  MPI_Request requests[2];
  call("MPI_Recv_init", [&] {
    return MPI_Recv_init(in.begin(), kind.count, kind.type(), peer, 6, MPI_COMM_WORLD, &requests[0]);
  });
  call("MPI_Send_init", [&] {
    return MPI_Send_init(out.begin(), kind.count, kind.type(), peer, 6, MPI_COMM_WORLD, &requests[1]);
  });
  call("MPI_Start", [&] { return MPI_Start(&requests[0]); });
  call("MPI_Start", [&] { return MPI_Start(&requests[1]); });
  call("MPI_Waitall", [&] { return MPI_Waitall(2, requests, MPI_STATUSES_IGNORE); });
  for (MPI_Request& request : requests)
    call("MPI_Request_free", [&] { return MPI_Request_free(&request); });
  in.check(0, peer, kind.step());
}

void nonblocking_exchange(const Kind& kind) {
  Buffer in(kind.ints(), -1), out(kind.ints(), rank);
  MPI_Request request = MPI_REQUEST_NULL;
  call("MPI_Isendrecv", [&] {
    return MPI_Isendrecv(out.begin(), kind.count, kind.type(), peer, 7, in.begin(), kind.count, kind.type(),
                         peer, 7, MPI_COMM_WORLD, &request);
  });
  call("MPI_Wait", [&] { return MPI_Wait(&request, MPI_STATUS_IGNORE); });
  in.check(0, peer, kind.step());
}

/// To itself.
void alone(const Kind& kind) {
  Buffer in(kind.ints(), -1), out(kind.ints(), 3);
  MPI_Request request = MPI_REQUEST_NULL;
  call("MPI_Isend to oneself",
       [&] { return MPI_Isend(out.begin(), kind.count, kind.type(), 0, 8, MPI_COMM_SELF, &request); });
  call("MPI_Recv from oneself",
       [&] { return MPI_Recv(in.begin(), kind.count, kind.type(), 0, 8, MPI_COMM_SELF, MPI_STATUS_IGNORE); });
  call("MPI_Wait", [&] { return MPI_Wait(&request, MPI_STATUS_IGNORE); });
  in.check(0, 3, kind.step());
}

void cancelled(const Kind& kind) {
  Buffer out(kind.ints(), 3);
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Status status;
  int flag = 0;
  call("MPI_Issend",
       [&] { return MPI_Issend(out.begin(), kind.count, kind.type(), peer, 9, MPI_COMM_WORLD, &request); });
  call("MPI_Cancel", [&] { return MPI_Cancel(&request); });
  call("MPI_Wait", [&] { return MPI_Wait(&request, &status); });
  MPI_Test_cancelled(&status, &flag);
  CHECK(flag);
}

void buffered() {
  Buffer out(100, rank), in(100, -1);
  std::vector<char> memory(10'000 + MPI_BSEND_OVERHEAD);
  call("MPI_Buffer_attach",
       [&] { return MPI_Buffer_attach(memory.data(), static_cast<int>(memory.size())); });
  call("MPI_Bsend", [&] { return MPI_Bsend(out.begin(), 100, MPI_INT, peer, 10, MPI_COMM_WORLD); });
  CHECK_MPI(MPI_Recv(in.begin(), 100, MPI_INT, peer, 10, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  void* where = nullptr;
  int size = 0;
  call("MPI_Buffer_detach", [&] { return MPI_Buffer_detach(static_cast<void*>(&where), &size); });
  in.check(0, peer);
}

void on_error(MPI_Comm*, int*, ...) {}
int copy_attribute(MPI_Comm, int, void*, void* value, void* copy, int* flag) {
  *static_cast<void**>(copy) = value;
  *flag = 1;
  return MPI_SUCCESS;
}

void datatypes() {
  MPI_Datatype made[6];
  const int lengths[3]{1, 2, 3}, sizes[3]{9, 8, 7}, parts[3]{2, 3, 4}, starts[3]{1, 1, 1};
  const MPI_Aint places[3]{0, 24, 64};
  const MPI_Datatype types[3]{MPI_INT, MPI_DOUBLE, MPI_CHAR};
  call("MPI_Type_vector", [&] { return MPI_Type_vector(5, 2, 4, MPI_INT, &made[0]); });
  call("MPI_Type_create_struct", [&] { return MPI_Type_create_struct(3, lengths, places, types, &made[1]); });
  call("MPI_Type_indexed", [&] { return MPI_Type_indexed(3, lengths, sizes, MPI_INT, &made[2]); });
  call("MPI_Type_create_subarray",
       [&] { return MPI_Type_create_subarray(3, sizes, parts, starts, MPI_ORDER_C, MPI_INT, &made[3]); });
  call("MPI_Type_contiguous", [&] { return MPI_Type_contiguous(7, made[1], &made[4]); });
  call("MPI_Type_dup", [&] { return MPI_Type_dup(made[0], &made[5]); });
  for (MPI_Datatype& type : made)
    call("MPI_Type_commit", [&] { return MPI_Type_commit(&type); });
  call("MPI_Type_set_name",
       [&] { return MPI_Type_set_name(made[0], "a name that is longer than a short string"); });
  int integers = 0, addresses = 0, counts = 0, combiner = 0;
  call("MPI_Type_get_envelope",
       [&] { return MPI_Type_get_envelope(made[3], &integers, &addresses, &counts, &combiner); });
  for (MPI_Datatype& type : made)
    call("MPI_Type_free", [&] { return MPI_Type_free(&type); });
}

void groups_and_others() {
  MPI_Group world, part, both;
  const int first[1]{0};
  MPI_Info info;
  MPI_Op op;
  MPI_Errhandler handler;
  int key = MPI_KEYVAL_INVALID, error_class = 0, code = 0;
  call("MPI_Comm_group", [&] { return MPI_Comm_group(MPI_COMM_WORLD, &world); });
  call("MPI_Group_incl", [&] { return MPI_Group_incl(world, 1, first, &part); });
  call("MPI_Group_union", [&] { return MPI_Group_union(part, world, &both); });
  for (MPI_Group* group : {&world, &part, &both})
    call("MPI_Group_free", [&] { return MPI_Group_free(group); });
  call("MPI_Info_create", [&] { return MPI_Info_create(&info); });
  call("MPI_Info_set",
       [&] { return MPI_Info_set(info, "a key that is quite long, too", "and its value, no shorter"); });
  MPI_Info copy;
  call("MPI_Info_dup", [&] { return MPI_Info_dup(info, &copy); });
  for (MPI_Info* each : {&info, &copy})
    call("MPI_Info_free", [&] { return MPI_Info_free(each); });
  call("MPI_Op_create", [&] { return MPI_Op_create([](void*, void*, int*, MPI_Datatype*) {}, 1, &op); });
  call("MPI_Op_free", [&] { return MPI_Op_free(&op); });
  call("MPI_Comm_create_errhandler", [&] { return MPI_Comm_create_errhandler(on_error, &handler); });
  call("MPI_Errhandler_free", [&] { return MPI_Errhandler_free(&handler); });
  call("MPI_Comm_create_keyval",
       [&] { return MPI_Comm_create_keyval(copy_attribute, MPI_COMM_NULL_DELETE_FN, &key, nullptr); });
  call("MPI_Comm_set_attr", [&] { return MPI_Comm_set_attr(MPI_COMM_SELF, key, &key); });
  call("MPI_Comm_delete_attr", [&] { return MPI_Comm_delete_attr(MPI_COMM_SELF, key); });
  call("MPI_Comm_free_keyval", [&] { return MPI_Comm_free_keyval(&key); });
  call("MPI_Add_error_class", [&] { return MPI_Add_error_class(&error_class); });
  call("MPI_Add_error_code", [&] { return MPI_Add_error_code(error_class, &code); });
  call("MPI_Add_error_string",
       [&] { return MPI_Add_error_string(code, "a string of the program that is not short"); });
  MPI_Remove_error_string(code);
  MPI_Remove_error_code(code);
  MPI_Remove_error_class(error_class);
  void* memory = nullptr;
  call("MPI_Alloc_mem", [&] { return MPI_Alloc_mem(100, MPI_INFO_NULL, static_cast<void*>(&memory)); });
  call("MPI_Free_mem", [&] { return MPI_Free_mem(memory); });
  MPI_Request request;
  call("MPI_Grequest_start",
       [&] { return MPI_Grequest_start(nullptr, nullptr, nullptr, nullptr, &request); });
  call("MPI_Grequest_complete", [&] { return MPI_Grequest_complete(request); });
  call("MPI_Wait", [&] { return MPI_Wait(&request, MPI_STATUS_IGNORE); });
  MPI_Comm copy_of_self;
  call("MPI_Comm_dup", [&] { return MPI_Comm_dup(MPI_COMM_SELF, &copy_of_self); });
  call("MPI_Comm_set_name",
       [&] { return MPI_Comm_set_name(copy_of_self, "a name that is longer than a short string"); });
  call("MPI_Comm_free", [&] { return MPI_Comm_free(&copy_of_self); });
}

/// Memory that the peer maps.
void mapped() {
  constexpr int bytes = 100'000;
  char* out = nullptr;
  std::vector<char> in(bytes);
  call("MPI_Alloc_mem", [&] { return MPI_Alloc_mem(bytes, MPI_INFO_NULL, static_cast<void*>(&out)); });
  std::fill_n(out, bytes, static_cast<char>('a' + rank));
  call("MPI_Sendrecv", [&] {
    return MPI_Sendrecv(out, bytes, MPI_CHAR, peer, 1, in.data(), bytes, MPI_CHAR, peer, 1, MPI_COMM_WORLD,
                        MPI_STATUS_IGNORE);
  });
  CHECK(in == std::vector<char>(bytes, static_cast<char>('a' + peer)));
  call("MPI_Free_mem", [&] { return MPI_Free_mem(out); });
}

void test_messages() {
  for (const Kind& kind : kinds) {
    const std::string name = std::to_string(kind.count) + (kind.has_gaps ? " with gaps" : "");
    for (int way = 0; way < 4; ++way)
      exhaust(("message " + name).c_str(), [&] { message(kind, way % 2 == 0, way >= 2); });
    exhaust(("sendrecv " + name).c_str(), [&] { exchange(kind); });
    exhaust(("several " + name).c_str(), [&] { several(kind); });
    exhaust(("unexpected " + name).c_str(), [&] { unexpected(kind); });
    exhaust(("probes " + name).c_str(), [&] { probes(kind); });
    exhaust(("persistent " + name).c_str(), [&] { persistent(kind); });
    exhaust(("isendrecv " + name).c_str(), [&] { nonblocking_exchange(kind); });
    exhaust(("self " + name).c_str(), [&] { alone(kind); }, false);
    exhaust(("cancelled " + name).c_str(), [&] { cancelled(kind); });
  }
  exhaust("buffered", buffered);
  exhaust("mapped", mapped);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  peer = 1 - rank;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Type_create_resized(MPI_INT, 0, 3 * sizeof(int), &gaps);
  MPI_Type_commit(&gaps);
  exhaust("datatypes", datatypes, false);
  exhaust("groups and others", groups_and_others, false);
  test_messages();
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Type_free(&gaps);
  MPI_Finalize();
  return 0;
}
