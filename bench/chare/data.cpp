// What data costs that goes apart from the messages of chares, beside MPI's own messages: between the first
// and the last process, in memory of the host or of GPUs, direct or copied through the host by the program.
//
//     mpiexec -n 2 bench_chare_data [gpu] [staged] [SIZE...]
//
// Latency is one way, the least and the median of the blocks; bandwidth is of 16 under way. What has come is
// checked after each block.
#include <mpi.h>
#include <isthmus/chare.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/cuda.hpp"

namespace chare = isthmus::chare;
namespace bench = isthmus::bench;

namespace {

using Clock = std::chrono::steady_clock;

constexpr int blocks = 11;
constexpr int window = 16;

struct Options {
  bool gpu = false;
  bool staged = false;
  std::vector<std::size_t> sizes;
};
Options options;
std::unique_ptr<bench::Cuda> cuda;

/// Memory whose content goes to and fro: of the GPU where that is asked for, and of the host beside it.
class Space {
 public:
  explicit Space(std::size_t bytes)
      : device_(cuda ? std::make_unique<bench::Memory>(*cuda, bench::Kind::device, bytes) : nullptr),
        pinned_(cuda ? std::make_unique<bench::Memory>(*cuda, bench::Kind::pinned, bytes) : nullptr),
        host_(cuda ? 0 : bytes) {}

  /// Where messages come from and go to.
  [[nodiscard]] char* message() {
    if (!cuda) return host_.data();
    return reinterpret_cast<char*>(options.staged ? pinned_->data() : device_->data());
  }
  /// What a program does that copies through the host: before it sends, and when it has received.
  void before_send(std::size_t bytes) {
    if (options.staged && cuda) copy(pinned_->address(), device_->address(), bytes);
  }
  void after_receive(std::size_t bytes) {
    if (options.staged && cuda) copy(device_->address(), pinned_->address(), bytes);
  }
  void set(std::size_t bytes, unsigned seed) {
    std::vector<unsigned char> values(bytes);
    for (std::size_t i = 0; i < bytes; ++i)
      values[i] = value(seed, i);
    if (device_)
      device_->write(values);
    else
      std::copy(values.begin(), values.end(), host_.begin());
  }
  void demand(std::size_t bytes, unsigned seed) const {
    const auto found =
        device_ ? device_->read<unsigned char>(bytes)
                : std::vector<unsigned char>(host_.begin(), host_.begin() + static_cast<long>(bytes));
    for (std::size_t i = 0; i < bytes; ++i)
      if (found[i] != value(seed, i)) {
        std::fprintf(stderr, "byte %zu of %zu is %d, and not %d\n", i, bytes, found[i], value(seed, i));
        std::abort();
      }
  }

 private:
  static unsigned char value(unsigned seed, std::size_t i) {
    return static_cast<unsigned char>(seed * 31 + i * 7 + i / 251);
  }
  static void copy(bench::driver::Address to, bench::driver::Address from, std::size_t bytes) {
    cuda->demand((*cuda)->copy_async(to, from, bytes, cuda->stream()), "a copy");
    cuda->demand((*cuda)->stream_synchronize(cuda->stream()), "a copy");
  }

  std::unique_ptr<bench::Memory> device_;
  std::unique_ptr<bench::Memory> pinned_;
  std::vector<char> host_;
};

struct Result {
  std::vector<double> latency;    // microseconds
  std::vector<double> bandwidth;  // MB/s
};

double microseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}
int turns_of(std::size_t bytes) {
  return bytes <= 8192 ? 500 : bytes <= 1048576 ? 40 : 6;
}

std::vector<std::unique_ptr<Space>> outs;  // a window of them
std::vector<std::unique_ptr<Space>> ins;

// --- MPI's own

