// gpu_initiated [quick]: what communication costs that kernels and streams start, on two GPUs; two ranks. One
// line a row: what, the time, the target (issue 14, for 2 x H200). Contents are checked, times are not.
// `quick`: few rounds, for the emulated driver, whose times mean nothing. Under a minute.
#include <mpi-ext.h>
#include <cstdlib>
#include <isthmus/device.hpp>
#include <isthmus/stream.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "device/image.hpp"
#include "device/measure.hpp"
#include "device/twins.hpp"
#include "gpu_memory.hpp"

using namespace isthmus;
using namespace isthmus::testing_gpu;
using namespace testing_device;
using Clock = std::chrono::steady_clock;

namespace {

int rank = -1;
bool is_quick = false;
constexpr std::size_t most_bytes = std::size_t{64} << 20U;

int peer() {
  return 1 - rank;
}
u32 rounds_of(u32 rounds) {
  return is_quick ? std::max(rounds / 100, 2U) : rounds;
}
double microseconds_since(Clock::time_point begun) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begun).count();
}

/// A line of the table; of rank 0's times.
void row(const char* what, double value, const char* unit, const char* target) {
  if (rank != 0) return;
  std::printf("%-62s %10.2f %-5s target %s\n", what, value, unit, target);
  std::fflush(stdout);
}

class Setting {
 public:
  explicit Setting(const Gpu& the_gpu) : gpu(the_gpu), cuda(gpu.functions()) {
    if (emulated_driver()) {
      using Register = void (*)(const EmulatedTwin*);
      reinterpret_cast<Register>(::dlsym(::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD),
                                         "emulated_cuda_register"))(device_twins());
    }
    CHECK_CUDA(cuda.module_load(&module_, kernel_image()));
    CHECK_CUDA(cuda.module_function(&function_, module_, "device_measure"));
    stream = make_stream();
  }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;
  ~Setting() {
    CHECK_CUDA(cuda.stream_destroy(stream));
    CHECK_CUDA(cuda.module_unload(module_));
  }
  [[nodiscard]] cuda::Stream make_stream() const {
    cuda::Stream made = nullptr;
    CHECK_CUDA(cuda.stream_create(&made, cuda::stream_non_blocking));
    return made;
  }
  void launch(const MeasureWork& work, unsigned blocks, unsigned threads, cuda::Stream where) const {
    MeasureWork copy = work;
    std::array<void*, 1> parameters{&copy};
    CHECK_CUDA(cuda.launch(function_, blocks, 1, 1, threads, 1, 1, 0, where, parameters.data(), nullptr));
  }
  void sync() const { CHECK_CUDA(cuda.stream_synchronize(stream)); }
  /// A kernel that takes 5 us.
  void spin() const {
    MeasureWork work{};
    work.nanoseconds = 5000;
    work.what = Measure::spin;
    launch(work, 1, 32, stream);
  }

  const Gpu& gpu;
  const cuda::Functions& cuda;
  cuda::Stream stream = nullptr;

 private:
  cuda::Module module_ = nullptr;
  cuda::Function function_ = nullptr;
};

/// The best of some turns of `body`, which both ranks begin together.
template <class Body>
double best_of(int turns, Body body) {
  double best = 1e30;
  for (int i = 0; i < (is_quick ? 1 : turns); ++i) {
    MPI_Barrier(MPI_COMM_WORLD);
    best = std::min(best, body());
  }
  MPI_Barrier(MPI_COMM_WORLD);
  return best;
}

// --- kernels

