#include "host/nonblocking.hpp"

#include <mpi.h>

#include <array>
#include <string>
#include <vector>

#include "common/pages.hpp"
#include "host/broadcasts.hpp"

namespace isthmus::bench {
namespace {

constexpr Meaning time_of_one{.unit = Unit::microseconds};

// Several sums of doubles under way. Rank r gives r + i + k at index i of sum k.
class Sums {
 public:
  Sums(const Job& job, std::size_t bytes, std::size_t count)
      : job_(job),
        length_(bytes / sizeof(double)),
        mine_(length_ * count),
        all_(length_ * count),
        under_way_(count) {
    for (std::size_t k = 0; k < count; ++k)
      for (std::size_t i = 0; i < length_; ++i)
        mine_[k * length_ + i] = job.rank() + static_cast<double>(i + k);
  }
  void reduce() {
    for (std::size_t k = 0; k < under_way_.size(); ++k)
      MPI_Iallreduce(&mine_[k * length_], &all_[k * length_], static_cast<int>(length_), MPI_DOUBLE, MPI_SUM,
                     MPI_COMM_WORLD, &under_way_[k]);
    if (under_way_.size() == 1)
      MPI_Wait(under_way_.data(), MPI_STATUS_IGNORE);
    else
      MPI_Waitall(static_cast<int>(under_way_.size()), under_way_.data(), MPI_STATUSES_IGNORE);
  }
  void check(std::string_view point) {
    all_.assign(all_.size(), -1);
    reduce();
    const double ranks = job_.ranks();
    std::string fault;
    for (std::size_t k = 0; k < under_way_.size(); ++k)
      for (std::size_t i = 0; fault.empty() && i < length_; ++i)
        if (all_[k * length_ + i] != ranks * (ranks - 1) / 2 + ranks * static_cast<double>(i + k))
          fault = "element " + std::to_string(i) + " of sum " + std::to_string(k) + " is wrong";
    job_.demand(point, fault);
  }

 private:
  const Job& job_;
  std::size_t length_;
  std::vector<double> mine_;
  std::vector<double> all_;
  std::vector<MPI_Request> under_way_;
};

void measure_sums(const Job& job, std::string_view point, std::size_t bytes, std::size_t count) {
  Sums sums(job, bytes, count);
  sums.check(point);
  job.measure(point, {.unit = Unit::microseconds, .share = 1 / static_cast<double>(count)},
              [&sums] { sums.reduce(); });
  sums.check(point);
}

void broadcast(Pages& buffer, int root) {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibcast(buffer.data(), static_cast<int>(buffer.size()), MPI_BYTE, root, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

// Blocks for the neighbours in a grid, those before and after along each dimension.
class Grid {
 public:
  static constexpr int dimensions = 3;
  static constexpr std::size_t neighbours = 2 * dimensions;

  Grid(const Job& job, std::size_t bytes)
      : job_(job), block_(bytes), out_(neighbours * bytes), in_(neighbours * bytes) {
    std::array<int, dimensions> sizes{};
    std::array<int, dimensions> closed{};
    closed.fill(1);
    MPI_Dims_create(job.ranks(), dimensions, sizes.data());
    MPI_Cart_create(MPI_COMM_WORLD, dimensions, sizes.data(), closed.data(), 0, &grid_);
    for (int d = 0; d < dimensions; ++d)
      MPI_Cart_shift(grid_, d, 1, &rank_of_[2 * static_cast<std::size_t>(d)],
                     &rank_of_[2 * static_cast<std::size_t>(d) + 1]);
  }
  Grid(const Grid&) = delete;
  Grid& operator=(const Grid&) = delete;
  ~Grid() { MPI_Comm_free(&grid_); }

  void exchange() {
    const int count = static_cast<int>(block_);
    MPI_Neighbor_alltoall(out_.data(), count, MPI_BYTE, in_.data(), count, MPI_BYTE, grid_);
  }
  // One pattern for both neighbours along a dimension: where they are one rank, libraries differ on which
  // block is which.
  void check(std::string_view point, unsigned round) {
    in_.clear();
    for (std::size_t i = 0; i < neighbours; ++i)
      out_.fill(i * block_, block_, static_cast<unsigned>(job_.rank()), round + static_cast<unsigned>(i / 2));
    exchange();
    std::string fault;
    for (std::size_t i = 0; fault.empty() && i < neighbours; ++i)
      fault = fault_text(in_.mismatch(i * block_, block_, static_cast<unsigned>(rank_of_[i]),
                                      round + static_cast<unsigned>(i / 2)));
    job_.demand(point, fault);
  }

 private:
  const Job& job_;
  std::size_t block_;
  Pages out_;
  Pages in_;
  MPI_Comm grid_ = MPI_COMM_NULL;
  std::array<int, neighbours> rank_of_{};
};

}  // namespace

void iallreduce(const Job& job, std::string_view point, std::size_t bytes) {
  measure_sums(job, point, bytes, 1);
}

void iallreduce_many(const Job& job, std::string_view point, std::size_t bytes) {
  measure_sums(job, point, bytes, 100);
}

void ibcast(const Job& job, std::string_view point, std::size_t bytes) {
  measure_broadcasts(job, point, bytes, Roots::moving, broadcast);
}

void neighbor_alltoall(const Job& job, std::string_view point, std::size_t bytes) {
  Grid grid(job, bytes);
  grid.check(point, 1);
  job.measure(point, time_of_one, [&grid] { grid.exchange(); });
  grid.check(point, 2);
}

}  // namespace isthmus::bench
