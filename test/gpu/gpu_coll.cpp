// Every blocking collective with its buffers in GPU memory, against the same on the host. Prints nothing when
// all is right. Any number of ranks. Which buffers is the argument:
//   (none)   each kind of memory, the same on all ranks
//   mixed    another kind on each rank
//   apart    device memory, but host memory on the last rank, which does not use CUDA
//   moving   device memory of one GPU after the other
//   long     device memory, megabytes
//   rooted   a long broadcast out of VMM memory to cudaMalloc memory
//   described  VMM and pool memory, which have descriptors
//   closed   memory that no other process can open: VMM, pool, and managed memory on the GPU
//   some     the same on some of the ranks, cudaMalloc memory on the others
//   rounds   the same as closed, megabytes
//   lost     such memory, and the GPU of rank 0 fails in the middle: an error on all ranks
//   short    device memory, short collectives one after the other, for which kernels meet
//   broken   the same, and the GPU of rank 0 fails at each driver call of one: all ranks return
#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <string_view>

#include "gpu_memory.hpp"

using namespace isthmus;
using namespace isthmus::testing_gpu;
using Ints = std::vector<int>;

namespace {

Openness openness = Openness::open;

/// Memory for a rank that does not use CUDA, or by way of it.
class Place {
 public:
  Place(const Gpu* gpu, MemoryKind kind, std::size_t bytes) {
    if (gpu)
      gpu_ = std::make_unique<Memory>(*gpu, kind, bytes, openness);
    else
      host_.resize(bytes);
  }
  [[nodiscard]] void* data() { return gpu_ ? gpu_->data() : host_.data(); }
  void write(const Ints& values) {
    if (gpu_)
      gpu_->write(values);
    else if (!values.empty())
      std::memcpy(host_.data(), values.data(), values.size() * sizeof(int));
  }
  [[nodiscard]] Ints read(std::size_t count) const {
    if (gpu_) return gpu_->read<int>(count);
    Ints values(count);
    if (count > 0) std::memcpy(values.data(), host_.data(), count * sizeof(int));
    return values;
  }

