// All collectives: blocking (allreduce), persistent (allreduce_persistent), nonblocking with computation
// beside it (iallreduce).

#include <algorithm>
#include <array>
#include <memory>

#include "suite/benchmarks/benchmark.hpp"
#include "suite/benchmarks/collective.hpp"
#include "suite/benchmarks/pair.hpp"
#include "suite/core/equations.hpp"
#include "suite/job/clock.hpp"

namespace isthmus::bench {
namespace {

// As the OSU suite: each operation by itself, all ranks having met at a barrier, which is not timed.
template <class Once>
Job::Run after_barrier(Once once) {
  return [once](long operations) {
    double seconds = 0;
    for (long i = 0; i < operations; ++i) {
      call(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
      const double start = now_seconds();
      once();
      seconds += now_seconds() - start;
    }
    return seconds;
  };
}

// All ranks begin each operation at one moment of the synchronised clock. Who comes late to it makes the
// operation void: the times of the others would count its waiting.
template <class Once>
class AtOneMoment {
 public:
  AtOneMoment(const Job& job, Once once) : job_(job), once_(once), clock_(job) {}

  Series measure() {
    constexpr long each = 64;
    double slot = 50e-6;
    for (int i = 0; i < 3; ++i)
      slot = std::max(20e-6, 3 * block(slot, 8, nullptr));
    Series series;
    const Effort& effort = job_.options().effort;
    for (double elapsed = 0;;) {
      const double start = now_seconds();
      slot = std::max(10e-6, 3 * block(slot, each, &series));
      elapsed += now_seconds() - start;
      const bool enough =
          effort.iterations > 0 ? series.operations >= effort.iterations : elapsed >= effort.seconds;
      if (Job::agree(enough || elapsed > std::max(2.0, 10 * effort.seconds) ? 1 : 0) == 1) break;
    }
    return series;
  }
  [[nodiscard]] double error() const { return clock_.error(); }

 private:
  // Returns what the operations took at most, for the next slots; rank 0's, on every rank.
  double block(double slot, long operations, Series* series) {
    // Rank 0 says when; the message must have come to all before that.
    double begin = clock_.now() + 200e-6 + 2 * slot;
    call(MPI_Bcast(&begin, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD), "MPI_Bcast");
    const auto count = static_cast<std::size_t>(operations);
    std::vector<double> late(count);
    std::vector<double> end(count);
    for (std::size_t i = 0; i < count; ++i) {
      const double moment = begin + static_cast<double>(i) * slot;
      late[i] = clock_.now() > moment ? 1 : 0;
      while (clock_.now() < moment) {
      }
      once_();
      end[i] = clock_.now() - moment;
    }
    std::vector<double> any_late(count);
    std::vector<double> last(count);
    const int number = static_cast<int>(count);
    call(MPI_Allreduce(late.data(), any_late.data(), number, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD),
         "MPI_Allreduce");
    call(MPI_Allreduce(end.data(), last.data(), number, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD),
         "MPI_Allreduce");
    for (std::size_t i = 0; series != nullptr && i < count; ++i) {
      if (any_late[i] != 0) {
        ++series->late;
      } else {
        series->seconds.push_back(last[i]);
        ++series->operations;
      }
    }
    std::sort(last.begin(), last.end());
    return quantile(last, 0.9);
  }

  const Job& job_;
  Once once_;
  SynchronisedClock clock_;
};

// The columns that all forms have.
Meaning meaning_of(const Job& job, const Collection& collection) {
  Meaning meaning;
  if (collection.has_layout()) add_carried(job, collection.block(), meaning);
  return meaning;
}

template <class Once>
void report_timed(const Job& job, const Collection& collection, std::size_t bytes, Once once) {
  Meaning meaning = meaning_of(job, collection);
  switch (job.options().timing) {
    case Timing::barrier:
      return job.report(bytes, job.measure(after_barrier(once), Whose::mean), meaning);
    case Timing::loop:
      return job.report(bytes, job.measure_loop(once, Whose::mean), meaning);
    case Timing::synchronised: {
      AtOneMoment moments(job, once);
      const Series series = moments.measure();
      if (job.rank() == 0 && series.seconds.empty())
        throw Stop{
            status_failed,
            "no operation began at one moment on all ranks: with more ranks than cores, use --timing barrier",
            false};
      meaning.extras.push_back({"Clock error (us)", moments.error() * 1e6});
      return job.report(bytes, series, meaning);
    }
  }
}

// Managed memory, after the paper's section IV.D: the data to be sent is put in its place before the call,
// untimed; what was received after it, within the time; each rank's launches are subtracted from its own
// time.
void migrating(const Job& job, const Collection& collection, std::size_t bytes) {
  const double launch = job.launch_overhead(1) / job.ranks();
  const Job::Run run = [&collection](long operations) {
    double seconds = 0;
    for (long i = 0; i < operations; ++i) {
      collection.touch_sent();
      call(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
      const double start = now_seconds();
      collection.blocking();
      collection.touch_received();
      seconds += now_seconds() - start;
    }
    return seconds;
  };
  Series series = job.measure(run, Whose::last);
  for (double& seconds : series.seconds)
    seconds = window_time(seconds, launch);
  Meaning meaning = meaning_of(job, collection);
  for (const Extra& each : job.faults(run))
    meaning.extras.push_back(each);
  job.report(bytes, series, meaning);
}

void blocking(const Job& job, const Collective& collective, std::size_t bytes) {
  Collection collection(job, collective, bytes);
  const auto once = [&collection] { collection.blocking(); };
  const auto verify = [&](unsigned round) {
    if (job.options().validate) job.demand(collection.fault(round, once));
  };
  verify(1);
  if (job.managed()) {
    migrating(job, collection, bytes);
  } else {
    report_timed(job, collection, bytes, once);
  }
  verify(2);
}

void persistent(const Job& job, const Collective& collective, std::size_t bytes) {
  if (collective.persistent == nullptr) fail_without("persistent collectives", "4.0");
  Collection collection(job, collective, bytes);
  MPI_Request request = MPI_REQUEST_NULL;
  call(collective.persistent(collection.arguments(), &request), (collection.name() + "_init").c_str());
  const auto once = [&request] {
    call(MPI_Start(&request), "MPI_Start");
    call(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait");
  };
  const auto verify = [&](unsigned round) {
    if (job.options().validate) job.demand(collection.fault(round, once));
  };
  verify(1);
  report_timed(job, collection, bytes, once);
  verify(2);
  call(MPI_Request_free(&request), "MPI_Request_free");
}

// Work of the processor that leaves memory and other cores alone.
class Computation {
 public:
  // Computes for about that long, and calls MPI_Test at equal distances so many times.
  void run(double seconds, int tests, MPI_Request& request) {
    const double start = now_seconds();
    for (int part = 0; part <= tests; ++part) {
      const double until = start + seconds * (part + 1) / (tests + 1);
      while (now_seconds() < until)
        for (int i = 0; i < 32; ++i)
          value_ = value_ * 1.0000001 + 1e-9;
      int done = 0;
      if (part < tests) call(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    }
  }
  [[nodiscard]] double value() const { return value_; }

 private:
  volatile double value_ = 1;
};

// As the OSU suite: first the operation alone; then as long a computation between its start and its end.
void nonblocking(const Job& job, const Collective& collective, std::size_t bytes) {
  if (job.options().compute_target == "gpu")
    throw Stop{status_bad_argument,
               "-r gpu: computation on the GPU beside a collective is not there yet; -r cpu is"};
  Collection collection(job, collective, bytes);
  const std::string name = "MPI_I" + std::string(collective.name);
  Computation computation;
  const auto with_computation = [&](double seconds) {
    MPI_Request request = MPI_REQUEST_NULL;
    call(collective.nonblocking(collection.arguments(), &request), name.c_str());
    if (seconds > 0) computation.run(seconds, job.options().test_calls, request);
    call(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait");
  };
  const auto verify = [&](unsigned round) {
    if (job.options().validate) job.demand(collection.fault(round, [&] { with_computation(0); }));
  };
  verify(1);
  const Series pure = job.measure(after_barrier([&] { with_computation(0); }), Whose::mean);
  double seconds = median(pure.seconds);
  call(MPI_Bcast(&seconds, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD), "MPI_Bcast");
  const Series overall = job.measure(after_barrier([&] { with_computation(seconds); }), Whose::mean);
  MPI_Request none = MPI_REQUEST_NULL;
  const Series compute = job.measure(
      after_barrier([&] { computation.run(seconds, job.options().test_calls, none); }), Whose::mean);
  const double hidden = overlap(seconds, median(compute.seconds), median(overall.seconds));
  Meaning meaning = meaning_of(job, collection);
  meaning.extras.push_back({"Compute (us)", median(compute.seconds) * 1e6});
  meaning.extras.push_back({"Pure comm. (us)", seconds * 1e6});
  meaning.extras.push_back({"Overlap (%)", hidden * 100});
  job.report(bytes, overall, meaning);
  verify(2);
}

using Form = void (*)(const Job&, const Collective&, std::size_t);

Benchmark benchmark_of(const Collective& collective, std::string name, std::string meaning, Form form,
                       unsigned further) {
  const bool sized = collective.arrives != Arrives::nothing;
  const unsigned sizes = !sized ? 0U
                         : adds_up(collective)
                             ? Feature::sizes | Feature::placement | Feature::types
                             : Feature::sizes | Feature::placement | Feature::types | Feature::layouts;
  return {std::move(name),
          "collective",
          std::move(meaning),
          Ranks::any,
          sizes | further,
          adds_up(collective) ? sizeof(float) : 1,
          [form, &collective](const Job& job, std::size_t bytes) { form(job, collective, bytes); },
          [&collective](const Job& job, std::size_t bytes) {
            return Collection::memory(collective, job.ranks(), bytes);
          },
          false,
          adds_up(collective) ? Element::real : Element::byte};
}

}  // namespace

std::vector<Benchmark> collective_benchmarks() {
  constexpr auto timed = static_cast<unsigned>(Feature::collective);
  std::vector<Benchmark> all;
  for (const Collective& collective : collectives())
    all.push_back(benchmark_of(
        collective, std::string(collective.name), std::string(collective.meaning), blocking,
        timed | (collective.arrives == Arrives::nothing ? Feature::collective : Feature::managed)));
  for (const Collective& collective : collectives())
    all.push_back(benchmark_of(collective, "i" + std::string(collective.name),
                               std::string(collective.name) + ", nonblocking, with computation beside it",
                               nonblocking, static_cast<unsigned>(Feature::overlap)));
  for (const Collective& collective : collectives())
    all.push_back(benchmark_of(collective, std::string(collective.name) + "_persistent",
                               std::string(collective.name) + " with a request that is made once", persistent,
                               timed));
  return all;
}

}  // namespace isthmus::bench
