// The communicators of a grid of processes.
#pragma once

#include <mpi.h>

#include <array>

#include "pencils.hpp"

namespace fft {

// Owns them. Made and freed by all processes together.
class Communicators {
 public:
  Communicators(const Grid& grid, MPI_Comm world) {
    const std::array<int, 2> extents{grid.column, grid.row};
    const std::array<int, 2> periodic{0, 0};
    MPI_Cart_create(world, 2, extents.data(), periodic.data(), 1, &grid_);
    const std::array<int, 2> along_rows{0, 1};
    const std::array<int, 2> along_columns{1, 0};
    MPI_Cart_sub(grid_, along_rows.data(), &row_);
    MPI_Cart_sub(grid_, along_columns.data(), &column_);
  }
  Communicators(const Communicators&) = delete;
  Communicators& operator=(const Communicators&) = delete;
  ~Communicators() {
    MPI_Comm_free(&column_);
    MPI_Comm_free(&row_);
    MPI_Comm_free(&grid_);
  }

  // Processes may be numbered otherwise than in the communicator that it was made of.
  [[nodiscard]] MPI_Comm grid() const { return grid_; }
  // Those of this process. Ranks in them are places in the row and in the column.
  [[nodiscard]] MPI_Comm row() const { return row_; }
  [[nodiscard]] MPI_Comm column() const { return column_; }

 private:
  MPI_Comm grid_ = MPI_COMM_NULL;
  MPI_Comm row_ = MPI_COMM_NULL;
  MPI_Comm column_ = MPI_COMM_NULL;
};

}  // namespace fft
