#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"
#include "emulated_cuda.h"
#include "gpu/driver/cuda_driver.hpp"
#include "gpu/memory/classify.hpp"
#include "gpu/memory/export.hpp"
#include "wire/gpu.hpp"

/// Two emulated GPUs, this process's memory on them, and memory that a peer can hand over. The driver's
/// thread of a stream works whenever it likes, so an input may take another way when it is run again.
namespace isthmus::fuzz {

inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: %s\n", what);
  std::abort();
}

class Gpus {
 public:
  static constexpr std::uint64_t arena_bytes = 4U << 20U;
  static constexpr std::uint64_t lent_bytes = 2U << 20U;
  /// Where receives and sends lie, by how they can be handed on.
  enum Kind : std::uint8_t { plain, other_gpu, vmm, closed_pool, open_pool, managed, kinds };
  /// What untouched bytes of an arena are.
  static constexpr unsigned char canary = 0xC5;

  /// Starts the driver. To be called once, before any engine is made.
  static Gpus& get() {
    static Gpus gpus;
    return gpus;
  }
  Gpus(const Gpus&) = delete;
  Gpus& operator=(const Gpus&) = delete;

  [[nodiscard]] const cuda::Functions& functions() const { return functions_; }
  [[nodiscard]] std::byte* arena(Kind kind) const {
    return reinterpret_cast<std::byte*>(arenas_[kind]);  // NOLINT(performance-no-int-to-ptr)
  }
  /// The same bytes as a processor may see them.
  [[nodiscard]] unsigned char* view(Kind kind) const {
    if (kind == managed) return reinterpret_cast<unsigned char*>(arenas_[kind]);
    return static_cast<unsigned char*>(emulated_cuda_view(arenas_[kind]));
  }

  /// As another process names it, with descriptors that are open here under these numbers: exporter and
  /// allocation are to be filled in.
  struct Lent {
    Export memory;
    UniqueFd descriptor;
  };
  [[nodiscard]] const std::vector<Lent>& lent() const { return lent_; }

  /// Handles of the driver that are open.
  [[nodiscard]] static std::string open_handles(unsigned& count) {
    std::array<char, 4000> text{};
    count = emulated_cuda_open_handles(text.data(), text.size());
    return text.data();
  }
  /// Ends the process where a kernel has touched what is no memory.
  void check_healthy() const {
    require(functions_.context_synchronize() == cuda::Status::success, "a GPU has had a fault");
  }

 private:
  Gpus() : functions_(start()) {
    const auto ok = [](cuda::Status status) {
      require(status == cuda::Status::success, "no memory of GPUs");
    };
    for (const cuda::Device device : {1, 0}) {
      cuda::Context context = nullptr;
      ok(functions_.primary_retain(&context, device));
      ok(functions_.context_set(context));
      ok(functions_.allocate(&arenas_[device == 1 ? other_gpu : plain], arena_bytes));
    }
    arenas_[vmm] = vmm_memory(0);
    ok(functions_.managed_allocate(&arenas_[managed], arena_bytes, 1));
    cuda::Pool pool = nullptr;
    ok(functions_.device_default_pool(&pool, 0));
    ok(functions_.pool_allocate(&arenas_[closed_pool], arena_bytes, pool, nullptr));
    const cuda::PoolProperties properties{.handle_types = cuda::HandleType::posix_descriptor,
                                          .location = {cuda::LocationType::device, 0}};
    ok(functions_.pool_create(&pool, &properties));
    ok(functions_.pool_allocate(&arenas_[open_pool], arena_bytes, pool, nullptr));
    ok(functions_.stream_synchronize(nullptr));
    for (const cuda::Address arena : arenas_)
      ok(functions_.fill(arena, canary, arena_bytes));
    ok(functions_.context_synchronize());
    for (const cuda::Device device : {0, 0, 1})
      lend(vmm_memory(device), arena_bytes);
    cuda::Address pooled = 0;
    ok(functions_.pool_allocate(&pooled, lent_bytes, pool, nullptr));
    ok(functions_.stream_synchronize(nullptr));
    lend(pooled, lent_bytes);
  }

  static const cuda::Functions& start() {
    // Where the build has put them, beside this program's folder.
    const auto folder = std::filesystem::canonical("/proc/self/exe").parent_path().parent_path();
    ::setenv("EMULATED_CUDA_TWINS", (folder / "emulated/libemulated_kernels.so").c_str(), 1);
    ::setenv("EMULATED_CUDA_DELAY_US", "0", 1);
    ::setenv("EMULATED_CUDA_PINNED", "268435456", 1);
    static CudaDriver driver;
    const auto functions = driver.open("libcuda.so.1");
    require(functions.has_value(), "there is no emulated driver");
    return **functions;
  }

  [[nodiscard]] cuda::Address vmm_memory(cuda::Device device) const {
    const auto ok = [](cuda::Status status) { require(status == cuda::Status::success, "no VMM memory"); };
    const cuda::AllocationProperties properties{.handle_types = cuda::HandleType::posix_descriptor,
                                                .location = {cuda::LocationType::device, device}};
    cuda::Physical physical = 0;
    cuda::Address address = 0;
    ok(functions_.physical_create(&physical, arena_bytes, &properties, 0));
    ok(functions_.address_reserve(&address, arena_bytes, 0, 0, 0));
    ok(functions_.map(address, arena_bytes, 0, physical, 0));
    const cuda::Access access{{cuda::LocationType::device, device}, cuda::AccessFlags::read_write};
    ok(functions_.set_access(address, arena_bytes, &access, 1));
    ok(functions_.physical_release(physical));
    return address;
  }

  void lend(cuda::Address address, std::uint64_t bytes) {
    CudaDriver driver;
    Classifier classifier(driver);
    const auto self = ProcessIdentity::here();
    Exporter exporter(functions_, *self);
    const auto buffer = classifier.classify(reinterpret_cast<void*>(address), bytes);  // NOLINT(*-int-to-ptr)
    require(buffer.has_value(), "memory that is none");
    auto what = exporter.offer(*buffer);
    require(what.has_value(), "memory that cannot be lent");
    auto descriptor = exporter.descriptor(what->allocation);
    require(descriptor.has_value(), "memory without descriptor");
    // Low numbers, whatever the run: an input may name them.
    lent_.push_back({*what, std::move(*descriptor)});
  }

  const cuda::Functions& functions_;
  std::array<cuda::Address, kinds> arenas_{};
  std::vector<Lent> lent_;
};

}  // namespace isthmus::fuzz
