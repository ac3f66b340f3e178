// The GPU of this rank, by the CUDA driver's functions, which are loaded when the first buffer needs them.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "gpu/driver/cuda_api.hpp"
#include "suite/gpu/faults.hpp"

namespace isthmus::bench {

// One a process; its context stays current on the thread that made it.
class Gpu {
 public:
  // `local_rank` picks one of those that the process sees, in turn. Throws a Stop (job/call.hpp) where there
  // is none.
  Gpu(int local_rank, bool count_faults);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  [[nodiscard]] const cuda::Functions& driver() const { return driver_; }
  [[nodiscard]] cuda::Device device() const { return device_; }
  [[nodiscard]] cuda::Stream stream() const { return stream_; }
  // nullptr where nobody asked to count them
  [[nodiscard]] FaultCounter* faults() const { return faults_.get(); }

  void copy_in(cuda::Address to, std::span<const std::uint8_t> from) const;
  void copy_out(cuda::Address from, std::span<std::uint8_t> to) const;
  // Enqueues the data-migration kernel; `nothing` one that does nothing.
  void touch(cuda::Address address, std::size_t bytes) const;
  void nothing() const;
  // Enqueues the stencil's kernels: a copy of floats, and one step of a plane with a frame.
  void copy_numbers(cuda::Address to, cuda::Address from, std::size_t count) const;
  void stencil(cuda::Address to, cuda::Address from, std::size_t columns, std::size_t rows) const;
  void wait() const;

  // Throws a Stop that says what could not be done, and the driver's word for it.
  void check(cuda::Status status, const std::string& what) const;

 private:
  void load();
  [[nodiscard]] cuda::Function kernel(const char* name) const;
  void launch(cuda::Function kernel, std::size_t threads, void** parameters) const;

  cuda::Functions driver_;
  cuda::Device device_ = 0;
  cuda::Context context_ = nullptr;
  cuda::Stream stream_ = nullptr;
  cuda::Module module_ = nullptr;
  cuda::Function touch_ = nullptr;
  cuda::Function nothing_ = nullptr;
  cuda::Function copy_ = nullptr;
  cuda::Function stencil_ = nullptr;
  std::unique_ptr<FaultCounter> faults_;
};

}  // namespace isthmus::bench
