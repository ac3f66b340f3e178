// Kernels that communicate (<isthmus/device.cuh>, device_mail.cuh, fuse.cuh), on the emulated driver and on
// GPUs; rank 0 prints a line for each case that is right. Two ranks, or any even number of them. The
// argument:
//   names of cases; `all`, which none means too
//   carried   what works where no kernel reaches another process: ranks of two hosts, GPUs with no link
//   lost      --on-failure continue, two ranks: rank 1 dies while kernels of rank 0 wait for it
//   leave     a port with a waiting kernel is left to MPI_Finalize
#include <unistd.h>

#include <isthmus/device.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <memory>
#include <string_view>
#include <thread>

#include "device/bodies.hpp"
#include "device/image.hpp"
#include "device/twins.hpp"
#include "gpu_memory.hpp"

using namespace isthmus;
using namespace isthmus::testing_gpu;
using namespace testing_device;
using device::Port;
using Ints = std::vector<int>;
using Words = std::vector<u64>;

namespace {

int rank = -1, ranks = 0;
/// Whether pairs are those of the same number in each half, else neighbours.
bool pairs_are_far = false;
int peer() {
  return pairs_are_far ? (rank + ranks / 2) % ranks : rank ^ 1;
}

class Kernels {
 public:
  explicit Kernels(const Gpu& gpu) : cuda_(gpu.functions()) {
    if (emulated_driver()) {
      using Register = void (*)(const EmulatedTwin*);
      reinterpret_cast<Register>(::dlsym(::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD),
                                         "emulated_cuda_register"))(device_twins());
    }
    CHECK_CUDA(cuda_.module_load(&module_, kernel_image()));
    // All now: to load one later waits for kernels that wait.
    for (std::size_t i = 0; i < names.size(); ++i)
      CHECK_CUDA(cuda_.module_function(&functions_[i], module_, names[i]));
    CHECK_CUDA(cuda_.stream_create(&stream, cuda::stream_non_blocking));
  }
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;
  ~Kernels() {
    sync();
    CHECK_CUDA(cuda_.stream_destroy(stream));
    CHECK_CUDA(cuda_.module_unload(module_));
  }
  void sync() const { CHECK_CUDA(cuda_.stream_synchronize(stream)); }
  [[nodiscard]] bool is_idle() const { return cuda_.stream_query(stream) == cuda::Status::success; }

  void launch(const ExchangeWork& work, unsigned blocks = 1) const { start(0, work, blocks); }
  void launch(const RelayWork& work) const { start(1, work, 1); }
  void launch(const TeamWork& work) const { start(2, work, 1); }
  void launch(const CallWork& work, unsigned blocks = 1) const { start(3, work, blocks); }
  void launch(const JacobiWork& work, unsigned blocks) const { start(4, work, blocks); }
  void launch(const MailWork& work) const { start(5, work, 1); }

  cuda::Stream stream = nullptr;

 private:
  static constexpr std::array names{"device_exchange", "device_relay",  "device_team",
                                    "device_call",     "device_jacobi", "device_mail"};

  template <class Work>
  void start(std::size_t which, const Work& work, unsigned blocks) const {
    Work copy = work;
    std::array<void*, 1> parameters{&copy};
    CHECK_CUDA(
        cuda_.launch(functions_[which], blocks, 1, 1, 128, 1, 1, 0, stream, parameters.data(), nullptr));
  }

  const cuda::Functions& cuda_;
  cuda::Module module_ = nullptr;
  std::array<cuda::Function, names.size()> functions_{};
};

struct Setting {
  const Gpu& gpu;
  const Kernels& kernels;
};

template <class T>
std::unique_ptr<Memory> memory(const Gpu& gpu, const std::vector<T>& values,
                               MemoryKind kind = MemoryKind::device) {
  auto made = std::make_unique<Memory>(gpu, kind, std::max<std::size_t>(values.size() * sizeof(T), 8));
  made->write(values);
  return made;
}

template <class T>
T* of(const Memory& memory) {
  return static_cast<T*>(memory.data());
}

