// Long collectives with their data in GPU memory on several hosts, against the same on the host. Prints
// nothing when all is right. Any number of ranks on any hosts. Which buffers is the argument:
//   (none)     device memory
//   described  VMM and pool memory
//   apart      device memory, but host memory on the last rank, which does not use CUDA
//   turns      device memory, but on rank 0 in every other collective memory of the host
//   gaps       device memory, but a broadcast with gaps on rank 0
//   lost       device memory, and the GPU of rank 0 fails in the middle: an error on all ranks
#include <dlfcn.h>

#include <array>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include "gpu_memory.hpp"

using namespace isthmus;
using namespace isthmus::testing_gpu;
using Ints = std::vector<int>;

namespace {

/// Memory of one rank: a GPU's, or without one the host's.
class Place {
 public:
  Place(const Gpu* gpu, MemoryKind kind, const Ints& values) : host_(gpu ? 0 : values.size()) {
    if (gpu) {
      gpu_ = std::make_unique<Memory>(*gpu, kind, (values.size() + 1) * sizeof(int));
      gpu_->write(values);
    } else {
      host_ = values;
    }
  }
  [[nodiscard]] void* data() { return gpu_ ? gpu_->data() : host_.data(); }
  [[nodiscard]] Ints read(std::size_t count) const { return gpu_ ? gpu_->read<int>(count) : host_; }

 private:
  std::unique_ptr<Memory> gpu_;
  Ints host_;
};

/// What the collectives of this program run with.
struct Setting {
  const Gpu* gpu;
  MemoryKind kind = MemoryKind::device;
  bool turns = false;
  mutable int calls = 0;

  /// The GPU for the next call; null for memory of the host.
  [[nodiscard]] const Gpu* next() const {
    int rank = -1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return turns && rank == 0 && calls++ % 2 == 1 ? nullptr : gpu;
  }
};

Ints values(std::size_t count, int rank, int seed) {
  Ints made(count);
  for (std::size_t i = 0; i < count; ++i)
    made[i] = static_cast<int>(i % 100'003) * 3 + rank * 1001 + seed;
  return made;
}

constexpr int guard = -7;

/// `call(send, receive)` on the host and in GPU memory, once each, must give the same, and leave what lies
/// behind the result alone.
void check(const Setting& setting, const Ints& sent, std::size_t receive_count,
           const std::function<void(void*, void*)>& call) {
  Ints wanted(receive_count + 1, guard);
  call(const_cast<int*>(sent.data()), wanted.data());
  const Gpu* const gpu = setting.next();
  Place send(gpu, setting.kind, sent);
  Place receive(gpu, setting.kind, Ints(receive_count + 1, guard));
  call(send.data(), receive.data());
  CHECK(receive.read(receive_count + 1) == wanted);
  CHECK(send.read(sent.size()) == sent);
}

void check_here(const Setting& setting, Ints wanted, const std::function<void(void*)>& call) {
  wanted.push_back(guard);
  Place buffer(setting.next(), setting.kind, wanted);
  call(wanted.data());
  call(buffer.data());
  CHECK(buffer.read(wanted.size()) == wanted);
}

void check_all(const Setting& setting, MPI_Comm comm, int count) {
  int rank = -1;
  int size = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  const auto c = static_cast<std::size_t>(count);
  const auto n = static_cast<std::size_t>(size);
  for (const int root : {0, size / 2, size - 1})
    check_here(setting, values(c, rank, root), [&](void* b) { MPI_Bcast(b, count, MPI_INT, root, comm); });
  check(setting, values(c, rank, 1), c * n,
        [&](void* s, void* r) { MPI_Allgather(s, count, MPI_INT, r, count, MPI_INT, comm); });
  check_here(setting, values(c * n, rank, 2),
             [&](void* b) { MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, b, count, MPI_INT, comm); });
  check(setting, values(c, rank, 3), c,
        [&](void* s, void* r) { MPI_Allreduce(s, r, count, MPI_INT, MPI_SUM, comm); });
  check_here(setting, values(c, rank, 4),
             [&](void* b) { MPI_Allreduce(MPI_IN_PLACE, b, count, MPI_INT, MPI_MAX, comm); });
  for (const int root : {0, size - 1}) {
    check(setting, values(c, rank, 10), c,
          [&](void* s, void* r) { MPI_Reduce(s, r, count, MPI_INT, MPI_SUM, root, comm); });
    check_here(setting, values(c, rank, 11), [&](void* b) {
      MPI_Reduce(rank == root ? MPI_IN_PLACE : b, rank == root ? b : nullptr, count, MPI_INT, MPI_MIN, root,
                 comm);
    });
  }
  check(setting, values(c * n, rank, 12), c,
        [&](void* s, void* r) { MPI_Reduce_scatter_block(s, r, count, MPI_INT, MPI_SUM, comm); });
  check(setting, values(c * n, rank, 13), c * n,
        [&](void* s, void* r) { MPI_Alltoall(s, count, MPI_INT, r, count, MPI_INT, comm); });
  check_here(setting, values(c * n, rank, 14),
             [&](void* b) { MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, b, count, MPI_INT, comm); });
  check(setting, values(2 * c, rank, 5), 2 * c,
        [&](void* s, void* r) { MPI_Allreduce(s, r, count, MPI_INT64_T, MPI_BXOR, comm); });
  check(setting, values(c, rank, 6), c, [&](void* s, void* r) {
    MPI_Allreduce(s, r, count == 0 ? 0 : 4 * count - 3, MPI_UINT8_T, MPI_MIN, comm);
  });
}

