#include "suite/gpu/memory.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "common/measure.hpp"
#include "suite/gpu/gpu.hpp"
#include "suite/gpu/grid.hpp"
#include "suite/job/call.hpp"

namespace isthmus::bench {
namespace {

std::string sized(std::size_t bytes, Placement placement) {
  return "allocate " + std::to_string(bytes) + " bytes of " + std::string(name_of(placement)) + " memory";
}

std::uint8_t* pointer(cuda::Address address) {
  return reinterpret_cast<std::uint8_t*>(address);
}

// Memory that only the GPU may load and store.
class OnDevice : public Buffer {
 public:
  explicit OnDevice(const Gpu& gpu) : gpu_(gpu) {}
  void write(std::size_t offset, std::span<const std::uint8_t> bytes) override {
    gpu_.copy_in(address() + offset, bytes);
  }
  void read(std::size_t offset, std::span<std::uint8_t> bytes) const override {
    gpu_.copy_out(address() + offset, bytes);
  }

 protected:
  [[nodiscard]] cuda::Address address() const { return reinterpret_cast<cuda::Address>(data()); }
  const Gpu& gpu_;
};

class DeviceBuffer final : public OnDevice {
 public:
  DeviceBuffer(const Gpu& gpu, std::size_t bytes) : OnDevice(gpu) {
    gpu.check(gpu.driver().allocate(&allocated_, bytes), sized(bytes, Placement::device));
    set(pointer(allocated_), bytes);
  }
  ~DeviceBuffer() override { gpu_.driver().free(allocated_); }

 private:
  cuda::Address allocated_ = 0;
};

// From a pool of its own, whose memory may be handed to other processes, as the pools of libraries that share
// memory.
class PoolBuffer final : public OnDevice {
 public:
  PoolBuffer(const Gpu& gpu, std::size_t bytes) : OnDevice(gpu) {
    const cuda::PoolProperties properties{.handle_types = cuda::HandleType::posix_descriptor,
                                          .location = {cuda::LocationType::device, gpu.device()}};
    gpu.check(gpu.driver().pool_create(&pool_, &properties), "make a memory pool");
    gpu.check(gpu.driver().pool_allocate(&allocated_, bytes, pool_, gpu.stream()),
              sized(bytes, Placement::pool));
    gpu.wait();
    set(pointer(allocated_), bytes);
  }
  ~PoolBuffer() override {
    gpu_.driver().pool_free(allocated_, gpu_.stream());
    gpu_.driver().stream_synchronize(gpu_.stream());
    gpu_.driver().pool_destroy(pool_);
  }

 private:
  cuda::Pool pool_ = nullptr;
  cuda::Address allocated_ = 0;
};

// Physical memory, mapped for all GPUs that the process sees and that can reach it.
class VmmBuffer final : public OnDevice {
 public:
  VmmBuffer(const Gpu& gpu, std::size_t bytes) : OnDevice(gpu) {
    const cuda::Functions& driver = gpu.driver();
    const std::string what = sized(bytes, Placement::vmm);
    const cuda::AllocationProperties properties{.handle_types = cuda::HandleType::posix_descriptor,
                                                .location = {cuda::LocationType::device, gpu.device()}};
    std::size_t granule = 0;
    gpu.check(driver.granularity(&granule, &properties, cuda::GranularityKind::recommended), what);
    mapped_ = (bytes + granule - 1) / granule * granule;
    gpu.check(driver.physical_create(&physical_, mapped_, &properties, 0), what);
    gpu.check(driver.address_reserve(&reserved_, mapped_, 0, 0, 0), what);
    gpu.check(driver.map(reserved_, mapped_, 0, physical_, 0), what);
    const std::vector<cuda::Access> accesses = readers(gpu);
    gpu.check(driver.set_access(reserved_, mapped_, accesses.data(), accesses.size()), what);
    set(pointer(reserved_), bytes);
  }
  ~VmmBuffer() override {
    gpu_.driver().unmap(reserved_, mapped_);
    gpu_.driver().address_free(reserved_, mapped_);
    gpu_.driver().physical_release(physical_);
  }

 private:
  static std::vector<cuda::Access> readers(const Gpu& gpu) {
    int count = 0;
    gpu.check(gpu.driver().device_count(&count), "count the GPUs");
    std::vector<cuda::Access> accesses;
    for (cuda::Device other = 0; other < count; ++other) {
      int can = other == gpu.device() ? 1 : 0;
      if (can == 0) gpu.driver().device_can_access_peer(&can, other, gpu.device());
      if (can != 0)
        accesses.push_back(
            {.location = {cuda::LocationType::device, other}, .flags = cuda::AccessFlags::read_write});
    }
    return accesses;
  }

