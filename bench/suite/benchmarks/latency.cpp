// Messages back and forth: latency, multi_lat, latency_one_way.

#include <cmath>

#include "suite/benchmarks/benchmark.hpp"
#include "suite/benchmarks/pair.hpp"
#include "suite/core/equations.hpp"
#include "suite/job/clock.hpp"

namespace isthmus::bench {
namespace {

// A message there and one back. Each side's buffers are where its placement says, before its send and after
// its receive.
class PingPong {
 public:
  PingPong(const Job& job, std::size_t bytes)
      : job_(job),
        pair_(pair_of(job)),
        bytes_(bytes),
        what_(job.options().layout, job.element(), bytes),
        out_(job.buffer(bytes)),
        in_(job.buffer(bytes)) {}

  [[nodiscard]] const MessageType& what() const { return what_; }
  void exchange() {
    if (!pair_.active) return;
    if (pair_.first) {
      send(out_->data(), what_, pair_.peer);
      receive(in_->data(), what_, pair_.peer);
    } else {
      receive(in_->data(), what_, pair_.peer);
      send(out_->data(), what_, pair_.peer);
    }
  }

  // The paper's figure 4(a): what is to be sent is put in its place before the start, what was received
  // within the time.
  double migrating(long operations) {
    double seconds = 0;
    for (long i = 0; i < operations; ++i) {
      out_->touch(0, bytes_, true);
      call(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
      const double start = now_seconds();
      if (pair_.first) {
        send(out_->data(), what_, pair_.peer);
        receive(in_->data(), what_, pair_.peer);
        in_->touch(0, bytes_, true);
      } else {
        receive(in_->data(), what_, pair_.peer);
        in_->touch(0, bytes_, true);
        send(out_->data(), what_, pair_.peer);
      }
      seconds += now_seconds() - start;
    }
    return seconds;
  }

  std::string fault(unsigned round) {
    if (!pair_.active) return "";
    out_->fill(static_cast<unsigned>(job_.rank()), round);
    in_->clear();
    exchange();
    return what_.fault(*in_, 0, static_cast<unsigned>(pair_.peer), round);
  }

 private:
  const Job& job_;
  Pair pair_;
  std::size_t bytes_;
  MessageType what_;
  std::unique_ptr<Buffer> out_;
  std::unique_ptr<Buffer> in_;
};

void latency(const Job& job, std::size_t bytes) {
  PingPong pair(job, bytes);
  check(job, pair, 1);
  Meaning meaning;
  add_carried(job, pair.what(), meaning);
  if (job.managed()) {
    const double launch = job.launch_overhead(1);
    const Job::Run run = [&pair](long operations) { return pair.migrating(operations); };
    Series series = job.measure(run);
    for (double& seconds : series.seconds)
      seconds = one_way(seconds, 1, launch);
    for (const Extra& each : job.faults(run))
      meaning.extras.push_back(each);
    job.report(bytes, series, meaning);
  } else {
    meaning.share = 0.5;
    job.report(bytes, job.measure_loop([&pair] { pair.exchange(); }), meaning);
  }
  check(job, pair, 2);
}

void multi_latency(const Job& job, std::size_t bytes) {
  PingPong pair(job, bytes);
  check(job, pair, 1);
  Meaning meaning{.share = 0.5};
  add_carried(job, pair.what(), meaning);
  job.report(bytes, job.measure_loop([&pair] { pair.exchange(); }, Whose::mean), meaning);
  check(job, pair, 2);
}

// Each way by itself, by the synchronised clock: from the moment in which one rank calls MPI_Send to that in
// which the other's MPI_Recv returns. Messages take turns, so that none waits for another.
class OneWay {
 public:
  OneWay(const Job& job, std::size_t bytes)
      : pair_(pair_of(job)),
        what_(job.options().layout, job.element(), bytes),
        out_(job.buffer(bytes)),
        in_(job.buffer(bytes)),
        clock_(job) {}

  [[nodiscard]] const MessageType& what() const { return what_; }

  // The sum of what the messages from rank `from` took, known to rank 0 at the end of a sample.
  double transfer(long operations, int from) {
    double sum = 0;
    const bool sender = pair_.first == (from == 0);
    for (long i = 0; i < operations; ++i) {
      if (sender) {
        sum -= clock_.now();
        send(out_->data(), what_, pair_.peer);
        receive(nullptr, 0, pair_.peer, acknowledgement_tag);
      } else {
        receive(in_->data(), what_, pair_.peer);
        sum += clock_.now();
        send(nullptr, 0, pair_.peer, acknowledgement_tag);
      }
    }
    double theirs = 0;
    call(MPI_Sendrecv(&sum, 1, MPI_DOUBLE, pair_.peer, message_tag, &theirs, 1, MPI_DOUBLE, pair_.peer,
                      message_tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
         "MPI_Sendrecv");
    return sum + theirs;
  }
  [[nodiscard]] double error() const { return clock_.error(); }

 private:
  Pair pair_;
  MessageType what_;
  std::unique_ptr<Buffer> out_;
  std::unique_ptr<Buffer> in_;
  SynchronisedClock clock_;
};

void one_way_latency(const Job& job, std::size_t bytes) {
  OneWay way(job, bytes);
  const Series forth = job.measure([&way](long operations) { return way.transfer(operations, 0); });
  const Series back = job.measure([&way](long operations) { return way.transfer(operations, 1); });
  Meaning meaning;
  add_carried(job, way.what(), meaning);
  meaning.extras.push_back({"Back (us)", median(back.seconds) * 1e6});
  meaning.extras.push_back({"Clock error (us)", way.error() * 1e6});
  job.report(bytes, forth, meaning);
}

}  // namespace

std::vector<Benchmark> latency_benchmarks() {
  const unsigned features = Feature::sizes | Feature::placement | Feature::types | Feature::layouts;
  return {
      {"latency",
       "point-to-point",
       "MPI_Send and MPI_Recv back and forth: half of the round trip",
       Ranks::two,
       features | Feature::managed,
       1,
       latency,
       {}},
      {"latency_one_way",
       "point-to-point",
       "each way by itself, by clocks that are synchronised first",
       Ranks::two,
       features,
       1,
       one_way_latency,
       {}},
      {"multi_lat",
       "point-to-point",
       "latency between several pairs of ranks at once: the pairs' mean",
       Ranks::even,
       features | Feature::pairs,
       1,
       multi_latency,
       {}},
  };
}

}  // namespace isthmus::bench