 private:
  std::unique_ptr<Memory> gpu_;
  std::vector<std::byte> host_;
};

int rank = -1;
int size = 0;

Ints values(std::size_t count, int seed) {
  Ints made(count);
  for (std::size_t i = 0; i < count; ++i)
    made[i] = static_cast<int>(i) * 3 + rank * 1001 + seed;
  return made;
}

/// A collective from `send_count` to `receive_count` ints. `call(send, receive)` with pointers to either
/// memory.
void check(const Gpu* gpu, MemoryKind kind, std::size_t send_count, std::size_t receive_count,
           const std::function<void(void*, void*)>& call) {
  const Ints sent = values(send_count, 5);
  Ints wanted(receive_count, -7);
  call(const_cast<int*>(sent.data()), wanted.data());
  Place send(gpu, kind, (send_count + 1) * sizeof(int));
  Place receive(gpu, kind, (receive_count + 1) * sizeof(int));
  send.write(sent);
  receive.write(Ints(receive_count + 1, -7));
  call(send.data(), receive.data());
  const Ints got = receive.read(receive_count + 1);
  CHECK(std::equal(wanted.begin(), wanted.end(), got.begin()));
  CHECK_EQUAL(got.back(), -7);
  CHECK(send.read(send_count) == sent);
}

/// The same in place: `call(buffer)`.
void check_here(const Gpu* gpu, MemoryKind kind, std::size_t count, const std::function<void(void*)>& call) {
  Ints wanted = values(count, 8);
  Place buffer(gpu, kind, (count + 1) * sizeof(int));
  buffer.write(wanted);
  call(wanted.data());
  call(buffer.data());
  CHECK(buffer.read(count) == wanted);
}

/// A long broadcast of bytes, to where each rank has them `shift` further behind a multiple of 256 than the
/// one before.
void check_dealt(const Gpu* gpu, MemoryKind kind, int root, std::size_t shift) {
  constexpr int bytes = 2'100'003;
  const std::size_t ahead = shift * static_cast<std::size_t>(rank);
  const Ints sent = ascending(bytes / sizeof(int) + 64, 3 + root);
  Place buffer(gpu, kind, (sent.size() + 1) * sizeof(int));
  Ints wanted = ascending(sent.size(), -rank);
  if (rank == root) wanted = sent;
  buffer.write(wanted);
  MPI_Bcast(static_cast<std::byte*>(buffer.data()) + ahead, bytes, MPI_BYTE, root, MPI_COMM_WORLD);
  const auto* from = reinterpret_cast<const std::byte*>(sent.data()) + shift * static_cast<std::size_t>(root);
  std::memcpy(reinterpret_cast<std::byte*>(wanted.data()) + ahead, from, bytes);
  CHECK(buffer.read(wanted.size()) == wanted);
}

void check_all(const Gpu* gpu, MemoryKind kind, int count) {
  const auto n = static_cast<std::size_t>(size);
  const auto c = static_cast<std::size_t>(count);
  const MPI_Comm comm = MPI_COMM_WORLD;
  const int root = size - 1;
  Ints counts, places;
  int total = 0;
  for (int i = 0; i < size; ++i) {
    counts.push_back(count + i);
    places.push_back(total);
    total += count + i + 1;
  }
  const auto t = static_cast<std::size_t>(total);
  const int mine = counts[static_cast<std::size_t>(rank)];

  check_here(gpu, kind, c, [&](void* b) { MPI_Bcast(b, count, MPI_INT, root, comm); });
  check(gpu, kind, c, c * n,
        [&](void* s, void* r) { MPI_Gather(s, count, MPI_INT, r, count, MPI_INT, root, comm); });
  check(gpu, kind, c * n, c,
        [&](void* s, void* r) { MPI_Scatter(s, count, MPI_INT, r, count, MPI_INT, root, comm); });
  check(gpu, kind, c + n, t, [&](void* s, void* r) {
    MPI_Gatherv(s, mine, MPI_INT, r, counts.data(), places.data(), MPI_INT, root, comm);
  });
  check(gpu, kind, t, c + n, [&](void* s, void* r) {
    MPI_Scatterv(s, counts.data(), places.data(), MPI_INT, r, mine, MPI_INT, root, comm);
  });
  check(gpu, kind, c, c * n,
        [&](void* s, void* r) { MPI_Allgather(s, count, MPI_INT, r, count, MPI_INT, comm); });
  check_here(gpu, kind, c * n,
             [&](void* b) { MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, b, count, MPI_INT, comm); });
  check(gpu, kind, c + n, t, [&](void* s, void* r) {
    MPI_Allgatherv(s, mine, MPI_INT, r, counts.data(), places.data(), MPI_INT, comm);
  });
  check(gpu, kind, c * n, c * n,
        [&](void* s, void* r) { MPI_Alltoall(s, count, MPI_INT, r, count, MPI_INT, comm); });
  check_here(gpu, kind, c * n,
             [&](void* b) { MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, b, count, MPI_INT, comm); });
  const Ints same(n, count);
  Ints begins(n);
  for (int i = 0; i < size; ++i)
    begins[static_cast<std::size_t>(i)] = i * count;
  check(gpu, kind, c * n, c * n, [&](void* s, void* r) {
    MPI_Alltoallv(s, same.data(), begins.data(), MPI_INT, r, same.data(), begins.data(), MPI_INT, comm);
  });
  check(gpu, kind, c, c, [&](void* s, void* r) { MPI_Reduce(s, r, count, MPI_INT, MPI_SUM, root, comm); });
  check(gpu, kind, c, c, [&](void* s, void* r) { MPI_Allreduce(s, r, count, MPI_INT, MPI_MAX, comm); });
  check_here(gpu, kind, c, [&](void* b) { MPI_Allreduce(MPI_IN_PLACE, b, count, MPI_INT, MPI_SUM, comm); });
  check(gpu, kind, c * n, c,
        [&](void* s, void* r) { MPI_Reduce_scatter_block(s, r, count, MPI_INT, MPI_SUM, comm); });
  check(gpu, kind, c * n, c,
        [&](void* s, void* r) { MPI_Reduce_scatter(s, r, same.data(), MPI_INT, MPI_SUM, comm); });
  check(gpu, kind, c, c, [&](void* s, void* r) { MPI_Scan(s, r, count, MPI_INT, MPI_SUM, comm); });
  check(gpu, kind, c, c, [&](void* s, void* r) { MPI_Exscan(s, r, count, MPI_INT, MPI_SUM, comm); });
}

