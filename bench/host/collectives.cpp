#include "host/collectives.hpp"

#include <mpi.h>

#include <string>
#include <vector>

#include "common/pages.hpp"
#include "host/broadcasts.hpp"

namespace isthmus::bench {
namespace {

constexpr Meaning time_of_one{.unit = Unit::microseconds};

// No rank may leave before the last has entered. Rank 0 enters late; the clock is one for all processes of a
// host.
std::string barrier_fault(const Job& job) {
  constexpr double lateness = 0.02;
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = now_seconds();
  while (job.rank() == 0 && now_seconds() - start < lateness) {
  }
  double entered = now_seconds();
  MPI_Barrier(MPI_COMM_WORLD);
  const double left = now_seconds();
  MPI_Bcast(&entered, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  return left >= entered ? "" : "left the barrier before rank 0 had entered it";
}

void broadcast(Pages& buffer, int root) {
  MPI_Bcast(buffer.data(), static_cast<int>(buffer.size()), MPI_BYTE, root, MPI_COMM_WORLD);
}

// Rank r gives r + i at index i: the sums are small integers, exact in any order of addition.
class Reduction {
 public:
  Reduction(const Job& job, std::size_t bytes)
      : job_(job), mine_(bytes / sizeof(double)), sums_(bytes / sizeof(double)) {
    for (std::size_t i = 0; i < mine_.size(); ++i)
      mine_[i] = job.rank() + static_cast<double>(i);
  }
  void reduce() {
    MPI_Allreduce(mine_.data(), sums_.data(), static_cast<int>(mine_.size()), MPI_DOUBLE, MPI_SUM,
                  MPI_COMM_WORLD);
  }
  void check(std::string_view point) {
    sums_.assign(sums_.size(), -1);
    reduce();
    const double ranks = job_.ranks();
    std::string fault;
    for (std::size_t i = 0; fault.empty() && i < sums_.size(); ++i)
      if (sums_[i] != ranks * (ranks - 1) / 2 + ranks * static_cast<double>(i))
        fault = "sum " + std::to_string(i) + " is wrong";
    job_.demand(point, fault);
  }

 private:
  const Job& job_;
  std::vector<double> mine_;
  std::vector<double> sums_;
};

class Exchange {
 public:
  Exchange(const Job& job, std::size_t bytes)
      : job_(job), block_(bytes), out_(bytes * ranks()), in_(bytes * ranks()) {}
  void exchange() {
    const int count = static_cast<int>(block_);
    MPI_Alltoall(out_.data(), count, MPI_BYTE, in_.data(), count, MPI_BYTE, MPI_COMM_WORLD);
  }
  // What rank a sends to rank b is a pattern of both.
  void check(std::string_view point, unsigned round) {
    const auto me = static_cast<unsigned>(job_.rank());
    in_.clear();
    for (std::size_t to = 0; to < ranks(); ++to)
      out_.fill(to * block_, block_, me, round + static_cast<unsigned>(to));
    exchange();
    std::string fault;
    for (std::size_t from = 0; fault.empty() && from < ranks(); ++from)
      fault = fault_text(in_.mismatch(from * block_, block_, static_cast<unsigned>(from), round + me));
    job_.demand(point, fault);
  }

 private:
  std::size_t ranks() const { return static_cast<std::size_t>(job_.ranks()); }

  const Job& job_;
  std::size_t block_;
  Pages out_;
  Pages in_;
};

// Every rank has a block for all others.
class Collection {
 public:
  Collection(const Job& job, std::size_t bytes)
      : job_(job), block_(bytes), mine_(bytes), all_(bytes * static_cast<std::size_t>(job.ranks())) {}

  void collect() {
    MPI_Allgather(mine_.data(), static_cast<int>(block_), MPI_BYTE, all_.data(), static_cast<int>(block_),
                  MPI_BYTE, MPI_COMM_WORLD);
  }
  void check(std::string_view point, unsigned round) {
    mine_.fill(static_cast<unsigned>(job_.rank()), round);
    all_.clear();
    collect();
    std::string fault;
    for (int from = 0; from < job_.ranks() && fault.empty(); ++from) {
      const Pages expected = [&] {
        Pages pages(block_);
        pages.fill(static_cast<unsigned>(from), round);
        return pages;
      }();
      const std::uint8_t* got = all_.data() + static_cast<std::size_t>(from) * block_;
      if (!std::equal(got, got + block_, expected.data()))
        fault = "the block of rank " + std::to_string(from) + " is wrong";
    }
    job_.demand(point, fault);
  }

 private:
  const Job& job_;
  std::size_t block_;
  Pages mine_;
  Pages all_;
};

}  // namespace

void barrier(const Job& job, std::string_view point, std::size_t) {
  job.demand(point, barrier_fault(job));
  job.measure(point, time_of_one, [] { MPI_Barrier(MPI_COMM_WORLD); });
}

void allreduce(const Job& job, std::string_view point, std::size_t bytes) {
  Reduction reduction(job, bytes);
  reduction.check(point);
  job.measure(point, time_of_one, [&reduction] { reduction.reduce(); });
  reduction.check(point);
}

void bcast(const Job& job, std::string_view point, std::size_t bytes) {
  measure_broadcasts(job, point, bytes, Roots::moving, broadcast);
}

void bcast_fixed_root(const Job& job, std::string_view point, std::size_t bytes) {
  measure_broadcasts(job, point, bytes, Roots::fixed, broadcast);
}

void allgather(const Job& job, std::string_view point, std::size_t bytes) {
  Collection collection(job, bytes);
  collection.check(point, 1);
  job.measure(point, time_of_one, [&collection] { collection.collect(); });
  collection.check(point, 2);
}

void alltoall(const Job& job, std::string_view point, std::size_t bytes) {
  Exchange exchange(job, bytes);
  exchange.check(point, 1);
  job.measure(point, time_of_one, [&exchange] { exchange.exchange(); });
  exchange.check(point, 2);
}

}  // namespace isthmus::bench
