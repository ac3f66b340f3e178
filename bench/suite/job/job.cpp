#include "suite/job/job.hpp"

#include <algorithm>
#include <array>

#include "suite/core/statistics.hpp"

namespace isthmus::bench {

Job::Job(const Options& options, Output& output) : options_(options), output_(output) {
  call(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
  call(MPI_Comm_size(MPI_COMM_WORLD, &ranks_), "MPI_Comm_size");
}

long Job::agree(long number) {
  call(MPI_Bcast(&number, 1, MPI_LONG, 0, MPI_COMM_WORLD), "MPI_Bcast");
  return number;
}

void Job::place(int side) {
  MPI_Comm host = MPI_COMM_NULL;
  call(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &host),
       "MPI_Comm_split_type");
  int local_rank = 0;
  call(MPI_Comm_rank(host, &local_rank), "MPI_Comm_rank");
  call(MPI_Comm_free(&host), "MPI_Comm_free");
  std::string trouble;
  int status = 0;
  try {
    memory_ = make_memory(options_.placement.at(static_cast<std::size_t>(side)), local_rank, options_.faults);
  } catch (const Stop& stop) {
    trouble = stop.why;
    status = stop.status;
  }
  demand(trouble, status);
}

bool Job::managed() const {
  return is_managed(options_.placement[0]) || is_managed(options_.placement[1]);
}

double Job::launch_overhead(int kernels) const {
  if (const auto known = overheads_.find(kernels); known != overheads_.end()) return known->second;
  const Summary own = summarise(memory_->launch_times(kernels));
  std::array<double, 3> mine{own.median, own.interval.low, own.interval.high};
  std::array<double, 3> all{};
  call(MPI_Allreduce(mine.data(), all.data(), 3, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD), "MPI_Allreduce");
  overheads_[kernels] = all[0];
  if (rank_ == 0 && all[0] > 0) {
    const std::string name =
        "launch overhead of " + std::to_string(kernels) + (kernels == 1 ? " kernel" : " kernels") + " a side";
    output_.number(name + ", all sides, us", all[0] * 1e6);
    output_.number(name + ", half of its 95 % interval, us", (all[2] - all[1]) / 2 * 1e6);
  }
  return all[0];
}

// Rank 0 alone decides what comes next, from its own series; the others do as many blocks as it announces.
Series Job::measure(const Run& run, Whose whose) const {
  const Warmed warmed = warm_up(run, whose);
  Series series;
  series.settled = warmed.settled;
  double elapsed = 0;
  for (;;) {
    Block block =
        rank_ == 0 ? next_block(options_.effort, warmed.block.operations, series.seconds, elapsed) : Block{};
    block.samples = agree(block.samples);
    if (block.samples == 0) break;
    block.operations = agree(block.operations);
    const double start = now_seconds();
    run_block(run, whose, block, series);
    elapsed += now_seconds() - start;
    series.operations += block.samples * block.operations;
    series.operations_a_sample = block.operations;
  }
  return series;
}

Job::Warmed Job::warm_up(const Run& run, Whose whose) const {
  long operations = 1;
  double seconds = 0;
  for (long next = 1; next > 0;) {
    operations = next;
    seconds = run(operations);
    next = agree(longer_sample(operations, seconds));
  }
  const Effort& effort = options_.effort;
  if (effort.iterations > 0) operations = std::min(operations, effort.iterations);
  if (effort.warmup >= 0) {
    if (effort.warmup > 0) run(effort.warmup);
    return {{operations, 1}, true};
  }
  Warmed warmed{warmup_block(effort, operations, seconds)};
  warmed.block.samples = agree(warmed.block.samples);
  std::vector<double> medians;
  for (double elapsed = 0;;) {
    Series series;
    const double start = now_seconds();
    run_block(run, whose, warmed.block, series);
    elapsed += now_seconds() - start;
    medians.push_back(median(series.seconds));
    warmed.settled = converged(medians);
    if (agree(warmed.settled || elapsed > longest_warmup(effort) ? 1 : 0) == 1) break;
  }
  warmed.settled = agree(warmed.settled ? 1 : 0) == 1;
  return warmed;
}

// One sample more than asked for comes first and does not count: it absorbs the skew that the announcement
// left between the ranks.
void Job::run_block(const Run& run, Whose whose, const Block& block, Series& series) const {
  std::vector<double> mine;
  mine.reserve(static_cast<std::size_t>(block.samples));
  run(block.operations);
  for (long sample = 0; sample < block.samples; ++sample)
    mine.push_back(run(block.operations) / static_cast<double>(block.operations));
  combine(whose, mine, series);
}

void Job::combine(Whose whose, std::vector<double>& mine, Series& series) const {
  if (whose != Whose::leader) {
    const int count = static_cast<int>(mine.size());
    std::vector<double> all(mine.size());
    MPI_Op op = whose == Whose::mean ? MPI_SUM : MPI_MAX;
    call(MPI_Reduce(mine.data(), all.data(), count, MPI_DOUBLE, op, 0, MPI_COMM_WORLD), "MPI_Reduce");
    if (whose == Whose::mean)
      for (double& seconds : all)
        seconds /= ranks_;
    mine.swap(all);
  }
  series.seconds.insert(series.seconds.end(), mine.begin(), mine.end());
}

std::vector<Extra> Job::faults(const Run& run) const {
  if (!options_.faults) return {};
  constexpr long operations = 20;
  run(2);
  call(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
  memory_->begin_faults();
  run(operations);
  const Faults mine = memory_->end_faults();
  const std::array<double, 4> own{mine.cpu, mine.gpu, mine.bytes_to_gpu, mine.bytes_to_host};
  std::array<double, 4> all{};
  call(MPI_Reduce(own.data(), all.data(), 4, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD), "MPI_Reduce");
  return {{"CPU faults", all[0] / operations},
          {"GPU faults", all[1] / operations},
          {"B to GPU", all[2] / operations},
          {"B to host", all[3] / operations}};
}

void Job::demand(const std::string& fault, int status) const {
  const int wrong_here = fault.empty() ? 0 : 1;
  struct {
    int wrong;
    int rank;
  } mine{wrong_here, rank_}, worst{};
  call(MPI_Allreduce(&mine, &worst, 1, MPI_2INT, MPI_MAXLOC, MPI_COMM_WORLD), "MPI_Allreduce");
  if (worst.wrong == 0) return;
  long agreed = status;
  call(MPI_Bcast(&agreed, 1, MPI_LONG, worst.rank, MPI_COMM_WORLD), "MPI_Bcast");
  std::array<char, 300> text{};
  if (rank_ == worst.rank) fault.copy(text.data(), text.size() - 1);
  call(MPI_Bcast(text.data(), static_cast<int>(text.size()), MPI_CHAR, worst.rank, MPI_COMM_WORLD),
       "MPI_Bcast");
  throw Stop{static_cast<int>(agreed), "rank " + std::to_string(worst.rank) + ": " + text.data()};
}

void Job::report(std::size_t bytes, const Series& series, const Meaning& meaning) const {
  if (rank_ == 0) output_.row(bytes, series, meaning);
}

}  // namespace isthmus::bench
