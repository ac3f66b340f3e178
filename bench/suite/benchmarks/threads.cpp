// Several threads of each rank at once: latency_mt.

#include <algorithm>
#include <barrier>
#include <mutex>
#include <optional>
#include <thread>

#include "suite/benchmarks/benchmark.hpp"
#include "suite/benchmarks/pair.hpp"

namespace isthmus::bench {
namespace {

// Threads that live as long as the size is measured, and do their work each time they are let go. Each
// exchanges messages with the thread of the same number on the other side, by a tag of its own.
class Threads {
 public:
  Threads(const Job& job, std::size_t bytes)
      : pair_(pair_of(job)),
        bytes_(bytes),
        count_(job.options().threads),
        gate_(count_ + 1),
        seconds_(static_cast<std::size_t>(count_)) {
    for (int i = 0; i < count_; ++i)
      buffers_.push_back({job.buffer(bytes), job.buffer(bytes)});
    for (int i = 0; i < count_; ++i)
      threads_.emplace_back([this, i] { work(i); });
  }
  ~Threads() {
    operations_ = 0;
    gate_.arrive_and_wait();
    for (std::thread& thread : threads_)
      thread.join();
  }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  // The mean over the threads, each of which times its own messages.
  double run(long operations) {
    operations_ = operations;
    gate_.arrive_and_wait();
    gate_.arrive_and_wait();
    if (trouble_) throw Stop(*trouble_);
    double sum = 0;
    for (const double seconds : seconds_)
      sum += seconds;
    return sum / count_;
  }

  std::string fault(unsigned round) {
    const unsigned own = pair_.first ? 0 : 1;
    for (int i = 0; i < count_; ++i) {
      buffers_[i].out->fill(own + 2U * static_cast<unsigned>(i), round);
      buffers_[i].in->clear();
    }
    run(1);
    std::string found;
    for (int i = 0; found.empty() && i < count_; ++i)
      found = buffers_[i].in->fault(1 - own + 2U * static_cast<unsigned>(i), round);
    return found;
  }

 private:
  struct Both {
    std::unique_ptr<Buffer> out;
    std::unique_ptr<Buffer> in;
  };

  void exchange(int i) {
    const int tag = 10 + i;
    if (pair_.first) {
      send(buffers_[i].out->data(), bytes_, pair_.peer, tag);
      receive(buffers_[i].in->data(), bytes_, pair_.peer, tag);
    } else {
      receive(buffers_[i].in->data(), bytes_, pair_.peer, tag);
      send(buffers_[i].out->data(), bytes_, pair_.peer, tag);
    }
  }
  // The first exchange is not timed: threads wake up at different times.
  void work(int i) {
    for (;;) {
      gate_.arrive_and_wait();
      if (operations_ == 0) return;
      try {
        exchange(i);
        const double start = now_seconds();
        for (long n = 0; n < operations_; ++n)
          exchange(i);
        seconds_[i] = now_seconds() - start;
      } catch (const Stop& stop) {
        const std::scoped_lock lock(mutex_);
        trouble_ = stop;
      }
      gate_.arrive_and_wait();
    }
  }

  Pair pair_;
  std::size_t bytes_;
  int count_;
  std::barrier<> gate_;
  std::vector<double> seconds_;
  std::vector<Both> buffers_;
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::optional<Stop> trouble_;
  long operations_ = 0;
};

void threaded_latency(const Job& job, std::size_t bytes) {
  Threads threads(job, bytes);
  check(job, threads, 1);
  // Threads need some time to wake up: a sample of less than 1 ms would measure that they do not run at once.
  const long least =
      Job::agree(std::clamp(static_cast<long>(1e-3 / std::max(threads.run(1), 1e-9)), 1L, 64L));
  Series series = job.measure([&threads, least](long operations) {
    return threads.run(operations * least) / static_cast<double>(least);
  });
  series.operations *= least;
  job.report(bytes, series, {.share = 0.5});
  check(job, threads, 2);
}

}  // namespace

std::vector<Benchmark> thread_benchmarks() {
  return {{"latency_mt", "point-to-point",
           "latency of several threads of each rank at once: the threads' mean", Ranks::two,
           Feature::sizes | Feature::placement | Feature::threads, 1, threaded_latency,
           [](const Job& job, std::size_t bytes) {
             return 2 * bytes * static_cast<std::size_t>(job.options().threads);
           },
           true}};
}

}  // namespace isthmus::bench
