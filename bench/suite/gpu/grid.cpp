#include "suite/gpu/grid.hpp"

#include <span>
#include <string>
#include <utility>

#include "suite/job/buffer.hpp"

namespace isthmus::bench {
namespace {

std::span<const std::uint8_t> bytes_of(const std::vector<float>& numbers) {
  return {reinterpret_cast<const std::uint8_t*>(numbers.data()), numbers.size() * sizeof(float)};
}

class Numbers {
 public:
  Numbers(const Gpu& gpu, const std::vector<float>& values) : gpu_(gpu) {
    gpu.check(gpu.driver().allocate(&address_, values.size() * sizeof(float)),
              "allocate the stencil's plane");
    gpu.copy_in(address_, bytes_of(values));
  }
  ~Numbers() { gpu_.driver().free(address_); }
  Numbers(const Numbers&) = delete;
  Numbers& operator=(const Numbers&) = delete;
  [[nodiscard]] cuda::Address at(std::size_t index) const { return address_ + index * sizeof(float); }

 private:
  const Gpu& gpu_;
  cuda::Address address_ = 0;
};

class GpuGrid final : public Grid {
 public:
  GpuGrid(const Gpu& gpu, const Shape& shape)
      : gpu_(gpu),
        shape_(shape),
        now_(std::make_unique<Numbers>(gpu, initial_half(shape))),
        next_(std::make_unique<Numbers>(gpu, initial_half(shape))) {}

  void pack(Buffer& out) override {
    gpu_.copy_numbers(reinterpret_cast<cuda::Address>(out.data()), now_->at(shape_.edge()), shape_.columns);
  }
  void unpack(const Buffer& in) override {
    gpu_.copy_numbers(now_->at(shape_.beyond()), reinterpret_cast<cuda::Address>(in.data()), shape_.columns);
  }
  void step() override {
    gpu_.stencil(next_->at(0), now_->at(0), shape_.columns, shape_.rows);
    now_.swap(next_);
  }
  void settle() override { gpu_.wait(); }
  [[nodiscard]] std::vector<float> values() const override {
    std::vector<float> framed(shape_.numbers());
    gpu_.copy_out(now_->at(0),
                  {reinterpret_cast<std::uint8_t*>(framed.data()), framed.size() * sizeof(float)});
    return without_frame(shape_, framed);
  }

 private:
  const Gpu& gpu_;
  Shape shape_;
  std::unique_ptr<Numbers> now_;
  std::unique_ptr<Numbers> next_;
};

}  // namespace

std::unique_ptr<Grid> make_gpu_grid(const Gpu& gpu, const Shape& shape) {
  return std::make_unique<GpuGrid>(gpu, shape);
}

}  // namespace isthmus::bench
