// A small application whose messages move as in figure 1 of the OMB-UM paper: compute, pack, exchange,
// unpack. The cross-check whether the latency of a placement predicts what an application with that placement
// sees.

#include <array>

#include "suite/benchmarks/benchmark.hpp"
#include "suite/benchmarks/pair.hpp"

namespace isthmus::bench {
namespace {

constexpr std::size_t rows = 64;

class Stencil {
 public:
  Stencil(const Job& job, std::size_t bytes)
      : job_(job),
        pair_(pair_of(job)),
        bytes_(bytes),
        shape_{rows, bytes / sizeof(float), pair_.first},
        grid_(job.grid(shape_)),
        out_(job.buffer(bytes)),
        in_(job.buffer(bytes)) {}

  void step() {
    grid_->pack(*out_);
    grid_->settle();
    exchange();
    grid_->unpack(*in_);
    grid_->step();
    grid_->settle();
  }
  // The same without the messages.
  void compute() {
    grid_->pack(*out_);
    grid_->settle();
    grid_->unpack(*in_);
    grid_->step();
    grid_->settle();
  }

  // As in the benchmark latency: data is put in its place before the send, and within the time after the
  // receive.
  double ping_pong(long operations) {
    double seconds = 0;
    for (long i = 0; i < operations; ++i) {
      out_->touch(0, bytes_, true);
      call(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
      const double start = now_seconds();
      for (const bool sending : {pair_.first, !pair_.first}) {
        if (sending) {
          send(out_->data(), bytes_, pair_.peer);
        } else {
          receive(in_->data(), bytes_, pair_.peer);
          in_->touch(0, bytes_, true);
        }
      }
      seconds += now_seconds() - start;
    }
    return seconds;
  }

  // Some steps from the start, beside the same of the whole plane on this rank's CPU.
  std::string fault() {
    constexpr int steps = 5;
    grid_ = job_.grid(shape_);
    for (int i = 0; i < steps; ++i)
      step();
    const Shape whole{2 * rows, shape_.columns, true};
    std::vector<float> now = initial_half(whole);
    std::vector<float> next = now;
    for (int i = 0; i < steps; ++i) {
      host_step(whole, now, next);
      now.swap(next);
    }
    const std::vector<float> all = without_frame(whole, now);
    const std::vector<float> mine = grid_->values();
    const std::size_t first = pair_.first ? 0 : mine.size();
    for (std::size_t i = 0; i < mine.size(); ++i)
      if (mine[i] != all[first + i])
        return "row " + std::to_string(i / shape_.columns) + ", column " +
               std::to_string(i % shape_.columns) + " is wrong after " + std::to_string(steps) + " steps";
    return "";
  }

 private:
  void exchange() {
    std::array<MPI_Request, 2> requests{};
    const int count = static_cast<int>(bytes_);
    call(MPI_Irecv(in_->data(), count, MPI_BYTE, pair_.peer, message_tag, MPI_COMM_WORLD, requests.data()),
         "MPI_Irecv");
    call(MPI_Isend(out_->data(), count, MPI_BYTE, pair_.peer, message_tag, MPI_COMM_WORLD, &requests[1]),
         "MPI_Isend");
    call(MPI_Waitall(2, requests.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
  }

  const Job& job_;
  Pair pair_;
  std::size_t bytes_;
  Shape shape_;
  std::unique_ptr<Grid> grid_;
  std::unique_ptr<Buffer> out_;
  std::unique_ptr<Buffer> in_;
};

void stencil(const Job& job, std::size_t bytes) {
  Stencil stencil(job, bytes);
  if (job.options().validate) job.demand(stencil.fault());
  const double launch = job.managed() ? job.launch_overhead(1) : 0;
  const Series step = job.measure_loop([&stencil] { stencil.step(); }, Whose::last);
  const Series compute = job.measure_loop([&stencil] { stencil.compute(); }, Whose::last);
  const Series trip = job.measure([&stencil](long operations) { return stencil.ping_pong(operations); });
  const double whole = median(step.seconds) * 1e6;
  const double alone = median(compute.seconds) * 1e6;
  const double latency = (median(trip.seconds) - launch) / 2 * 1e6;
  job.report(bytes, step,
             {.extras = {{"Compute (us)", alone},
                         {"Latency (us)", latency},
                         {"Predicted (us)", alone + latency},
                         {"Predicted/step", whole > 0 ? (alone + latency) / whole : 0}}});
}

}  // namespace

std::vector<Benchmark> application_benchmarks() {
  return {{"stencil", "application",
           "a 2-D stencil of 64 rows a rank; the size is that of the row that is exchanged", Ranks::two,
           Feature::sizes | Feature::placement | Feature::managed, sizeof(float), stencil,
           [](const Job&, std::size_t bytes) { return 2 * (rows + 2) * (bytes + 8) + 2 * bytes; }}};
}

}  // namespace isthmus::bench
