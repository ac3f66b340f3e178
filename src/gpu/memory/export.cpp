#include "gpu/memory/export.hpp"

#include <sys/random.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "base/system/process_stat.hpp"
#include "gpu/driver/cuda_context.hpp"
#include "gpu/driver/cuda_error.hpp"
#include "gpu/driver/refusal.hpp"
#include "gpu/memory/allocation_id.hpp"

namespace isthmus {
namespace {

/// The handle of physical memory behind an address.
class PhysicalHandle {
 public:
  PhysicalHandle(const cuda::Functions& functions, void* address) : functions_(functions) {
    status_ = functions.physical_retain(&handle_, address);
  }
  PhysicalHandle(const PhysicalHandle&) = delete;
  PhysicalHandle& operator=(const PhysicalHandle&) = delete;
  ~PhysicalHandle() {
    if (status_ == cuda::Status::success) functions_.physical_release(handle_);
  }
  [[nodiscard]] cuda::Status status() const noexcept { return status_; }
  [[nodiscard]] cuda::Physical get() const noexcept { return handle_; }

 private:
  const cuda::Functions& functions_;
  cuda::Physical handle_ = 0;
  cuda::Status status_ = cuda::Status::invalid_value;
};

}  // namespace

Result<ProcessIdentity> ProcessIdentity::here() {
  ProcessIdentity self{.pid = static_cast<std::uint32_t>(::getpid()),
                       .start_time = ProcessStat::of_self().value_or(ProcessStat{}).start_time};
  if (::getrandom(&self.nonce, sizeof self.nonce, 0) != sizeof self.nonce)
    return fail(ErrorClass::other, "no random numbers from the kernel");
  self.nonce |= 1U;
  return self;
}

Result<Export> Exporter::offer(const Buffer& buffer) {
  auto offered = try_offer(buffer);
  if (!offered) last_refusals_[buffer.kind] = offered.error().text();
  return offered;
}

Result<Export> Exporter::try_offer(const Buffer& buffer) {
  if (buffer.kind == MemoryKind::managed)
    return fail(ErrorClass::intern, std::string(gpu_refusal::managed.text));
  if (buffer.is_host_readable())
    return fail(ErrorClass::intern,
                std::string(name_of(buffer.kind)) + " is not handed over as GPU memory is");
  if (!buffer.is_own)
    return fail(ErrorClass::unsupported_operation, "this memory belongs to another process, and " +
                                                       std::string(gpu_refusal::of_another_process.text));
  if (!buffer.is_whole())
    return fail(ErrorClass::unsupported_operation, "the buffer of " + std::to_string(buffer.bytes) +
                                                       " bytes " +
                                                       std::string(gpu_refusal::several_allocations.text));
  const auto known = by_allocation_.find(buffer.allocation);
  if (known != by_allocation_.end()) {
    entries_.splice(entries_.begin(), entries_, known->second);
  } else {
    if (const std::string_view why = why_refused(buffer.allocation); !why.empty())
      return fail(ErrorClass::unsupported_operation, std::string(why));
    auto made = make(buffer);
    if (!made) {
      // Ids are never used again. What has not come up lately is asked once more.
      if (refused_.size() >= most) refused_.clear();
      if (made.error().error_class() == ErrorClass::unsupported_operation)
        refused_[buffer.allocation] = made.error().text();
      return std::unexpected(std::move(made).error());
    }
    const auto place = by_allocation_.try_emplace(buffer.allocation, entries_.end()).first;
    try {
      entries_.push_front(*made);
    } catch (...) {
      by_allocation_.erase(place);
      throw;
    }
    place->second = entries_.begin();
    if (entries_.size() > most) {
      by_allocation_.erase(entries_.back().value.allocation);
      entries_.pop_back();
    }
  }
  Export value = entries_.front().value;
  value.offset = buffer.offset();
  value.bytes = buffer.bytes;
  return value;
}

Result<Export> Exporter::name(const Buffer& buffer) const {
  Export named{.kind = export_kind_of(buffer.kind),
               .pid = self_.pid,
               .start_time = self_.start_time,
               .exporter = self_.nonce,
               .allocation = buffer.allocation,
               .base = reinterpret_cast<std::uint64_t>(buffer.base),
               .room = buffer.room,
               .offset = buffer.offset(),
               .bytes = buffer.bytes,
               .device = {}};
  const cuda::Status status = functions_.device_uuid(&named.device, buffer.device);
  if (status == cuda::Status::success) return named;
  return cuda::fail(functions_, status, "name GPU " + std::to_string(buffer.device));
}

Result<Exporter::Entry> Exporter::make(const Buffer& buffer) {
  auto named = name(buffer);
  if (!named) return std::unexpected(std::move(named).error());
  Entry entry{.kind = buffer.kind, .pool = buffer.pool, .value = *named};
  const cuda::ContextScope scope(functions_, buffer.context);
  if (buffer.kind == MemoryKind::vmm) {
    entry.value.kind = ExportKind::vmm;
    // Whether that works is known only by doing it.
    if (const auto descriptor = make_vmm_descriptor(entry); !descriptor)
      return fail(descriptor.error().error_class(), descriptor.error().text());
  } else if (buffer.kind == MemoryKind::pool) {
    ISTHMUS_TRY(make_pool(entry));
  } else {
    ISTHMUS_TRY(make_legacy(entry));
  }
  return entry;
}

Result<> Exporter::make_legacy(Entry& entry) const {
  cuda::IpcMemory handle;
  static_assert(sizeof handle == sizeof entry.value.handle);
  const cuda::Status status = functions_.ipc_get_memory(&handle, entry.value.base);
  if (status != cuda::Status::success) return cuda::fail(functions_, status, gpu_refusal::no_ipc_handle.text);
  entry.value.kind = ExportKind::legacy;
  std::memcpy(entry.value.handle.data(), handle.bytes.data(), handle.bytes.size());
  return {};
}

Result<> Exporter::make_pool(Entry& entry) {
  if (const auto descriptor = make_pool_descriptor(entry); !descriptor)
    return fail(descriptor.error().error_class(), descriptor.error().text());
  cuda::PoolPointer pointer;
  static_assert(sizeof pointer == sizeof entry.value.handle);
  const cuda::Status status = functions_.pool_export_pointer(&pointer, entry.value.base);
  if (status != cuda::Status::success) return cuda::fail(functions_, status, "export cudaMallocAsync memory");
  entry.value.kind = ExportKind::pool;
  entry.value.pool = pools_.try_emplace(entry.pool, pools_.size() + 1).first->second;
  std::memcpy(entry.value.handle.data(), pointer.bytes.data(), pointer.bytes.size());
  return {};
}

Result<UniqueFd> Exporter::make_vmm_descriptor(const Entry& entry) const {
  const PhysicalHandle physical(functions_, reinterpret_cast<void*>(entry.value.base));
  if (physical.status() != cuda::Status::success)
    return cuda::fail(functions_, physical.status(), "name the physical memory of a cuMemMap mapping");
  int descriptor = -1;
  const cuda::Status status =
      functions_.physical_export(&descriptor, physical.get(), cuda::HandleType::posix_descriptor, 0);
  if (status == cuda::Status::success) return UniqueFd(descriptor);
  if (status != cuda::Status::invalid_value)
    return cuda::fail(functions_, status, "export cuMemCreate memory");
  return fail(ErrorClass::unsupported_operation,
              "this cuMemCreate memory cannot be handed to another process, because " +
                  std::string(gpu_refusal::vmm_without_handle.text));
}

Result<UniqueFd> Exporter::make_pool_descriptor(const Entry& entry) const {
  int descriptor = -1;
  const cuda::Status status =
      functions_.pool_export(&descriptor, entry.pool, cuda::HandleType::posix_descriptor, 0);
  if (status == cuda::Status::success) return UniqueFd(descriptor);
  if (cuda::is_sticky(status)) return cuda::fail(functions_, status, "export a memory pool");
  return fail(ErrorClass::unsupported_operation,
              "this cudaMallocAsync memory cannot be handed to another process, because " +
                  std::string(gpu_refusal::pool_without_handle.text) + ", as a device's default pool is");
}

Result<UniqueFd> Exporter::descriptor(std::uint64_t allocation) {
  const auto known = by_allocation_.find(allocation);
  if (known == by_allocation_.end() || !is_there(*known->second))
    return fail(ErrorClass::buffer, "the program has freed GPU memory that a peer is still to read or write");
  const Entry& entry = *known->second;
  const cuda::RelaxedCapture relaxed(functions_);
  return entry.kind == MemoryKind::vmm ? make_vmm_descriptor(entry) : make_pool_descriptor(entry);
}

bool Exporter::is_there(const Entry& entry) const {
  std::uint64_t buffer = 0;
  std::uint64_t block = 0;
  std::array attributes{cuda::PointerAttribute::buffer_id, cuda::PointerAttribute::block_id};
  std::array<void*, 2> values{&buffer, &block};
  return functions_.pointer_attributes(attributes.size(), attributes.data(), values.data(),
                                       entry.value.base) == cuda::Status::success &&
         allocation_id(entry.kind, buffer, block) == entry.value.allocation;
}

void Exporter::take_freed(const std::function<void(std::uint64_t)>& tell) {
  std::erase_if(entries_, [&](const Entry& entry) {
    if (is_there(entry)) return false;
    tell(entry.value.allocation);
    by_allocation_.erase(entry.value.allocation);
    return true;
  });
}

}  // namespace isthmus
