#pragma once

#include <dlfcn.h>
#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "../mpi/check.h"
#include "gpu/driver/cuda_driver.hpp"
#include "gpu/memory/buffer.hpp"

/// Memory of every kind for the programs of this folder, by the driver's functions, as the real driver and
/// the emulated one have them.
namespace isthmus::testing_gpu {

inline constexpr MemoryKind every_kind[]{MemoryKind::pageable, MemoryKind::pinned, MemoryKind::device,
                                         MemoryKind::vmm,      MemoryKind::pool,   MemoryKind::managed};

inline constexpr cuda::Stream default_stream = nullptr;

/// `count` integers from `first` on.
inline std::vector<int> ascending(std::size_t count, int first) {
  std::vector<int> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

inline int class_of(int error) {
  int error_class = MPI_SUCCESS;
  MPI_Error_class(error, &error_class);
  return error_class;
}

using SetEmulated = int (*)(const char* name, const char* value);
/// Null where the driver is a real one.
inline SetEmulated emulated_driver() {
  return reinterpret_cast<SetEmulated>(
      ::dlsym(::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD), "emulated_cuda_set"));
}
/// Sets a fault or a setting of the emulated driver in this process, from now on.
inline void set_emulated(const char* name, const char* value) {
  const SetEmulated function = emulated_driver();
  CHECK(function != nullptr);
  CHECK_EQUAL(function(name, value), 0);
}

/// The driver, loaded and initialised as a program does it, with the primary context of one device current.
class Gpu {
 public:
  /// Of this rank: its number modulo the devices.
  explicit Gpu(int rank);
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;
  ~Gpu() {
    cuda::Context popped = nullptr;
    functions().context_pop(&popped);
    functions().primary_release(device_);
  }
  [[nodiscard]] const cuda::Functions& functions() const { return *functions_; }
  [[nodiscard]] cuda::Device device() const { return device_; }