/// An operation of the program's own, which does not commute: stand-ins.
void check_own_operation(const Setting& setting, MPI_Comm comm, int count) {
  MPI_Op last = MPI_OP_NULL;
  MPI_Op_create(
      [](void* in, void* inout, int* n, MPI_Datatype*) {
        for (int i = 0; i < *n; ++i)
          static_cast<int*>(inout)[i] = 2 * static_cast<int*>(in)[i] - static_cast<int*>(inout)[i];
      },
      0, &last);
  const auto c = static_cast<std::size_t>(count);
  int rank = -1;
  MPI_Comm_rank(comm, &rank);
  check(setting, values(c, rank, 7), c,
        [&](void* s, void* r) { MPI_Allreduce(s, r, count, MPI_INT, last, comm); });
  MPI_Op_free(&last);
}

/// Results of floating-point reductions are the same on all ranks, to the bit.
void check_same_everywhere(const Setting& setting, MPI_Comm comm, int count) {
  int rank = -1;
  MPI_Comm_rank(comm, &rank);
  std::vector<double> sent;
  for (int i = 0; i < count; ++i)
    sent.push_back(1.0 / ((i + 3) * (rank + 0.7)));
  Ints bits(2 * sent.size());
  std::memcpy(bits.data(), sent.data(), sent.size() * sizeof(double));
  Place buffer(setting.next(), setting.kind, bits);
  MPI_Allreduce(MPI_IN_PLACE, buffer.data(), count, MPI_DOUBLE, MPI_SUM, comm);
  const Ints mine = buffer.read(bits.size());
  Ints first = mine;
  MPI_Bcast(first.data(), 2 * count, MPI_INT, 0, comm);
  CHECK(first == mine);
}

void check_gaps(const Setting& setting, MPI_Comm comm, int count) {
  int rank = -1;
  MPI_Comm_rank(comm, &rank);
  MPI_Datatype strided = MPI_DATATYPE_NULL;
  MPI_Type_vector(count, 1, 2, MPI_INT, &strided);
  MPI_Type_commit(&strided);
  const bool gaps = rank == 0;
  check_here(setting, values(2 * static_cast<std::size_t>(count), rank, 9),
             [&](void* b) { MPI_Bcast(b, gaps ? 1 : count, gaps ? strided : MPI_INT, 0, comm); });
  MPI_Type_free(&strided);
}

/// The GPU of rank 0 fails some hundred driver calls after an allreduce has begun.
void check_lost(const Setting& setting, int rank, int count) {
  using Set = int (*)(const char*, const char*);
  auto* const set =
      reinterpret_cast<Set>(::dlsym(::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD), "emulated_cuda_set"));
  CHECK(set != nullptr);
  constexpr const char* launch_failed = "719";
  const auto c = static_cast<std::size_t>(count);
  Place buffer(setting.gpu, setting.kind, values(c, rank, 1));
  const auto reduce = [&] {
    return MPI_Allreduce(MPI_IN_PLACE, buffer.data(), count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  };
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  CHECK_MPI(reduce());
  CHECK_MPI(MPI_Barrier(MPI_COMM_WORLD));
  if (rank == 0) {
    CHECK_EQUAL(set("STICKY_AFTER", "400"), 0);
    CHECK_EQUAL(set("STICKY", launch_failed), 0);
  }
  CHECK(reduce() != MPI_SUCCESS);
  if (rank == 0) CHECK_EQUAL(set("STICKY", "0"), 0);
  CHECK_MPI(MPI_Barrier(MPI_COMM_WORLD));
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

/// All ranks; in turn, where they were in blocks, and the other way round; some of them.
void for_every_order(const std::function<void(MPI_Comm)>& body) {
  int rank = -1;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  body(MPI_COMM_WORLD);
  const int half = (size + 1) / 2;
  // Not the last one; rank 0 and the last one, alone on their hosts.
  const std::array<std::pair<int, int>, 4> parts{{{0, rank % half},
                                                  {0, -rank},
                                                  {rank == size - 1 ? MPI_UNDEFINED : 0, rank},
                                                  {rank == 0 || rank == size - 1 ? 0 : MPI_UNDEFINED, rank}}};
  for (const auto& [color, key] : parts) {
    MPI_Comm part = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, color, key, &part);
    if (part == MPI_COMM_NULL) continue;
    body(part);
    MPI_Comm_free(&part);
  }
}

void check_everything(const Setting& setting) {
  for_every_order([&](MPI_Comm comm) {
    // 0, what is too short, one segment, several, and such as do not divide.
    for (const int count : {0, 1, 1000, 65'536, 300'007})
      check_all(setting, comm, count);
    check_own_operation(setting, comm, 270'000);
    check_same_everywhere(setting, comm, 140'001);
  });
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = -1;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const std::string_view which = argc > 1 ? argv[1] : "";
  if (which == "apart" && rank == size - 1) {
    check_everything({.gpu = nullptr});
    MPI_Finalize();
    return 0;
  }
  const Gpu gpu(rank);
  if (which == "described") {
    check_everything({.gpu = &gpu, .kind = MemoryKind::vmm});
    check_everything({.gpu = &gpu, .kind = MemoryKind::pool});
  } else if (which == "turns") {
    check_everything({.gpu = &gpu, .turns = true});
  } else if (which == "gaps") {
    check_gaps({.gpu = &gpu}, MPI_COMM_WORLD, 100'000);
    check_gaps({.gpu = &gpu}, MPI_COMM_WORLD, 300'000);
  } else if (which == "lost") {
    check_lost({.gpu = &gpu}, rank, 600'000);
  } else {
    check_everything({.gpu = &gpu});
  }
  MPI_Finalize();
  return 0;
}