/// Types of other sizes, operations that do not commute, types that differ and match, and gaps.
void check_others(const Gpu* gpu, MemoryKind kind, int count) {
  const auto c = static_cast<std::size_t>(count);
  const MPI_Comm comm = MPI_COMM_WORLD;
  check(gpu, kind, 2 * c, 2 * c,
        [&](void* s, void* r) { MPI_Allreduce(s, r, count, MPI_INT64_T, MPI_BXOR, comm); });
  check(gpu, kind, c, c,
        [&](void* s, void* r) { MPI_Allreduce(s, r, 4 * count - 1, MPI_UINT8_T, MPI_MAX, comm); });
  MPI_Op last = MPI_OP_NULL;
  MPI_Op_create(
      [](void* in, void* inout, int* n, MPI_Datatype*) {
        for (int i = 0; i < *n; ++i)
          static_cast<int*>(inout)[i] = 2 * static_cast<int*>(in)[i] - static_cast<int*>(inout)[i];
      },
      0, &last);
  check(gpu, kind, c, c, [&](void* s, void* r) { MPI_Allreduce(s, r, count, MPI_INT, last, comm); });
  MPI_Op_free(&last);
  // Odd ranks count in pairs.
  MPI_Datatype pair = MPI_DATATYPE_NULL;
  MPI_Type_contiguous(2, MPI_INT, &pair);
  MPI_Type_commit(&pair);
  const bool odd = rank % 2 == 1;
  check(gpu, kind, 2 * c, 2 * c * static_cast<std::size_t>(size), [&](void* s, void* r) {
    MPI_Allgather(s, odd ? count : 2 * count, odd ? pair : MPI_INT, r, odd ? count : 2 * count,
                  odd ? pair : MPI_INT, comm);
  });
  MPI_Type_free(&pair);
  // One rank alone has gaps.
  MPI_Datatype strided = MPI_DATATYPE_NULL;
  MPI_Type_vector(count, 1, 2, MPI_INT, &strided);
  MPI_Type_commit(&strided);
  const bool gaps = rank == 0;
  check_here(gpu, kind, 2 * c,
             [&](void* b) { MPI_Bcast(b, gaps ? 1 : count, gaps ? strided : MPI_INT, size - 1, comm); });
  MPI_Type_free(&strided);
}

/// In place where only the root can be, and where blocks become shorter.
void check_in_place(const Gpu* gpu, MemoryKind kind, int count) {
  const auto all = static_cast<std::size_t>(count) * static_cast<std::size_t>(size);
  const MPI_Comm comm = MPI_COMM_WORLD;
  for (const int root : {0, size - 1}) {
    const bool here = rank == root;
    check_here(gpu, kind, all, [&](void* b) {
      if (here)
        MPI_Gather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, b, count, MPI_INT, root, comm);
      else
        MPI_Gather(b, count, MPI_INT, nullptr, 0, MPI_DATATYPE_NULL, root, comm);
    });
    check_here(gpu, kind, all, [&](void* b) {
      if (here)
        MPI_Scatter(b, count, MPI_INT, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, root, comm);
      else
        MPI_Scatter(nullptr, 0, MPI_DATATYPE_NULL, b, count, MPI_INT, root, comm);
    });
    check_here(gpu, kind, all, [&](void* b) {
      MPI_Reduce(here ? MPI_IN_PLACE : b, here ? b : nullptr, count * size, MPI_INT, MPI_SUM, root, comm);
    });
  }
  // What lies behind the result is not defined: only that is compared.
  const Ints sent = values(all, 3);
  Ints wanted = sent;
  MPI_Reduce_scatter_block(MPI_IN_PLACE, wanted.data(), count, MPI_INT, MPI_SUM, comm);
  Place buffer(gpu, kind, all * sizeof(int));
  buffer.write(sent);
  MPI_Reduce_scatter_block(MPI_IN_PLACE, buffer.data(), count, MPI_INT, MPI_SUM, comm);
  const Ints got = buffer.read(static_cast<std::size_t>(count));
  CHECK(std::equal(got.begin(), got.end(), wanted.begin()));
}