void measure_kernels(const Setting& at) {
  const device::Port port(MPI_COMM_WORLD, 2);
  const Memory from(at.gpu, MemoryKind::device, most_bytes), came(at.gpu, MemoryKind::device, most_bytes);
  Memory wrong(at.gpu, MemoryKind::device, sizeof(u64));
  wrong.write(std::vector<u64>{0});
  MeasureWork work{.port = device::DevicePort(port.view()),
                   .from = static_cast<unsigned char*>(from.data()),
                   .came = static_cast<unsigned char*>(came.data()),
                   .wrong = static_cast<u64*>(wrong.data()),
                   .bytes = 8,
                   .first = 1,
                   .nanoseconds = 0,
                   .rounds = 0,
                   .share = port.share(came.data(), most_bytes),
                   .sent_share = port.share(from.data(), most_bytes),
                   .what = Measure::words,
                   .peer = peer()};
  work.port = device::DevicePort(port.view());
  const auto time = [&](Measure what, u64 bytes, u32 rounds, unsigned blocks, unsigned threads) {
    work.what = what;
    work.bytes = bytes;
    work.rounds = rounds_of(rounds);
    return best_of(5, [&] {
      const auto begun = Clock::now();
      at.launch(work, blocks, threads, at.stream);
      at.sync();
      const double all = microseconds_since(begun);
      work.first += work.rounds;
      return all / work.rounds;
    });
  };
  constexpr std::size_t mebibyte = std::size_t{1} << 20U;
  row("kernel: signal with a word of 8 B, one way", time(Measure::words, 8, 4000, 1, 32) / 2, "us", "<= 0.9");
  row("kernel: put of 8 B and signal by a thread, one way", time(Measure::puts_by_thread, 8, 4000, 1, 32) / 2,
      "us", "2.3 (NVSHMEM)");
  row("kernel: put of 1 KiB and signal by a warp, one way",
      time(Measure::puts_by_warp, 1024, 4000, 1, 32) / 2, "us", "-");
  row("kernel: put of 1 MiB and signal by a block, one way",
      time(Measure::puts_by_block, mebibyte, 400, 1, 1024) / 2, "us", "< 25.4");
  for (const std::size_t bytes : {std::size_t{8}, std::size_t{1024}})
    row(bytes == 8 ? "kernel: message of 8 B by a warp, one way"
                   : "kernel: message of 1 KiB by a warp, one way",
        time(Measure::messages_by_warp, bytes, 4000, 1, 32) / 2, "us", "-");
  row("kernel: message of 1 MiB by a block, one way",
      time(Measure::messages_by_block, mebibyte, 400, 1, 1024) / 2, "us", "-");
  for (const std::size_t bytes : {mebibyte, most_bytes}) {
    const unsigned blocks = is_quick ? 4 : 132;
    const u32 rounds = bytes == mebibyte ? 1000 : 40;
    const double each = time(Measure::stream_by_grid, bytes, rounds, blocks, 1024);
    row(bytes == mebibyte ? "kernel: puts of 1 MiB by a grid" : "kernel: puts of 64 MiB by a grid",
        static_cast<double>(bytes) / each / 1000, "GB/s", ">= 350");
  }
  row("kernel: barrier of the team", time(Measure::barriers, 8, 4000, 1, 32), "us", "-");
  row("kernel: allreduce of 8 B", time(Measure::allreduces, 8, 4000, 1, 32), "us", "-");
  port.check();
  CHECK_EQUAL(wrong.read<u64>(1)[0], 0U);
}

// --- streams, prepared

prepared::Stream of(cuda::Stream stream) {
  return reinterpret_cast<prepared::Stream>(stream);
}

/// From when the host lets a stream go on to when it sees that it has, while others wait for other words.
double reaction(const Setting& at, const prepared::Port& port, std::uint32_t others) {
  std::vector<cuda::Stream> idle;
  for (std::uint32_t i = 0; i < others; ++i) {
    idle.push_back(at.make_stream());
    port.take(10 + i, 1, of(idle.back()));
  }
  double sum = 0;
  const u32 rounds = rounds_of(300);
  for (u32 i = 0; i < rounds; ++i) {
    port.take(2, 1, of(at.stream));
    port.set(rank, 3, 1, of(at.stream));
    const auto settled = Clock::now();
    while (microseconds_since(settled) < 30) {
    }
    const auto begun = Clock::now();
    port.set(rank, 2, 1);
    port.take(3, 1);
    sum += microseconds_since(begun);
  }
  for (std::uint32_t i = 0; i < others; ++i) {
    port.set(rank, 10 + i, 1);
    CHECK_CUDA(at.cuda.stream_synchronize(idle[i]));
    CHECK_CUDA(at.cuda.stream_destroy(idle[i]));
  }
  at.sync();
  return sum / rounds;
}

/// A ping-pong of both ranks by `send` and `receive`, one way; the host synchronises once for 40 rounds.
double ping_pong(const Setting& at, bool with_kernel, const std::function<void()>& send,
                 const std::function<void()>& receive) {
  const u32 rounds = is_quick ? 4 : 40;
  return best_of(9, [&] {
    const auto begun = Clock::now();
    for (u32 i = 0; i < rounds; ++i) {
      if (rank == 1) receive();
      if (with_kernel) at.spin();
      send();
      if (rank == 0) receive();
    }
    at.sync();
    return microseconds_since(begun) / 2 / rounds;
  });
}