  std::size_t mapped_ = 0;
  cuda::Physical physical_ = 0;
  cuda::Address reserved_ = 0;
};

// Memory that the CPU loads and stores as any.
class OnHost : public Buffer {
 public:
  explicit OnHost(const Gpu& gpu) : gpu_(gpu) {}
  void write(std::size_t offset, std::span<const std::uint8_t> bytes) override {
    std::copy(bytes.begin(), bytes.end(), data() + offset);
  }
  void read(std::size_t offset, std::span<std::uint8_t> bytes) const override {
    std::copy_n(data() + offset, bytes.size(), bytes.begin());
  }

 protected:
  const Gpu& gpu_;
};

class PinnedBuffer final : public OnHost {
 public:
  PinnedBuffer(const Gpu& gpu, std::size_t bytes) : OnHost(gpu) {
    void* allocated = nullptr;
    gpu.check(gpu.driver().host_allocate(&allocated, bytes, 0), sized(bytes, Placement::pinned));
    set(static_cast<std::uint8_t*>(allocated), bytes);
  }
  ~PinnedBuffer() override { gpu_.driver().host_free(data()); }
};

class ManagedBuffer final : public OnHost {
 public:
  ManagedBuffer(const Gpu& gpu, std::size_t bytes, Placement placement)
      : OnHost(gpu), on_device_(placement == Placement::managed_device) {
    cuda::Address allocated = 0;
    gpu.check(gpu.driver().managed_allocate(&allocated, bytes, cuda::attach_global), sized(bytes, placement));
    set(pointer(allocated), bytes);
  }
  ~ManagedBuffer() override { gpu_.driver().free(reinterpret_cast<cuda::Address>(data())); }

  void touch(std::size_t offset, std::size_t bytes, bool wait) override {
    if (on_device_) {
      gpu_.touch(reinterpret_cast<cuda::Address>(data() + offset), bytes);
      if (wait) gpu_.wait();
      return;
    }
    for (std::size_t at = 0; at < bytes; at += 4096)
      static_cast<void>(*static_cast<volatile std::uint8_t*>(data() + offset + at));
  }
  void settle() override {
    if (on_device_) gpu_.wait();
  }

 private:
  bool on_device_;
};

class GpuMemory final : public Memory {
 public:
  GpuMemory(Placement placement, int local_rank, bool count_faults)
      : placement_(placement), gpu_(local_rank, count_faults) {}

  std::unique_ptr<Buffer> make(std::size_t bytes) override {
    std::unique_ptr<Buffer> buffer = allocate(std::max<std::size_t>(bytes, 1));
    buffer->clear();
    return buffer;
  }

  std::vector<double> launch_times(int kernels) override {
    if (placement_ != Placement::managed_device) return {};
    constexpr int warm_up = 20;
    constexpr int wanted = 101;
    std::vector<double> times;
    for (int i = 0; i < warm_up + wanted; ++i) {
      const double start = now_seconds();
      for (int kernel = 0; kernel < kernels; ++kernel)
        gpu_.nothing();
      gpu_.wait();
      if (i >= warm_up) times.push_back(now_seconds() - start);
    }
    return times;
  }

  std::unique_ptr<Grid> make_grid(const Shape& shape) override {
    const bool by_cpu = placement_ == Placement::pinned || placement_ == Placement::managed_host;
    return by_cpu ? make_host_grid(shape) : make_gpu_grid(gpu_, shape);
  }

  void begin_faults() override {
    if (FaultCounter* const counter = gpu_.faults()) counter->begin();
  }
  Faults end_faults() override {
    FaultCounter* const counter = gpu_.faults();
    return counter == nullptr ? Faults{} : counter->end();
  }

 private:
  std::unique_ptr<Buffer> allocate(std::size_t bytes) {
    switch (placement_) {
      case Placement::pinned:
        return std::make_unique<PinnedBuffer>(gpu_, bytes);
      case Placement::vmm:
        return std::make_unique<VmmBuffer>(gpu_, bytes);
      case Placement::pool:
        return std::make_unique<PoolBuffer>(gpu_, bytes);
      case Placement::managed_host:
      case Placement::managed_device:
        return std::make_unique<ManagedBuffer>(gpu_, bytes, placement_);
      case Placement::device:
      case Placement::host:
      case Placement::allocated:
        break;
    }
    return std::make_unique<DeviceBuffer>(gpu_, bytes);
  }

  Placement placement_;
  Gpu gpu_;
};

}  // namespace

std::unique_ptr<Memory> make_gpu_memory(Placement placement, int local_rank, bool count_faults) {
  return std::make_unique<GpuMemory>(placement, local_rank, count_faults);
}

}  // namespace isthmus::bench
