#include "suite/job/grid.hpp"

#include <cstring>
#include <utility>

#include "suite/job/buffer.hpp"

namespace isthmus::bench {
namespace {

class HostGrid final : public Grid {
 public:
  explicit HostGrid(const Shape& shape) : shape_(shape), now_(initial_half(shape)), next_(now_) {}

  void pack(Buffer& out) override {
    std::memcpy(out.data(), &now_[shape_.edge()], shape_.columns * sizeof(float));
  }
  void unpack(const Buffer& in) override {
    std::memcpy(&now_[shape_.beyond()], in.data(), shape_.columns * sizeof(float));
  }
  void step() override {
    host_step(shape_, now_, next_);
    now_.swap(next_);
  }
  void settle() override {}
  [[nodiscard]] std::vector<float> values() const override { return without_frame(shape_, now_); }

 private:
  Shape shape_;
  std::vector<float> now_;
  std::vector<float> next_;
};

}  // namespace

std::vector<float> initial_half(const Shape& shape) {
  std::vector<float> framed(shape.numbers());
  for (std::size_t row = 1; row <= shape.rows; ++row)
    for (std::size_t column = 1; column <= shape.columns; ++column)
      framed[shape.at(row, column)] = initial(row - 1 + (shape.upper ? 0 : shape.rows), column - 1);
  return framed;
}

void host_step(const Shape& shape, std::vector<float>& from, std::vector<float>& to) {
  const std::size_t pitch = shape.pitch();
  for (std::size_t row = 1; row <= shape.rows; ++row)
    for (std::size_t i = shape.at(row, 1); i < shape.at(row, 1) + shape.columns; ++i)
      to[i] = (from[i - pitch] + from[i + pitch] + (from[i - 1] + from[i + 1])) * 0.25F;
}

std::unique_ptr<Grid> make_host_grid(const Shape& shape) {
  return std::make_unique<HostGrid>(shape);
}

std::vector<float> without_frame(const Shape& shape, const std::vector<float>& framed) {
  std::vector<float> values;
  for (std::size_t row = 1; row <= shape.rows; ++row)
    for (std::size_t column = 1; column <= shape.columns; ++column)
      values.push_back(framed[shape.at(row, column)]);
  return values;
}

}  // namespace isthmus::bench