/// Forms with a length for each pair: none for some, blocks in no order, others' blocks between them.
void check_lengths(const Gpu* gpu, MemoryKind kind, int count) {
  const MPI_Comm comm = MPI_COMM_WORLD;
  const int n = size;
  // What `from` sends to `to`; rank 1 sends and gets nothing but its own.
  const auto length = [&](int from, int to) {
    if ((from == 1 || to == 1) && from != to) return 0;
    return (from + 2 * to) % 3 == 0 ? 0 : count + 5 * from + to;
  };
  Ints send_counts, receive_counts, send_places, receive_places, send_bytes, receive_bytes;
  const int room = count + 6 * n;
  for (int i = 0; i < n; ++i) {
    send_counts.push_back(length(rank, i));
    receive_counts.push_back(length(i, rank));
    send_places.push_back((n - 1 - i) * room);
    receive_places.push_back((i + 1) % n * room);
    send_bytes.push_back(4 * send_places.back());
    receive_bytes.push_back(4 * receive_places.back());
  }
  const auto all = static_cast<std::size_t>(n * room);
  const std::vector<MPI_Datatype> types(static_cast<std::size_t>(n), MPI_INT);
  check(gpu, kind, all, all, [&](void* s, void* r) {
    MPI_Alltoallv(s, send_counts.data(), send_places.data(), MPI_INT, r, receive_counts.data(),
                  receive_places.data(), MPI_INT, comm);
  });
  check(gpu, kind, all, all, [&](void* s, void* r) {
    MPI_Alltoallw(s, send_counts.data(), send_bytes.data(), types.data(), r, receive_counts.data(),
                  receive_bytes.data(), types.data(), comm);
  });
  // In place, a pair sends as much one way as the other.
  Ints both;
  for (int i = 0; i < n; ++i)
    both.push_back(count + (i + rank) % 4 - (i + rank) % 2);
  check_here(gpu, kind, all, [&](void* b) {
    MPI_Alltoallv(MPI_IN_PLACE, nullptr, nullptr, MPI_DATATYPE_NULL, b, both.data(), receive_places.data(),
                  MPI_INT, comm);
  });
  check_here(gpu, kind, all, [&](void* b) {
    MPI_Alltoallw(MPI_IN_PLACE, nullptr, nullptr, nullptr, b, both.data(), receive_bytes.data(), types.data(),
                  comm);
  });
  Ints counts;
  for (int i = 0; i < n; ++i)
    counts.push_back(i == 1 ? 0 : count + i);
  const int mine = counts[static_cast<std::size_t>(rank)];
  for (const int root : {0, n - 1}) {
    check(gpu, kind, all, all, [&](void* s, void* r) {
      MPI_Gatherv(s, mine, MPI_INT, r, counts.data(), receive_places.data(), MPI_INT, root, comm);
    });
    check(gpu, kind, all, all, [&](void* s, void* r) {
      MPI_Scatterv(s, counts.data(), send_places.data(), MPI_INT, r, mine, MPI_INT, root, comm);
    });
    const bool here = rank == root;
    check_here(gpu, kind, all, [&](void* b) {
      MPI_Gatherv(here ? MPI_IN_PLACE : b, mine, MPI_INT, b, counts.data(), receive_places.data(), MPI_INT,
                  root, comm);
    });
    check_here(gpu, kind, all, [&](void* b) {
      MPI_Scatterv(b, counts.data(), receive_places.data(), MPI_INT, here ? MPI_IN_PLACE : b, mine, MPI_INT,
                   root, comm);
    });
  }
  check(gpu, kind, all, all, [&](void* s, void* r) {
    MPI_Allgatherv(s, mine, MPI_INT, r, counts.data(), send_places.data(), MPI_INT, comm);
  });
  Ints places;
  for (int i = 0; i < n; ++i)
    places.push_back(i * room);
  check_here(gpu, kind, all, [&](void* b) {
    MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, b, counts.data(), places.data(), MPI_INT, comm);
  });
  const auto c = static_cast<std::size_t>(count);
  check_here(gpu, kind, c, [&](void* b) { MPI_Scan(MPI_IN_PLACE, b, count, MPI_INT, MPI_SUM, comm); });
  check_here(gpu, kind, c, [&](void* b) { MPI_Exscan(MPI_IN_PLACE, b, count, MPI_INT, MPI_MAX, comm); });
}

