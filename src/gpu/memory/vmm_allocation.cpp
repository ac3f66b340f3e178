#include "gpu/memory/vmm_allocation.hpp"

#include <string>
#include <vector>

#include "gpu/driver/cuda_error.hpp"

namespace isthmus {

Result<std::unique_ptr<VmmAllocation>> VmmAllocation::make(cuda::PrimaryContexts& contexts,
                                                           const GpuList& gpus, cuda::Device device,
                                                           std::size_t bytes) {
  auto context = contexts.of(device);
  if (!context) return std::unexpected(std::move(context).error());
  std::unique_ptr<VmmAllocation> allocation(new VmmAllocation(contexts.functions(), *context));
  ISTHMUS_TRY(allocation->map(gpus, device, bytes));
  return allocation;
}

Result<> VmmAllocation::map(const GpuList& gpus, cuda::Device device, std::size_t bytes) {
  const cuda::ContextScope scope(functions_, context_);
  const std::string what = "allocate " + std::to_string(bytes) + " bytes on GPU " + std::to_string(device);
  const cuda::AllocationProperties properties{.handle_types = cuda::HandleType::posix_descriptor,
                                              .location = {cuda::LocationType::device, device}};
  std::size_t granule = 0;
  cuda::Status status = functions_.granularity(&granule, &properties, cuda::GranularityKind::recommended);
  if (status != cuda::Status::success) return cuda::fail(functions_, status, what);
  bytes_ = (bytes + granule - 1) / granule * granule;
  if (bytes == 0 || bytes_ < bytes) return cuda::fail(functions_, cuda::Status::invalid_value, what);
  status = functions_.physical_create(&physical_, bytes_, &properties, 0);
  if (status != cuda::Status::success) return cuda::fail(functions_, status, what);
  status = functions_.address_reserve(&address_, bytes_, 0, 0, 0);
  if (status == cuda::Status::success) {
    status = functions_.map(address_, bytes_, 0, physical_, 0);
    is_mapped_ = status == cuda::Status::success;
  }
  if (status != cuda::Status::success) return cuda::fail(functions_, status, what);
  std::vector<cuda::Access> accesses;
  for (const Gpu& gpu : gpus.gpus())
    if (gpus.link(gpu.ordinal, device) != PeerLink::none)
      accesses.push_back(
          {.location = {cuda::LocationType::device, gpu.ordinal}, .flags = cuda::AccessFlags::read_write});
  status = functions_.set_access(address_, bytes_, accesses.data(), accesses.size());
  if (status != cuda::Status::success) return cuda::fail(functions_, status, what);
  return {};
}

VmmAllocation::~VmmAllocation() {
  const cuda::ContextScope scope(functions_, context_);
  if (is_mapped_) functions_.unmap(address_, bytes_);
  if (address_ != 0) functions_.address_free(address_, bytes_);
  if (physical_ != 0) functions_.physical_release(physical_);
}

}  // namespace isthmus