device::DevicePort for_kernels(const Port& port) {
  return device::DevicePort(port.view());
}

template <class Body>
void refused(const char* text, Body body) {
  std::string said;
  try {
    body();
  } catch (const device::Error& error) {
    said = error.what();
    CHECK(error.code() != 0);
  }
  if (!said.contains(text)) {
    std::fprintf(stderr, "rank %d: '%s' is not said, but: %s\n", rank, text, said.c_str());
    CHECK(false);
  }
}

/// Both members of each pair, at once; the number of bytes that were not what they should have been.
u64 run_exchange(const Setting& at, const Port& port, Way way, Scope scope, u64 bytes, u64 offset,
                 MemoryKind kind, u32 rounds, u32& first) {
  const std::size_t room = 2 * (bytes + offset) + 16;
  const bool gets = way == get_after_signal;
  Memory out(at.gpu, gets ? kind : MemoryKind::device, room);
  const Memory in(at.gpu, kind, room);
  const auto wrong = memory(at.gpu, Words{0});
  // What is got is where the peer has written it, and comes to another place.
  const Memory came(at.gpu, MemoryKind::device, room);
  const u32 share = port.share(gets ? out.data() : in.data(), room);
  ExchangeWork work{.port = for_kernels(port),
                    .out = of<unsigned char>(out),
                    .in = of<unsigned char>(gets ? came : in),
                    .wrong = of<u64>(*wrong),
                    .bytes = bytes,
                    .offset = offset,
                    .share = share,
                    .rounds = rounds,
                    .first = first,
                    .scope = scope,
                    .way = way,
                    .peer = peer()};
  if (scope == by_grid) {
    for (u32 i = 0; i < rounds; ++i, ++work.first) {
      std::vector<unsigned char> filled(room);
      for (u64 j = 0; j < bytes; ++j)
        filled[(work.first % 2) * (bytes + offset) + offset + j] = byte_of(rank, work.first, j);
      out.write(filled);
      at.kernels.launch(work, 5);
      at.kernels.sync();
    }
  } else {
    at.kernels.launch(work, scope == by_block ? 2 : 1);
    at.kernels.sync();
  }
  first += rounds;
  port.check();
  port.unshare(share);
  const u64 count = wrong->read<u64>(1)[0];
  if (count != 0 && way != signal_first)
    std::fprintf(stderr, "rank %d: %llu wrong bytes: way %u, scope %u, %llu bytes at %llu of %s\n", rank,
                 count, way, scope, bytes, offset, std::string(name_of(kind)).c_str());
  return count;
}

