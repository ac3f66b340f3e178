// Many messages under way at once: bw, bibw, mbw_mr, and the first two with persistent requests.

#include <algorithm>

#include "suite/benchmarks/benchmark.hpp"
#include "suite/benchmarks/pair.hpp"
#include "suite/core/equations.hpp"

namespace isthmus::bench {
namespace {

enum class Requests : std::uint8_t { ordinary, persistent };
enum class Ways : std::uint8_t { one, both };

// The messages of a window, out of or into one buffer, as in the OSU suite (all of one size have the same
// contents); with managed memory into one each, because each is put in its place after it has come (the
// paper's equation 2).
class Messages {
 public:
  Messages(const Job& job, std::size_t bytes, int peer, bool outgoing, Requests kind)
      : bytes_(bytes),
        what_(job.options().layout, job.element(), bytes),
        peer_(peer),
        outgoing_(outgoing),
        kind_(kind),
        apart_(job.managed()),
        requests_(static_cast<std::size_t>(job.options().window), MPI_REQUEST_NULL),
        buffer_(job.buffer(apart_ ? bytes * requests_.size() : bytes)) {
    if (kind_ == Requests::persistent)
      for (int i = 0; i < count(); ++i)
        prepare(i);
  }
  ~Messages() {
    if (kind_ == Requests::persistent)
      for (MPI_Request& request : requests_)
        MPI_Request_free(&request);
  }
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;

  void start() {
    if (kind_ == Requests::persistent) {
      call(MPI_Startall(count(), requests_.data()), "MPI_Startall");
    } else if (outgoing_) {
      for (int i = 0; i < count(); ++i)
        call(MPI_Isend(slot(i), what_.count(), what_.type(), peer_, message_tag, MPI_COMM_WORLD,
                       &requests_[i]),
             "MPI_Isend");
    } else {
      for (int i = 0; i < count(); ++i)
        call(MPI_Irecv(slot(i), what_.count(), what_.type(), peer_, message_tag, MPI_COMM_WORLD,
                       &requests_[i]),
             "MPI_Irecv");
    }
  }
  void wait() { call(MPI_Waitall(count(), requests_.data(), MPI_STATUSES_IGNORE), "MPI_Waitall"); }
  void touch() {
    for (int i = 0; apart_ && i < count(); ++i)
      buffer_->touch(static_cast<std::size_t>(i) * bytes_, bytes_, false);
    buffer_->settle();
  }

  void fill(unsigned writer, unsigned round) {
    for (std::size_t at = 0; at < buffer_->size(); at += bytes_)
      buffer_->fill(at, bytes_, writer, round);
  }
  void clear() { buffer_->clear(); }
  [[nodiscard]] std::string fault(unsigned writer, unsigned round) const {
    std::string found;
    for (std::size_t at = 0; found.empty() && at < buffer_->size(); at += bytes_)
      found = what_.fault(*buffer_, at, writer, round);
    return found;
  }

 private:
  [[nodiscard]] int count() const { return static_cast<int>(requests_.size()); }
  [[nodiscard]] void* slot(int i) const {
    return buffer_->data() + (apart_ ? static_cast<std::size_t>(i) * bytes_ : 0);
  }
  void prepare(int i) {
    if (outgoing_) {
      call(MPI_Send_init(slot(i), what_.count(), what_.type(), peer_, message_tag, MPI_COMM_WORLD,
                         &requests_[i]),
           "MPI_Send_init");
    } else {
      call(MPI_Recv_init(slot(i), what_.count(), what_.type(), peer_, message_tag, MPI_COMM_WORLD,
                         &requests_[i]),
           "MPI_Recv_init");
    }
  }

  std::size_t bytes_;
  MessageType what_;
  int peer_;
  bool outgoing_;
  Requests kind_;
  bool apart_;
  std::vector<MPI_Request> requests_;
  std::unique_ptr<Buffer> buffer_;
};

class Window {
 public:
  Window(const Job& job, std::size_t bytes, Ways ways, Requests kind)
      : job_(job), pair_(pair_of(job)), ways_(ways) {
    if (!pair_.active) return;
    if (sends()) out_ = std::make_unique<Messages>(job, bytes, pair_.peer, true, kind);
    if (receives()) in_ = std::make_unique<Messages>(job, bytes, pair_.peer, false, kind);
  }

  void transfer() {
    if (!pair_.active) return;
    if (in_) in_->start();
    if (out_) out_->start();
    if (out_) out_->wait();
    if (in_) in_->wait();
    if (ways_ == Ways::one) acknowledge();
  }