Result measure_mpi(std::size_t bytes) {
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int other = rank == 0 ? size - 1 : 0;
  const int count = static_cast<int>(bytes);
  Result result;
  if (rank != 0 && rank != size - 1) return result;
  const auto send = [&] {
    outs[0]->before_send(bytes);
    MPI_Send(outs[0]->message(), count, MPI_BYTE, other, 0, MPI_COMM_WORLD);
  };
  const auto receive = [&] {
    MPI_Recv(ins[0]->message(), count, MPI_BYTE, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    ins[0]->after_receive(bytes);
  };
  for (int block = 0; block < blocks; ++block) {
    for (auto& each : outs)
      each->set(bytes, static_cast<unsigned>(block + 1));
    MPI_Sendrecv(nullptr, 0, MPI_BYTE, other, 1, nullptr, 0, MPI_BYTE, other, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    const int turns = turns_of(bytes);
    auto begin = Clock::now();
    for (int i = 0; i < turns; ++i)
      if (rank == 0) {
        send();
        receive();
      } else {
        receive();
        send();
      }
    result.latency.push_back(microseconds_since(begin) / (2 * turns));
    ins[0]->demand(bytes, static_cast<unsigned>(block + 1));
    MPI_Request requests[window];
    const int rounds = std::max(1, turns / window);
    begin = Clock::now();
    for (int round = 0; round < rounds; ++round) {
      for (int i = 0; i < window; ++i)
        if (rank == 0) {
          outs[i]->before_send(bytes);
          MPI_Isend(outs[i]->message(), count, MPI_BYTE, other, 2, MPI_COMM_WORLD, &requests[i]);
        } else {
          MPI_Irecv(ins[i]->message(), count, MPI_BYTE, other, 2, MPI_COMM_WORLD, &requests[i]);
        }
      MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
      if (rank == 0) {
        MPI_Recv(nullptr, 0, MPI_BYTE, other, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      } else {
        for (int i = 0; i < window; ++i)
          ins[i]->after_receive(bytes);
        MPI_Send(nullptr, 0, MPI_BYTE, other, 3, MPI_COMM_WORLD);
      }
    }
    result.bandwidth.push_back(static_cast<double>(bytes) * window * rounds / microseconds_since(begin));
    if (rank != 0)
      for (int i = 0; i < window; ++i)
        ins[i]->demand(bytes, static_cast<unsigned>(block + 1));
  }
  return result;
}

// --- chares

class Player : public chare::Chare {
 public:
  void meet(const chare::Group<Player>& all) {
    other_ = all[chare::rank() == 0 ? chare::size() - 1 : 0];
    box_ = chare::Mailbox<char>::open();
    other_.invoke<&Player::know>(box_.address());
  }
  void know(chare::MailboxAddress<char> address) { address_ = address; }
  void prepare(std::size_t bytes, unsigned seed, const chare::Callback<>& ready) {
    bytes_ = bytes;
    seed_ = seed;
    taken_ = 0;
    for (auto& each : outs)
      each->set(bytes, seed);
    contribute(ready);
  }

  // To and fro, by entries.
  void hit(const chare::DeviceBuffer<char>&, int left) {
    ins[0]->after_receive(bytes_);
    if (left == 0) return done_();
    serve(left - 1);
  }
  void post(chare::Post<&Player::hit>, chare::DeviceBuffer<char>& data, int) const {
    data.into(ins[0]->message(), bytes_);
  }
  void serve(int left) {
    outs[0]->before_send(bytes_);
    other_.invoke<&Player::hit>(chare::DeviceBuffer<char>(outs[0]->message(), bytes_), left);
  }
  /// Begins, and is told when all is over.
  void play(int turns, const chare::Callback<>& done) {
    done_ = done;
    serve(2 * turns - 1);
  }

  // To and fro, by mailboxes: the memory is posted before the answer can come.
  void play_ahead(int turns, bool begins, const chare::Callback<>& done) {
    done_ = done;
    left_ = turns;
    begins_ = begins;
    box_.post(ins[0]->message(), bytes_, this_proxy<Player>().callback<&Player::came>());
    if (begins) serve_ahead();
  }
  void came(std::uint64_t) {
    ins[0]->after_receive(bytes_);
    if (--left_ > 0) box_.post(ins[0]->message(), bytes_, this_proxy<Player>().callback<&Player::came>());
    if (!begins_ || left_ > 0) serve_ahead();
    if (left_ == 0) done_();
  }

  // Many under way, by entries.
  void burst(int rounds, const chare::Callback<>& done) {
    done_ = done;
    left_ = rounds;
    again();
  }
  void again() {
    if (left_-- == 0) return done_();
    for (int i = 0; i < window; ++i) {
      outs[i]->before_send(bytes_);
      other_.invoke<&Player::take>(chare::DeviceBuffer<char>(outs[i]->message(), bytes_), i);
    }
  }
  void take(const chare::DeviceBuffer<char>&, int i) {
    ins[i]->after_receive(bytes_);
    if (++taken_ % window == 0) other_.invoke<&Player::again>();
  }
  /// What has gone to and fro. Not a part of what is timed: it takes longer than the messages.
  void demand_last(const chare::Callback<>& done) {
    ins[0]->demand(bytes_, seed_);
    contribute(done);
  }
  /// Of the last process: what the bursts have brought.
  void demand_all(const chare::Callback<>& done) const {
    for (const auto& each : ins)
      each->demand(bytes_, seed_);
    done();
  }
  void post(chare::Post<&Player::take>, chare::DeviceBuffer<char>& data, int i) const {
    data.into(ins[i]->message(), bytes_);
  }
  void close() { box_ = {}; }

 private:
  void serve_ahead() {
    outs[0]->before_send(bytes_);
    address_.send(chare::DeviceBuffer<char>(outs[0]->message(), bytes_));
  }

  chare::Proxy<Player> other_;
  chare::Mailbox<char> box_;
  chare::MailboxAddress<char> address_;
  chare::Callback<> done_{};
  std::size_t bytes_ = 0;
  unsigned seed_ = 0;
  int left_ = 0;
  int taken_ = 0;
  bool begins_ = false;
};

void print(std::size_t bytes, const char* what, Result result) {
  std::ranges::sort(result.latency);
  std::ranges::sort(result.bandwidth);
  std::printf("%10zu B  %-22s %10.3f / %10.3f us", bytes, what, result.latency.front(),
              result.latency[result.latency.size() / 2]);
  if (!result.bandwidth.empty())
    std::printf("  %10.1f / %10.1f MB/s", result.bandwidth.back(),
                result.bandwidth[result.bandwidth.size() / 2]);
  std::printf("\n");
  std::fflush(stdout);
}

std::vector<Result> of_mpi;

chare::Task measure() {
  const auto players = chare::Group<Player>::create();
  players.broadcast<&Player::meet>(players);
  auto quiet = chare::Future<>::make();
  chare::quiescence(quiet.callback());
  co_await quiet;
  const auto first = players[0];
  const auto last = players[chare::size() - 1];
  std::size_t number = 0;
  for (const std::size_t bytes : options.sizes) {
    const int turns = turns_of(bytes);
    Result entry;
    Result ahead;
    for (int block = 0; block < blocks; ++block) {
      auto ready = chare::Future<>::make();
      players.broadcast<&Player::prepare>(bytes, static_cast<unsigned>(block + 100), ready.callback());
      co_await ready;
      auto done = chare::Future<>::make();
      auto begin = Clock::now();
      first.invoke<&Player::play>(turns, done.callback());
      co_await done;
      entry.latency.push_back(microseconds_since(begin) / (2 * turns));
      done = chare::Future<>::make();
      players.broadcast<&Player::demand_last>(done.callback());
      co_await done;
      done = chare::Future<>::make();
      const int rounds = std::max(1, turns / window);
      begin = Clock::now();
      first.invoke<&Player::burst>(rounds, done.callback());
      co_await done;
      entry.bandwidth.push_back(static_cast<double>(bytes) * window * rounds / microseconds_since(begin));
      done = chare::Future<>::make();
      last.invoke<&Player::demand_all>(done.callback());
      co_await done;
      if (chare::size() == 1) continue;
      ready = chare::Future<>::make();
      players.broadcast<&Player::prepare>(bytes, static_cast<unsigned>(block + 200), ready.callback());
      co_await ready;
      done = chare::Future<>::make();
      const auto other = chare::Future<>::make();
      begin = Clock::now();
      last.invoke<&Player::play_ahead>(turns, false, other.callback());
      first.invoke<&Player::play_ahead>(turns, true, done.callback());
      co_await done;
      ahead.latency.push_back(microseconds_since(begin) / (2 * turns));
      co_await other;
      done = chare::Future<>::make();
      players.broadcast<&Player::demand_last>(done.callback());
      co_await done;
    }
    if (chare::size() > 1) print(bytes, "MPI", of_mpi[number++]);
    print(bytes, "entry with a buffer", entry);
    if (chare::size() > 1) print(bytes, "mailbox, posted ahead", ahead);
  }
  players.broadcast<&Player::close>();
  quiet = chare::Future<>::make();
  chare::quiescence(quiet.callback());
  co_await quiet;
  std::printf("all data came as it was sent\n");
  chare::exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "gpu")
      options.gpu = true;
    else if (word == "staged")
      options.staged = true;
    else
      options.sizes.push_back(std::stoull(argv[i]));
  }
  if (options.sizes.empty()) options.sizes = {8, 1024, 8192, 65536, 1048576, 4194304, 16777216};
  MPI_Init(&argc, &argv);
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (options.gpu) cuda = std::make_unique<bench::Cuda>(rank);
  for (int i = 0; i < window; ++i) {
    outs.push_back(std::make_unique<Space>(*std::ranges::max_element(options.sizes)));
    ins.push_back(std::make_unique<Space>(*std::ranges::max_element(options.sizes)));
  }
  if (size > 1)
    for (const std::size_t bytes : options.sizes)
      of_mpi.push_back(measure_mpi(bytes));
  if (rank == 0)
    std::printf("%d processes, memory of %s%s; least / median latency, most / median bandwidth\n", size,
                options.gpu ? "GPUs" : "the host", options.staged ? ", copied through the host" : "");
  const int code = chare::run(measure);
  outs.clear();
  ins.clear();
  MPI_Finalize();
  cuda.reset();
  return code;
}