void check_exchange(const Setting& at, bool is_mapped) {
  const Port port(MPI_COMM_WORLD, 4);
  u32 first = 1;
  for (const MemoryKind kind : {MemoryKind::device, MemoryKind::vmm, MemoryKind::pool})
    for (const Way way : {put_with_signal, put_then_signal, get_after_signal, word})
      for (const Scope scope : {by_thread, by_warp, by_block, by_grid}) {
        if (scope == by_grid && way != put_with_signal) continue;
        for (const auto& [bytes, offset] :
             {std::pair<u64, u64>{8, 0}, {1, 3}, {4099, 5}, {4096, 4}, {70'000, 16}}) {
          if (way == word && bytes != 8) continue;
          if (!is_mapped && kind != MemoryKind::device && bytes != 4099) continue;
          // Kinds differ in how they are mapped, not in how they are written to.
          if (kind != MemoryKind::device && (scope != by_block || way == word)) continue;
          CHECK_EQUAL(run_exchange(at, port, way, scope, bytes, offset, kind, 6, first), 0U);
        }
      }
}

void check_direct(const Setting& at) {
  check_exchange(at, true);
}

/// One call of a kernel: what it answers.
class Caller {
 public:
  explicit Caller(const Setting& at) : at_(at), answer_(memory(at.gpu, Words{0})) {}
  void start(const Port& port, Call call, Place place, void* memory, u64 bytes, u32 signal,
             unsigned blocks = 1) const {
    answer_->write(Words{0});
    at_.kernels.launch(CallWork{.port = for_kernels(port),
                                .call = call,
                                .place = place,
                                .memory = memory,
                                .bytes = bytes,
                                .signal = signal,
                                .answer = of<u64>(*answer_)},
                       blocks);
  }
  [[nodiscard]] bool finish() const {
    at_.kernels.sync();
    const u64 said = answer_->read<u64>(1)[0];
    CHECK(said == 1 || said == 2);
    return said == 1;
  }
  [[nodiscard]] bool run(const Port& port, Call call, Place place, void* memory, u64 bytes,
                         u32 signal) const {
    start(port, call, place, memory, bytes, signal);
    return finish();
  }

 private:
  const Setting& at_;
  std::unique_ptr<Memory> answer_;
};

/// What kernels cannot reach is carried by proxies: to another host, or from GPU to GPU where no link is.
void check_carried(const Setting& at) {
  {
    const Port port(MPI_COMM_WORLD, 2);
    const Memory x(at.gpu, MemoryKind::device, 64);
    const u32 share = port.share(x.data(), 64);
    CHECK(!port.reaches(share, peer()));
    CHECK(port.reaches(share, rank));
    const Caller caller(at);
    CHECK(!caller.run(port, Call::barrier, {}, nullptr, 0, 0));
    refused("needs all processes of the port mapped", [&] { port.check(); });
    CHECK(!caller.run(port, Call::add, {share, peer(), 0}, nullptr, 0, 0));
    refused("set it instead", [&] { port.check(); });
    CHECK(!caller.run(port, Call::put, {share, peer(), 60}, x.data(), 8, 0));
    refused("does not lie within", [&] { port.check(); });
  }
  check_exchange(at, false);
  // More requests than the proxy can hold.
  const Port port(MPI_COMM_WORLD, 4);
  u32 first = 1;
  CHECK_EQUAL(run_exchange(at, port, put_then_signal, by_thread, 64, 0, MemoryKind::device, 700, first), 0U);
  CHECK_EQUAL(run_exchange(at, port, put_with_signal, by_block, 3'000'000, 0, MemoryKind::device, 4, first),
              0U);
}

/// Pinned memory goes by proxy between processes that reach each other's signals, and these come behind it.
void check_pinned(const Setting& at) {
  const Port port(MPI_COMM_WORLD, 4);
  u32 first = 1;
  for (const Way way : {put_with_signal, put_then_signal, get_after_signal})
    CHECK_EQUAL(run_exchange(at, port, way, by_block, 50'000, 8, MemoryKind::pinned, 10, first), 0U);
  // The port's kernels still reach other memory themselves.
  const Memory x(at.gpu, MemoryKind::device, 64);
  const u32 share = port.share(x.data(), 64);
  CHECK(port.reaches(share, peer()));
}

/// The order that the others keep: if it is turned round, that is seen.
void check_order(const Setting& at) {
  const Port port(MPI_COMM_WORLD, 4);
  u32 first = 1;
  const u64 wrong = run_exchange(at, port, signal_first, by_block, 4096, 0, MemoryKind::device, 20, first);
  CHECK(wrong > 0);
}

void check_team(const Setting& at) {
  for (const Scope scope : {by_thread, by_warp, by_block})
    for (const u32 count : {1U, 5U, 256U, 600U}) {
      if (scope == by_thread && count == 600) continue;
      const Port port(MPI_COMM_WORLD, 1);
      const Memory values(at.gpu, MemoryKind::device, count * 8), bits(at.gpu, MemoryKind::device, count * 8);
      const auto seen = memory(at.gpu, Words(static_cast<std::size_t>(ranks), 0)),
                 wrong = memory(at.gpu, Words{0});
      const u32 share = port.share(seen->data(), static_cast<std::size_t>(ranks) * 8);
      TeamWork work{.port = for_kernels(port),
                    .values = of<double>(values),
                    .bits = of<u64>(bits),
                    .seen = of<u64>(*seen),
                    .wrong = of<u64>(*wrong),
                    .share = share,
                    .count = count,
                    .rounds = 20,
                    .scope = scope};
      // The rounds go on where the last kernel has left them.
      for (int launch = 0; launch < 3; ++launch)
        at.kernels.launch(work);
      at.kernels.sync();
      CHECK_EQUAL(wrong->read<u64>(1)[0], 0U);
      port.check();
    }
}

/// Messages with tags, to a peer and to itself; memory in which no kernel reaches the peer's goes by proxy.
void check_messages(const Setting& at) {
  constexpr std::size_t bytes = std::size_t{MailWork::messages} * MailWork::place;
  const Port port(MPI_COMM_WORLD, 1);
  u32 first = 1;
  for (const MemoryKind kind : {MemoryKind::device, MemoryKind::vmm, MemoryKind::pinned})
    for (const Scope scope : {by_thread, by_warp, by_block})
      for (const int to : {peer(), rank}) {
        if (kind != MemoryKind::device && scope != by_block) continue;
        const Memory out(at.gpu, kind, bytes), in(at.gpu, MemoryKind::device, MailWork::place);
        const auto wrong = memory(at.gpu, Words{0});
        const u32 share = port.share(out.data(), bytes);
        MailWork work{.port = for_kernels(port),
                      .out = of<unsigned char>(out),
                      .in = of<unsigned char>(in),
                      .wrong = of<u64>(*wrong),
                      .share = share,
                      .rounds = scope == by_thread ? 2U : 10U,
                      .first = first,
                      .scope = scope,
                      .peer = to};
        // The numbers go on where the last kernel has left them.
        for (int launch = 0; launch < 2; ++launch)
          at.kernels.launch(work);
        at.kernels.sync();
        CHECK_EQUAL(wrong->read<u64>(1)[0], 0U);
        port.check();
        port.unshare(share);
        first += work.rounds;
      }
}

/// What of messages is refused, and what is longer than its receive.
void check_misfits(const Setting& at) {
  const Caller caller(at);
  const Port port(MPI_COMM_WORLD, 1);
  const auto x = memory(at.gpu, Ints(1000, 7)), y = memory(at.gpu, Ints(1000, -1));
  const u32 share = port.share(x->data(), 4000);
  const auto send = [&](Place place, u64 bytes, u32 tag) {
    return caller.run(port, Call::send, place, nullptr, bytes, tag);
  };
  const auto receive = [&](int from, u64 bytes, u32 tag) {
    return caller.run(port, Call::receive, {0, from, 0}, y->data(), bytes, tag);
  };
  const auto told = [&](const char* text) { refused(text, [&] { port.check(); }); };
  CHECK(!send({share, ranks, 0}, 8, 0));
  told("send names rank");
  CHECK(!receive(-1, 8, 0));
  told("receive names rank -1");
  CHECK(!send({share, peer(), 0}, 8, device::any_tag));
  told("the tag that stands for any");
  CHECK(!send({share, peer(), 3996}, 8, 0));
  told("send of 8 bytes at 3996 does not lie within");
  CHECK(!send({share + 1, peer(), 0}, 8, 0));
  told("which there was not");
  // Short ones and long ones; behind each, the next comes whole.
  for (const u64 bytes : {u64{48}, u64{3000}}) {
    CHECK(send({share, rank, 0}, bytes, 5));
    CHECK(send({share, rank, 0}, bytes, 5));
    y->write(Ints(1000, -1));
    CHECK(!receive(rank, 40, 5));
    told("has room for 40 bytes, and message");
    Ints fits(11, 7);
    fits[10] = -1;
    CHECK(y->read<int>(11) == fits);
    CHECK(receive(rank, bytes, 5));
    CHECK(y->read<int>(bytes / 4) == Ints(bytes / 4, 7));
  }
  // Nobody sends any more: who waits is let go by the host.
  caller.start(port, Call::receive, {0, peer(), 0}, y->data(), 8, 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(!at.kernels.is_idle());
  port.cancel();
  CHECK(!caller.finish());
  refused("cancelled", [&] { port.check(); });
  MPI_Barrier(MPI_COMM_WORLD);
}

/// A communicator of some of the processes, in another order, and many ports at a time.
void check_ports(const Setting& at) {
  MPI_Comm pair;
  CHECK_MPI(MPI_Comm_split(MPI_COMM_WORLD, rank / 2, -rank, &pair));
  const int own = 1 - rank % 2;
  constexpr std::size_t many = 12;
  std::vector<Port> ports;
  for (std::size_t i = 0; i < many; ++i)
    ports.emplace_back(i % 2 == 0 ? pair : MPI_COMM_WORLD, 2);
  std::vector<std::unique_ptr<Memory>> in, out, wrong;
  for (std::size_t i = 0; i < many; ++i) {
    in.push_back(memory(at.gpu, Ints(500, -1)));
    out.push_back(memory(at.gpu, Ints(500, -1)));
    wrong.push_back(memory(at.gpu, Words{0}));
    const u32 share = ports[i].share(in[i]->data(), 2000);
    const auto view = for_kernels(ports[i]);
    CHECK_EQUAL(ports[i].view().rank, i % 2 == 0 ? own : rank);
    at.kernels.launch(ExchangeWork{.port = view,
                                   .out = of<unsigned char>(*out[i]),
                                   .in = of<unsigned char>(*in[i]),
                                   .wrong = of<u64>(*wrong[i]),
                                   .bytes = 900,
                                   .offset = 0,
                                   .share = share,
                                   .rounds = 10,
                                   .first = 1,
                                   .scope = by_block,
                                   .way = put_with_signal,
                                   .peer = i % 2 == 0 ? 1 - own : peer()});
  }
  at.kernels.sync();
  for (std::size_t i = 0; i < many; ++i)
    CHECK_EQUAL(wrong[i]->read<u64>(1)[0], 0U);
  CHECK_MPI(MPI_Comm_free(&pair));
  ports.clear();
}

/// What does not lie within is refused, told once, and nothing is written.
void check_ranges(const Setting& at) {
  const Caller caller(at);
  const Port port(MPI_COMM_WORLD, 3, 2);
  const auto x = memory(at.gpu, Ints(1000, 7));
  const auto y = memory(at.gpu, Ints(1000, -1));
  // The rest of the allocation is not shared.
  const u32 share = port.share(y->data(), 2000);
  const auto put = [&](Place place, u64 bytes, u32 signal) {
    return caller.run(port, Call::put, place, x->data(), bytes, signal);
  };
  const auto told = [&](const char* text) { refused(text, [&] { port.check(); }); };
  CHECK(!put({share, peer(), 1996}, 8, 0));
  told("put of 8 bytes at 1996 does not lie within what rank");
  port.check();
  CHECK(!put({share, peer(), ~0ULL - 3}, 8, 0));
  told("does not lie within");
  CHECK(!put({share, peer(), 0}, ~0ULL, 0));
  told("does not lie within");
  CHECK(!put({share + 1, peer(), 0}, 8, 0));
  told("share 1, which there was not");
  CHECK(!put({share, ranks, 0}, 8, 0));
  told("which the port has not");
  CHECK(!put({share, -1, 0}, 8, 0));
  told("names rank -1");
  CHECK(!caller.run(port, Call::get, {share, peer(), 1992}, x->data(), 16, 0));
  told("get of 16 bytes at 1992");
  CHECK(!caller.run(port, Call::signal, {share, peer(), 0}, nullptr, 0, 3));
  told("signal 3, which the port has not");
  CHECK(!caller.run(port, Call::wait, {share, peer(), 0}, nullptr, 0, 4));
  told("signal 4, which the port has not");
  // Of many, one is told, and then no more.
  caller.start(port, Call::put, {share, peer(), 2001}, x->data(), 8, 0, 5);
  CHECK(!caller.finish());
  told("at 2001");
  port.check();
  MPI_Barrier(MPI_COMM_WORLD);
  CHECK(y->read<int>(1000) == Ints(1000, -1));
  CHECK(!caller.run(port, Call::test, {}, nullptr, 0, 0));
  MPI_Barrier(MPI_COMM_WORLD);
  // And what does is not.
  CHECK(put({share, peer(), 1992}, 8, 0));
  CHECK(caller.run(port, Call::wait, {}, nullptr, 0, 0));
  CHECK(caller.run(port, Call::test, {}, nullptr, 0, 0));
  CHECK(y->read<int>(500)[498] == 7);
  CHECK(y->read<int>(501)[500] == -1);
  // Words that both add to, and the owner too.
  CHECK(caller.run(port, Call::add, {share, peer(), 0}, nullptr, 0, 2));
  CHECK(caller.run(port, Call::add, {share, rank, 0}, nullptr, 0, 2));
  refused("share is 5", [&] { port.unshare(5); });
  {
    Port gone(MPI_COMM_WORLD, 1);
    gone.free();
    refused("port is null: it has been freed, or moved from", [&] { gone.check(); });
    refused("port is null", [&] { static_cast<void>(gone.view()); });
    refused("port is null", [&] { static_cast<void>(gone.share(x->data(), 8)); });
    refused("port is null", [&] { gone.unshare(0); });
    refused("port is null", [&] { gone.cancel(); });
    refused("port is null", [&] { gone.free(); });
    CHECK(!gone.reaches(0, peer()));
  }
  refused("signals is 0", [&] { const Port none(MPI_COMM_WORLD, 0); });
  std::vector<int> pageable(100);
  refused("pageable memory", [&] { static_cast<void>(port.share(pageable.data(), 400)); });
  refused("address has 4000 bytes", [&] { static_cast<void>(port.share(y->data(), 4004)); });
  if (rank == 0)
    refused("address is null", [&] { static_cast<void>(port.share(nullptr, 8)); });
  else
    refused("rank 0 has failed", [&] { static_cast<void>(port.share(y->data(), 8)); });
  const u32 second = port.share(x->data(), 8);
  refused("2 shares already", [&] { static_cast<void>(port.share(x->data(), 16)); });
  CHECK(port.reaches(second, peer()));
  port.unshare(second);
  // A kernel of before may still name it: it has no bytes any more.
  CHECK(!put({second, peer(), 0}, 4, 0));
  told("does not lie within");
  refused("share is 1", [&] { port.unshare(second); });
}

/// A graph whose kernels count nothing, so that each launch is right.
void check_graph(const Setting& at) {
  const cuda::Functions& cuda = at.gpu.functions();
  const Port port(MPI_COMM_WORLD, 4);
  constexpr std::size_t count = 40;
  constexpr int launches = 301;
  Words start(count);
  for (std::size_t i = 0; i < count; ++i)
    start[i] = 1000 * static_cast<u64>(rank) + i;
  const auto out = memory(at.gpu, start), in = memory(at.gpu, Words(count, 0));
  const u32 share = port.share(in->data(), count * 8);
  CHECK_CUDA(cuda.stream_begin_capture(at.kernels.stream, cuda::CaptureMode::global));
  at.kernels.launch(RelayWork{.port = for_kernels(port),
                              .out = of<u64>(*out),
                              .in = of<u64>(*in),
                              .count = count,
                              .share = share,
                              .peer = peer()});
  cuda::Graph graph = nullptr;
  CHECK_CUDA(cuda.stream_end_capture(at.kernels.stream, &graph));
  cuda::GraphExec executable = nullptr;
  CHECK_CUDA(cuda.graph_instantiate(&executable, graph, 0));
  for (int i = 0; i < launches; ++i) {
    CHECK_CUDA(cuda.graph_launch(executable, at.kernels.stream));
    if (i % 100 == 99) at.kernels.sync();
  }
  at.kernels.sync();
  const Words got = out->read<u64>(count);
  for (std::size_t i = 0; i < count; ++i)
    CHECK_EQUAL(got[i], 1000 * static_cast<u64>(peer()) + i + launches);
  CHECK_CUDA(cuda.graph_exec_destroy(executable));
  CHECK_CUDA(cuda.graph_destroy(graph));
}

/// Kernels that wait for what never comes, in as many blocks as the GPU holds and more.
void check_cancel(const Setting& at) {
  const Caller caller(at);
  const Port port(MPI_COMM_WORLD, 2);
  const Port other(MPI_COMM_WORLD, 2);
  const auto answer = memory(at.gpu, Words{0});
  CallWork work{.port = for_kernels(port),
                .call = Call::take_for_ever,
                .place = {},
                .memory = nullptr,
                .bytes = 0,
                .signal = 1,
                .answer = of<u64>(*answer)};
  at.kernels.launch(work, emulated_driver() ? 300 : 3000);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  CHECK(!at.kernels.is_idle());
  port.cancel();
  at.kernels.sync();
  CHECK_EQUAL(answer->read<u64>(1)[0], 2U);
  refused("cancelled", [&] { port.check(); });
  refused("cancelled", [&] { static_cast<void>(port.view()); });
  // The other port knows nothing of it.
  CHECK(caller.run(other, Call::barrier, {}, nullptr, 0, 0));
  other.check();
}

void check_freed(const Setting& at) {
  const Port port(MPI_COMM_WORLD, 2);
  auto x = memory(at.gpu, Ints(100, 1));
  static_cast<void>(port.share(x->data(), 400));
  port.check();
  x.reset();
  refused("has been freed", [&] { port.check(); });
  refused("has been freed", [&] { static_cast<void>(port.view()); });
  MPI_Barrier(MPI_COMM_WORLD);
}

// --- the fused kernel

double start_of(std::size_t row, std::size_t column) {
  return static_cast<double>((row * 37 + column * 11) % 101);
}

/// The whole row of processes by the host.
std::vector<double> relaxed(std::size_t rows, std::size_t columns, int steps) {
  const std::size_t pitch = columns + 2;
  std::vector<double> now((rows + 2) * pitch), next;
  for (std::size_t row = 0; row < rows + 2; ++row)
    for (std::size_t column = 0; column < pitch; ++column)
      now[row * pitch + column] = start_of(row, column);
  for (int step = 0; step < steps; ++step) {
    next = now;
    for (std::size_t row = 1; row <= rows; ++row)
      for (std::size_t column = 1; column <= columns; ++column) {
        const std::size_t i = row * pitch + column;
        next[i] = ((now[i - 1] + now[i + 1]) + (now[i - pitch] + now[i + pitch])) * 0.25;
      }
    now.swap(next);
  }
  return now;
}

void check_jacobi(const Setting& at) {
  constexpr u32 rows = 23, columns = 17, steps = 12, launches = 3;
  const std::size_t pitch = columns + 2, points = (rows + 2) * pitch;
  const auto wanted = relaxed(rows, columns * static_cast<std::size_t>(ranks), steps * launches);
  const std::size_t wide = columns * static_cast<std::size_t>(ranks) + 2;
  for (const unsigned blocks : {1U, 2U, 7U, 64U}) {
    const Port port(MPI_COMM_WORLD, 2);
    std::vector<double> field(points);
    for (std::size_t row = 0; row < rows + 2; ++row)
      for (std::size_t column = 0; column < pitch; ++column)
        field[row * pitch + column] = start_of(row, column + columns * static_cast<std::size_t>(rank));
    const auto a = memory(at.gpu, field), b = memory(at.gpu, field);
    const Memory out(at.gpu, MemoryKind::device, rows * 32), came(at.gpu, MemoryKind::device, rows * 32);
    const u64 state_bytes = fusion_bytes(steps, jacobi_roles);
    const auto state = memory(at.gpu, std::vector<unsigned char>(state_bytes, 0));
    JacobiWork work{.port = {},
                    .fusion = {.state = of<FusionState>(*state),
                               .steps = steps,
                               .roles = jacobi_roles,
                               .tasks = {2, 5, 1, 2}},
                    .fields = {of<double>(*a), of<double>(*b)},
                    .out = of<double>(out),
                    .came = of<double>(came),
                    .rows = rows,
                    .columns = columns,
                    .share = port.share(came.data(), rows * 32),
                    .first = 0,
                    .waits_wrongly = false};
    work.port = for_kernels(port);
    for (u32 launch = 0; launch < launches; ++launch, work.first += steps)
      at.kernels.launch(work, blocks);
    at.kernels.sync();
    port.check();
    const auto got = ((steps * launches) % 2 == 0 ? a : b)->read<double>(points);
    for (std::size_t row = 1; row <= rows; ++row)
      for (std::size_t column = 1; column <= columns; ++column)
        CHECK_EQUAL(got[row * pitch + column],
                    wanted[row * wide + column + columns * static_cast<std::size_t>(rank)]);
    // The next launch finds the tickets as the first did.
    CHECK(state->read<unsigned char>(state_bytes) == std::vector<unsigned char>(state_bytes, 0));
    MPI_Barrier(MPI_COMM_WORLD);
    if (blocks != 7) continue;
    // A role that waits for one behind it would never end: it is told, and the rest is let go.
    work.waits_wrongly = true;
    at.kernels.launch(work, blocks);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    port.cancel();
    at.kernels.sync();
    refused("waits for role 3, which comes no sooner", [&] { port.check(); });
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

void check_lost(const Setting& at) {
  const Caller caller(at);
  const Port port(MPI_COMM_WORLD, 2);
  int token = 0;
  if (rank == 1) {
    MPI_Recv(&token, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    ::raise(SIGKILL);
  }
  caller.start(port, Call::wait, {}, nullptr, 0, 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  CHECK(!at.kernels.is_idle());
  MPI_Send(&token, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
  CHECK(!caller.finish());
  refused("rank 1 of the port has died", [&] { port.check(); });
  refused("rank 1 of the port has died", [&] { static_cast<void>(port.view()); });
  std::printf("lost: right\n");
}

/// MPI_Finalize ends the wait.
void check_leave(const Setting& at) {
  const auto answer = memory(at.gpu, Words{0});
  auto* const port = new Port(MPI_COMM_WORLD, 2);
  at.kernels.launch({.port = for_kernels(*port),
                     .call = Call::wait,
                     .place = {},
                     .memory = nullptr,
                     .bytes = 0,
                     .signal = 1,
                     .answer = of<u64>(*answer)});
  MPI_Finalize();
  at.kernels.sync();
  CHECK_EQUAL(answer->read<u64>(1)[0], 2U);
  if (rank == 0) std::printf("leave: right\n");
  std::fflush(stdout);
  ::_exit(0);
}

struct Case {
  const char* name;
  void (*run)(const Setting&);
};
constexpr Case cases[]{{"direct", check_direct}, {"order", check_order},       {"team", check_team},
                       {"ports", check_ports},   {"ranges", check_ranges},     {"graph", check_graph},
                       {"cancel", check_cancel}, {"freed", check_freed},       {"jacobi", check_jacobi},
                       {"pinned", check_pinned}, {"messages", check_messages}, {"misfits", check_misfits}};

}  // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "all";
  return run_on_gpu(argc, argv, [&](const Gpu& gpu, int the_rank) {
    rank = the_rank;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const Kernels kernels(gpu);
    const Setting at{gpu, kernels};
    if (what == "lost") return check_lost(at);
    if (what == "leave") return check_leave(at);
    if (what == "carried") {
      pairs_are_far = true;
      check_carried(at);
      if (rank == 0) std::printf("carried: right\n");
      return;
    }
    for (const Case& each : cases) {
      const bool is_asked =
          what == "all" ||
          std::any_of(argv + 1, argv + argc, [&](const std::string_view name) { return name == each.name; });
      if (!is_asked) continue;
      each.run(at);
      MPI_Barrier(MPI_COMM_WORLD);
      if (rank == 0) std::printf("%s: right\n", each.name);
      std::fflush(stdout);
    }
  });
}
