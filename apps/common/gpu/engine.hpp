// Where an application computes: on a GPU, or on this processor, by the same functions.
//
// A kernel is a struct that says what is to be done, its *work*:
//   static constexpr const char* kernel   its name in kernels.cu, where it is `for_all_points(work)`
//   long points() const                   how many points there are
//   void point(long i) const              what is done for one of them, independently of the others
//   bool addresses(See see)               `see(pointer)` of each address of memory in it; false where one is
//   false
// The last is for the tests, which run kernels on an emulated GPU.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <map>
#include <memory>
#include <optional>

#include "common/gpu/device.hpp"

namespace apps::gpu {

enum class Place { host, gpu };

class Engine {
 public:
  // On a GPU: each process of a host on the next one. Collective.
  Engine(Place place, MPI_Comm comm);

  [[nodiscard]] bool on_gpu() const { return device_ != nullptr; }
  // Only where it is on a GPU.
  [[nodiscard]] const Device& device() const { return *device_; }

  // In the order of the stream; on the host at once.
  template <class Work>
  void launch(const Work& work) const {
    const long points = work.points();
    if (points == 0) return;
    if (!device_) {
      for (long i = 0; i < points; ++i)
        work.point(i);
      return;
    }
    device_->launch(find(Work::kernel), {blocks_for(points), 1, 1}, {block_threads, 1, 1}, work);
  }
  // Finds kernels before they are first launched: the driver loads them then, which waits for all that the
  // GPU has to do.
  template <class... Works>
  void prepare() const {
    if (device_) (static_cast<void>(find(Works::kernel)), ...);
  }
  void copy(void* to, const void* from, std::size_t bytes) const;
  void clear(void* to, std::size_t bytes) const;
  // Until all of it is done.
  void wait() const;

  [[nodiscard]] void* allocate(std::size_t bytes) const;
  void free(void* memory) const noexcept;

  static constexpr unsigned block_threads = 128;

 private:
  [[nodiscard]] static unsigned blocks_for(long points) {
    constexpr long most = 1 << 20;
    const long blocks = (points + block_threads - 1) / block_threads;
    return static_cast<unsigned>(blocks < most ? blocks : most);
  }
  [[nodiscard]] Kernel find(const char* name) const;

  std::unique_ptr<Device> device_;
  mutable std::map<const char*, Kernel> kernels_;
};

// `count` things in the memory in which an engine computes; all bits are 0 at first.
template <class T>
class Buffer {
 public:
  Buffer(const Engine& engine, std::size_t count)
      : engine_(engine), count_(count), data_(static_cast<T*>(engine.allocate(bytes()))) {
    engine_.clear(data_, bytes());
    engine_.wait();
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { engine_.free(data_); }

  [[nodiscard]] T* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return count_; }
  [[nodiscard]] std::size_t bytes() const { return count_ * sizeof(T); }
  // Both wait until it is done. `values`: as many as there are here.
  void write(const T* values) const {
    engine_.copy(data_, values, bytes());
    engine_.wait();
  }
  void read(T* values) const {
    engine_.copy(values, data_, bytes());
    engine_.wait();
  }

 private:
  const Engine& engine_;
  std::size_t count_;
  T* data_;
};

}  // namespace apps::gpu
