#pragma once

#include <cstddef>
#include <memory>

#include "base/error.hpp"
#include "gpu/driver/cuda_context.hpp"
#include "gpu/driver/gpu.hpp"
#include "gpu/memory/export.hpp"

namespace isthmus {

/// A pool of another process, opened.
class ImportedPool {
 public:
  static Result<std::shared_ptr<const ImportedPool>> open(const cuda::Functions& functions, int descriptor);
  ImportedPool(const ImportedPool&) = delete;
  ImportedPool& operator=(const ImportedPool&) = delete;
  ~ImportedPool();

  [[nodiscard]] cuda::Pool get() const noexcept { return pool_; }

 private:
  explicit ImportedPool(const cuda::Functions& functions) : functions_(functions) {}

  const cuda::Functions& functions_;
  cuda::Pool pool_ = nullptr;
};

/// What an export is opened with.
struct Opening {
  cuda::PrimaryContexts& contexts;
  const GpuList& gpus;
  const ProcessIdentity& self;
  cuda::Device local = 0;                         ///< the device that will copy
  int descriptor = -1;                            ///< of the export, stays the caller's
  std::shared_ptr<const ImportedPool> pool = {};  ///< of a pool's export
};

/// An allocation of another process, reachable at an address of this one for as long as this lives. Nothing
/// may still be under way there when it ends.
class Mapping {
 public:
  /// Fails with a reason for people if the export is nonsense or the driver refuses.
  static Result<std::shared_ptr<const Mapping>> open(const Export& what, const Opening& with);
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();

  /// The first byte of the allocation.
  [[nodiscard]] std::byte* base() const noexcept { return reinterpret_cast<std::byte*>(address_); }
  [[nodiscard]] std::size_t bytes() const noexcept { return room_; }
  /// Whether a reset of the device that it was opened for has closed it, as far as the contexts know. What
  /// has a descriptor belongs to no context.
  [[nodiscard]] bool is_over() const noexcept {
    return kind_ == ExportKind::legacy && contexts_.life(local_) != life_;
  }
  /// Where the buffer of an export of this allocation begins, null if it does not fit in.
  [[nodiscard]] std::byte* at(const Export& what) const noexcept {
    return what.bytes <= room_ && what.offset <= room_ - what.bytes ? base() + what.offset : nullptr;
  }

 private:
  Mapping(cuda::PrimaryContexts& contexts, cuda::Device local, ExportKind kind)
      : contexts_(contexts), functions_(contexts.functions()), local_(local), kind_(kind) {}
  Result<> open_legacy(const Export& what, const Opening& with);
  Result<> open_vmm(const Export& what, const Opening& with);
  Result<> open_pool(const Export& what, const Opening& with);

  cuda::PrimaryContexts& contexts_;
  const cuda::Functions& functions_;
  const cuda::Device local_;
  const ExportKind kind_;
  cuda::ContextLife life_ = 0;
  cuda::Address address_ = 0;
  std::size_t room_ = 0;
  cuda::Physical physical_ = 0;
  bool is_mapped_ = false;
  std::shared_ptr<const ImportedPool> pool_;
};

}  // namespace isthmus