/// Results of floating-point reductions are the same on all ranks, to the bit.
void check_same_everywhere(const Gpu* gpu, MemoryKind kind, int count) {
  const auto c = static_cast<std::size_t>(count);
  Ints sent(2 * c);
  for (std::size_t i = 0; i < c; ++i) {
    const double value = 1.0 / (static_cast<double>(i + 3) * (rank + 0.7));
    std::memcpy(&sent[2 * i], &value, sizeof value);
  }
  Place send(gpu, kind, sent.size() * sizeof(int));
  Place receive(gpu, kind, sent.size() * sizeof(int));
  send.write(sent);
  MPI_Allreduce(send.data(), receive.data(), count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  const Ints mine = receive.read(sent.size());
  Ints first = mine;
  MPI_Bcast(first.data(), 2 * count, MPI_INT, 0, MPI_COMM_WORLD);
  CHECK(first == mine);
}

/// On communicators that come and go, of some of the ranks.
void check_parts(const Gpu* gpu, MemoryKind kind, int count) {
  const auto c = static_cast<std::size_t>(count);
  for (int round = 0; round < 3; ++round) {
    MPI_Comm part = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &part);
    check(gpu, kind, c, c, [&](void* s, void* r) { MPI_Allreduce(s, r, count, MPI_INT, MPI_SUM, part); });
    check_here(gpu, kind, c, [&](void* b) { MPI_Bcast(b, count, MPI_INT, 0, part); });
    MPI_Comm_free(&part);
  }
}

/// Buffers that are used again and again, each time at another place in the same allocation.
void check_reuse(const Gpu* gpu, MemoryKind kind, int count) {
  const auto c = static_cast<std::size_t>(count);
  const auto n = static_cast<std::size_t>(size);
  Place send(gpu, kind, 8 * c * sizeof(int));
  Place receive(gpu, kind, 8 * n * c * sizeof(int));
  for (std::size_t round = 0; round < 8; ++round) {
    const Ints sent = values(8 * c, static_cast<int>(round));
    send.write(sent);
    MPI_Allgather(static_cast<int*>(send.data()) + round * c, count, MPI_INT,
                  static_cast<int*>(receive.data()) + round * n * c, count, MPI_INT, MPI_COMM_WORLD);
    const Ints got = receive.read((round + 1) * n * c);
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t k = 0; k < c; ++k)
        CHECK_EQUAL(got[(round * n + i) * c + k], sent[round * c + k] + (static_cast<int>(i) - rank) * 1001);
  }
}