/// What the calls cost the host, while a stream waits.
double enqueue_cost(const Setting& at, const prepared::Port& port, u32 calls,
                    const std::function<void()>& call) {
  return best_of(5, [&] {
    port.take(4, 1, of(at.stream));
    const auto begun = Clock::now();
    for (u32 i = 0; i < calls; ++i)
      call();
    const double each = microseconds_since(begun) / calls;
    port.set(rank, 4, 1);
    at.sync();
    return each;
  });
}

void measure_prepared(const Setting& at) {
  const prepared::Port of_all(MPI_COMM_WORLD, 64), port(MPI_COMM_WORLD, 4, prepared::WordsOf::streams);
  const Memory x(at.gpu, MemoryKind::device, most_bytes), y(at.gpu, MemoryKind::device, most_bytes);
  Memory& filled = const_cast<Memory&>(x);
  filled.write(ascending(2, 10 + rank));
  const prepared::Share out(port, x.data(), most_bytes), in(port, y.data(), most_bytes);
  const auto put = prepared::put(out, 0, in, peer(), 0, 8, {.word = 0});
  const double alone = reaction(at, of_all, 0);
  row("stream: a wait that the host ends, until it sees the next write", alone, "us", "-");
  const std::uint32_t others = is_quick ? 4 : 6;  // with 24 the own one never came
  row("stream: the same more for each other stream that waits",
      (reaction(at, of_all, others) - alone) / others, "us", "-");
  const auto send = [&] { put.post(of(at.stream)); };
  const auto receive = [&] { port.take(0, 1, of(at.stream)); };
  {
    const prepared::Share out_of_all(of_all, x.data(), most_bytes), in_of_all(of_all, y.data(), most_bytes);
    const auto put_of_all = prepared::put(out_of_all, 0, in_of_all, peer(), 0, 8, {.word = 0});
    row("stream: prepared put of 8 B, words of processors too, one way",
        ping_pong(
            at, false, [&] { put_of_all.post(of(at.stream)); }, [&] { of_all.take(0, 1, of(at.stream)); }),
        "us", "-");
  }
  row("stream: prepared put of 8 B, one way", ping_pong(at, false, send, receive), "us", "<= 6.0");
  CHECK(y.read<int>(2) == ascending(2, 10 + peer()));
  row("stream: the same and a kernel of 5 us, one way", ping_pong(at, true, send, receive), "us", "-");
  for (const std::size_t bytes : {std::size_t{1} << 20U, most_bytes}) {
    const auto large = prepared::put(out, 0, in, peer(), 0, bytes, {.word = 0});
    const double time = ping_pong(at, false, [&] { large.post(of(at.stream)); }, receive);
    if (bytes == most_bytes)
      row("stream: prepared put of 64 MiB", static_cast<double>(bytes) / time / 1000, "GB/s", ">= 375");
    else
      row("stream: prepared put of 1 MiB, one way", time, "us", "<= 10.5");
  }
  row("host: post of a prepared put", enqueue_cost(at, of_all, 60, send), "us", "<= 3");
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0 || rank == 1) receive();  // of the last of them
  row("host: wait of a prepared put",
      enqueue_cost(at, of_all, 60, [&] { port.wait_equal(0, 0, of(at.stream)); }), "us", "<= 3");
  // A graph of exchanges in which no number counts.
  cuda::Graph graph = nullptr;
  cuda::GraphExec executable = nullptr;
  constexpr int in_graph = 20;
  CHECK_CUDA(at.cuda.stream_begin_capture(at.stream, cuda::CaptureMode::global));
  for (int i = 0; i < in_graph; ++i) {
    port.set(peer(), 1, 1, of(at.stream));
    port.take(1, 1, of(at.stream));
    send();
    receive();
  }
  CHECK_CUDA(at.cuda.stream_end_capture(at.stream, &graph));
  CHECK_CUDA(at.cuda.graph_instantiate(&executable, graph, 0));
  const u32 launches = rounds_of(400);
  double host = 0;
  const double each = best_of(3, [&] {
    host = 0;
    const auto begun = Clock::now();
    for (u32 i = 0; i < launches; ++i) {
      const auto call = Clock::now();
      CHECK_CUDA(at.cuda.graph_launch(executable, at.stream));
      host += microseconds_since(call);
      if (i % 4 == 3) at.sync();
    }
    at.sync();
    return microseconds_since(begun) / launches / in_graph;
  });
  row("graph: an exchange of 8 B with credits, replayed", each, "us", "-");
  row("graph: what the launch costs the host for each exchange", host / launches / in_graph, "us", "0");
  CHECK_CUDA(at.cuda.graph_exec_destroy(executable));
  CHECK_CUDA(at.cuda.graph_destroy(graph));
  MPI_Barrier(MPI_COMM_WORLD);
}

