// Operations in the order of streams (MPIX_*_enqueue), with kernels before and behind them that nobody waits
// for. Runs on the emulated driver and on GPUs; rank 0 prints a line for each case that is right. The
// argument:
//   names of cases, at 2 ranks or more: `all`, which none means too, or some; `leave` is not one of all,
//   because it leaves a
//             stream of CUDA
//   lost      at 2 ranks, --on-failure continue: one dies while the other's stream waits for it
//   refused   where the driver has no stream memory operations
//   absent    where the program has not initialised CUDA
#include <mpi-ext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <thread>

#include "emulated_cuda.h"
#include "gpu_memory.hpp"

using namespace isthmus;
using namespace isthmus::testing_gpu;
using Ints = std::vector<int>;

namespace {

int rank = -1, ranks = 0;
constexpr int most_emulated_launches = 150;
constexpr int most_launches = 10'000;

// to[i] = from[i] + add, after so many nanoseconds: what comes too early finds what was there before.
constexpr const char* kernel_name = "isthmus_test_step";
constexpr const char* kernel_text = R"(.version 7.0
.target sm_70
.address_size 64
.visible .entry isthmus_test_step(.param .u64 p_to, .param .u64 p_from, .param .u32 p_count, .param .u32 p_add, .param .u64 p_wait)
{
  .reg .pred %p<4>;
  .reg .b32 %r<10>;
  .reg .b64 %d<12>;
  ld.param.u64 %d1, [p_to];
  ld.param.u64 %d2, [p_from];
  ld.param.u32 %r1, [p_count];
  ld.param.u32 %r2, [p_add];
  ld.param.u64 %d3, [p_wait];
  mov.u64 %d4, %globaltimer;
  add.u64 %d4, %d4, %d3;
AGAIN:
  mov.u64 %d5, %globaltimer;
  setp.lt.u64 %p1, %d5, %d4;
  @%p1 bra AGAIN;
  mov.u32 %r3, %ctaid.x;
  mov.u32 %r4, %ntid.x;
  mov.u32 %r5, %tid.x;
  mad.lo.u32 %r6, %r3, %r4, %r5;
  setp.ge.u32 %p2, %r6, %r1;
  @%p2 bra END;
  mul.wide.u32 %d6, %r6, 4;
  add.u64 %d7, %d2, %d6;
  add.u64 %d8, %d1, %d6;
  ld.global.u32 %r7, [%d7];
  add.u32 %r8, %r7, %r2;
  st.global.u32 [%d8], %r8;
END:
  ret;
}
)";

int step_twin(const EmulatedLaunch* launch) {
  using View = void* (*)(unsigned long long);
  static const auto view = reinterpret_cast<View>(
      ::dlsym(::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD), "emulated_cuda_view"));
  const auto argument = [&]<class T>(int i, T) { return *static_cast<T*>(launch->parameters[i]); };
  std::this_thread::sleep_for(std::chrono::nanoseconds(argument(4, std::uint64_t{})));
  auto* const to = static_cast<unsigned*>(view(argument(0, std::uint64_t{})));
  const auto* const from = static_cast<const unsigned*>(view(argument(1, std::uint64_t{})));
  const auto count = argument(2, 0U);
  if (!to || !from || launch->grid[0] * launch->block[0] < count) return 700;
  for (unsigned i = 0; i < count; ++i)
    to[i] = from[i] + argument(3, 0U);
  return 0;
}

class Kernel {
 public:
  explicit Kernel(const Gpu& gpu) : cuda_(gpu.functions()) {
    if (emulated_driver()) {
      static constexpr std::size_t sizes[]{8, 8, 4, 4, 8, 0};
      static constexpr EmulatedTwin twins[]{{kernel_name, step_twin, sizes}, {nullptr, nullptr, nullptr}};
      using Register = void (*)(const EmulatedTwin*);
      reinterpret_cast<Register>(
          ::dlsym(::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD), "emulated_cuda_register"))(twins);
    }
    CHECK_CUDA(cuda_.module_load(&module_, kernel_text));
    CHECK_CUDA(cuda_.module_function(&function_, module_, kernel_name));
    // Loaded with its first launch, which may wait for streams.
    const Memory number(gpu, MemoryKind::device, sizeof(int));
    step(default_stream, number.data(), number.data(), 1, 0);
    CHECK_CUDA(cuda_.stream_synchronize(default_stream));
  }
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;
  ~Kernel() { CHECK_CUDA(cuda_.module_unload(module_)); }

  void step(cuda::Stream stream, void* to, const void* from, int count, int add,
            std::uint64_t nanoseconds = 0) const {
    auto n = static_cast<unsigned>(count), more = static_cast<unsigned>(add);
    std::array<void*, 5> parameters{&to, &from, &n, &more, &nanoseconds};
    CHECK_CUDA(
        cuda_.launch(function_, (n + 255) / 256, 1, 1, 256, 1, 1, 0, stream, parameters.data(), nullptr));
  }

 private:
  const cuda::Functions& cuda_;
  cuda::Module module_ = nullptr;
  cuda::Function function_ = nullptr;
};

MPI_Info info_of(cuda::Stream stream) {
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "type", "cudaStream_t");
  CHECK_MPI(MPIX_Info_set_hex(info, "value", &stream, sizeof(cuda::Stream)));
  return info;
}

/// A stream of CUDA and a communicator of all ranks with it.
class Lane {
 public:
  /// `is_short`: with the assertion that lets kernels match its messages.
  explicit Lane(const Gpu& gpu, bool is_short = false) : cuda_(gpu.functions()) {
    CHECK_CUDA(cuda_.stream_create(&cuda_stream, cuda::stream_non_blocking));
    MPI_Info info = info_of(cuda_stream);
    CHECK_MPI(MPIX_Stream_create(info, &stream));
    if (is_short) MPI_Info_set(info, "isthmus_assert_short_enqueued", "true");
    MPI_Comm parent;
    CHECK_MPI(MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &parent));
    MPI_Info_free(&info);
    CHECK_MPI(MPIX_Stream_comm_create(parent, stream, &comm));
    CHECK_MPI(MPI_Comm_free(&parent));
  }
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;
  ~Lane() {
    sync();
    CHECK_MPI(MPI_Comm_free(&comm));
    CHECK_MPI(MPIX_Stream_free(&stream));
    CHECK(stream == MPIX_STREAM_NULL);
    CHECK_CUDA(cuda_.stream_destroy(cuda_stream));
  }
  void sync() const { CHECK_CUDA(cuda_.stream_synchronize(cuda_stream)); }
  [[nodiscard]] bool is_idle() const { return cuda_.stream_query(cuda_stream) == cuda::Status::success; }

  cuda::Stream cuda_stream = nullptr;
  MPIX_Stream stream = MPIX_STREAM_NULL;
  MPI_Comm comm = MPI_COMM_NULL;

 private:
  const cuda::Functions& cuda_;
};

/// What all cases have.
struct Setting {
  const Gpu& gpu;
  const Kernel& kernel;
  [[nodiscard]] const cuda::Functions& cuda() const { return gpu.functions(); }
};

std::unique_ptr<Memory> memory(const Setting& at, const Ints& values, MemoryKind kind = MemoryKind::device) {
  auto made = std::make_unique<Memory>(at.gpu, kind, std::max<std::size_t>(values.size(), 1) * sizeof(int));
  made->write(values);
  return made;
}

