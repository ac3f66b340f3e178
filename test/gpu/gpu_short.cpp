// Short messages in GPU memory between 2 ranks, one at a time. Prints nothing when all is right. The argument
// says how the program goes on:
//   steady    one message after the other, of many lengths and places
//   few       the same, and soon over
//   pauses    now and then the ranks do something else for longer than a courier stays
//   sync      each rank synchronises its device before each message
//   frees     buffers are freed and allocated anew all the time
//   gone      the buffer of a receive is freed before its message comes; prints a warning
//   captures  each message goes while a stream of the program is captured
//   killed    rank 1 is killed in the middle
//   leaves    both ranks end without MPI_Finalize
#include <signal.h>
#include <unistd.h>

#include <iterator>
#include <memory>
#include <optional>
#include <string_view>

#include "gpu_memory.hpp"

using namespace isthmus;
using namespace isthmus::testing_gpu;

namespace {

constexpr int many = 400;
constexpr int few = 24;
constexpr std::size_t room = 20'000;
constexpr unsigned char canary = 0xAB;

int rank = -1;

struct Shape {
  std::size_t bytes, from, to;
};

/// Lengths around those at which the way changes, and all alignments.
Shape shape_of(int message) {
  constexpr std::size_t lengths[]{1, 8, 15, 64, 100, 256, 257, 1024, 4096, 5000, 16'384, 16'385};
  const auto number = static_cast<std::size_t>(message);
  return {lengths[number % std::size(lengths)], 1 + number % 17, 1 + number % 23};
}

unsigned char byte_of(int message, std::size_t at) {
  return static_cast<unsigned char>(at * 31 + at / 251 + static_cast<std::size_t>(message) * 7 + 1);
}

class Capture {
 public:
  explicit Capture(const Gpu& gpu) : cuda_(gpu.functions()) {
    CHECK_CUDA(cuda_.stream_create(&stream_, cuda::stream_non_blocking));
    CHECK_CUDA(cuda_.stream_begin_capture(stream_, cuda::CaptureMode::global));
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  ~Capture() {
    cuda::Graph graph = nullptr;
    CHECK_CUDA(cuda_.stream_end_capture(stream_, &graph));
    CHECK_CUDA(cuda_.graph_destroy(graph));
    CHECK_CUDA(cuda_.stream_destroy(stream_));
  }

 private:
  const cuda::Functions& cuda_;
  cuda::Stream stream_ = nullptr;
};

class Player {
 public:
  Player(const Gpu& gpu, std::string_view mode) : gpu_(gpu), mode_(mode) { allocate(); }

  /// There and back.
  void play(int message) {
    if (mode_ == "frees") allocate();
    if (mode_ == "pauses" && message % 50 == 49) ::usleep(5000);
    if (rank == 0) {
      send(message);
      receive(message + 1);
    } else {
      receive(message);
      send(message + 1);
    }
  }

 private:
  void allocate() {
    out_ = std::make_unique<Memory>(gpu_, MemoryKind::device, room);
    in_ = std::make_unique<Memory>(gpu_, MemoryKind::device, room);
  }
  void send(int message) {
    const auto [bytes, from, to] = shape_of(message);
    std::vector<unsigned char> values(bytes + from);
    for (std::size_t i = 0; i < bytes; ++i)
      values[from + i] = byte_of(message, i);
    out_->write(values);
    if (mode_ == "sync") CHECK_CUDA(gpu_.functions().context_synchronize());
    std::optional<Capture> capture;
    if (mode_ == "captures") capture.emplace(gpu_);
    CHECK_MPI(MPI_Send(static_cast<unsigned char*>(out_->data()) + from, static_cast<int>(bytes), MPI_BYTE,
                       1 - rank, message, MPI_COMM_WORLD));
  }
  void receive(int message) {
    const auto [bytes, from, to] = shape_of(message);
    in_->write(std::vector<unsigned char>(bytes + to + 1, canary));
    {
      std::optional<Capture> capture;
      if (mode_ == "captures") capture.emplace(gpu_);
      CHECK_MPI(MPI_Recv(static_cast<unsigned char*>(in_->data()) + to, static_cast<int>(bytes), MPI_BYTE,
                         1 - rank, message, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
    const auto got = in_->read<unsigned char>(bytes + to + 1);
    for (std::size_t i = 0; i < to; ++i)
      CHECK_EQUAL(got[i], canary);
    for (std::size_t i = 0; i < bytes; ++i)
      CHECK_EQUAL(got[to + i], byte_of(message, i));
    CHECK_EQUAL(got[to + bytes], canary);
  }

  const Gpu& gpu_;
  const std::string_view mode_;
  std::unique_ptr<Memory> out_, in_;
};

/// An error at the receiver, and all goes on.
void check_gone(const Gpu& gpu) {
  constexpr int bytes = 4096;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (rank == 0) {
    const Memory out(gpu, MemoryKind::device, bytes);
    CHECK_MPI(MPI_Recv(nullptr, 0, MPI_BYTE, 1, many, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    MPI_Send(out.data(), bytes, MPI_BYTE, 1, many, MPI_COMM_WORLD);
    return;
  }
  MPI_Request request;
  {
    const Memory in(gpu, MemoryKind::device, bytes);
    CHECK_MPI(MPI_Irecv(in.data(), bytes, MPI_BYTE, 0, many, MPI_COMM_WORLD, &request));
  }
  CHECK_MPI(MPI_Send(nullptr, 0, MPI_BYTE, 0, many, MPI_COMM_WORLD));
  int error_class = MPI_SUCCESS;
  MPI_Error_class(MPI_Wait(&request, MPI_STATUS_IGNORE), &error_class);
  CHECK(error_class != MPI_SUCCESS);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const std::string_view mode = argc > 1 ? argv[1] : "steady";
  {
    const Gpu gpu(rank);
    const int messages = mode == "few" || mode == "gone" ? few : many;
    {
      Player player(gpu, mode);
      for (int message = 0; message < messages; message += 2) {
        player.play(message);
        if (mode == "gone" && message % 10 == 0) check_gone(gpu);
        if (mode == "killed" && rank == 1 && message == messages / 2) ::kill(::getpid(), SIGKILL);
      }
      if (mode == "leaves") ::_exit(0);
    }
    MPI_Finalize();
  }
  return 0;
}