  // Figure 4(b): what is sent is put in its place before the start; the time ends when all that was received
  // is in its place.
  double migrating(long operations) {
    double seconds = 0;
    for (long i = 0; i < operations; ++i) {
      if (out_) out_->touch();
      call(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
      const double start = now_seconds();
      if (in_) in_->start();
      if (out_) out_->start();
      if (out_) out_->wait();
      if (in_) in_->wait();
      if (in_) in_->touch();
      acknowledge();
      seconds += now_seconds() - start;
    }
    return seconds;
  }

  std::string fault(unsigned round) {
    if (!pair_.active) return "";
    if (out_) out_->fill(static_cast<unsigned>(job_.rank()), round);
    if (in_) in_->clear();
    transfer();
    return in_ ? in_->fault(static_cast<unsigned>(pair_.peer), round) : "";
  }

  // Kernels that this window launches within the time, on each side that receives.
  [[nodiscard]] static int kernels(const Job& job) { return job.options().window; }

 private:
  [[nodiscard]] bool sends() const { return pair_.first || ways_ == Ways::both; }
  [[nodiscard]] bool receives() const { return !pair_.first || ways_ == Ways::both; }
  void acknowledge() const {
    int token = 0;
    if (pair_.first) {
      receive(&token, sizeof token, pair_.peer, acknowledgement_tag);
    } else {
      send(&token, sizeof token, pair_.peer, acknowledgement_tag);
    }
  }

  const Job& job_;
  Pair pair_;
  Ways ways_;
  std::unique_ptr<Messages> out_;
  std::unique_ptr<Messages> in_;
};

// Both sides of bibw launch kernels at the same time: what counts is one side's.
double launches_of(const Job& job, Ways ways) {
  const bool second = job.options().placement[1] == Placement::managed_device;
  const bool first = ways == Ways::both && job.options().placement[0] == Placement::managed_device;
  const double overhead = job.launch_overhead(Window::kernels(job));
  const bool all = job.options().placement[0] == Placement::managed_device && second;
  if (!first && !second) return 0;
  return all ? overhead / 2 : overhead;
}

void windowed(const Job& job, std::size_t bytes, Ways ways, Requests kind) {
  Window window(job, bytes, ways, kind);
  check(job, window, 1);
  const MessageType what(job.options().layout, job.element(), bytes);
  const double amount =
      static_cast<double>(what.carried()) * job.options().window * (ways == Ways::both ? 2 : 1);
  Meaning meaning{.quantity = Quantity::megabytes_per_second, .amount = amount};
  add_carried(job, what, meaning);
  Series series;
  if (job.managed()) {
    const double launch = launches_of(job, ways);
    const Job::Run run = [&window](long operations) { return window.migrating(operations); };
    series = job.measure(run);
    for (const Extra& each : job.faults(run))
      meaning.extras.push_back(each);
    for (double& seconds : series.seconds)
      seconds = window_time(seconds, launch);
  } else {
    series = job.measure_loop([&window] { window.transfer(); });
  }
  job.report(bytes, series, meaning);
  check(job, window, 2);
}

void message_rate(const Job& job, std::size_t bytes) {
  Window window(job, bytes, Ways::one, Requests::ordinary);
  check(job, window, 1);
  const Series series = job.measure_loop([&window] { window.transfer(); }, Whose::mean);
  const double messages = static_cast<double>(job.options().window) * pair_of(job).pairs;
  const MessageType what(job.options().layout, job.element(), bytes);
  Meaning meaning{.quantity = Quantity::megabytes_per_second,
                  .amount = messages * static_cast<double>(what.carried())};
  add_carried(job, what, meaning);
  if (job.options().print_rate && !series.seconds.empty())
    meaning.extras.push_back({"Messages/s", messages / median(series.seconds)});
  job.report(bytes, series, meaning);
  check(job, window, 2);
}

std::size_t windowed_memory(const Job& job, std::size_t bytes) {
  return bytes * (job.managed() ? 2U * static_cast<std::size_t>(job.options().window) : 2U);
}

Benchmark windowed_benchmark(std::string name, std::string meaning, Ways ways, Requests kind) {
  return {std::move(name),
          "point-to-point",
          std::move(meaning),
          Ranks::two,
          Feature::sizes | Feature::placement | Feature::window | Feature::managed | Feature::types |
              Feature::layouts,
          1,
          [ways, kind](const Job& job, std::size_t bytes) { windowed(job, bytes, ways, kind); },
          windowed_memory};
}

}  // namespace

std::vector<Benchmark> bandwidth_benchmarks() {
  return {
      windowed_benchmark("bw", "a window of MPI_Isend one way, then an acknowledgement", Ways::one,
                         Requests::ordinary),
      windowed_benchmark("bibw", "a window each way at the same time", Ways::both, Requests::ordinary),
      {"mbw_mr", "point-to-point",
       "bw between several pairs of ranks at once: all pairs' bandwidth and message rate", Ranks::even,
       Feature::sizes | Feature::placement | Feature::window | Feature::pairs | Feature::rate |
           Feature::types | Feature::layouts,
       1, message_rate, windowed_memory},
      windowed_benchmark("bw_persistent", "bw with persistent requests", Ways::one, Requests::persistent),
      windowed_benchmark("bibw_persistent", "bibw with persistent requests", Ways::both,
                         Requests::persistent),
  };
}

}  // namespace isthmus::bench