/// Longer than what one kernel copies, than what each member reduces for itself, and than what members of a
/// broadcast read from the root alone.
void check_long(const Gpu* gpu, MemoryKind kind) {
  check_all(gpu, kind, 600'007);
  check_in_place(gpu, kind, 300'001);
  check_here(gpu, kind, 2'200'017,
             [](void* b) { MPI_Bcast(b, 2'200'017, MPI_INT, size - 1, MPI_COMM_WORLD); });
}

/// The GPU of rank 0 fails some driver calls after an allreduce has begun: in one of its rounds.
void check_lost(const Gpu& gpu) {
  constexpr const char* launch_failed = "719";
  constexpr int count = 2'000'000;
  using Calls = unsigned long long (*)();
  const auto calls = reinterpret_cast<Calls>(
      ::dlsym(::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD), "emulated_cuda_calls"));
  CHECK(calls != nullptr);
  Place buffer(&gpu, MemoryKind::vmm, count * sizeof(int));
  buffer.write(values(count, 1));
  const auto reduce = [&] {
    return MPI_Allreduce(MPI_IN_PLACE, buffer.data(), count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  };
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  // What a reduction takes at least: how often it looks whether a copy is over differs.
  unsigned long long least = std::numeric_limits<unsigned long long>::max();
  for (int turn = 0; turn < 5; ++turn) {
    const unsigned long long before = calls();
    CHECK_MPI(reduce());
    if (turn > 0) least = std::min(least, calls() - before);
  }
  CHECK_MPI(MPI_Barrier(MPI_COMM_WORLD));
  // Beside other programs those looks may have been most of it.
  int result = MPI_SUCCESS;
  CHECK_MPI(MPI_Bcast(&least, 1, MPI_UNSIGNED_LONG_LONG, 0, MPI_COMM_WORLD));
  while (least > 1 && result == MPI_SUCCESS) {
    least /= 2;
    if (rank == 0) {
      set_emulated("STICKY_AFTER", std::to_string(least).c_str());
      set_emulated("STICKY", launch_failed);
    }
    result = reduce();
  }
  CHECK(result != MPI_SUCCESS);
  if (rank == 0) set_emulated("STICKY", "0");
  CHECK_MPI(MPI_Barrier(MPI_COMM_WORLD));
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

/// Rounds by orders, with others between them: memory of a host at one rank, lengths that are none, too long.
void check_short(const Gpu& gpu) {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  for (int turn = 0; turn < 3; ++turn)
    for (const int count : {1, 3, 64, 129, 700, 4096, 4097, 0}) {
      const auto c = static_cast<std::size_t>(count);
      const auto n = static_cast<std::size_t>(size);
      const bool is_apart = turn == 1 && rank == count % size;
      const Gpu* const place = is_apart ? nullptr : &gpu;
      for (int root = 0; root < size; ++root) {
        check_here(place, MemoryKind::device, c, [&](void* b) { MPI_Bcast(b, count, MPI_INT, root, comm); });
        check(place, MemoryKind::device, c, c,
              [&](void* s, void* r) { MPI_Reduce(s, r, count, MPI_INT, MPI_MAX, root, comm); });
        check(place, MemoryKind::device, c, c * n,
              [&](void* s, void* r) { MPI_Gather(s, count, MPI_INT, r, count, MPI_INT, root, comm); });
        check(place, MemoryKind::device, c * n, c,
              [&](void* s, void* r) { MPI_Scatter(s, count, MPI_INT, r, count, MPI_INT, root, comm); });
      }
      check(place, MemoryKind::device, c, c,
            [&](void* s, void* r) { MPI_Allreduce(s, r, count, MPI_INT, MPI_SUM, comm); });
      check_here(place, MemoryKind::device, c,
                 [&](void* b) { MPI_Allreduce(MPI_IN_PLACE, b, count, MPI_UNSIGNED, MPI_BXOR, comm); });
      check(place, MemoryKind::device, c, c,
            [&](void* s, void* r) { MPI_Allreduce(s, r, 4 * count, MPI_INT8_T, MPI_PROD, comm); });
      check(place, MemoryKind::device, c, c * n,
            [&](void* s, void* r) { MPI_Allgather(s, count, MPI_INT, r, count, MPI_INT, comm); });
      check_here(place, MemoryKind::device, c * n,
                 [&](void* b) { MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, b, count, MPI_INT, comm); });
      check(place, MemoryKind::device, c * n, c,
            [&](void* s, void* r) { MPI_Reduce_scatter_block(s, r, count, MPI_INT, MPI_SUM, comm); });
      check_here(place, MemoryKind::device, c,
                 [&](void* b) { MPI_Scan(MPI_IN_PLACE, b, count, MPI_INT, MPI_SUM, comm); });
      check(place, MemoryKind::device, c, c,
            [&](void* s, void* r) { MPI_Exscan(s, r, count, MPI_INT, MPI_SUM, comm); });
    }
  MPI_Comm_free(&comm);
}

/// Whichever call of the driver fails at rank 0, in a collective by orders: all ranks come back, and the
/// ranks' hosts go on.
void check_broken(const Gpu& gpu) {
  constexpr const char* launch_failed = "719";
  constexpr int warm = 6;
  constexpr int most_calls = 12;
  int failures = 0;
  for (int after = 0; after < most_calls; ++after) {
    MPI_Comm comm = MPI_COMM_NULL;
    CHECK_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    CHECK_MPI(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    Place buffer(&gpu, MemoryKind::device, sizeof(int));
    buffer.write({rank});
    const auto reduce = [&] { return MPI_Allreduce(MPI_IN_PLACE, buffer.data(), 1, MPI_INT, MPI_MAX, comm); };
    for (int turn = 0; turn < warm; ++turn)
      CHECK_MPI(reduce());
    CHECK_MPI(MPI_Barrier(comm));
    if (rank == 0) {
      set_emulated("STICKY_AFTER", std::to_string(after).c_str());
      set_emulated("STICKY", launch_failed);
    }
    const bool has_failed = reduce() != MPI_SUCCESS;
    if (rank == 0) set_emulated("STICKY", "0");
    int all = 0;
    const int mine = has_failed ? 1 : 0;
    CHECK_MPI(MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, comm));
    if (all == size) ++failures;
    CHECK_MPI(MPI_Comm_free(&comm));
  }
  CHECK(failures > 0);
}

void check_everything(const Gpu* gpu, MemoryKind kind) {
  for (const int count : {0, 1, 100, 20'000})
    check_all(gpu, kind, count);
  check_others(gpu, kind, 300);
  check_in_place(gpu, kind, 700);
  check_lengths(gpu, kind, 400);
  check_same_everywhere(gpu, kind, 5000);
  check_parts(gpu, kind, 1000);
  check_reuse(gpu, kind, 500);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const std::string_view which = argc > 1 ? argv[1] : "";
  constexpr std::size_t kinds = std::size(every_kind);
  if (which == "apart" && rank == size - 1) {
    check_everything(nullptr, MemoryKind::pageable);
  } else if (which == "moving") {
    for (int turn = 0; turn < 3; ++turn) {
      const Gpu gpu(rank + turn);
      check_everything(&gpu, MemoryKind::device);
    }
  } else {
    const Gpu gpu(rank);
    if (which == "apart") check_everything(&gpu, MemoryKind::device);
    if (which == "long") {
      check_long(&gpu, MemoryKind::device);
      for (int root = 0; root < size; ++root)
        for (const std::size_t shift : {0U, 1U, 2U, 4U, 8U})
          check_dealt(&gpu, MemoryKind::device, root, shift);
    }
    if (which == "mixed")
      for (std::size_t i = 0; i < kinds; ++i)
        check_dealt(&gpu, every_kind[(i + static_cast<std::size_t>(rank)) % kinds], size - 1, 0);
    if (which == "rooted")
      check_dealt(&gpu, rank == size - 1 ? MemoryKind::vmm : MemoryKind::device, size - 1, 0);
    if (which == "closed" || which == "rounds") {
      openness = Openness::closed;
      for (const MemoryKind kind : {MemoryKind::vmm, MemoryKind::pool, MemoryKind::managed})
        which == "closed" ? check_everything(&gpu, kind) : check_long(&gpu, kind);
      if (which == "rounds") check_lengths(&gpu, MemoryKind::pool, 150'000);
    }
    if (which == "lost") {
      openness = Openness::closed;
      check_lost(gpu);
    }
    if (which == "short") check_short(gpu);
    if (which == "broken") check_broken(gpu);
    if (which == "some") {
      openness = rank == 1 ? Openness::closed : Openness::open;
      check_everything(&gpu, rank == 1 ? MemoryKind::pool : MemoryKind::device);
      check_long(&gpu, rank == 1 ? MemoryKind::vmm : MemoryKind::device);
    }
    if (which == "described") {
      check_everything(&gpu, MemoryKind::vmm);
      check_everything(&gpu, MemoryKind::pool);
    }
    for (std::size_t i = 0; i < kinds && which == "mixed"; ++i)
      check_everything(&gpu, every_kind[(i + static_cast<std::size_t>(rank)) % kinds]);
    for (std::size_t i = 0; i < kinds && which.empty(); ++i) {
      const MemoryKind kind = every_kind[i];
      if (kind == MemoryKind::device || kind == MemoryKind::vmm || kind == MemoryKind::pool)
        check_everything(&gpu, kind);
      else
        check_all(&gpu, kind, 100);
    }
    MPI_Finalize();
    return 0;
  }
  MPI_Finalize();
  return 0;
}