 private:
  CudaDriver driver_;
  const cuda::Functions* functions_ = nullptr;
  cuda::Device device_ = 0;
};

#define CHECK_CUDA(call) CHECK_EQUAL(static_cast<int>(call), 0)

inline Gpu::Gpu(int rank) {
  const auto opened = driver_.open();
  if (!opened) {
    std::fprintf(stderr, "%s\n", opened.error().text().c_str());
    std::exit(77);
  }
  functions_ = *opened;
  int count = 0;
  CHECK_CUDA(functions().device_count(&count));
  CHECK(count > 0);
  device_ = rank % count;
  cuda::Context context = nullptr;
  CHECK_CUDA(functions().primary_retain(&context, device_));
  CHECK_CUDA(functions().context_push(context));
}

/// A program's main: `body(gpu, rank)` between MPI_Init and MPI_Finalize.
template <class Body>
int run_on_gpu(int argc, char** argv, Body body) {
  MPI_Init(&argc, &argv);
  int rank = -1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  // Ranks that share a process may throw at the same moment, and the C++ library tells of none then.
  try {
    const Gpu gpu(rank);
    body(gpu, rank);
    MPI_Finalize();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  return 0;
}

/// Whether other processes can open VMM and pool memory. Closed managed memory is on the GPU when it is
/// written.
enum class Openness : bool { closed, open };

/// Some bytes of memory of a kind.
class Memory {
 public:
  Memory(const Gpu& gpu, MemoryKind kind, std::size_t bytes, Openness openness = Openness::open);
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory();

  [[nodiscard]] void* data() const { return reinterpret_cast<void*>(address_); }
  /// It is gone, with its device's context.
  void forget() { address_ = 0; }
  template <class T>
  void write(const std::vector<T>& values) {
    CHECK(values.size() * sizeof(T) <= bytes_);
    if (kind_ == MemoryKind::managed && openness_ == Openness::closed) prefetch();
    copy(address_, reinterpret_cast<cuda::Address>(values.data()), values.size() * sizeof(T));
  }
  template <class T>
  [[nodiscard]] std::vector<T> read(std::size_t count) const {
    std::vector<T> values(count);
    CHECK(count * sizeof(T) <= bytes_);
    copy(reinterpret_cast<cuda::Address>(values.data()), address_, count * sizeof(T));
    return values;
  }

 private:
  void copy(cuda::Address to, cuda::Address from, std::size_t bytes) const {
    if (bytes == 0) return;
    if (kind_ == MemoryKind::pageable) {
      std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
      return;
    }
    CHECK_CUDA(gpu_.functions().copy(to, from, bytes));
    // A copy from pageable memory returns before its bytes have arrived.
    CHECK_CUDA(gpu_.functions().stream_synchronize(default_stream));
  }
  void allocate_virtual();
  void allocate_from_pool();
  void prefetch();
  [[nodiscard]] cuda::HandleType handles() const {
    return openness_ == Openness::open ? cuda::HandleType::posix_descriptor : cuda::HandleType::none;
  }

  const Gpu& gpu_;
  const MemoryKind kind_;
  const std::size_t bytes_;
  const Openness openness_;
  cuda::Address address_ = 0;
  std::size_t room_ = 0;  ///< of virtual memory
  cuda::Pool pool_ = nullptr;
};

inline Memory::Memory(const Gpu& gpu, MemoryKind kind, std::size_t bytes, Openness openness)
    : gpu_(gpu), kind_(kind), bytes_(bytes), openness_(openness) {
  const cuda::Functions& cuda = gpu.functions();
  void* host = nullptr;
  switch (kind) {
    case MemoryKind::pageable:
      address_ = reinterpret_cast<cuda::Address>(std::malloc(bytes));
      break;
    case MemoryKind::pinned:
      CHECK_CUDA(cuda.host_allocate(&host, bytes, 0));
      address_ = reinterpret_cast<cuda::Address>(host);
      break;
    case MemoryKind::device:
      CHECK_CUDA(cuda.allocate(&address_, bytes));
      break;
    case MemoryKind::vmm:
      allocate_virtual();
      break;
    case MemoryKind::pool:
      allocate_from_pool();
      break;
    case MemoryKind::managed:
      CHECK_CUDA(cuda.managed_allocate(&address_, bytes, cuda::attach_global));
      break;
  }
  CHECK(address_ != 0);
}

inline Memory::~Memory() {
  if (address_ == 0) return;
  const cuda::Functions& cuda = gpu_.functions();
  switch (kind_) {
    case MemoryKind::pageable:
      std::free(data());
      break;
    case MemoryKind::pinned:
      CHECK_CUDA(cuda.host_free(data()));
      break;
    case MemoryKind::vmm:
      CHECK_CUDA(cuda.unmap(address_, room_));
      CHECK_CUDA(cuda.address_free(address_, room_));
      break;
    case MemoryKind::pool:
      CHECK_CUDA(cuda.pool_free(address_, default_stream));
      CHECK_CUDA(cuda.stream_synchronize(default_stream));
      CHECK_CUDA(cuda.pool_destroy(pool_));
      break;
    case MemoryKind::device:
    case MemoryKind::managed:
      CHECK_CUDA(cuda.free(address_));
      break;
  }
}

inline void Memory::allocate_virtual() {
  const cuda::Functions& cuda = gpu_.functions();
  const cuda::AllocationProperties properties{.handle_types = handles(),
                                              .location = {cuda::LocationType::device, gpu_.device()}};
  std::size_t grain = 0;
  CHECK_CUDA(cuda.granularity(&grain, &properties, cuda::GranularityKind::recommended));
  room_ = (bytes_ + grain - 1) / grain * grain;
  cuda::Physical physical = 0;
  CHECK_CUDA(cuda.physical_create(&physical, room_, &properties, 0));
  CHECK_CUDA(cuda.address_reserve(&address_, room_, 0, 0, 0));
  CHECK_CUDA(cuda.map(address_, room_, 0, physical, 0));
  CHECK_CUDA(cuda.physical_release(physical));
  const cuda::Access access{.location = properties.location, .flags = cuda::AccessFlags::read_write};
  CHECK_CUDA(cuda.set_access(address_, room_, &access, 1));
}

inline void Memory::allocate_from_pool() {
  const cuda::Functions& cuda = gpu_.functions();
  const cuda::PoolProperties properties{.handle_types = handles(),
                                        .location = {cuda::LocationType::device, gpu_.device()}};
  CHECK_CUDA(cuda.pool_create(&pool_, &properties));
  CHECK_CUDA(cuda.pool_allocate(&address_, bytes_, pool_, default_stream));
  CHECK_CUDA(cuda.stream_synchronize(default_stream));
}

inline void Memory::prefetch() {
  const cuda::Functions& cuda = gpu_.functions();
  const cuda::Location device{.type = cuda::LocationType::device, .id = gpu_.device()};
  CHECK_CUDA(cuda.managed_prefetch(address_, bytes_, device, 0, default_stream));
  CHECK_CUDA(cuda.stream_synchronize(default_stream));
}

}  // namespace isthmus::testing_gpu