// --- streams, by MPI's matching, and collectives

/// A communicator of all ranks with the stream of the setting.
class Enqueueing {
 public:
  /// `is_short`: with the assertion that lets kernels match its messages.
  explicit Enqueueing(const Setting& at, bool is_short) {
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "type", "cudaStream_t");
    CHECK_MPI(MPIX_Info_set_hex(info, "value", &at.stream, sizeof(cuda::Stream)));
    CHECK_MPI(MPIX_Stream_create(info, &stream_));
    if (is_short) MPI_Info_set(info, "isthmus_assert_short_enqueued", "true");
    MPI_Comm parent;
    CHECK_MPI(MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &parent));
    CHECK_MPI(MPIX_Stream_comm_create(parent, stream_, &comm));
    CHECK_MPI(MPI_Comm_free(&parent));
    MPI_Info_free(&info);
  }
  Enqueueing(const Enqueueing&) = delete;
  Enqueueing& operator=(const Enqueueing&) = delete;
  ~Enqueueing() {
    CHECK_MPI(MPI_Comm_free(&comm));
    CHECK_MPI(MPIX_Stream_free(&stream_));
  }

  MPI_Comm comm = MPI_COMM_NULL;

 private:
  MPIX_Stream stream_ = MPIX_STREAM_NULL;
};

std::string with_size(const std::string& what, std::size_t bytes) {
  const bool is_large = bytes >= std::size_t{1} << 20U;
  const std::size_t kibibytes = bytes >> 10U;
  return what + (is_large        ? std::to_string(kibibytes >> 10U) + " MiB"
                 : kibibytes > 0 ? std::to_string(kibibytes) + " KiB"
                                 : std::to_string(bytes) + " B");
}

/// Collectives of both ranks, one behind the other on a stream; and in a replayed graph.
void measure_collectives(const Setting& at) {
  const Enqueueing enqueueing(at, false);
  MPI_Comm comm = enqueueing.comm;
  const Memory x(at.gpu, MemoryKind::device, most_bytes), y(at.gpu, MemoryKind::device, most_bytes);
  const auto in_a_row = [&](std::size_t bytes, const std::function<void()>& call) {
    const u32 calls = is_quick ? 2 : bytes > (std::size_t{1} << 20U) ? 10 : 50;
    return best_of(9, [&] {
      const auto begun = Clock::now();
      for (u32 i = 0; i < calls; ++i)
        call();
      at.sync();
      return microseconds_since(begun) / calls;
    });
  };
  struct Size {
    std::size_t bytes;
    const char *allreduce, *allgather, *reduce_scatter;
  };
  for (const auto& [bytes, allreduce, allgather, reduce_scatter] :
       {Size{8, "<= 4.6", "<= 5.4", "<= 7.5"}, Size{std::size_t{64} << 10U, "<= 6.5", "-", "-"},
        Size{std::size_t{1} << 20U, "<= 12", "<= 8.9", "<= 8.0"},
        Size{most_bytes, "<= 220", "<= 123", "<= 129"}}) {
    const int all = static_cast<int>(bytes / sizeof(float));
    row(with_size("stream: allreduce enqueued, ", bytes).c_str(),
        in_a_row(
            bytes,
            [&] { CHECK_MPI(MPIX_Allreduce_enqueue(x.data(), y.data(), all, MPI_FLOAT, MPI_SUM, comm)); }),
        "us", allreduce);
    row(with_size("stream: allgather enqueued, both parts together ", bytes).c_str(),
        in_a_row(bytes,
                 [&] {
                   CHECK_MPI(MPIX_Allgather_enqueue(x.data(), all / 2, MPI_FLOAT, y.data(), all / 2,
                                                    MPI_FLOAT, comm));
                 }),
        "us", allgather);
    row(with_size("stream: reduce_scatter enqueued, both parts together ", bytes).c_str(),
        in_a_row(bytes,
                 [&] {
                   CHECK_MPI(MPIX_Reduce_scatter_block_enqueue(x.data(), y.data(), all / 2, MPI_FLOAT,
                                                               MPI_SUM, comm));
                 }),
        "us", reduce_scatter);
  }
  cuda::Graph graph = nullptr;
  cuda::GraphExec executable = nullptr;
  constexpr int in_graph = 20;
  CHECK_CUDA(at.cuda.stream_begin_capture(at.stream, cuda::CaptureMode::global));
  for (int i = 0; i < in_graph; ++i)
    CHECK_MPI(MPIX_Allreduce_enqueue(x.data(), y.data(), 2, MPI_FLOAT, MPI_SUM, comm));
  CHECK_CUDA(at.cuda.stream_end_capture(at.stream, &graph));
  CHECK_CUDA(at.cuda.graph_instantiate(&executable, graph, 0));
  const u32 launches = rounds_of(400);
  row("graph: allreduce of 8 B, replayed",
      best_of(5,
              [&] {
                const auto begun = Clock::now();
                for (u32 i = 0; i < launches; ++i)
                  CHECK_CUDA(at.cuda.graph_launch(executable, at.stream));
                at.sync();
                return microseconds_since(begun) / launches / in_graph;
              }),
      "us", "<= 2");
  CHECK_CUDA(at.cuda.graph_exec_destroy(executable));
  CHECK_CUDA(at.cuda.graph_destroy(graph));
  // Times are of no use where the sums are wrong.
  Memory& filled = const_cast<Memory&>(x);
  filled.write(std::vector<float>{1.5F, 2.5F});
  CHECK_MPI(MPIX_Allreduce_enqueue(x.data(), y.data(), 2, MPI_FLOAT, MPI_SUM, comm));
  at.sync();
  CHECK(y.read<float>(2) == (std::vector<float>{3, 5}));
}

