// A block's values with one layer of points around them: the neighbours' (the halo), or the boundary's.
#pragma once

#include <cstddef>
#include <vector>

#include "decomposition.hpp"

namespace jacobi {

// Where the points of a block are in memory.
class Layout {
 public:
  explicit Layout(const Triple& size)
      : size_(size),
        stride_y_(static_cast<std::ptrdiff_t>(size[0]) + 2),
        stride_z_(stride_y_ * (static_cast<std::ptrdiff_t>(size[1]) + 2)) {}

  // Points without the layer around them.
  [[nodiscard]] const Triple& size() const { return size_; }
  [[nodiscard]] std::ptrdiff_t stride_y() const { return stride_y_; }
  [[nodiscard]] std::ptrdiff_t stride_z() const { return stride_z_; }
  // Points with it.
  [[nodiscard]] std::size_t count() const {
    return static_cast<std::size_t>(stride_z_ * (static_cast<std::ptrdiff_t>(size_[2]) + 2));
  }

  // Index of a point: 1..size inside, 0 and size + 1 around.
  [[nodiscard]] std::ptrdiff_t index(int x, int y, int z) const { return x + stride_y_ * y + stride_z_ * z; }

 private:
  Triple size_;
  std::ptrdiff_t stride_y_;
  std::ptrdiff_t stride_z_;
};

class Field : public Layout {
 public:
  explicit Field(const Triple& size) : Layout(size), values_(count()) {}

  [[nodiscard]] double& at(int x, int y, int z) { return values_[static_cast<std::size_t>(index(x, y, z))]; }
  [[nodiscard]] double at(int x, int y, int z) const {
    return values_[static_cast<std::size_t>(index(x, y, z))];
  }
  [[nodiscard]] double* data() { return values_.data(); }
  [[nodiscard]] const double* data() const { return values_.data(); }

 private:
  std::vector<double> values_;
};

}  // namespace jacobi
