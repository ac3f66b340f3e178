// A GPU by the CUDA driver's own interface, loaded at run time: nothing of CUDA is needed to build or to run
// without --gpu.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace jacobi::gpu {

// The driver's types, as its binary interface has them.
using Address = std::uint64_t;
using Stream = struct CUstream_st*;
using Kernel = struct CUfunc_st*;

// One GPU of this host: that with this process's number there, modulo those it sees; with a stream, and the
// kernels of kernels.cu. Throws std::runtime_error, with words for the user, as everything here does.
class Device {
 public:
  explicit Device(int number);
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  ~Device();

  [[nodiscard]] Kernel kernel(const char* name) const;
  struct Grid {
    unsigned x, y, z;
  };
  // `work` is the kernel's one parameter.
  template <class Work>
  void launch(Kernel kernel, Grid blocks, Grid threads, Work work) const {
    void* parameters[] = {&work};
    launch(kernel, blocks, threads, parameters);
  }
  // In the order of the stream.
  void copy(void* to, const void* from, std::size_t bytes) const;
  void clear(void* to, std::size_t bytes) const;
  void wait() const;

  [[nodiscard]] void* allocate(std::size_t bytes) const;
  void free(void* memory) const noexcept;
  [[nodiscard]] void* allocate_pinned(std::size_t bytes) const;
  void free_pinned(void* memory) const noexcept;

 private:
  struct Driver;
  void launch(Kernel kernel, Grid blocks, Grid threads, void** parameters) const;

  std::unique_ptr<Driver> driver_;
};

// `count` doubles in the memory of a GPU, or in the host's where the GPU reaches it directly.
template <bool pinned>
class Doubles {
 public:
  Doubles(const Device& device, std::size_t count)
      : device_(device),
        count_(count),
        data_(static_cast<double*>(allocate(device, count * sizeof(double)))) {}
  Doubles(const Doubles&) = delete;
  Doubles& operator=(const Doubles&) = delete;
  ~Doubles() {
    if constexpr (pinned)
      device_.free_pinned(data_);
    else
      device_.free(data_);
  }
  [[nodiscard]] double* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return count_; }
  [[nodiscard]] std::size_t bytes() const { return count_ * sizeof(double); }

 private:
  static void* allocate(const Device& device, std::size_t bytes) {
    if constexpr (pinned)
      return device.allocate_pinned(bytes);
    else
      return device.allocate(bytes);
  }
  const Device& device_;
  std::size_t count_;
  double* data_;
};

using DeviceDoubles = Doubles<false>;
using PinnedDoubles = Doubles<true>;

}  // namespace jacobi::gpu
