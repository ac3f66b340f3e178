#include "memory/export.hpp"

#include <sys/random.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include "memory/cuda_context.hpp"
#include "memory/cuda_error.hpp"

namespace isthmus {
namespace {

using cuda::Status;

/// The handle of physical memory behind an address.
class PhysicalHandle {
 public:
  PhysicalHandle(const cuda::Functions& functions, void* address) : functions_(functions) {
    status_ = functions.physical_retain(&handle_, address);
  }
  PhysicalHandle(const PhysicalHandle&) = delete;
  PhysicalHandle& operator=(const PhysicalHandle&) = delete;
  ~PhysicalHandle() {
    if (status_ == Status::success) functions_.physical_release(handle_);
  }
  [[nodiscard]] Status status() const noexcept { return status_; }
  [[nodiscard]] cuda::Physical get() const noexcept { return handle_; }

 private:
  const cuda::Functions& functions_;
  cuda::Physical handle_ = 0;
  Status status_ = Status::invalid_value;
};

/// Field 22 of /proc/self/stat (proc(5)). The second field is a name in parentheses, which may hold any.
std::uint64_t read_start_time() {
  std::ifstream file("/proc/self/stat");
  std::string text;
  std::getline(file, text);
  std::istringstream fields(text.substr(text.rfind(')') + 1));
  std::string skipped;
  for (int field = 3; field < 22; ++field)
    fields >> skipped;
  std::uint64_t value = 0;
  fields >> value;
  return value;
}

}  // namespace

Result<ProcessIdentity> ProcessIdentity::here() {
  ProcessIdentity self{.pid = static_cast<std::uint32_t>(::getpid()), .start_time = read_start_time()};
  if (::getrandom(&self.nonce, sizeof self.nonce, 0) != sizeof self.nonce)
    return fail(ErrorClass::other, "no random numbers from the kernel");
  self.nonce |= 1U;
  return self;
}

Result<Exporter::Offer> Exporter::offer(const Buffer& buffer) {
  if (buffer.is_host_readable())
    return fail(ErrorClass::intern,
                std::string(name_of(buffer.kind)) + " is not handed over as GPU memory is");
  if (!buffer.is_own)
    return fail(
        ErrorClass::unsupported_operation,
        "this memory belongs to another process, and CUDA hands over only what a process has allocated");
  if (!buffer.is_whole())
    return fail(ErrorClass::unsupported_operation,
                "the buffer of " + std::to_string(buffer.bytes) + " bytes spans several allocations");
  const auto known = by_allocation_.find(buffer.allocation);
  if (known != by_allocation_.end()) {
    entries_.splice(entries_.begin(), entries_, known->second);
  } else {
    auto made = make(buffer);
    if (!made) return std::unexpected(std::move(made).error());
    entries_.push_front(std::move(*made));
    by_allocation_[buffer.allocation] = entries_.begin();
    if (entries_.size() > most) {
      by_allocation_.erase(entries_.back().value.allocation);
      entries_.pop_back();
    }
  }
  const Entry& entry = entries_.front();
  Offer offer{.value = entry.value, .descriptor = entry.descriptor.get()};
  offer.value.offset = buffer.offset();
  offer.value.bytes = buffer.bytes;
  return offer;
}

Result<Exporter::Entry> Exporter::make(const Buffer& buffer) {
  Entry entry;
  entry.value.pid = self_.pid;
  entry.value.start_time = self_.start_time;
  entry.value.exporter = self_.nonce;
  entry.value.allocation = buffer.allocation;
  entry.value.base = reinterpret_cast<std::uint64_t>(buffer.base);
  entry.value.room = buffer.room;
  if (const Status status = functions_.device_uuid(&entry.value.device, buffer.device);
      status != Status::success)
    return cuda::fail(functions_, status, "name GPU " + std::to_string(buffer.device));
  const cuda::ContextScope scope(functions_, buffer.context);
  switch (buffer.kind) {
    case MemoryKind::vmm:
      ISTHMUS_TRY(make_vmm(buffer, entry));
      break;
    case MemoryKind::pool:
      ISTHMUS_TRY(make_pool(buffer, entry));
      break;
    default:
      ISTHMUS_TRY(make_legacy(buffer, entry));
  }
  return entry;
}

Result<> Exporter::make_legacy(const Buffer& buffer, Entry& entry) const {
  cuda::IpcMemory handle;
  static_assert(sizeof handle == sizeof entry.value.handle);
  const Status status = functions_.ipc_get_memory(&handle, reinterpret_cast<cuda::Address>(buffer.base));
  if (status != Status::success)
    return cuda::fail(functions_, status, "make an IPC handle of cudaMalloc memory");
  entry.value.kind = ExportKind::legacy;
  std::memcpy(entry.value.handle.data(), handle.bytes.data(), handle.bytes.size());
  return {};
}

Result<> Exporter::make_vmm(const Buffer& buffer, Entry& entry) const {
  const PhysicalHandle physical(functions_, buffer.base);
  if (physical.status() != Status::success)
    return cuda::fail(functions_, physical.status(), "name the physical memory of a cuMemMap mapping");
  int descriptor = -1;
  const Status status =
      functions_.physical_export(&descriptor, physical.get(), cuda::HandleType::posix_descriptor, 0);
  if (status == Status::invalid_value)
    return fail(ErrorClass::unsupported_operation,
                "this cuMemCreate memory cannot be handed to another process, because it was created without "
                "CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR among its requestedHandleTypes");
  if (status != Status::success) return cuda::fail(functions_, status, "export cuMemCreate memory");
  entry.value.kind = ExportKind::vmm;
  entry.descriptor = UniqueFd(descriptor);
  return {};
}

Result<> Exporter::make_pool(const Buffer& buffer, Entry& entry) {
  int descriptor = -1;
  Status status = functions_.pool_export(&descriptor, buffer.pool, cuda::HandleType::posix_descriptor, 0);
  if (status != Status::success)
    return fail(
        ErrorClass::unsupported_operation,
        "this cudaMallocAsync memory cannot be handed to another process, because its pool was created "
        "without cudaMemHandleTypePosixFileDescriptor, as a device's default pool is");
  entry.descriptor = UniqueFd(descriptor);
  cuda::PoolPointer pointer;
  static_assert(sizeof pointer == sizeof entry.value.handle);
  status = functions_.pool_export_pointer(&pointer, reinterpret_cast<cuda::Address>(buffer.base));
  if (status != Status::success) return cuda::fail(functions_, status, "export cudaMallocAsync memory");
  entry.value.kind = ExportKind::pool;
  entry.value.pool = number_of(buffer.pool);
  std::memcpy(entry.value.handle.data(), pointer.bytes.data(), pointer.bytes.size());
  return {};
}

std::uint64_t Exporter::number_of(cuda::Pool pool) {
  return pools_.try_emplace(pool, pools_.size() + 1).first->second;
}

}  // namespace isthmus
