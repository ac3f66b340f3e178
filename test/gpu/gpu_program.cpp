// What programs do with CUDA beside MPI: contexts of their own, streams in capture, a device that another
// thread resets, or the program itself before MPI ends. Prints nothing when all is right. At 2 ranks. The
// argument:
//   capture   streams are in capture while MPI is called
//   reset     a thread resets the device while another sends memory of the host; and so before MPI_Finalize
//   context   buffers in a context that is not the primary one
#include <dlfcn.h>

#include <atomic>
#include <functional>
#include <string_view>
#include <thread>

#include "gpu_memory.hpp"

using namespace isthmus;
using namespace isthmus::testing_gpu;
using Ints = std::vector<int>;

namespace {

constexpr int count = 30'000;
constexpr std::size_t all = 2 * std::size_t{count};
int rank = -1;

/// A function of the driver that the library does not use.
template <class Function>
Function symbol(const char* name) {
  auto* const found =
      reinterpret_cast<Function>(::dlsym(::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD), name));
  CHECK(found != nullptr);
  return found;
}

Ints values(int seed) {
  return ascending(all, 1000 * rank + seed);
}

/// MPI calls from `send` to `receive`, both of `all` ints, in any memory.
using Call = std::function<void(void* send, void* receive)>;

/// Every way that a buffer goes: contiguous and with gaps, by one call and several, alone and collectively.
std::vector<Call> calls() {
  const int peer = 1 - rank;
  return {
      [=](void* s, void* r) {
        MPI_Sendrecv(s, count, MPI_INT, peer, 0, r, count, MPI_INT, peer, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
      },
      [=](void* s, void* r) {
        MPI_Sendrecv(s, 2, MPI_INT, peer, 0, r, 2, MPI_INT, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      },
      [=](void* s, void* r) {
        MPI_Datatype gaps;
        MPI_Type_vector(count / 100, 100, 200, MPI_INT, &gaps);
        MPI_Type_commit(&gaps);
        MPI_Sendrecv(s, 1, gaps, peer, 0, r, 1, gaps, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Type_free(&gaps);
      },
      [=](void* s, void* r) {
        MPI_Sendrecv(s, count, MPI_INT, 0, 0, r, count, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE);
      },
      [](void* s, void* r) { MPI_Allreduce(s, r, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD); },
      [](void* s, void* r) { MPI_Allgather(s, count, MPI_INT, r, count, MPI_INT, MPI_COMM_WORLD); },
      [](void* s, void* r) {
        int position = 0;
        MPI_Pack(s, count, MPI_INT, r, static_cast<int>(all * sizeof(int)), &position, MPI_COMM_WORLD);
      },
      [](void* s, void* r) { MPI_Reduce_local(s, r, count, MPI_INT, MPI_SUM); },
  };
}

/// All calls give what they give in memory of the host. `around(call)` calls.
void check_calls(Memory& send, Memory& receive,
                 const std::function<void(const std::function<void()>&)>& around) {
  int number = 0;
  for (const Call& call : calls()) {
    const Ints sent = values(++number);
    Ints wanted(all, -number);
    call(const_cast<int*>(sent.data()), wanted.data());
    send.write(sent);
    receive.write(Ints(all, -number));
    around([&] { call(send.data(), receive.data()); });
    CHECK(receive.read<int>(all) == wanted);
    CHECK(send.read<int>(all) == sent);
  }
}

// --- capture

/// A stream in capture, with work in the graph; that is whole at the end and does what was captured.
class Captured {
 public:
  Captured(const Gpu& gpu, unsigned flags) : cuda_(gpu.functions()), target_(gpu, MemoryKind::device, all) {
    CHECK_CUDA(cuda_.stream_create(&stream_, flags));
  }
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;
  ~Captured() { CHECK_CUDA(cuda_.stream_destroy(stream_)); }

  void begin() {
    target_.write(std::vector<unsigned char>(all, 0));
    CHECK_CUDA(cuda_.stream_begin_capture(stream_, cuda::CaptureMode::global));
    fill(0, 1);
  }
  void end() {
    fill(all / 2, 2);
    cuda::Graph graph = nullptr;
    CHECK_CUDA(cuda_.stream_end_capture(stream_, &graph));
    cuda::GraphExec executable = nullptr;
    CHECK_CUDA(cuda_.graph_instantiate(&executable, graph, 0));
    CHECK_CUDA(cuda_.graph_launch(executable, stream_));
    CHECK_CUDA(cuda_.stream_synchronize(stream_));
    CHECK_CUDA(cuda_.graph_exec_destroy(executable));
    CHECK_CUDA(cuda_.graph_destroy(graph));
    std::vector<unsigned char> wanted(all, 1);
    std::fill(wanted.begin() + all / 2, wanted.end(), 2);
    CHECK(target_.read<unsigned char>(all) == wanted);
  }

 private:
  void fill(std::size_t from, unsigned char value) {
    CHECK_CUDA(
        cuda_.fill_async(reinterpret_cast<cuda::Address>(target_.data()) + from, value, all / 2, stream_));
  }
  const cuda::Functions& cuda_;
  Memory target_;
  cuda::Stream stream_ = nullptr;
};

/// The first calls of the program are among them: what the library makes for itself, it makes then.
void check_capture(const Gpu& gpu) {
  for (const MemoryKind kind : {MemoryKind::device, MemoryKind::vmm, MemoryKind::pool}) {
    Memory send(gpu, kind, all * sizeof(int));
    Memory receive(gpu, kind, all * sizeof(int));
    for (const unsigned flags : {cuda::stream_non_blocking, cuda::stream_default}) {
      Captured captured(gpu, flags);
      check_calls(send, receive, [&](const auto& call) {
        captured.begin();
        call();
        captured.end();
      });
    }
  }
}

// --- reset

void reset(const Gpu& gpu) {
  static const auto reset = symbol<cuda::Status (*)(cuda::Device)>("cuDevicePrimaryCtxReset_v2");
  CHECK_CUDA(reset(gpu.device()));
}

/// Messages in memory of the host, which CUDA is asked about.
void check_host() {
  for (const Call& call : calls()) {
    Ints send = values(3);
    Ints receive(all, -1);
    call(send.data(), receive.data());
    CHECK(send == values(3));
  }
  const Ints sent = values(5);
  Ints got(all);
  MPI_Sendrecv(sent.data(), count, MPI_INT, 1 - rank, 0, got.data(), count, MPI_INT, 1 - rank, 0,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  CHECK_EQUAL(got[7], 1000 * (1 - rank) + 5 + 7);
}

void check_reset(const Gpu& gpu) {
  std::atomic<bool> over = false;
  std::thread other([&] {
    cuda::Context context = nullptr;
    while (!over) {
      CHECK_CUDA(gpu.functions().primary_retain(&context, gpu.device()));
      CHECK_CUDA(gpu.functions().context_push(context));
      cuda::Address address = 0;
      CHECK_CUDA(gpu.functions().allocate(&address, 100'000));
      reset(gpu);
      CHECK_CUDA(gpu.functions().context_pop(&context));
      CHECK_CUDA(gpu.functions().primary_release(gpu.device()));
    }
  });
  for (int round = 0; round < 10; ++round)
    check_host();
  MPI_Barrier(MPI_COMM_WORLD);
  over = true;
  other.join();
}

/// As many programs end.
void check_reset_at_the_end() {
  const Gpu gpu(rank);  // the resets have ended what was retained before
  {
    Memory send(gpu, MemoryKind::device, all * sizeof(int));
    Memory receive(gpu, MemoryKind::device, all * sizeof(int));
    check_calls(send, receive, [](const auto& call) { call(); });
  }
  MPI_Barrier(MPI_COMM_WORLD);
  reset(gpu);
  check_host();
}

// --- contexts

/// A context of the program's own on the GPU of the rank, current for as long as this lives.
class OwnContext {
 public:
  explicit OwnContext(const Gpu& gpu) : gpu_(gpu) {
    CHECK_CUDA(symbol<cuda::Status (*)(cuda::Context*, unsigned, cuda::Device)>("cuCtxCreate_v2")(
        &context_, 0, gpu.device()));
  }
  OwnContext(const OwnContext&) = delete;
  OwnContext& operator=(const OwnContext&) = delete;
  ~OwnContext() { CHECK_CUDA(symbol<cuda::Status (*)(cuda::Context)>("cuCtxDestroy_v2")(context_)); }

  /// Calls with that context current, with the primary one, and with none.
  void around(int which, const std::function<void()>& call) const {
    const cuda::Functions& cuda = gpu_.functions();
    cuda::Context primary = nullptr;
    cuda::Context popped = nullptr;
    if (which == 0) return call();
    if (which == 1) {
      CHECK_CUDA(cuda.primary_retain(&primary, gpu_.device()));
      CHECK_CUDA(cuda.context_push(primary));
      call();
      CHECK_CUDA(cuda.context_pop(&popped));
      CHECK_CUDA(cuda.primary_release(gpu_.device()));
      return;
    }
    CHECK_CUDA(cuda.context_pop(&popped));
    CHECK_CUDA(cuda.context_pop(&primary));
    call();
    CHECK_CUDA(cuda.context_push(primary));
    CHECK_CUDA(cuda.context_push(popped));
  }

 private:
  const Gpu& gpu_;
  cuda::Context context_ = nullptr;
};

void check_context(const Gpu& gpu) {
  const OwnContext own(gpu);
  for (const MemoryKind kind : {MemoryKind::device, MemoryKind::vmm, MemoryKind::pool, MemoryKind::pinned}) {
    Memory send(gpu, kind, all * sizeof(int));
    Memory receive(gpu, kind, all * sizeof(int));
    for (const int which : {0, 1, 2})
      check_calls(send, receive, [&](const auto& call) { own.around(which, call); });
  }
  // From one context to the other.
  Memory send(gpu, MemoryKind::device, all * sizeof(int));
  Memory receive(gpu, MemoryKind::vmm, all * sizeof(int));
  check_calls(send, receive, [](const auto& call) { call(); });
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const std::string_view which = argc > 1 ? argv[1] : "";
  {
    const Gpu gpu(rank);
    if (which == "capture") check_capture(gpu);
    if (which == "context") check_context(gpu);
    if (which == "reset") {
      check_reset(gpu);
      check_reset_at_the_end();
    }
    MPI_Finalize();
  }
  return 0;
}
