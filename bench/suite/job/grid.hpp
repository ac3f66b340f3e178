// A plane of numbers, cut into two halves that touch at one edge: the application behind the benchmark
// `stencil`.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace isthmus::bench {

class Buffer;

// Half of the plane with a frame around it: rows 0 and rows + 1 and columns 0 and columns + 1. The frame is
// zero but for the edge that touches the other half. Where it computes (on the CPU, or by kernels) is where
// its edge is written and read.
class Grid {
 public:
  virtual ~Grid() = default;
  Grid() = default;
  Grid(const Grid&) = delete;
  Grid& operator=(const Grid&) = delete;

  // Copies the own row at the edge into the buffer; the buffer into the frame's row beyond it.
  virtual void pack(Buffer& out) = 0;
  virtual void unpack(const Buffer& in) = 0;
  // Each number becomes the mean of its four neighbours.
  virtual void step() = 0;
  // Waits until the calls before are done.
  virtual void settle() = 0;
  // Rows without frame, one after the other.
  [[nodiscard]] virtual std::vector<float> values() const = 0;
};

struct Shape {
  std::size_t rows;
  std::size_t columns;
  bool upper;  // its edge is its last row

  [[nodiscard]] std::size_t pitch() const { return columns + 2; }
  [[nodiscard]] std::size_t numbers() const { return (rows + 2) * pitch(); }
  [[nodiscard]] std::size_t at(std::size_t row, std::size_t column) const { return row * pitch() + column; }
  [[nodiscard]] std::size_t edge() const { return at(upper ? rows : 1, 1); }
  [[nodiscard]] std::size_t beyond() const { return at(upper ? rows + 1 : 0, 1); }
};

// What lies in row and column of the whole plane at the start.
inline float initial(std::size_t row, std::size_t column) {
  return static_cast<float>((row * 31 + column * 17) % 101);
}
// The half that the shape means, of a plane whose upper half has as many rows.
std::vector<float> initial_half(const Shape& shape);

void host_step(const Shape& shape, std::vector<float>& from, std::vector<float>& to);
std::unique_ptr<Grid> make_host_grid(const Shape& shape);
std::vector<float> without_frame(const Shape& shape, const std::vector<float>& framed);

}  // namespace isthmus::bench
