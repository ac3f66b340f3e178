// What `./dev bench plans --collectives` starts: the time of one call of a collective at each size, in a line
// "SIZE MICROSECONDS", and where that is asked for, behind it what one of the first calls took, and what 8 B
// took between ranks 0 and 1 before and afterwards. A call begins when all have met, and ends with the last;
// the data are those that the program has just changed.
//
// Of a collective that does not block ("ibcast"), start and wait are one call. Those go as blocking ones have
// taught, so that before each size as many of these are made as it takes to learn, whatever is measured.
#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <vector>

#include "batches.hpp"

namespace {

enum class Call {
  bcast,
  gather,
  scatter,
  allgather,
  alltoall,
  reduce,
  allreduce,
  reduce_scatter,
  ibcast,
  ireduce,
  iallreduce
};
constexpr std::string_view names[]{"bcast",    "gather",  "scatter",   "allgather",
                                   "alltoall", "reduce",  "allreduce", "reduce_scatter",
                                   "ibcast",   "ireduce", "iallreduce"};

/// Calls behind which a way has been chosen of as many as there are.
constexpr int teaching = 150;
/// More than can be under way: from then on all go as has been said.
constexpr int saying = 150;

std::optional<Call> call_of(std::string_view text) {
  const auto* const found = std::ranges::find(names, text);
  if (found == std::end(names)) return std::nullopt;
  return static_cast<Call>(found - std::begin(names));
}

class Calls {
 public:
  Calls(int rank, int ranks, Call call, const isthmus::pair::Effort& effort, int largest)
      : rank_(rank),
        ranks_(ranks),
        call_(call),
        effort_(effort),
        out_(room(largest), 1.0),
        in_(room(largest), 1.0) {}

  std::vector<double> measure(int bytes) {
    teach(bytes);
    const double first = effort_.first > 0 ? mean(bytes, effort_.first) : 0;
    const int calls = std::clamp((1 << 18) / std::max(bytes, 1), 4, 50);
    const double time = isthmus::pair::median_of(effort_.batches, [&] { return mean(bytes, calls); });
    return effort_.first > 0 ? std::vector{time, first} : std::vector{time};
  }

 private:
  /// Has blocking calls of that size learn, and those that do not block hear of it.
  void teach(int bytes) {
    const int count = bytes / static_cast<int>(sizeof(double));
    const Call own = call_;
    if (own != Call::ibcast && own != Call::ireduce && own != Call::iallreduce) return;
    call_ = own == Call::ibcast ? Call::bcast : own == Call::ireduce ? Call::reduce : Call::allreduce;
    for (int i = 0; i < teaching; ++i) {
      MPI_Barrier(MPI_COMM_WORLD);
      run(count);
    }
    call_ = own;
    for (int i = 0; i < saying; ++i)
      run(count);
  }

  [[nodiscard]] std::size_t room(int bytes) const {
    return static_cast<std::size_t>(bytes) / sizeof(double) * static_cast<std::size_t>(ranks_) + 1;
  }

  [[nodiscard]] std::size_t sent(int count) const {
    const bool to_each = call_ == Call::scatter || call_ == Call::alltoall;
    return static_cast<std::size_t>(count) * static_cast<std::size_t>(to_each ? ranks_ : 1);
  }

  /// Of a call, in seconds, by the rank that took longest: the same on all ranks.
  double mean(int bytes, int calls) {
    const int count = bytes / static_cast<int>(sizeof(double));
    double time = 0;
    for (int i = 0; i < calls; ++i) {
      for (std::size_t at = 0; at < sent(count); ++at)
        out_[at] += 1;
      MPI_Barrier(MPI_COMM_WORLD);
      const double begin = MPI_Wtime();
      run(count);
      time += MPI_Wtime() - begin;
    }
    double longest = 0;
    MPI_Allreduce(&time, &longest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return longest / calls;
  }

  void run(int count) {
    MPI_Comm comm = MPI_COMM_WORLD;
    switch (call_) {
      case Call::bcast:
        MPI_Bcast(out_.data(), count, MPI_DOUBLE, 0, comm);
        break;
      case Call::gather:
        MPI_Gather(out_.data(), count, MPI_DOUBLE, in_.data(), count, MPI_DOUBLE, 0, comm);
        break;
      case Call::scatter:
        MPI_Scatter(out_.data(), count, MPI_DOUBLE, in_.data(), count, MPI_DOUBLE, 0, comm);
        break;
      case Call::allgather:
        MPI_Allgather(out_.data(), count, MPI_DOUBLE, in_.data(), count, MPI_DOUBLE, comm);
        break;
      case Call::alltoall:
        MPI_Alltoall(out_.data(), count, MPI_DOUBLE, in_.data(), count, MPI_DOUBLE, comm);
        break;
      case Call::reduce:
        MPI_Reduce(out_.data(), in_.data(), count, MPI_DOUBLE, MPI_SUM, 0, comm);
        break;
      case Call::allreduce:
        MPI_Allreduce(out_.data(), in_.data(), count, MPI_DOUBLE, MPI_SUM, comm);
        break;
      case Call::reduce_scatter:
        // As the table counts it: the whole vector.
        MPI_Reduce_scatter_block(out_.data(), in_.data(), std::max(count / ranks_, 1), MPI_DOUBLE, MPI_SUM,
                                 comm);
        break;
      case Call::ibcast:
        wait(MPI_Ibcast(out_.data(), count, MPI_DOUBLE, 0, comm, &request_));
        break;
      case Call::ireduce:
        wait(MPI_Ireduce(out_.data(), in_.data(), count, MPI_DOUBLE, MPI_SUM, 0, comm, &request_));
        break;
      case Call::iallreduce:
        wait(MPI_Iallreduce(out_.data(), in_.data(), count, MPI_DOUBLE, MPI_SUM, comm, &request_));
        break;
    }
  }

  void wait(int started) {
    if (started == MPI_SUCCESS) MPI_Wait(&request_, MPI_STATUS_IGNORE);
  }

  MPI_Request request_ = MPI_REQUEST_NULL;
  int rank_, ranks_;
  Call call_;
  isthmus::pair::Effort effort_;
  std::vector<double> out_, in_;
};

}  // namespace

int main(int count, char** arguments) {
  MPI_Init(&count, &arguments);
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const std::optional<Call> call = count > 1 ? call_of(arguments[1]) : std::nullopt;
  const isthmus::pair::Effort effort(count > 3 ? arguments[2] : "0");
  if (ranks < 2 || !call || effort.batches < 1) {
    if (rank == 0)
      std::fputs("measure_calls: ./dev bench plans starts it: COLLECTIVE BATCHES[+FIRST] SIZE...\n", stderr);
    MPI_Abort(MPI_COMM_WORLD, 2);
    return 2;
  }
  const std::vector<int> sizes = isthmus::pair::sizes_of(count, arguments, 3, 0);
  Calls calls(rank, ranks, *call, effort, std::ranges::max(sizes));
  isthmus::pair::print_times(rank, sizes, effort, [&](int bytes) { return calls.measure(bytes); });
  MPI_Finalize();
  return 0;
}
