#include "gpu/memory/allocation.hpp"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

#include "gpu/driver/cuda_error.hpp"
#include "gpu/memory/vmm_allocation.hpp"

namespace isthmus {
namespace {

class OnHost final : public Allocation {
 public:
  Result<> open(std::size_t bytes, std::size_t alignment) {
    if (::posix_memalign(&data_, alignment, std::max<std::size_t>(bytes, 1)) == 0) return {};
    data_ = nullptr;
    return fail(ErrorClass::no_mem, "no " + std::to_string(bytes) + " bytes of memory are left");
  }
  ~OnHost() override { std::free(data_); }
};

/// Of a driver and one of its devices.
class OfCuda : public Allocation {
 public:
  explicit OfCuda(const cuda::Functions& functions) : functions_(functions), contexts_(functions) {}
  [[nodiscard]] bool is_of_cuda() const noexcept override { return true; }

 protected:
  /// The device of the thread's context, else the first.
  [[nodiscard]] cuda::Device device() const {
    cuda::Device device = 0;
    return functions_.context_device(&device) == cuda::Status::success ? device : 0;
  }

  const cuda::Functions& functions_;
  cuda::PrimaryContexts contexts_;
};

class OnDevice final : public OfCuda {
 public:
  using OfCuda::OfCuda;
  Result<> open(std::size_t bytes) {
    auto gpus = GpuList::read(functions_);
    if (!gpus) return std::unexpected(std::move(gpus).error());
    auto memory = VmmAllocation::make(contexts_, *gpus, device(), std::max<std::size_t>(bytes, 1));
    if (!memory) return std::unexpected(std::move(memory).error());
    memory_ = std::move(*memory);
    data_ = memory_->data();
    return {};
  }

 private:
  std::unique_ptr<VmmAllocation> memory_;
};

/// Pinned or managed.
class Mapped final : public OfCuda {
 public:
  Mapped(const cuda::Functions& functions, AllocationKind kind) : OfCuda(functions), kind_(kind) {}
  Result<> open(std::size_t bytes) {
    auto context = contexts_.of(device());
    if (!context) return std::unexpected(std::move(context).error());
    context_ = *context;
    const cuda::ContextScope scope(functions_, context_);
    const std::size_t room = std::max<std::size_t>(bytes, 1);
    const std::string what = "allocate " + std::to_string(bytes) + " bytes of " +
                             (kind_ == AllocationKind::cuda_host ? "pinned" : "managed") + " memory";
    if (kind_ == AllocationKind::cuda_host) {
      if (const cuda::Status status = functions_.host_allocate(&data_, room, cuda::host_portable);
          status != cuda::Status::success)
        return cuda::fail(functions_, status, what);
      return {};
    }
    cuda::Address address = 0;
    if (const cuda::Status status = functions_.managed_allocate(&address, room, cuda::attach_global);
        status != cuda::Status::success)
      return cuda::fail(functions_, status, what);
    data_ = reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
    return {};
  }
  ~Mapped() override {
    if (!data_) return;
    const cuda::ContextScope scope(functions_, context_);
    if (kind_ == AllocationKind::cuda_host)
      functions_.host_free(data_);
    else
      functions_.free(reinterpret_cast<cuda::Address>(data_));
  }

 private:
  const AllocationKind kind_;
  cuda::Context context_ = nullptr;
};

template <class Kind, class... Arguments>
Result<std::unique_ptr<Allocation>> opened(std::unique_ptr<Kind> allocation, Arguments... arguments) {
  ISTHMUS_TRY(allocation->open(arguments...));
  return allocation;
}

}  // namespace

Result<std::unique_ptr<Allocation>> Allocation::make(CudaDriver& driver, AllocationKind kind,
                                                     std::size_t bytes, std::size_t alignment) {
  if (kind == AllocationKind::host) return opened(std::make_unique<OnHost>(), bytes, alignment);
  const cuda::Functions* functions = driver.find();
  if (!functions) {
    auto found = driver.open();
    if (!found) return std::unexpected(std::move(found).error());
    functions = *found;
  }
  if (kind == AllocationKind::cuda_device) return opened(std::make_unique<OnDevice>(*functions), bytes);
  return opened(std::make_unique<Mapped>(*functions, kind), bytes);
}

}  // namespace isthmus
