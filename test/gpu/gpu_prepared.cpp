// The prepared API (<isthmus/stream.hpp>), on the emulated driver and on GPUs; rank 0 prints a line for each
// case that is right. Two ranks. The argument:
//   names of cases; `all`, which none means too. `carried` before them: the processes do not reach each
//   other's memory, and a proxy carries it
//   lost      --on-failure continue: rank 1 dies while streams of rank 0 wait for it
//   leave     MPI_Finalize with a port that is not freed, and a stream that waits
//   pingpong  measures, and prints microseconds one way
#include <unistd.h>
#include <isthmus/stream.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <memory>
#include <string_view>
#include <thread>

#include "gpu_memory.hpp"

using namespace isthmus;
using namespace isthmus::testing_gpu;
using prepared::Port;
using prepared::Share;
using Ints = std::vector<int>;
using Clock = std::chrono::steady_clock;

namespace {

int rank = -1;
bool is_carried = false;
prepared::WordsOf whose = prepared::WordsOf::all;
int peer() {
  return 1 - rank;
}

prepared::Stream of(cuda::Stream stream) {
  return reinterpret_cast<prepared::Stream>(stream);
}

class Lane {
 public:
  explicit Lane(const Gpu& gpu) : cuda_(gpu.functions()) {
    CHECK_CUDA(cuda_.stream_create(&stream, cuda::stream_non_blocking));
  }
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;
  ~Lane() {
    sync();
    CHECK_CUDA(cuda_.stream_destroy(stream));
  }
  void sync() const { CHECK_CUDA(cuda_.stream_synchronize(stream)); }
  [[nodiscard]] bool is_idle() const { return cuda_.stream_query(stream) == cuda::Status::success; }
  void copy(const Memory& to, const Memory& from, std::size_t bytes) const {
    CHECK_CUDA(cuda_.copy_async(reinterpret_cast<cuda::Address>(to.data()),
                                reinterpret_cast<cuda::Address>(from.data()), bytes, stream));
  }
  /// The last 4000 bytes, or all of fewer.
  void copy_end(const Memory& to, const Memory& from, std::size_t bytes) const {
    const std::size_t end = std::min<std::size_t>(bytes, 4000);
    CHECK_CUDA(cuda_.copy_async(reinterpret_cast<cuda::Address>(to.data()),
                                reinterpret_cast<cuda::Address>(from.data()) + bytes - end, end, stream));
  }
  cuda::Stream stream = nullptr;

