// Memory runs out at the n-th allocation that one of 2 ranks makes in its calls of MPI with buffers in GPU
// memory, for every n. A call that starts a message and fails has begun nothing, and is made again. What has
// begun ends, with its data or with an error, at both ranks, and is not written to afterwards. Prints nothing
// when all is right. The arguments name the scenarios; without any, all of them.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "../mpi/failing_new.h"
#include "gpu_memory.hpp"

using namespace isthmus;
using namespace isthmus::testing_gpu;

namespace {

using Bytes = std::vector<unsigned char>;

constexpr int token_tag = 99;
constexpr long most = 3000;

int rank = -1, peer = -1, victim = 0;
/// Until the allocation that fails; 0: none does.
long left = 0;
bool was_hit = false;
std::string scenario_name;

/// In a call of MPI by the victim.
class Counting {
 public:
  Counting() {
    if (rank == victim) countdown = left;
  }
  Counting(const Counting&) = delete;
  Counting& operator=(const Counting&) = delete;
  ~Counting() {
    if (rank != victim) return;
    left = countdown;
    countdown = 0;
    if (has_failed) was_hit = true;
  }
};

template <class Call>
int counted(const Call& call) {
  const Counting counting;
  return call();
}

/// A call that begins something, or fails for want of memory and has begun nothing.
template <class Call>
void begin(const Call& call) {
  const bool had_been_hit = was_hit;
  const int code = counted(call);
  if (code == MPI_SUCCESS) return;
  CHECK_EQUAL(class_of(code), MPI_ERR_NO_MEM);
  CHECK(was_hit && !had_been_hit);
  CHECK_MPI(counted(call));
}

/// Whether what has begun ends with success. The error of a peer is not told apart from others.
bool end(MPI_Request& request) {
  const int code = counted([&] { return MPI_Wait(&request, MPI_STATUS_IGNORE); });
  CHECK(request == MPI_REQUEST_NULL);
  const int error = class_of(code);
  CHECK(error == MPI_SUCCESS || error == MPI_ERR_NO_MEM || error == MPI_ERR_OTHER);
  return error == MPI_SUCCESS;
}

void tell() {
  begin([] { return MPI_Send(nullptr, 0, MPI_BYTE, peer, token_tag, MPI_COMM_WORLD); });
}
void hear() {
  begin([] { return MPI_Recv(nullptr, 0, MPI_BYTE, peer, token_tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE); });
}

/// A message as one side sees it: bytes, or rows of 4 bytes in 12.
struct Side {
  MemoryKind kind;
  bool has_gaps = false;
  Openness openness = Openness::open;
};

class Landing {
 public:
  Landing(const Gpu& gpu, const Side& side, int bytes, unsigned char value)
      : bytes_(bytes),
        has_gaps_(side.has_gaps),
        room_(static_cast<std::size_t>(bytes) * (has_gaps_ ? 3 : 1)),
        memory_(gpu, side.kind, room_ + margin, side.openness) {
    fill(value);
    if (!has_gaps_) return;
    MPI_Type_vector(bytes / 4, 4, 12, MPI_BYTE, &type_);
    MPI_Type_commit(&type_);
  }
  Landing(const Landing&) = delete;
  Landing& operator=(const Landing&) = delete;
  ~Landing() {
    if (has_gaps_) MPI_Type_free(&type_);
  }

  void fill(unsigned char value) { memory_.write(Bytes(room_ + margin, value)); }
  [[nodiscard]] Bytes all() const { return memory_.read<unsigned char>(room_ + margin); }
  /// Whether the message is there, of nothing but `value`, and what is beside it is as it was.
  void check(unsigned char value, unsigned char before) const {
    const Bytes bytes = all();
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const bool is_message = i < room_ && (!has_gaps_ || i % 12 < 4);
      if (bytes[i] == (is_message ? value : before)) continue;
      std::fprintf(stderr, "%s: byte %zu of %zu is %d\n", scenario_name.c_str(), i, bytes.size(), bytes[i]);
      CHECK_EQUAL(bytes[i], is_message ? value : before);
    }
  }

  void send(MPI_Request& request, int tag, bool synchronous = false) const {
    begin([&] {
      return synchronous ? MPI_Issend(memory_.data(), count(), type_, peer, tag, MPI_COMM_WORLD, &request)
                         : MPI_Isend(memory_.data(), count(), type_, peer, tag, MPI_COMM_WORLD, &request);
    });
  }
  void receive(MPI_Request& request, int tag) const {
    begin([&] { return MPI_Irecv(memory_.data(), count(), type_, peer, tag, MPI_COMM_WORLD, &request); });
  }

 private:
  static constexpr std::size_t margin = 64;
  [[nodiscard]] int count() const { return has_gaps_ ? 1 : bytes_; }

  int bytes_;
  bool has_gaps_;
  std::size_t room_;
  Memory memory_;
  MPI_Datatype type_ = MPI_BYTE;
};

/// Runs a scenario with the first allocation of its calls failing, then the second, until there is none.
template <class Scenario>
void exhaust(const std::string& name, const Scenario& scenario) {
  for (victim = 0; victim < 2; ++victim)
    for (long number = 1;; ++number) {
      CHECK(number < most);
      scenario_name = name + ", victim " + std::to_string(victim) + ", allocation " + std::to_string(number);
      if (std::getenv("ALLOCATION_VERBOSE")) std::fprintf(stderr, "%d: %s\n", rank, scenario_name.c_str());
      left = number;
      was_hit = has_failed = false;
      scenario();
      int again = was_hit ? 1 : 0;
      left = 0;
      CHECK_MPI(MPI_Bcast(&again, 1, MPI_INT, victim, MPI_COMM_WORLD));
      if (!again) break;
    }
}