/// `is_short`: by kernels that match them.
void measure_enqueued(const Setting& at, bool is_short) {
  const prepared::Port port(MPI_COMM_WORLD, 5);
  Memory x(at.gpu, MemoryKind::device, 64);
  const Memory y(at.gpu, MemoryKind::device, 64);
  x.write(ascending(2, 20 + rank));
  const Enqueueing enqueueing(at, is_short);
  const std::string by = is_short ? " by kernels" : " by threads";
  MPI_Comm comm = enqueueing.comm;
  const auto send = [&] { CHECK_MPI(MPIX_Send_enqueue(x.data(), 2, MPI_INT, peer(), 0, comm)); };
  const auto receive = [&] {
    CHECK_MPI(MPIX_Recv_enqueue(y.data(), 2, MPI_INT, peer(), 0, comm, MPI_STATUS_IGNORE));
  };
  row(("stream: MPIX send and receive of 8 B" + by + ", one way").c_str(),
      ping_pong(at, false, send, receive), "us", is_short ? "<= 4" : "<= 6.0");
  CHECK(y.read<int>(2) == ascending(2, 20 + peer()));
  row("stream: the same and a kernel of 5 us, one way", ping_pong(at, true, send, receive), "us", "-");
  // Sends and receives by turns, so that all match.
  // No more than are let ahead of their receives.
  const u32 calls = is_short ? 7 : 20;
  u32 turn = 0;
  row(("host: MPIX_Send_enqueue or MPIX_Recv_enqueue" + by).c_str(),
      enqueue_cost(at, port, 2 * calls,
                   [&] {
                     if ((turn++ + static_cast<u32>(rank)) % 2 == 0)
                       send();
                     else
                       receive();
                   }),
      "us", "<= 3");
  MPI_Barrier(MPI_COMM_WORLD);
}

}  // namespace

int main(int argc, char** argv) {
  is_quick = argc > 1 && std::string_view(argv[1]) == "quick";
  // Before the driver is there: kernels are not loaded while others wait, and streams do not stand in one
  // queue.
  ::setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  return run_on_gpu(argc, argv, [&](const Gpu& gpu, int the_rank) {
    int ranks = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    rank = the_rank;
    CHECK_EQUAL(ranks, 2);
    const Setting at(gpu);
    measure_kernels(at);
    measure_prepared(at);
    measure_enqueued(at, false);
    measure_enqueued(at, true);
    measure_collectives(at);
    if (rank == 0) std::printf("contents: right\n");
  });
}