/// Ascending from `first`.
void expect(const Memory& where, std::size_t count, int first) {
  CHECK(where.read<int>(count) == ascending(count, first));
}

/// Whether this rank has a part in messages between ranks 0 and 1.
bool takes_part() {
  return rank < 2;
}
int peer() {
  return 1 - rank;
}

constexpr std::uint64_t slowly = 300'000;  // nanoseconds

/// A chain in which each message is what a kernel has just written, and is read by a kernel at once.
void check_pingpong(const Setting& at) {
  const Lane lane(at.gpu);
  if (!takes_part()) return;
  for (const int count : {2, 1000, 300'000}) {
    constexpr int rounds = 20;
    const auto n = static_cast<std::size_t>(count);
    const auto x = memory(at, ascending(n, 0)), y = memory(at, Ints(n, -1));
    const auto step = [&](const Memory& to, const Memory& from, int round) {
      at.kernel.step(lane.cuda_stream, to.data(), from.data(), count, 1, round % 4 == 0 ? slowly : 0);
    };
    const auto receive = [&] {
      CHECK_MPI(MPIX_Recv_enqueue(y->data(), count, MPI_INT, peer(), 5, lane.comm, MPI_STATUS_IGNORE));
    };
    for (int round = 0; round < rounds; ++round) {
      if (rank == 1) receive();
      step(*x, rank == 0 ? *x : *y, round);
      CHECK_MPI(MPIX_Send_enqueue(x->data(), count, MPI_INT, peer(), 5, lane.comm));
      if (rank == 0) {
        receive();
        step(*x, *y, round);
      }
    }
    lane.sync();
    expect(*x, n, rank == 0 ? 3 * rounds : 3 * rounds - 1);
  }
}

/// Enqueueing needs nobody, and what was enqueued goes on while the program is not in MPI.
void check_late(const Setting& at) {
  const Lane lane(at.gpu);
  if (!takes_part()) return;
  constexpr int count = 70'000;
  const auto out = memory(at, ascending(count, 100 * rank)), in = memory(at, Ints(count, -1)),
             seen = memory(at, Ints(count, -2));
  int token = 0;
  if (rank == 1) {
    MPI_Recv(&token, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
  MPI_Status status;
  std::memset(&status, 0, sizeof status);
  MPI_Request request;
  CHECK_MPI(MPIX_Isend_enqueue(out->data(), count, MPI_INT, peer(), 1, lane.comm, &request));
  CHECK_MPI(MPIX_Recv_enqueue(in->data(), count, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, lane.comm, &status));
  CHECK_MPI(MPIX_Wait_enqueue(&request, MPI_STATUS_IGNORE));
  at.kernel.step(lane.cuda_stream, seen->data(), in->data(), count, 7);
  if (rank == 0) {
    CHECK(!lane.is_idle());
    MPI_Send(&token, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
  }
  while (!lane.is_idle())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  expect(*seen, count, 100 * peer() + 7);
  int got = 0;
  MPI_Get_count(&status, MPI_INT, &got);
  CHECK_EQUAL(got, count);
  CHECK_EQUAL(status.MPI_SOURCE, peer());
  CHECK_EQUAL(status.MPI_TAG, 1);
}

/// Every kind of memory at either side, a datatype with gaps that is freed at once, and none at all.
void check_memory(const Setting& at) {
  const Lane lane(at.gpu);
  if (!takes_part()) return;
  for (const MemoryKind source : every_kind)
    for (const MemoryKind target : {MemoryKind::pageable, MemoryKind::pinned, MemoryKind::device})
      for (const int count : {0, 3, 5000, 200'000}) {
        const auto n = static_cast<std::size_t>(count);
        const auto out = memory(at, ascending(n, count), rank == 0 ? source : target);
        const auto in = memory(at, Ints(n, -1), rank == 0 ? source : target);
        if (rank == 0) CHECK_MPI(MPIX_Send_enqueue(out->data(), count, MPI_INT, 1, 9, lane.comm));
        CHECK_MPI(MPIX_Recv_enqueue(in->data(), count, MPI_INT, peer(), 9, lane.comm, MPI_STATUS_IGNORE));
        if (rank == 1) CHECK_MPI(MPIX_Send_enqueue(in->data(), count, MPI_INT, 0, 9, lane.comm));
        lane.sync();
        expect(*in, n, count);
      }
  const auto out = memory(at, ascending(2000, 0)), in = memory(at, Ints(2000, -1));
  MPI_Datatype gaps;
  MPI_Type_vector(100, 10, 20, MPI_INT, &gaps);
  MPI_Type_commit(&gaps);
  MPI_Request requests[2];
  CHECK_MPI(MPIX_Irecv_enqueue(in->data(), 1, gaps, peer(), 2, lane.comm, &requests[0]));
  CHECK_MPI(MPIX_Isend_enqueue(out->data(), 1, gaps, peer(), 2, lane.comm, &requests[1]));
  MPI_Type_free(&gaps);
  CHECK_MPI(MPIX_Waitall_enqueue(2, requests, MPI_STATUSES_IGNORE));
  lane.sync();
  const Ints got = in->read<int>(2000);
  for (int i = 0; i < 2000; ++i)
    CHECK_EQUAL(got[static_cast<std::size_t>(i)], i < 1990 && i % 20 < 10 ? i : -1);
}

/// Receives in another order than sends, and two of one tag in theirs.
void check_tags(const Setting& at) {
  const Lane lane(at.gpu);
  if (!takes_part()) return;
  for (const int count : {1, 30'000}) {
    const auto n = static_cast<std::size_t>(count);
    constexpr std::array tags{4, 7, 4, 9};
    constexpr std::array<std::size_t, 4> received{3, 0, 1, 2};  // so that the first 4 comes before the second
    std::vector<std::unique_ptr<Memory>> out, in, seen;
    for (std::size_t i = 0; i < tags.size(); ++i) {
      out.push_back(memory(at, Ints(n, 0)));
      in.push_back(memory(at, Ints(n, -1)));
      seen.push_back(memory(at, Ints(n, -2)));
    }
    const auto source = memory(at, ascending(n, 0));
    std::array<MPI_Request, 9> requests;
    std::array<MPI_Status, 9> statuses;
    requests.fill(MPI_REQUEST_NULL);
    for (std::size_t i = 0; i < tags.size(); ++i) {
      at.kernel.step(lane.cuda_stream, out[i]->data(), source->data(), count,
                     1000 * rank + 100 * static_cast<int>(i), slowly / 3);
      CHECK_MPI(MPIX_Isend_enqueue(out[i]->data(), count, MPI_INT, peer(), tags[i], lane.comm, &requests[i]));
    }
    for (std::size_t i = 0; i < tags.size(); ++i)
      CHECK_MPI(MPIX_Irecv_enqueue(in[received[i]]->data(), count, MPI_INT, peer(), tags[received[i]],
                                   lane.comm, &requests[4 + i]));
    CHECK_MPI(MPIX_Waitall_enqueue(9, requests.data(), statuses.data()));
    for (const MPI_Request request : requests)
      CHECK(request == MPI_REQUEST_NULL);
    for (std::size_t i = 0; i < tags.size(); ++i)
      at.kernel.step(lane.cuda_stream, seen[i]->data(), in[i]->data(), count, 5);
    lane.sync();
    for (std::size_t i = 0; i < tags.size(); ++i) {
      expect(*seen[i], n, 1000 * peer() + 100 * static_cast<int>(i) + 5);
      CHECK_EQUAL(statuses[4 + i].MPI_TAG, tags[received[i]]);
    }
  }
  // To and from nobody.
  MPI_Status status;
  CHECK_MPI(MPIX_Send_enqueue(nullptr, 0, MPI_INT, MPI_PROC_NULL, 0, lane.comm));
  CHECK_MPI(MPIX_Recv_enqueue(nullptr, 0, MPI_INT, MPI_PROC_NULL, 0, lane.comm, &status));
  lane.sync();
  CHECK_EQUAL(status.MPI_SOURCE, MPI_PROC_NULL);
}

/// All of them in a row, each of what a kernel has written before and read by one behind.
void check_collectives(const Setting& at) {
  const Lane lane(at.gpu);
  for (const MemoryKind kind : {MemoryKind::device, MemoryKind::pinned})
    for (const int count : {1, 1000, 70'000, 300'000}) {
      const auto n = static_cast<std::size_t>(count);
      const auto all = n * static_cast<std::size_t>(ranks);
      const auto source = memory(at, ascending(all, 0));
      std::vector<std::unique_ptr<Memory>> buffers;
      struct Wanted {
        const Memory* seen;
        Ints values;
      };
      std::vector<Wanted> wanted;
      int number = 0;
      const auto fresh = [&](MemoryKind of) {
        return buffers.emplace_back(memory(at, Ints(all, -1), of)).get();
      };
      /// `body(send, receive)`; each rank's data ascends from `1000 * its rank + number`.
      const auto check = [&](const std::function<void(void*, void*)>& body,
                             const std::function<Ints(int)>& result) {
        Memory* const send = fresh(kind);
        Memory* const receive = fresh(kind);
        Memory* const seen = fresh(MemoryKind::device);
        ++number;
        at.kernel.step(lane.cuda_stream, send->data(), source->data(), count * ranks, 1000 * rank + number,
                       rank == number % ranks ? slowly : 0);
        body(send->data(), receive->data());
        const Ints values = result(number);
        at.kernel.step(lane.cuda_stream, seen->data(), receive->data(), static_cast<int>(values.size()), 3);
        wanted.push_back({seen, values});
      };
      const int sum_of_ranks = ranks * (ranks - 1) / 2;
      const auto summed = [&](int i, int of) { return ranks * (i + of) + 1000 * sum_of_ranks; };
      const auto sums = [&](int first, int of) {
        Ints values(n);
        for (int i = 0; i < count; ++i)
          values[static_cast<std::size_t>(i)] = summed(first + i, of) + 0;
        return values;
      };
      const auto blocks = [&](const std::function<int(int)>& first) {
        Ints values;
        for (int r = 0; r < ranks; ++r)
          for (int i = 0; i < count; ++i)
            values.push_back(first(r) + i);
        return values;
      };
      check([&](void* s,
                void* r) { CHECK_MPI(MPIX_Allreduce_enqueue(s, r, count, MPI_INT, MPI_SUM, lane.comm)); },
            [&](int of) { return sums(0, of); });
      check(
          [&](void* s, void* r) {
            CHECK_MPI(MPIX_Bcast_enqueue(s, count, MPI_INT, ranks - 1, lane.comm));
            at.kernel.step(lane.cuda_stream, r, s, count, 0);
          },
          [&](int of) { return ascending(n, 1000 * (ranks - 1) + of); });
      check(
          [&](void* s, void* r) {
            CHECK_MPI(MPIX_Allgather_enqueue(s, count, MPI_INT, r, count, MPI_INT, lane.comm));
          },
          [&](int of) { return blocks([&](int r) { return 1000 * r + of; }); });
      check(
          [&](void* s, void* r) {
            CHECK_MPI(MPIX_Alltoall_enqueue(s, count, MPI_INT, r, count, MPI_INT, lane.comm));
          },
          [&](int of) { return blocks([&](int r) { return 1000 * r + of + rank * count; }); });
      check(
          [&](void* s, void* r) {
            CHECK_MPI(MPIX_Reduce_scatter_block_enqueue(s, r, count, MPI_INT, MPI_SUM, lane.comm));
          },
          [&](int of) { return sums(rank * count, of); });
      check(
          [&](void* s, void* r) {
            Ints counts(static_cast<std::size_t>(ranks), count);
            CHECK_MPI(MPIX_Reduce_scatter_enqueue(s, r, counts.data(), MPI_INT, MPI_SUM, lane.comm));
            counts.assign(counts.size(), -1);
          },
          [&](int of) { return sums(rank * count, of); });
      check(
          [&](void* s, void* r) {
            CHECK_MPI(MPIX_Barrier_enqueue(lane.comm));
            CHECK_MPI(MPIX_Allreduce_enqueue(MPI_IN_PLACE, s, count, MPI_INT, MPI_SUM, lane.comm));
            at.kernel.step(lane.cuda_stream, r, s, count, 0);
          },
          [&](int of) { return sums(0, of); });
      lane.sync();
      for (Wanted& each : wanted) {
        for (int& value : each.values)
          value += 3;
        CHECK(each.seen->read<int>(each.values.size()) == each.values);
      }
    }
}

/// What kernels that meet have to do besides: in place, with gaps, from memory that they do not reach at one
/// member alone, of several types, of no length, in packets and in pieces.
void check_meetings(const Setting& at) {
  const Lane lane(at.gpu);
  for (const int count : {0, 1, 3, 5000, 600'001, 1'300'000}) {
    const auto n = static_cast<std::size_t>(count);
    const auto all = n * static_cast<std::size_t>(ranks);
    // Each rank in turn has its data where no kernel reaches it.
    for (int turn = 0; turn < 2; ++turn) {
      const MemoryKind kind = rank == turn ? MemoryKind::pageable : MemoryKind::device;
      const auto whole = memory(at, ascending(all, 10'000 * rank), kind);
      const auto blocks = memory(at, ascending(all, 10'000 * rank), kind);
      const auto gathered = memory(at, Ints(all, -1), kind);
      CHECK_MPI(MPIX_Alltoall_enqueue(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, blocks->data(), count, MPI_INT,
                                      lane.comm));
      CHECK_MPI(
          MPIX_Allgather_enqueue(whole->data(), count, MPI_INT, gathered->data(), count, MPI_INT, lane.comm));
      CHECK_MPI(
          MPIX_Reduce_scatter_block_enqueue(MPI_IN_PLACE, whole->data(), count, MPI_INT, MPI_SUM, lane.comm));
      // The sum of a part, which the first of them has received, to all.
      CHECK_MPI(MPIX_Bcast_enqueue(whole->data(), count, MPI_INT, 0, lane.comm));
      lane.sync();
      Ints exchanged, all_first;
      for (int r = 0; r < ranks; ++r)
        for (int i = 0; i < count; ++i) {
          exchanged.push_back(10'000 * r + rank * count + i);
          all_first.push_back(10'000 * r + i);
        }
      CHECK(blocks->read<int>(all) == exchanged);
      CHECK(gathered->read<int>(all) == all_first);
      Ints sums(n);
      for (int i = 0; i < count; ++i)
        sums[static_cast<std::size_t>(i)] = ranks * i + 10'000 * ranks * (ranks - 1) / 2;
      CHECK(whole->read<int>(n) == sums);
    }
  }
  // Gaps at one member, none at the others; counts of their own; sums that round, the same on all.
  constexpr int rows = 50;
  MPI_Datatype gaps;
  MPI_Type_vector(rows, 1, 2, MPI_INT, &gaps);
  MPI_Type_commit(&gaps);
  const auto data = memory(at, rank == 0 ? ascending(2 * rows, 0) : Ints(2 * rows, -1));
  CHECK_MPI(MPIX_Bcast_enqueue(data->data(), rank == 0 ? 1 : rows, rank == 0 ? gaps : MPI_INT, 0, lane.comm));
  MPI_Type_free(&gaps);
  std::vector<int> counts;
  int before = 0, total = 0;
  for (int r = 0; r < ranks; ++r) {
    counts.push_back(r == 1 ? 0 : 1000 * r + 7);
    if (r == rank) before = total;
    total += counts.back();
  }
  std::vector<double> values(static_cast<std::size_t>(total));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = 1.0 / (3.0 + rank + 2.0 * static_cast<double>(i));
  Memory parts(at.gpu, MemoryKind::device, values.size() * sizeof(double));
  parts.write(values);
  Memory sums(at.gpu, MemoryKind::device, values.size() * sizeof(double));
  CHECK_MPI(
      MPIX_Reduce_scatter_enqueue(parts.data(), sums.data(), counts.data(), MPI_DOUBLE, MPI_SUM, lane.comm));
  CHECK_MPI(MPIX_Allreduce_enqueue(MPI_IN_PLACE, parts.data(), total, MPI_DOUBLE, MPI_SUM, lane.comm));
  lane.sync();
  Ints rows_of_root(rows);
  for (int i = 0; i < rows; ++i)
    rows_of_root[static_cast<std::size_t>(i)] = 2 * i;
  if (rank != 0) CHECK(data->read<int>(rows) == rows_of_root);
  const auto own = static_cast<std::size_t>(counts[static_cast<std::size_t>(rank)]);
  const auto reduced = parts.read<double>(values.size()),
             mine = sums.read<double>(std::max<std::size_t>(own, 1));
  for (std::size_t i = 0; i < values.size(); ++i) {
    double expected = 1.0 / (3.0 + 2.0 * static_cast<double>(i));
    for (int r = 1; r < ranks; ++r)
      expected += 1.0 / (3.0 + r + 2.0 * static_cast<double>(i));
    CHECK(reduced[i] == expected);
    const auto at_own = i - static_cast<std::size_t>(before);
    if (at_own < own) CHECK(mine[at_own] == expected);
  }
}

/// Parts of lengths of their own, in place: a result lies where blocks of the same kernel have to read still.
void check_in_place(const Setting& at) {
  const Lane lane(at.gpu);
  for (const int scale : {1000, 300'000}) {
    std::vector<int> counts;
    int before = 0, total = 0;
    for (int r = 0; r < ranks; ++r) {
      counts.push_back(scale * (r + 1) + 7 * r);
      if (r == rank) before = total;
      total += counts.back();
    }
    const auto data = memory(at, ascending(static_cast<std::size_t>(total), 10 * rank));
    CHECK_MPI(
        MPIX_Reduce_scatter_enqueue(MPI_IN_PLACE, data->data(), counts.data(), MPI_INT, MPI_SUM, lane.comm));
    lane.sync();
    const auto own = static_cast<std::size_t>(counts[static_cast<std::size_t>(rank)]);
    Ints sums(own);
    for (std::size_t i = 0; i < own; ++i)
      sums[i] = ranks * (before + static_cast<int>(i)) + 10 * ranks * (ranks - 1) / 2;
    CHECK(data->read<int>(own) == sums);
  }
}

/// More in memory that no kernel reaches than there is memory to stage it in (the suite sees to that): calls
/// wait until the stream has passed earlier ones.
void check_staging(const Setting& at) {
  const Lane lane(at.gpu);
  constexpr int count = 400'000, calls = 20;
  const auto data = memory(at, ascending(count, 10 * rank), MemoryKind::pageable),
             sum = memory(at, Ints(count, -1), MemoryKind::pageable);
  if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(200));
  for (int i = 0; i < calls; ++i)
    CHECK_MPI(MPIX_Allreduce_enqueue(data->data(), sum->data(), count, MPI_INT, MPI_SUM, lane.comm));
  lane.sync();
  Ints sums(count);
  for (int i = 0; i < count; ++i)
    sums[static_cast<std::size_t>(i)] = ranks * i + 10 * ranks * (ranks - 1) / 2;
  CHECK(sum->read<int>(count) == sums);
}

/// What a stream has captured, to be launched.
class Graph {
 public:
  Graph(const Setting& at, const Lane& lane, const std::function<void()>& body)
      : cuda_(at.cuda()), lane_(lane) {
    CHECK_CUDA(cuda_.stream_begin_capture(lane.cuda_stream, cuda::CaptureMode::global));
    body();
    cuda::Graph graph = nullptr;
    CHECK_CUDA(cuda_.stream_end_capture(lane.cuda_stream, &graph));
    CHECK_CUDA(cuda_.graph_instantiate(&executable_, graph, 0));
    CHECK_CUDA(cuda_.graph_destroy(graph));
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph() { CHECK_CUDA(cuda_.graph_exec_destroy(executable_)); }
  void launch() const { CHECK_CUDA(cuda_.graph_launch(executable_, lane_.cuda_stream)); }

 private:
  const cuda::Functions& cuda_;
  const Lane& lane_;
  cuda::GraphExec executable_ = nullptr;
};

/// An exchange and a collective that were captured once, launched again and again with no other call; another
/// graph and operations that are not captured in between.
void check_graph(const Setting& at) {
  const Lane lane(at.gpu);
  const int launches = emulated_driver() ? most_emulated_launches : most_launches;
  constexpr int count = 1000;
  const auto left = memory(at, ascending(count, 0)), right = memory(at, ascending(count, 0)),
             x = memory(at, ascending(count, 10 * rank)), total = memory(at, ascending(count, 0));
  const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
  // What comes from both sides goes back to where it came from, one larger.
  const auto exchange = [&](int tag) {
    MPI_Request requests[4];
    CHECK_MPI(MPIX_Irecv_enqueue(left->data(), count, MPI_INT, before, tag, lane.comm, &requests[0]));
    CHECK_MPI(MPIX_Irecv_enqueue(right->data(), count, MPI_INT, next, tag + 1, lane.comm, &requests[1]));
    CHECK_MPI(MPIX_Isend_enqueue(x->data(), count, MPI_INT, next, tag, lane.comm, &requests[2]));
    CHECK_MPI(MPIX_Isend_enqueue(x->data(), count, MPI_INT, before, tag + 1, lane.comm, &requests[3]));
    CHECK_MPI(MPIX_Waitall_enqueue(4, requests, MPI_STATUSES_IGNORE));
    at.kernel.step(lane.cuda_stream, x->data(), left->data(), count, 1);
  };
  const Graph first(at, lane, [&] {
    exchange(1);
    at.kernel.step(lane.cuda_stream, total->data(), total->data(), count, 1);
    CHECK_MPI(MPIX_Allreduce_enqueue(MPI_IN_PLACE, total->data(), count, MPI_INT, MPI_MAX, lane.comm));
  });
  const Graph second(at, lane, [&] { exchange(1); });
  // Nothing has been done yet.
  lane.sync();
  expect(*x, count, 10 * rank);
  int done = 0;
  for (int i = 0; i < launches; ++i, ++done) {
    first.launch();
    // The first collective of a communicator makes streams, events and memory (docs/streams.md).
    if (i == 0) lane.sync();
    if (i % 16 != 15) continue;
    second.launch();
    exchange(3);
    done += 2;
  }
  lane.sync();
  const int from = ((rank - done) % ranks + ranks) % ranks;
  expect(*x, count, 10 * from + done);
  expect(*left, count, 10 * from + done - 1);
  expect(*total, count, launches);
}

/// So much is launched ahead of the peer that the driver makes the next launch wait, and with it all that
/// makes streams, events or memory: nothing that serves the messages may need such.
void check_full(const Setting& at) {
  const Lane lane(at.gpu);
  constexpr int launches = 200;
  if (!takes_part()) return;
  for (const MemoryKind kind : {MemoryKind::device, MemoryKind::pageable})
    for (const int count : {10, 1000, 100'000}) {
      const auto in = memory(at, Ints(static_cast<std::size_t>(count), -1), kind),
                 out = memory(at, ascending(count, 7 * rank), kind);
      const Graph graph(at, lane, [&] {
        MPI_Request requests[2];
        CHECK_MPI(MPIX_Irecv_enqueue(in->data(), count, MPI_INT, peer(), 0, lane.comm, &requests[0]));
        CHECK_MPI(MPIX_Isend_enqueue(out->data(), count, MPI_INT, peer(), 0, lane.comm, &requests[1]));
        CHECK_MPI(MPIX_Waitall_enqueue(2, requests, MPI_STATUSES_IGNORE));
      });
      if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(300));
      for (int i = 0; i < launches; ++i)
        graph.launch();
      lane.sync();
      expect(*in, count, 7 * peer());
    }
}

/// One stream's wait is not another's, whatever it waits for.
void check_two(const Setting& at) {
  const Lane held(at.gpu), free(at.gpu);
  constexpr int count = 20'000;
  const auto a = memory(at, ascending(count, 0)), b = memory(at, ascending(count, rank)),
             c = memory(at, Ints(count, -1));
  for (const bool collective : {false, true}) {
    const auto of_held = [&] {
      if (collective)
        CHECK_MPI(MPIX_Allreduce_enqueue(MPI_IN_PLACE, a->data(), count, MPI_INT, MPI_MAX, held.comm));
      else if (rank == 0)
        CHECK_MPI(MPIX_Recv_enqueue(a->data(), count, MPI_INT, 1, 0, held.comm, MPI_STATUS_IGNORE));
      else if (rank == 1)
        CHECK_MPI(MPIX_Send_enqueue(a->data(), count, MPI_INT, 0, 0, held.comm));
    };
    if (rank == 0) of_held();
    for (int i = 0; i < 5; ++i) {
      if (takes_part()) {
        MPI_Request requests[2];
        CHECK_MPI(MPIX_Isend_enqueue(b->data(), count, MPI_INT, peer(), 0, free.comm, &requests[0]));
        CHECK_MPI(MPIX_Irecv_enqueue(c->data(), count, MPI_INT, peer(), 0, free.comm, &requests[1]));
        CHECK_MPI(MPIX_Wait_enqueue(&requests[1], MPI_STATUS_IGNORE));
        CHECK_MPI(MPIX_Wait_enqueue(&requests[0], MPI_STATUS_IGNORE));
        at.kernel.step(free.cuda_stream, b->data(), c->data(), count, 1);
      }
      CHECK_MPI(MPIX_Barrier_enqueue(free.comm));
    }
    free.sync();
    if (rank == 0) CHECK(!held.is_idle());
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank != 0) of_held();
    held.sync();
    if (takes_part()) expect(*b, count, collective ? rank + 10 : peer() + 5);
  }
  expect(*a, count, 0);
}

/// A peer frees what has been open here while the stream waits: to close it then would wait for the stream.
void check_freed(const Setting& at) {
  const Lane lane(at.gpu);
  if (!takes_part()) return;
  constexpr int count = 300'000;
  auto in = memory(at, Ints(count, -1));
  for (int round = 0; round < 6; ++round) {
    auto out = memory(at, ascending(count, round));
    int token = 0;
    if (rank == 0) {
      MPI_Recv(&token, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      CHECK_MPI(MPIX_Send_enqueue(out->data(), count, MPI_INT, 1, 3, lane.comm));
    } else {
      CHECK_MPI(MPIX_Recv_enqueue(in->data(), count, MPI_INT, 0, 3, lane.comm, MPI_STATUS_IGNORE));
      MPI_Send(&token, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    }
    lane.sync();
    if (rank == 1) expect(*in, count, round);
    // The same again of the other side's memory.
    if (rank == 1) in = memory(at, Ints(count, -1));
  }
}

/// Messages that kernels match: contents, tags in another order, statuses, requests that are waited for in
/// another order than that of their receives, as many ahead as there is room for, a graph, and oneself.
void check_short(const Setting& at) {
  const Lane lane(at.gpu, true);
  const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
  for (const int count : {0, 1, 2, 3, 1000, 4096}) {
    const auto n = static_cast<std::size_t>(count);
    const auto source = memory(at, ascending(n, 0)), x = memory(at, Ints(n, -1));
    const auto out = memory(at, Ints(n, -1), MemoryKind::pinned),
               y = memory(at, Ints(n, -1), MemoryKind::pinned);
    MPI_Status status;
    std::memset(&status, 0, sizeof status);
    for (int round = 0; round < 40; ++round) {
      if (count > 0)
        at.kernel.step(lane.cuda_stream, out->data(), source->data(), count, 100 * rank + round,
                       round % 8 == rank ? slowly / 3 : 0);
      CHECK_MPI(MPIX_Send_enqueue(out->data(), count, MPI_INT, next, round, lane.comm));
      CHECK_MPI(MPIX_Recv_enqueue(y->data(), count, MPI_INT, before, round, lane.comm,
                                  round == 39 ? &status : MPI_STATUS_IGNORE));
      if (count > 0) at.kernel.step(lane.cuda_stream, x->data(), y->data(), count, 1);
    }
    lane.sync();
    if (count > 0) expect(*x, n, 100 * before + 40);
    int got = 0;
    MPI_Get_count(&status, MPI_INT, &got);
    CHECK_EQUAL(got, count);
    CHECK_EQUAL(status.MPI_SOURCE, before);
    CHECK_EQUAL(status.MPI_TAG, 39);
  }
  // Sent by tags 0 to 7, twice each; received from the last tag on, and waited for in a third order.
  constexpr int tags = 8;
  constexpr std::size_t receives = 2 * tags;
  const auto values = memory(at, ascending(receives, 1000 * rank)), came = memory(at, Ints(receives, -1));
  const auto place = [](const Memory& of, std::size_t i) { return static_cast<int*>(of.data()) + i; };
  std::array<MPI_Request, receives> requests;
  std::array<MPI_Status, receives> statuses;
  for (std::size_t i = 0; i < receives; ++i) {
    const int tag = tags - 1 - static_cast<int>(i / 2);
    CHECK_MPI(MPIX_Irecv_enqueue(place(*came, i), 1, MPI_INT, before, tag, lane.comm, &requests[i]));
  }
  for (std::size_t i = 0; i < receives; ++i) {
    MPI_Request request;
    CHECK_MPI(MPIX_Isend_enqueue(place(*values, i), 1, MPI_INT, next, static_cast<int>(i % tags), lane.comm,
                                 &request));
    CHECK_MPI(MPIX_Wait_enqueue(&request, MPI_STATUS_IGNORE));
    CHECK(request == MPI_REQUEST_NULL);
  }
  std::ranges::reverse(requests);
  CHECK_MPI(MPIX_Waitall_enqueue(static_cast<int>(receives), requests.data(), statuses.data()));
  lane.sync();
  const Ints seen = came->read<int>(receives);
  for (std::size_t i = 0; i < receives; ++i) {
    const int tag = tags - 1 - static_cast<int>(i / 2);
    CHECK_EQUAL(seen[i], 1000 * before + tag + static_cast<int>(i % 2) * tags);
    CHECK_EQUAL(statuses[receives - 1 - i].MPI_TAG, tag);
    CHECK_EQUAL(statuses[receives - 1 - i].MPI_ERROR, MPI_SUCCESS);
  }
  // To oneself, and to nobody.
  CHECK_MPI(MPIX_Send_enqueue(place(*values, 3), 1, MPI_INT, rank, 5, lane.comm));
  CHECK_MPI(MPIX_Recv_enqueue(place(*came, 3), 1, MPI_INT, rank, 5, lane.comm, MPI_STATUS_IGNORE));
  CHECK_MPI(MPIX_Send_enqueue(nullptr, 0, MPI_INT, MPI_PROC_NULL, 0, lane.comm));
  lane.sync();
  CHECK_EQUAL(came->read<int>(receives)[3], 1000 * rank + 3);
  // An exchange in a graph, and others in between.
  const auto z = memory(at, ascending(10, 10 * rank)), in = memory(at, Ints(10, -1));
  const auto exchange = [&] {
    MPI_Request both[2];
    CHECK_MPI(MPIX_Irecv_enqueue(in->data(), 10, MPI_INT, before, 1, lane.comm, &both[0]));
    CHECK_MPI(MPIX_Isend_enqueue(z->data(), 10, MPI_INT, next, 1, lane.comm, &both[1]));
    CHECK_MPI(MPIX_Waitall_enqueue(2, both, MPI_STATUSES_IGNORE));
    at.kernel.step(lane.cuda_stream, z->data(), in->data(), 10, 1);
  };
  const Graph graph(at, lane, exchange);
  const int launches = emulated_driver() ? most_emulated_launches : most_launches;
  int done = 0;
  for (int i = 0; i < launches; ++i, ++done) {
    graph.launch();
    if (i % 16 != 15) continue;
    exchange();
    ++done;
  }
  lane.sync();
  const int from = ((rank - done) % ranks + ranks) % ranks;
  expect(*z, 10, 10 * from + done);
}

void let_errors_return() {
  for (const MPI_Comm comm : {MPI_COMM_WORLD, MPI_COMM_SELF})
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
}

void check_refused_streams(const Lane& lane) {
  MPIX_Stream none = MPIX_STREAM_NULL;
  const auto refuses = [&](MPI_Info info, int error_class, const char* text) {
    CHECK_ERROR(MPIX_Stream_create(info, &none), error_class, text);
    CHECK(none == MPIX_STREAM_NULL);
  };
  refuses(MPI_INFO_NULL, MPI_ERR_INFO_NOKEY, "no key `type`");
  MPI_Info info = info_of(nullptr);
  refuses(info, MPI_ERR_INFO_VALUE, "default stream");
  MPI_Info_set(info, "value", "zz00000000000000");
  refuses(info, MPI_ERR_INFO_VALUE, "not hexadecimal");
  MPI_Info_set(info, "value", "00");
  refuses(info, MPI_ERR_INFO_VALUE, "2 characters");
  MPI_Info_delete(info, "value");
  refuses(info, MPI_ERR_INFO_NOKEY, "no key `value`");
  MPI_Info_set(info, "type", "hipStream_t");
  refuses(info, MPI_ERR_INFO_VALUE, "type cudaStream_t");
  MPI_Info_free(&info);
  CHECK_ERROR(MPIX_Stream_free(&none), MPI_ERR_ARG, "MPIX_STREAM_NULL");
  CHECK_ERROR(MPIX_Comm_get_stream(lane.comm, 1, &none), MPI_ERR_ARG, "index");
  CHECK_MPI(MPIX_Comm_get_stream(lane.comm, 0, &none));
  CHECK(none == lane.stream);
  CHECK_ERROR(MPIX_Stream_free(&none), MPI_ERR_ARG, "1 communicators have it");
  CHECK_MPI(MPIX_Comm_get_stream(MPI_COMM_WORLD, 0, &none));
  CHECK(none == MPIX_STREAM_NULL);
  CHECK_ERROR(MPIX_Barrier_enqueue(MPI_COMM_WORLD), MPI_ERR_COMM, "no stream");
  CHECK_ERROR(MPIX_Send_enqueue(nullptr, 0, MPI_INT, 0, 0, MPI_COMM_WORLD), MPI_ERR_COMM, "no stream");
}

/// What is refused, and how what has failed is told.
void check_errors(const Setting& at) {
  const Lane lane(at.gpu);
  let_errors_return();
  MPI_Comm_set_errhandler(lane.comm, MPI_ERRORS_RETURN);
  check_refused_streams(lane);
  MPI_Comm without;
  CHECK_MPI(MPIX_Stream_comm_create(MPI_COMM_WORLD, MPIX_STREAM_NULL, &without));
  CHECK_ERROR(MPIX_Barrier_enqueue(without), MPI_ERR_COMM, "no stream");
  MPI_Comm_free(&without);
  if (!takes_part()) return;
  constexpr int count = 40'000;
  const auto out = memory(at, ascending(count, 0)), in = memory(at, Ints(count, -1)),
             seen = memory(at, Ints(count, -1));
  CHECK_ERROR(MPIX_Send_enqueue(out->data(), -1, MPI_INT, peer(), 0, lane.comm), MPI_ERR_COUNT, "count");
  CHECK_ERROR(MPIX_Send_enqueue(out->data(), 1, MPI_INT, ranks, 0, lane.comm), MPI_ERR_RANK, "dest");
  CHECK_ERROR(MPIX_Isend_enqueue(out->data(), 1, MPI_INT, peer(), 0, lane.comm, nullptr), MPI_ERR_ARG,
              "request");
  CHECK_ERROR(MPIX_Bcast_enqueue(out->data(), 1, MPI_INT, ranks, lane.comm), MPI_ERR_ROOT, "root");

  // A request of MPI and one of a stream are not each other's.
  MPI_Request plain, enqueued, both[2];
  MPI_Status status;
  MPI_Irecv(&status, 0, MPI_INT, peer(), 1, MPI_COMM_WORLD, &plain);
  CHECK_MPI(MPIX_Isend_enqueue(out->data(), 1, MPI_INT, peer(), 1, lane.comm, &enqueued));
  CHECK_ERROR(MPIX_Wait_enqueue(&plain, MPI_STATUS_IGNORE), MPI_ERR_REQUEST, "is a request");
  CHECK_ERROR(MPI_Wait(&enqueued, MPI_STATUS_IGNORE), MPI_ERR_REQUEST, "is an enqueued operation");
  both[0] = enqueued;
  both[1] = plain;
  CHECK_ERROR(MPIX_Waitall_enqueue(2, both, MPI_STATUSES_IGNORE), MPI_ERR_REQUEST, "is a request");
  MPI_Send(nullptr, 0, MPI_INT, peer(), 1, MPI_COMM_WORLD);
  MPI_Wait(&plain, MPI_STATUS_IGNORE);

  // One that was enqueued before a capture cannot be waited for within, and leaves that whole.
  CHECK_CUDA(at.cuda().stream_begin_capture(lane.cuda_stream, cuda::CaptureMode::global));
  CHECK_ERROR(MPIX_Wait_enqueue(&enqueued, MPI_STATUS_IGNORE), MPI_ERR_REQUEST, "before the capture");
  cuda::Graph graph = nullptr;
  CHECK_CUDA(at.cuda().stream_end_capture(lane.cuda_stream, &graph));
  CHECK_CUDA(at.cuda().graph_destroy(graph));
  CHECK_ERROR(MPIX_Stream_free(&const_cast<MPIX_Stream&>(lane.stream)), MPI_ERR_ARG, "in use");
  CHECK_MPI(MPIX_Recv_enqueue(in->data(), 1, MPI_INT, peer(), 1, lane.comm, MPI_STATUS_IGNORE));
  CHECK_MPI(MPIX_Wait_enqueue(&enqueued, MPI_STATUS_IGNORE));

  // Each receive that is too short lets the stream go on; the first is told of, once, and what comes then is
  // right.
  for (const int length : {4, count}) {
    CHECK_MPI(MPIX_Isend_enqueue(out->data(), length, MPI_INT, peer(), 2, lane.comm, &both[0]));
    CHECK_MPI(MPIX_Isend_enqueue(out->data(), length, MPI_INT, peer(), 2, lane.comm, &both[1]));
    CHECK_MPI(MPIX_Recv_enqueue(in->data(), length / 2, MPI_INT, peer(), 2, lane.comm, &status));
    lane.sync();
    const auto receive = [&] {
      return MPIX_Recv_enqueue(in->data(), length, MPI_INT, peer(), 2, lane.comm, MPI_STATUS_IGNORE);
    };
    if (length == 4)
      CHECK_ERROR(MPIX_Stream_progress(lane.stream), MPI_ERR_TRUNCATE, "MPIX_Recv_enqueue, operation");
    else
      CHECK_ERROR(receive(), MPI_ERR_TRUNCATE, "MPIX_Recv_enqueue, operation");
    CHECK_MPI(receive());
    at.kernel.step(lane.cuda_stream, seen->data(), in->data(), length, 1);
    CHECK_MPI(MPIX_Waitall_enqueue(2, both, MPI_STATUSES_IGNORE));
    CHECK_MPI(MPIX_Stream_progress(lane.stream));
    lane.sync();
    expect(*seen, static_cast<std::size_t>(length), 1);
  }
}

/// What the assertion of short messages forbids, and a message that is longer than its receive.
void check_short_errors(const Setting& at) {
  const Lane lane(at.gpu, true);
  let_errors_return();
  MPI_Comm_set_errhandler(lane.comm, MPI_ERRORS_RETURN);
  constexpr int count = 5000;
  const auto x = memory(at, ascending(count, 0)), y = memory(at, Ints(count, -1));
  Ints pageable(10, 0);
  const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
  const auto send = [&](const void* from, int n) {
    return MPIX_Send_enqueue(from, n, MPI_INT, next, 1, lane.comm);
  };
  CHECK_ERROR(send(x->data(), count), MPI_ERR_COUNT, "none has more than 16384");
  CHECK_ERROR(send(pageable.data(), 10), MPI_ERR_BUFFER, "no kernel on the stream's GPU reaches it");
  CHECK_ERROR(MPIX_Recv_enqueue(y->data(), 1, MPI_INT, MPI_ANY_SOURCE, 1, lane.comm, MPI_STATUS_IGNORE),
              MPI_ERR_RANK, "MPI_ANY_SOURCE");
  CHECK_ERROR(MPIX_Recv_enqueue(y->data(), 1, MPI_INT, before, MPI_ANY_TAG, lane.comm, MPI_STATUS_IGNORE),
              MPI_ERR_TAG, "MPI_ANY_TAG");
  MPI_Datatype gaps;
  MPI_Type_vector(3, 1, 2, MPI_INT, &gaps);
  MPI_Type_commit(&gaps);
  CHECK_ERROR(MPIX_Recv_enqueue(y->data(), 1, gaps, before, 1, lane.comm, MPI_STATUS_IGNORE), MPI_ERR_BUFFER,
              "has gaps");
  MPI_Type_free(&gaps);
  // The wait belongs into the capture of its receive.
  MPI_Request request;
  CHECK_MPI(MPIX_Irecv_enqueue(y->data(), 5, MPI_INT, before, 1, lane.comm, &request));
  CHECK_CUDA(at.cuda().stream_begin_capture(lane.cuda_stream, cuda::CaptureMode::global));
  CHECK_ERROR(MPIX_Wait_enqueue(&request, MPI_STATUS_IGNORE), MPI_ERR_REQUEST, "before the capture");
  cuda::Graph graph = nullptr;
  CHECK_CUDA(at.cuda().stream_end_capture(lane.cuda_stream, &graph));
  CHECK_CUDA(at.cuda().graph_destroy(graph));
  // Too long: as much comes as there is room for; told once, and what follows is right.
  CHECK_MPI(send(x->data(), 8));
  CHECK_MPI(send(x->data(), 3));
  MPI_Status status;
  CHECK_MPI(MPIX_Wait_enqueue(&request, &status));
  lane.sync();
  CHECK(y->read<int>(6) == (Ints{0, 1, 2, 3, 4, -1}));
  CHECK_ERROR(MPIX_Recv_enqueue(y->data(), 3, MPI_INT, before, 1, lane.comm, &status), MPI_ERR_TRUNCATE,
              "the message from rank");
  CHECK_MPI(MPIX_Recv_enqueue(y->data(), 3, MPI_INT, before, 1, lane.comm, &status));
  lane.sync();
  int got = 0;
  MPI_Get_count(&status, MPI_INT, &got);
  CHECK_EQUAL(got, 3);
}

/// A stream is not freed while something on it is not over, although its communicator is.
void check_pending(const Setting& at) {
  let_errors_return();
  cuda::Stream of_cuda = nullptr;
  CHECK_CUDA(at.cuda().stream_create(&of_cuda, cuda::stream_non_blocking));
  MPI_Info info = info_of(of_cuda);
  MPIX_Stream stream = MPIX_STREAM_NULL;
  CHECK_MPI(MPIX_Stream_create(info, &stream));
  MPI_Info_free(&info);
  MPI_Comm comm;
  CHECK_MPI(MPIX_Stream_comm_create(MPI_COMM_WORLD, stream, &comm));
  const auto in = memory(at, Ints(10, -1)), out = memory(at, ascending(10, rank));
  if (rank == 0) {
    CHECK_MPI(MPIX_Recv_enqueue(in->data(), 10, MPI_INT, 1, 0, comm, MPI_STATUS_IGNORE));
    MPI_Comm_free(&comm);
    CHECK_ERROR(MPIX_Stream_free(&stream), MPI_ERR_PENDING, "1 operations on it are not over");
    CHECK(stream != MPIX_STREAM_NULL);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 1) CHECK_MPI(MPIX_Send_enqueue(out->data(), 10, MPI_INT, 0, 0, comm));
  if (rank != 0) MPI_Comm_free(&comm);
  CHECK_CUDA(at.cuda().stream_synchronize(of_cuda));
  CHECK_MPI(MPIX_Stream_free(&stream));
  CHECK_CUDA(at.cuda().stream_destroy(of_cuda));
  if (rank == 0) expect(*in, 10, 1);
}

/// A stream that waits for a process that dies goes on, and the error is told.
void check_lost(const Setting& at) {
  Lane lane(at.gpu);
  MPI_Comm_set_errhandler(lane.comm, MPI_ERRORS_RETURN);
  const auto in = memory(at, Ints(10, 0)), out = memory(at, Ints(10, 0));
  int token = 0;
  if (rank == 1) {
    MPI_Recv(&token, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    ::raise(SIGKILL);
  }
  CHECK_MPI(MPIX_Recv_enqueue(in->data(), 10, MPI_INT, 1, 0, lane.comm, MPI_STATUS_IGNORE));
  at.kernel.step(lane.cuda_stream, out->data(), in->data(), 10, 1);
  MPI_Send(&token, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
  lane.sync();
  CHECK(out->read<int>(10) == Ints(10, 1));
  CHECK_ERROR(MPIX_Barrier_enqueue(lane.comm), MPIX_ERR_PROC_FAILED,
              "MPIX_Recv_enqueue, operation 1 of its stream");
  std::printf("lost: right\n");
}

/// A kernel that meets others goes on when one of them dies, also one of a graph.
void check_lost_meeting(const Setting& at) {
  Lane lane(at.gpu);
  MPI_Comm_set_errhandler(lane.comm, MPI_ERRORS_RETURN);
  const auto x = memory(at, Ints(10, 0)), out = memory(at, Ints(10, 0));
  int token = 0;
  if (rank == 1) {
    MPI_Recv(&token, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    ::raise(SIGKILL);
  }
  const Graph graph(at, lane, [&] {
    CHECK_MPI(MPIX_Allreduce_enqueue(MPI_IN_PLACE, x->data(), 10, MPI_INT, MPI_SUM, lane.comm));
  });
  CHECK_MPI(MPIX_Allreduce_enqueue(MPI_IN_PLACE, x->data(), 10, MPI_INT, MPI_SUM, lane.comm));
  graph.launch();
  at.kernel.step(lane.cuda_stream, out->data(), x->data(), 10, 1);
  MPI_Send(&token, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
  const auto began = std::chrono::steady_clock::now();
  lane.sync();
  CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds(5));
  CHECK_ERROR(MPIX_Barrier_enqueue(lane.comm), MPIX_ERR_PROC_FAILED, "no more");
  std::printf("lost: right\n");
}

/// The same when one of them revokes the communicator.
void check_revoked(const Setting& at) {
  Lane lane(at.gpu);
  let_errors_return();
  MPI_Comm_set_errhandler(lane.comm, MPI_ERRORS_RETURN);
  const auto x = memory(at, Ints(10, 0));
  if (rank == 0) {
    CHECK_MPI(MPIX_Allreduce_enqueue(MPI_IN_PLACE, x->data(), 10, MPI_INT, MPI_SUM, lane.comm));
    CHECK(!lane.is_idle());
    MPI_Barrier(MPI_COMM_WORLD);
    lane.sync();
    CHECK_ERROR(MPIX_Barrier_enqueue(lane.comm), MPIX_ERR_REVOKED, "revoked");
  } else {
    MPI_Barrier(MPI_COMM_WORLD);
    // Rank 0 waits for its stream by then, outside MPI.
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    CHECK_MPI(MPIX_Comm_revoke(lane.comm));
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) std::printf("revoked: right\n");
}

/// The stream and communicator are left to MPI_Finalize, and so is an operation.
void leave(const Setting& at) {
  // Never destroyed: the GPU is let go of before.
  static const Lane* const lane = new Lane(at.gpu);
  static const Memory* const buffer = memory(at, Ints(10, rank), MemoryKind::pageable).release();
  if (!takes_part()) return;
  MPI_Request request;
  if (rank == 0)
    CHECK_MPI(MPIX_Isend_enqueue(buffer->data(), 10, MPI_INT, 1, 0, lane->comm, &request));
  else
    CHECK_MPI(MPIX_Irecv_enqueue(buffer->data(), 10, MPI_INT, 0, 0, lane->comm, &request));
}

struct Case {
  const char* name;
  void (*run)(const Setting&);
};
constexpr Case cases[]{{"pingpong", check_pingpong},
                       {"late", check_late},
                       {"memory", check_memory},
                       {"tags", check_tags},
                       {"collectives", check_collectives},
                       {"meetings", check_meetings},
                       {"in_place", check_in_place},
                       {"staging", check_staging},
                       {"graph", check_graph},
                       {"full", check_full},
                       {"two", check_two},
                       {"freed", check_freed},
                       {"short", check_short},
                       {"errors", check_errors},
                       {"short_errors", check_short_errors},
                       {"pending", check_pending},
                       {"leave", leave}};

void run_cases(const Setting& at, std::span<char*> names) {
  for (const Case& each : cases) {
    const bool is_asked = std::ranges::any_of(names, [&](const std::string_view name) {
      return name == each.name || (name == "all" && each.run != leave);
    });
    if (!is_asked) continue;
    const auto began = std::chrono::steady_clock::now();
    each.run(at);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) std::printf("%s: right, %.2f s\n", each.name, took.count());
    std::fflush(stdout);
  }
}

void refuse(const Gpu& gpu) {
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  cuda::Stream stream = nullptr;
  CHECK_CUDA(gpu.functions().stream_create(&stream, cuda::stream_non_blocking));
  MPI_Info info = info_of(stream);
  MPIX_Stream made = MPIX_STREAM_NULL;
  CHECK_ERROR(MPIX_Stream_create(info, &made), MPI_ERR_UNSUPPORTED_OPERATION, "cuStreamBatchMemOp");
  CHECK(made == MPIX_STREAM_NULL);
  MPI_Info_free(&info);
  CHECK_CUDA(gpu.functions().stream_destroy(stream));
}

int refuse_without_cuda(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Info info = info_of(reinterpret_cast<cuda::Stream>(0x1000));
  MPIX_Stream made = MPIX_STREAM_NULL;
  CHECK_ERROR(MPIX_Stream_create(info, &made), MPI_ERR_UNSUPPORTED_OPERATION,
              "no CUDA driver that the program has initialised");
  MPI_Info_free(&info);
  MPI_Finalize();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "all";
  if (what == "absent") return refuse_without_cuda(argc, argv);
  static char all[] = "all";
  char* everything[]{all};
  return run_on_gpu(argc, argv, [&](const Gpu& gpu, int the_rank) {
    rank = the_rank;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (what == "refused") return refuse(gpu);
    CHECK(ranks > 1);
    const Kernel kernel(gpu);
    const Setting at{gpu, kernel};
    if (what == "lost") return check_lost(at);
    if (what == "lost_meeting") return check_lost_meeting(at);
    if (what == "revoked") return check_revoked(at);
    run_cases(at, argc > 1 ? std::span(argv + 1, static_cast<std::size_t>(argc - 1)) : std::span(everything));
  });
}