struct Way {
  Side from, to;
  int bytes;
};

/// From rank 0 to rank 1. `is_early`: it is there before its receive.
void message(const Gpu& gpu, const Way& way, bool is_early, bool is_synchronous) {
  const Landing place(gpu, rank == 0 ? way.from : way.to, way.bytes, rank == 0 ? 5 : 1);
  MPI_Request request = MPI_REQUEST_NULL;
  if (rank == 0) {
    if (!is_early) hear();
    place.send(request, 1, is_synchronous);
    end(request);
    CHECK_MPI(MPI_Barrier(MPI_COMM_WORLD));
    return;
  }
  if (is_early) {
    begin([] { return MPI_Probe(0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE); });
    place.receive(request, 1);
  } else {
    place.receive(request, 1);
    tell();
  }
  const bool has_come = end(request);
  if (has_come) place.check(5, 1);
  const Bytes before = place.all();
  CHECK_MPI(MPI_Barrier(MPI_COMM_WORLD));
  CHECK(place.all() == before);
}

/// Both ways, and so many that copies are held back and started together.
void many(const Gpu& gpu, const Way& way) {
  constexpr int messages = 9;
  std::vector<std::unique_ptr<Landing>> out, in;
  for (int i = 0; i < messages; ++i) {
    const int bytes = way.bytes + 400 * i;
    out.push_back(std::make_unique<Landing>(gpu, way.from, bytes, 10 * (rank + 1) + i));
    in.push_back(std::make_unique<Landing>(gpu, way.to, bytes, 1));
  }
  std::vector<MPI_Request> requests(2 * messages, MPI_REQUEST_NULL);
  for (int i = 0; i < messages; ++i)
    in[i]->receive(requests[i], i);
  for (int i = 0; i < messages; ++i)
    out[i]->send(requests[messages + i], i);
  for (int i = 0; i < messages; ++i)
    if (end(requests[i])) in[i]->check(10 * (peer + 1) + i, 1);
  for (int i = 0; i < messages; ++i)
    end(requests[messages + i]);
  std::vector<Bytes> before;
  for (const auto& each : in)
    before.push_back(each->all());
  CHECK_MPI(MPI_Barrier(MPI_COMM_WORLD));
  for (int i = 0; i < messages; ++i)
    CHECK(in[i]->all() == before[i]);
}

void to_self(const Gpu& gpu, const Way& way) {
  const Landing out(gpu, way.from, way.bytes, 5), in(gpu, way.to, way.bytes, 1);
  MPI_Request requests[2]{MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  const int other = std::exchange(peer, rank);
  out.send(requests[0], 2);
  in.receive(requests[1], 2);
  const bool has_come = end(requests[1]);
  end(requests[0]);
  peer = other;
  if (has_come) in.check(5, 1);
}

std::vector<Way> ways() {
  constexpr Side device{MemoryKind::device}, vmm{MemoryKind::vmm}, pool{MemoryKind::pool};
  constexpr Side gaps{MemoryKind::device, true}, host{MemoryKind::pageable}, pinned{MemoryKind::pinned};
  constexpr Side host_gaps{MemoryKind::pageable, true}, managed{MemoryKind::managed, false, Openness::closed};
  constexpr Side closed{MemoryKind::vmm, false, Openness::closed};
  std::vector<Way> all;
  for (const int bytes : {64, 30'000})
    for (const auto& [from, to] : std::vector<std::pair<Side, Side>>{{device, device},
                                                                     {vmm, vmm},
                                                                     {pool, device},
                                                                     {device, gaps},
                                                                     {gaps, device},
                                                                     {gaps, gaps},
                                                                     {device, host},
                                                                     {device, host_gaps},
                                                                     {host, device},
                                                                     {host_gaps, gaps},
                                                                     {pinned, device},
                                                                     {managed, device},
                                                                     {device, managed},
                                                                     {closed, closed}})
      all.push_back({from, to, bytes});
  return all;
}

std::string name_of_way(const Way& way) {
  const auto side = [](const Side& each) {
    return std::string(name_of(each.kind)) + (each.has_gaps ? " with gaps" : "") +
           (each.openness == Openness::closed ? " that is closed" : "");
  };
  return side(way.from) + " to " + side(way.to) + ", " + std::to_string(way.bytes) + " bytes";
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  peer = 1 - rank;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  const auto is_wanted = [&](std::string_view name) {
    for (int i = 1; i < argc; ++i)
      if (name == argv[i]) return true;
    return argc == 1;
  };
  {
    const Gpu gpu(rank);
    for (const Way& way : ways()) {
      const std::string name = name_of_way(way);
      if (is_wanted("message"))
        for (const bool is_early : {false, true})
          for (const bool is_synchronous : {false, true})
            exhaust("message " + name, [&] { message(gpu, way, is_early, is_synchronous); });
      const bool is_like_another = way.bytes != 30'000 || way.from.has_gaps != way.to.has_gaps;
      if (is_wanted("many") && !is_like_another) exhaust("many " + name, [&] { many(gpu, way); });
      if (is_wanted("self")) exhaust("self " + name, [&] { to_self(gpu, way); });
    }
    MPI_Finalize();
  }
  return 0;
}
