// A GPU by the CUDA driver's own interface, loaded at run time: nothing of CUDA is needed to build an
// application, or to run it on the host alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

struct CUstream_st;
struct CUfunc_st;
struct CUgraphExec_st;

namespace apps::gpu {

// The driver's types, as its binary interface has them.
using Address = std::uint64_t;
using Stream = CUstream_st*;
using Kernel = CUfunc_st*;

class Device;

// What a stream's capture has become.
class Graph {
 public:
  Graph() = default;
  Graph(Graph&& other) noexcept;
  Graph& operator=(Graph&& other) noexcept;
  ~Graph();
  [[nodiscard]] explicit operator bool() const { return executable_ != nullptr; }

 private:
  friend class Device;
  const Device* device_ = nullptr;
  CUgraphExec_st* executable_ = nullptr;
};

// One GPU of this host: number `number` modulo those that the process sees; with a stream, and the kernels of
// the application's kernels.cu. Throws std::runtime_error, with words for the user, as everything here does.
// Threading: one thread, which has the GPU's context current while the object lives.
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
  // What is enqueued between the two becomes a graph instead of being done, to be launched as often as one
  // likes while the device lives.
  void begin_capture() const;
  [[nodiscard]] Graph end_capture() const;
  // In the order of the stream.
  void launch(const Graph& graph) const;
  void copy(void* to, const void* from, std::size_t bytes) const;
  void clear(void* to, std::size_t bytes) const;
  void wait() const;
  [[nodiscard]] Stream stream() const;

  [[nodiscard]] void* allocate(std::size_t bytes) const;
  void free(void* memory) const noexcept;
  [[nodiscard]] void* allocate_pinned(std::size_t bytes) const;
  void free_pinned(void* memory) const noexcept;

 private:
  friend class Graph;
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

}  // namespace apps::gpu