 private:
  const cuda::Functions& cuda_;
};

std::unique_ptr<Memory> memory(const Gpu& gpu, const Ints& values, MemoryKind kind = MemoryKind::device) {
  auto made = std::make_unique<Memory>(gpu, kind, values.size() * sizeof(int));
  made->write(values);
  return made;
}

template <class Body>
void refused(const char* text, Body body) {
  std::string said;
  try {
    body();
  } catch (const prepared::Error& error) {
    said = error.what();
    CHECK(error.code() != 0);
  }
  if (!said.contains(text)) {
    std::fprintf(stderr, "rank %d: '%s' is not said, but: %s\n", rank, text, said.c_str());
    CHECK(false);
  }
}

constexpr std::uint32_t arrived = 0, credit = 1, third = 2;

/// A put whose notification comes before its bytes leaves older ones for the copy behind the wait to see.
void check_put(const Gpu& gpu) {
  const Lane lane(gpu);
  const Port port(MPI_COMM_WORLD, 3, whose);
  // By a block, by a grid, by copy engines.
  for (const MemoryKind source : {MemoryKind::device, MemoryKind::pinned, MemoryKind::vmm, MemoryKind::pool})
    for (const std::size_t count : {std::size_t{2}, std::size_t{20'001}, std::size_t{1'500'000}}) {
      const std::size_t bytes = count * sizeof(int);
      const auto x = memory(gpu, Ints(count, -1), source), seen = memory(gpu, Ints(count, -1));
      const auto y = memory(gpu, Ints(count, -1),
                            source == MemoryKind::vmm    ? MemoryKind::vmm
                            : source == MemoryKind::pool ? MemoryKind::pool
                                                         : MemoryKind::device);
      const Share out(port, x->data(), bytes), in(port, y->data(), bytes);
      CHECK(in.reaches(peer()) == !is_carried);
      const auto put = prepared::put(out, 0, in, peer(), 0, bytes, {.word = arrived});
      for (int round = 0; round < 4; ++round) {
        // One at a time: who receives waits before anything is put, and looks at the end of it at once.
        const bool sends = round % 2 == rank;
        x->write(ascending(count, 1000 * rank + round));
        if (!sends) {
          port.take(arrived, 1, of(lane.stream));
          lane.copy_end(*seen, *y, bytes);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        if (sends) put.post(of(lane.stream));
        lane.sync();
        if (!sends) {
          const std::size_t end = std::min<std::size_t>(count, 1000);
          CHECK(seen->read<int>(end) ==
                ascending(end, 1000 * peer() + round + static_cast<int>(count - end)));
          CHECK(y->read<int>(count) == ascending(count, 1000 * peer() + round));
        }
        put.finish();
        MPI_Barrier(MPI_COMM_WORLD);
      }
      MPI_Barrier(MPI_COMM_WORLD);
    }
}

/// By the processor: posted now, and waited for here.
void check_now(const Gpu& gpu) {
  const Port port(MPI_COMM_WORLD, 3);
  const auto x = memory(gpu, ascending(1000, rank)), y = memory(gpu, Ints(2000, -1));
  const Share out(port, x->data(), 4000), in(port, y->data(), 8000);
  const auto put = prepared::put(out, 0, in, peer(), 4000, 4000, {.word = arrived, .value = 7});
  put.post();
  port.wait_equal(arrived, 7);
  put.finish();
  const Ints got = y->read<int>(2000);
  CHECK(Ints(got.begin() + 1000, got.end()) == ascending(1000, peer()));
  CHECK(Ints(got.begin(), got.begin() + 1000) == Ints(1000, -1));
  const auto get = prepared::get(in, 0, out, peer(), 400, 3600, {.word = third});
  get.post();
  get.finish();
  port.take(third, 1);
  CHECK(y->read<int>(900) == ascending(900, peer() + 100));
  MPI_Barrier(MPI_COMM_WORLD);
}

/// Each condition holds back a stream until it is fulfilled, and no longer.
void check_words(const Gpu& gpu) {
  const Lane lane(gpu);
  const Port port(MPI_COMM_WORLD, 3);
  const auto still_waits = [&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    CHECK(!lane.is_idle());
  };
  port.wait_equal(0, 5, of(lane.stream));
  port.set(rank, 0, 6);
  still_waits();
  port.set(rank, 0, 5);
  lane.sync();
  port.wait_at_least(1, 5, of(lane.stream));
  port.set(rank, 1, 4);
  still_waits();
  port.set(rank, 1, 9);
  lane.sync();
  port.wait_any_bit(2, 6, of(lane.stream));
  port.set(rank, 2, 9);
  still_waits();
  port.set(rank, 2, 11);
  lane.sync();
  MPI_Barrier(MPI_COMM_WORLD);
  port.set(peer(), 0, 100, of(lane.stream));
  port.wait_at_least(0, 100);
  lane.sync();
  MPI_Barrier(MPI_COMM_WORLD);
}

/// A second put into the same memory waits for the receiver's credit.
void check_pressure(const Gpu& gpu) {
  const Lane lane(gpu);
  const Port port(MPI_COMM_WORLD, 3);
  constexpr int count = 1000, rounds = 20;
  const auto all = memory(gpu, ascending(count + rounds, 0)), y = memory(gpu, Ints(count, -1));
  const Share out(port, all->data(), (count + rounds) * 4), in(port, y->data(), count * 4);
  if (rank == 0) {
    std::vector<prepared::Descriptor> puts;
    for (int i = 0; i < rounds; ++i)
      puts.push_back(
          prepared::put(out, static_cast<std::size_t>(i) * 4, in, 1, 0, count * 4, {.word = arrived}));
    for (const auto& put : puts) {
      port.take(credit, 1, of(lane.stream));
      put.post(of(lane.stream));
    }
    lane.sync();
  } else {
    for (int i = 0; i < rounds; ++i) {
      port.set(0, credit, 1);
      port.take(arrived, 1);
      // Nothing may come now.
      if (i % 5 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
      CHECK(y->read<int>(count) == ascending(count, i));
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

void check_batch(const Gpu& gpu) {
  const Lane lane(gpu);
  const Port port(MPI_COMM_WORLD, 3, whose);
  const auto x = memory(gpu, ascending(300, rank)), y = memory(gpu, Ints(300, -1));
  const Share out(port, x->data(), 1200), in(port, y->data(), 1200);
  const auto a = prepared::put(out, 0, in, peer(), 800, 400, {.word = 0});
  const auto b = prepared::put(out, 400, in, peer(), 0, 800, {.word = 1});
  prepared::post({&a, &b}, of(lane.stream));
  port.take(0, 1, of(lane.stream));
  port.take(1, 1, of(lane.stream));
  lane.sync();
  const Ints got = y->read<int>(300);
  CHECK(Ints(got.begin() + 200, got.end()) == ascending(100, peer()));
  CHECK(Ints(got.begin(), got.begin() + 200) == ascending(200, peer() + 100));
  refused("a descriptor twice", [&] { prepared::post({&a, &a}, of(lane.stream)); });
  MPI_Barrier(MPI_COMM_WORLD);
}

/// An exchange with credits in a graph: no number counts, so each launch is right.
void check_graph(const Gpu& gpu) {
  const cuda::Functions& cuda = gpu.functions();
  const Lane lane(gpu);
  const Port port(MPI_COMM_WORLD, 3, whose);
  constexpr std::size_t count = 50;
  const int launches = is_carried ? 200 : 1000;
  // What comes goes out again, so that after an even number of launches each has its own.
  const auto x = memory(gpu, ascending(count, 100 * rank)), y = memory(gpu, Ints(count, -1));
  const Share out(port, x->data(), count * 4), in(port, y->data(), count * 4);
  const auto put = prepared::put(out, 0, in, peer(), 0, count * 4, {.word = arrived});
  CHECK_CUDA(cuda.stream_begin_capture(lane.stream, cuda::CaptureMode::global));
  port.set(peer(), credit, 1, of(lane.stream));
  port.take(credit, 1, of(lane.stream));
  put.post(of(lane.stream));
  port.take(arrived, 1, of(lane.stream));
  lane.copy(*x, *y, count * 4);
  cuda::Graph graph = nullptr;
  CHECK_CUDA(cuda.stream_end_capture(lane.stream, &graph));
  cuda::GraphExec executable = nullptr;
  CHECK_CUDA(cuda.graph_instantiate(&executable, graph, 0));
  for (int i = 0; i < launches + 1; ++i) {
    CHECK_CUDA(cuda.graph_launch(executable, lane.stream));
    if (i % 40 == 39) lane.sync();
  }
  lane.sync();
  CHECK(x->read<int>(count) == ascending(count, 100 * peer()));
  refused("belongs to a graph", [&] { put.finish(); });
  CHECK_CUDA(cuda.graph_exec_destroy(executable));
  CHECK_CUDA(cuda.graph_destroy(graph));
  MPI_Barrier(MPI_COMM_WORLD);
}

/// Streams do not reach another process's pinned memory: a proxy brings it there, and words come behind.
void check_pinned(const Gpu& gpu) {
  constexpr std::size_t count = 300'000, bytes = count * sizeof(int);
  const Lane lane(gpu);
  const Port port(MPI_COMM_WORLD, 3);
  const auto x = memory(gpu, Ints(count, -1)), z = memory(gpu, Ints(count, -1));
  const auto y = memory(gpu, Ints(count, -1), MemoryKind::pinned);
  const Share out(port, x->data(), bytes), in(port, y->data(), bytes), beside(port, z->data(), bytes);
  CHECK(!in.reaches(peer()));
  const auto put = prepared::put(out, 0, in, peer(), 0, bytes, {.word = arrived});
  const auto quiet = prepared::put(out, 0, in, peer(), 0, bytes);
  const auto get = prepared::get(out, 0, in, peer(), 0, bytes, {.word = third});
  const auto near = prepared::put(out, 0, beside, peer(), 400, 400, {.word = arrived});
  for (int round = 0; round < 6; ++round) {
    const auto values = [&](int of) { return ascending(count, 1000 * of + round); };
    x->write(values(rank));
    MPI_Barrier(MPI_COMM_WORLD);
    if (round % 3 == 0) {
      put.post(of(lane.stream));
    } else if (round % 3 == 1) {
      quiet.post(of(lane.stream));
      port.set(peer(), arrived, 1, of(lane.stream));
    } else {
      // All copies come before any notification, whoever brings them.
      prepared::post({&near, &quiet}, of(lane.stream));
    }
    port.take(arrived, 1);
    CHECK(y->read<int>(count) == values(peer()));
    if (round % 3 == 2) CHECK(z->read<int>(200)[100] == values(peer())[0]);
    lane.sync();
    // And back: what has come is what was sent.
    x->write(Ints(count, -1));
    MPI_Barrier(MPI_COMM_WORLD);
    get.post(of(lane.stream));
    lane.sync();
    CHECK(x->read<int>(count) == values(rank));
    port.take(third, 1);
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

/// A batch of gets and puts: each notification comes when its bytes have been read, or are there.
void check_both(const Gpu& gpu) {
  constexpr std::size_t count = 200'000, bytes = count * sizeof(int);
  const Lane lane(gpu);
  const Port port(MPI_COMM_WORLD, 3, whose);
  const auto x = memory(gpu, Ints(count, rank)), y = memory(gpu, Ints(count, -1)),
             z = memory(gpu, Ints(count, -1));
  const Share out(port, x->data(), bytes), in(port, y->data(), bytes), got(port, z->data(), bytes);
  const auto put = prepared::put(out, 0, in, peer(), 0, bytes, {.word = arrived});
  const auto get = prepared::get(got, 0, out, peer(), 0, bytes, {.word = third});
  for (int round = 0; round < 5; ++round) {
    x->write(ascending(count, 10 * round + rank));
    MPI_Barrier(MPI_COMM_WORLD);
    prepared::post({&get, &put}, of(lane.stream));
    port.take(arrived, 1, of(lane.stream));
    port.take(third, 1, of(lane.stream));
    // The peer has read it, and this process's own put has left.
    CHECK_CUDA(gpu.functions().fill_async(reinterpret_cast<cuda::Address>(x->data()), 0, bytes, lane.stream));
    lane.sync();
    CHECK(y->read<int>(count) == ascending(count, 10 * round + peer()));
    CHECK(z->read<int>(count) == ascending(count, 10 * round + peer()));
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

/// More words than a port has lines for at a time, in the order of the stream.
void check_many(const Gpu& gpu) {
  const Lane lane(gpu);
  const Port port(MPI_COMM_WORLD, 3);
  constexpr std::uint32_t most = 2500;
  for (std::uint32_t i = 1; i <= most; ++i)
    port.set(peer(), arrived, i, of(lane.stream));
  port.set(peer(), credit, 1, of(lane.stream));
  port.take(credit, 1);
  port.wait_equal(arrived, most);
  lane.sync();
  MPI_Barrier(MPI_COMM_WORLD);
}

/// A get sees what the same process has put before it, to the last byte.
void check_behind(const Gpu& gpu) {
  const Lane lane(gpu);
  const Port port(MPI_COMM_WORLD, 3, whose);
  constexpr std::size_t count = 1'500'000, bytes = count * sizeof(int), end = 4000;
  const auto x = memory(gpu, Ints(count, -1)), y = memory(gpu, Ints(count, -1)),
             z = memory(gpu, Ints(end, -1));
  const Share out(port, x->data(), bytes), in(port, y->data(), bytes), back(port, z->data(), end);
  if (rank == 0) {
    const auto put = prepared::put(out, 0, in, 1, 0, bytes);
    const auto get = prepared::get(back, 0, in, 1, bytes - end, end);
    for (int round = 0; round < 10; ++round) {
      const Ints values = ascending(count, round);
      x->write(values);
      put.post(of(lane.stream));
      get.post(of(lane.stream));
      lane.sync();
      CHECK(z->read<int>(end / sizeof(int)) == Ints(values.end() - end / sizeof(int), values.end()));
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

/// To free a port is not collective: what has been put comes all the same, and the next port knows nothing of
/// it.
void check_parting(const Gpu& gpu) {
  constexpr std::size_t count = 2'000'000, bytes = count * sizeof(int);
  for (int round = 0; round < 3; ++round) {
    const auto x = memory(gpu, ascending(count, round)), y = memory(gpu, Ints(count, -1));
    int token = 0;
    {
      const Port port(MPI_COMM_WORLD, 3);
      const Share out(port, x->data(), bytes), in(port, y->data(), bytes);
      if (rank == 0) {
        const auto put = prepared::put(out, 0, in, 1, 0, bytes, {.word = arrived});
        put.post();
        put.finish();
      } else {
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
        port.take(arrived, 1);
        CHECK(y->read<int>(count) == ascending(count, round));
      }
    }
    // Rank 0 has freed its port while the other still waits.
    if (rank == 0)
      MPI_Recv(&token, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else
      MPI_Send(&token, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
  }
}

/// Memory that a graph puts from has been freed: the next call says so, on all processes, and nobody waits.
void check_broken(const Gpu& gpu) {
  const cuda::Functions& cuda = gpu.functions();
  const Lane lane(gpu);
  const Port port(MPI_COMM_WORLD, 3);
  auto x = memory(gpu, Ints(1000, rank));
  const auto y = memory(gpu, Ints(1000, rank));
  const Share out(port, x->data(), 4000), in(port, y->data(), 4000);
  const auto put = prepared::put(out, 0, in, peer(), 0, 4000, {.word = arrived});
  if (rank == 0) {
    CHECK_CUDA(cuda.stream_begin_capture(lane.stream, cuda::CaptureMode::global));
    put.post(of(lane.stream));
    cuda::Graph graph = nullptr;
    CHECK_CUDA(cuda.stream_end_capture(lane.stream, &graph));
    cuda::GraphExec executable = nullptr;
    CHECK_CUDA(cuda.graph_instantiate(&executable, graph, 0));
    x.reset();
    CHECK_CUDA(cuda.graph_launch(executable, lane.stream));
    lane.sync();
    refused("copy what is put or got through a proxy", [&] { port.check(); });
    CHECK_CUDA(cuda.graph_exec_destroy(executable));
    CHECK_CUDA(cuda.graph_destroy(graph));
  } else {
    port.take(arrived, 1, of(lane.stream));
    lane.sync();
    refused("rank 0 of the port can carry nothing any more", [&] { port.check(); });
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

/// Words of streams alone: each condition holds back a stream until it is fulfilled, of one word and of many.
void check_waits_of_streams(const Gpu& gpu) {
  const Lane lane(gpu), other(gpu);
  constexpr std::uint32_t words = 70;
  const Port port(MPI_COMM_WORLD, words, prepared::WordsOf::streams);
  const auto still_waits = [&] {
    other.sync();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    CHECK(!lane.is_idle());
  };
  const auto set = [&](int of_rank, std::uint32_t word, std::uint32_t value) {
    port.set(of_rank, word, value, of(other.stream));
  };
  port.wait_equal(0, 5, of(lane.stream));
  set(rank, 0, 6);
  still_waits();
  set(rank, 0, 5);
  lane.sync();
  port.wait_at_least(1, 5, of(lane.stream));
  set(rank, 1, 4);
  still_waits();
  set(rank, 1, 9);
  lane.sync();
  port.wait_any_bit(2, 6, of(lane.stream));
  set(rank, 2, 9);
  still_waits();
  set(rank, 2, 11);
  lane.sync();
  // More words than a warp has lanes, from the last to the first.
  std::vector<std::uint32_t> many;
  for (std::uint32_t word = 3; word < words; ++word)
    many.push_back(word);
  for (int round = 0; round < 3; ++round) {
    port.take_all(many, 1, of(lane.stream));
    for (std::uint32_t word = words - 1; word > 3; --word)
      set(peer(), word, 1);
    still_waits();
    MPI_Barrier(MPI_COMM_WORLD);
    set(peer(), 3, 1);
    lane.sync();
    // Each was set back: else the next round would not wait.
    other.sync();
    MPI_Barrier(MPI_COMM_WORLD);
  }
  port.take_all({}, 1, of(lane.stream));
  lane.sync();
  refused("by streams alone", [&] { port.set(peer(), 0, 1); });
  refused("by streams alone", [&] { port.wait_equal(0, 5); });
  refused("by streams alone", [&] { port.take_all(many, 1); });
  refused("word is 70", [&] { port.take_all(std::array{0U, words}, 1, of(lane.stream)); });
  refused("default stream", [&] { port.take(0, 1, reinterpret_cast<prepared::Stream>(2)); });
  MPI_Barrier(MPI_COMM_WORLD);
}

/// The host lets a stream go whose kernel waits; and to free such a port is no call of all: what another
/// process still writes finds its words.
void check_end_of_streams(const Gpu& gpu) {
  const Lane lane(gpu);
  {
    const Port port(MPI_COMM_WORLD, 3, prepared::WordsOf::streams);
    port.take(0, 1, of(lane.stream));
    port.wait_at_least(1, 7, of(lane.stream));
    CHECK(!lane.is_idle());
    port.cancel();
    lane.sync();
    refused("cancelled", [&] { port.take(0, 1, of(lane.stream)); });
    MPI_Barrier(MPI_COMM_WORLD);
  }
  for (int round = 0; round < 4; ++round) {
    int token = 0;
    auto port = std::make_unique<Port>(MPI_COMM_WORLD, 3, prepared::WordsOf::streams);
    if (rank == round % 2) {
      port.reset();
      MPI_Send(&token, 1, MPI_INT, peer(), 0, MPI_COMM_WORLD);
    } else {
      MPI_Recv(&token, 1, MPI_INT, peer(), 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      port->set(peer(), 2, 1, of(lane.stream));
      lane.sync();
    }
    port.reset();
    // Memory of later ports, and of the program, may lie where the words were, and is reached.
    const Port next(MPI_COMM_WORLD, 3, prepared::WordsOf::streams);
    const auto x = memory(gpu, ascending(100, rank)), y = memory(gpu, Ints(100, -1));
    const Share out(next, x->data(), 400), in(next, y->data(), 400);
    CHECK(in.reaches(peer()) == !is_carried);
    const auto put = prepared::put(out, 0, in, peer(), 0, 400, {.word = arrived});
    put.post(of(lane.stream));
    next.take(arrived, 1, of(lane.stream));
    lane.sync();
    CHECK(y->read<int>(100) == ascending(100, peer()));
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

void check_streams(const Gpu& gpu) {
  whose = prepared::WordsOf::streams;
  check_put(gpu);
  check_batch(gpu);
  check_graph(gpu);
  check_both(gpu);
  check_behind(gpu);
  check_waits_of_streams(gpu);
  check_end_of_streams(gpu);
  whose = prepared::WordsOf::all;
}

/// What has been freed, or moved from, is refused wherever it is named.
void check_gone(const Gpu& gpu) {
  const Lane lane(gpu);
  auto x = memory(gpu, Ints(100, rank));
  Port port(MPI_COMM_WORLD, 2);
  Share share(port, x->data(), 400);
  auto put = prepared::put(share, 0, share, peer(), 0, 8);
  // NOLINTBEGIN(bugprone-use-after-move): that it is refused is what is looked at.
  {
    const prepared::Descriptor holder(std::move(put));
    refused("descriptor is null: it has been freed, or moved from", [&] { put.post(); });
    refused("descriptor is null", [&] { put.finish(); });
    refused("descriptor is null", [&] { prepared::post({&holder, &put}, of(lane.stream)); });
  }
  {
    const Share holder(std::move(share));
    refused("local is null", [&] { static_cast<void>(prepared::put(share, 0, holder, peer(), 0, 8)); });
    refused("remote is null", [&] { static_cast<void>(prepared::put(holder, 0, share, peer(), 0, 8)); });
    refused("share is null", [&] { share.free(); });
    CHECK(!share.reaches(peer()));
  }
  // NOLINTEND(bugprone-use-after-move)
  port.free();
  refused("port is null", [&] { port.free(); });
  refused("port is null", [&] { port.check(); });
  refused("port is null", [&] { port.cancel(); });
  refused("port is null", [&] { port.set(rank, 0, 1); });
  refused("port is null", [&] { port.take(0, 1, of(lane.stream)); });
  refused("port is null", [&] { const Share no(port, x->data(), 400); });
  MPI_Barrier(MPI_COMM_WORLD);
}

void check_errors(const Gpu& gpu) {
  check_gone(gpu);
  const Lane lane(gpu), other(gpu);
  refused("words is 0", [&] { const Port none(MPI_COMM_WORLD, 0); });
  Port port(MPI_COMM_WORLD, 3);
  auto x = memory(gpu, Ints(100, rank));
  const auto managed = memory(gpu, Ints(100, rank), MemoryKind::managed);
  const auto host = memory(gpu, Ints(100, rank), MemoryKind::pinned);
  refused("managed memory", [&] { const Share no(port, managed->data(), 400); });
  Ints pageable(100, rank);
  refused("pin it first", [&] { const Share no(port, pageable.data(), 400); });
  refused("up to the end of its allocation", [&] { const Share no(port, x->data(), 1 << 30U); });
  if (rank == 0)
    refused("rank 1 has failed", [&] { const Share no(port, x->data(), 400); });
  else
    refused("address is null", [&] { const Share no(port, nullptr, 400); });
  Share share(port, x->data(), 400);
  const Share of_host(port, host->data(), 400);
  CHECK(!of_host.reaches(peer()) && share.reaches(peer()) == !is_carried);
  const auto put = [&](std::size_t from, std::size_t to, std::size_t bytes) {
    return prepared::put(share, from, share, peer(), to, bytes, {.word = arrived});
  };
  refused("do not lie within the 400 that this process", [&] { static_cast<void>(put(396, 0, 8)); });
  refused("do not lie within the 400 that rank", [&] { static_cast<void>(put(0, 396, 8)); });
  refused("do not lie within", [&] { static_cast<void>(put(SIZE_MAX, 0, 8)); });
  refused("do not lie within the 400 that rank",
          [&] { static_cast<void>(prepared::put(share, 0, of_host, peer(), 400, 8, {.word = 0})); });
  refused("word is 3", [&] { static_cast<void>(prepared::put(share, 0, share, peer(), 0, 8, {.word = 3})); });
  refused("rank is 2", [&] { port.set(2, 0, 1); });
  refused("rank is -1", [&] { static_cast<void>(prepared::put(share, 0, share, -1, 0, 8)); });
  refused("value is 0", [&] { port.wait_any_bit(0, 0, of(lane.stream)); });
  refused("default stream", [&] { port.take(0, 1, reinterpret_cast<prepared::Stream>(2)); });
  {
    auto one = put(0, 200, 200);
    port.take(third, 1, of(lane.stream));
    one.post(of(lane.stream));
    refused("another stream", [&] { one.post(of(other.stream)); });
    refused("another stream", [&] { one.post(); });
    refused("has not passed the last post", [&] { one.free(); });
    refused("2 shares are not freed", [&] { port.free(); });
    refused("descriptors of it are not freed", [&] { share.free(); });
    port.set(rank, third, 1);
    lane.sync();
    port.take(arrived, 1);
    MPI_Barrier(MPI_COMM_WORLD);
    one.post(of(other.stream));
    other.sync();
    port.take(arrived, 1);
    MPI_Barrier(MPI_COMM_WORLD);
    x.reset();
    refused("has been freed", [&] { one.post(of(lane.stream)); });
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

/// The processor lets a stream go that waits for what will not come.
void check_cancel(const Gpu& gpu) {
  const Lane lane(gpu);
  const Port port(MPI_COMM_WORLD, 3);
  for (std::uint32_t value : {1U, 2U, 3U})
    port.wait_equal(0, value, of(lane.stream));
  port.take(1, 1, of(lane.stream));
  port.check();
  port.cancel();
  lane.sync();
  refused("cancelled", [&] { port.check(); });
  refused("cancelled", [&] { port.take(0, 1, of(lane.stream)); });
  refused("cancelled", [&] { port.wait_equal(2, 1); });
  MPI_Barrier(MPI_COMM_WORLD);
  // What others put here comes still, and their streams do not wait for this process's.
  constexpr std::size_t count = 3'000'000, bytes = count * sizeof(int);
  const Port half(MPI_COMM_WORLD, 3);
  const auto x = memory(gpu, ascending(count, 7)), y = memory(gpu, Ints(count, -1));
  const Share out(half, x->data(), bytes), in(half, y->data(), bytes);
  if (rank == 0) half.cancel();
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 1) {
    const auto put = prepared::put(out, 0, in, 0, 0, bytes, {.word = arrived});
    put.post(of(lane.stream));
    lane.sync();
    const auto get = prepared::get(out, 0, in, 0, 0, bytes);
    get.post(of(lane.stream));
    lane.sync();
    CHECK(x->read<int>(count) == ascending(count, 7));
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) CHECK(y->read<int>(count) == ascending(count, 7));
}

void check_lost(const Gpu& gpu) {
  const Lane lane(gpu), beside(gpu);
  const Port port(MPI_COMM_WORLD, 3);
  const Port of_streams(MPI_COMM_WORLD, 3, prepared::WordsOf::streams);
  const auto x = memory(gpu, Ints(100, rank));
  const Share share(port, x->data(), 400);
  const auto put = prepared::put(share, 0, share, peer(), 200, 200, {.word = arrived});
  int token = 0;
  if (rank == 1) {
    MPI_Recv(&token, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    ::raise(SIGKILL);
  }
  const auto get = prepared::get(share, 0, share, peer(), 200, 200);
  for (int i = 0; i < 40; ++i)
    get.post(of(lane.stream));
  for (int i = 0; i < 20; ++i) {
    port.take(credit, 1, of(lane.stream));
    put.post(of(lane.stream));
    port.take(arrived, 1, of(lane.stream));
  }
  for (int i = 0; i < 20; ++i)
    of_streams.take(credit, 1, of(beside.stream));
  CHECK(!lane.is_idle() && !beside.is_idle());
  MPI_Send(&token, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
  lane.sync();
  beside.sync();
  refused("rank 1 of the port has died", [&] { of_streams.take(third, 1, of(beside.stream)); });
  refused("rank 1 of the port has died", [&] { put.post(of(lane.stream)); });
  refused("rank 1 of the port has died", [&] { port.wait_equal(third, 9); });
  std::printf("lost: right\n");
}

/// MPI_Finalize ends the wait, and what streams have passed comes before.
void check_leave(const Gpu& gpu) {
  constexpr std::size_t count = 1'000'000, bytes = count * sizeof(int);
  auto* const lane = new Lane(gpu);
  auto* const beside = new Lane(gpu);
  auto* const port = new Port(MPI_COMM_WORLD, 3);
  auto* const of_streams = new Port(MPI_COMM_WORLD, 3, prepared::WordsOf::streams);
  of_streams->take(third, 1, of(beside->stream));
  const auto x = memory(gpu, ascending(count, 3)), y = memory(gpu, Ints(count, -1));
  auto* const out = new Share(*port, x->data(), bytes);
  auto* const in = new Share(*port, y->data(), bytes);
  auto* const put =
      new prepared::Descriptor(prepared::put(*out, 0, *in, peer(), 0, bytes, {.word = arrived}));
  put->post();
  put->finish();
  if (!is_carried) port->take(arrived, 1);
  port->take(third, 1, of(lane->stream));
  MPI_Finalize();
  lane->sync();
  beside->sync();
  CHECK(y->read<int>(count) == ascending(count, 3));
  if (rank == 0) std::printf("leave: right\n");
  std::fflush(stdout);
  ::_exit(0);
}

/// Microseconds one way, of memory that is put and waited for by streams alone.
void measure(const Gpu& gpu, prepared::WordsOf of_whom) {
  const Lane lane(gpu);
  const Port port(MPI_COMM_WORLD, 3, of_whom);
  constexpr std::size_t most = std::size_t{1} << 20U;
  const Memory x(gpu, MemoryKind::device, most), y(gpu, MemoryKind::device, most);
  const Share out(port, x.data(), most), in(port, y.data(), most);
  for (std::size_t bytes = 8; bytes <= most; bytes *= 8) {
    const auto put = prepared::put(out, 0, in, peer(), 0, bytes, {.word = arrived});
    constexpr int rounds = 50;
    double best = 1e9;
    for (int turn = 0; turn < 5; ++turn) {
      MPI_Barrier(MPI_COMM_WORLD);
      const auto began = Clock::now();
      for (int i = 0; i < rounds; ++i) {
        if (rank == 1) port.take(arrived, 1, of(lane.stream));
        put.post(of(lane.stream));
        if (rank == 0) port.take(arrived, 1, of(lane.stream));
      }
      lane.sync();
      best = std::min(best,
                      std::chrono::duration<double, std::micro>(Clock::now() - began).count() / 2 / rounds);
    }
    if (rank == 0)
      std::printf("pingpong %zu B, words of %s: %.2f us one way\n", bytes,
                  of_whom == prepared::WordsOf::all ? "all" : "streams", best);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

struct Case {
  const char* name;
  void (*run)(const Gpu&);
};
constexpr Case cases[]{{"put", check_put},           {"now", check_now},        {"words", check_words},
                       {"pressure", check_pressure}, {"batch", check_batch},    {"graph", check_graph},
                       {"errors", check_errors},     {"cancel", check_cancel},  {"pinned", check_pinned},
                       {"both", check_both},         {"many", check_many},      {"behind", check_behind},
                       {"parting", check_parting},   {"streams", check_streams}};

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "carried") {
    is_carried = true;
    std::rotate(argv + 1, argv + 2, argv + argc);
    --argc;
  }
  const std::string_view what = argc > 1 ? argv[1] : "all";
  return run_on_gpu(argc, argv, [&](const Gpu& gpu, int the_rank) {
    rank = the_rank;
    if (what == "lost") return check_lost(gpu);
    if (what == "leave") return check_leave(gpu);
    if (what == "broken") {
      check_broken(gpu);
      if (rank == 0) std::printf("broken: right\n");
      return;
    }
    if (what == "pingpong") {
      measure(gpu, prepared::WordsOf::all);
      return measure(gpu, prepared::WordsOf::streams);
    }
    for (const Case& each : cases) {
      const bool is_asked =
          what == "all" ||
          std::any_of(argv + 1, argv + argc, [&](const std::string_view name) { return name == each.name; });
      if (!is_asked) continue;
      each.run(gpu);
      MPI_Barrier(MPI_COMM_WORLD);
      if (rank == 0) std::printf("%s: right\n", each.name);
      std::fflush(stdout);
    }
  });
}
