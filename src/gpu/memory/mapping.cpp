#include "gpu/memory/mapping.hpp"

#include <array>
#include <cstring>
#include <string>

#include "gpu/driver/cuda_error.hpp"
#include "gpu/driver/refusal.hpp"

namespace isthmus {
namespace {

/// The largest allocation that is believed: more than any GPU has, less than what overflows.
constexpr std::uint64_t most_bytes = std::uint64_t{1} << 46U;

Result<> check(const Export& what) {
  if (what.kind < ExportKind::legacy || what.kind > ExportKind::pool)
    return fail(ErrorClass::intern, "a peer offers GPU memory of a kind that there is not");
  if (what.room == 0 || what.room > most_bytes || what.bytes > what.room ||
      what.offset > what.room - what.bytes)
    return fail(ErrorClass::intern,
                "a peer offers a piece of GPU memory that lies outside of its allocation");
  if (what.exporter == 0)
    return fail(ErrorClass::intern, "a peer offers GPU memory without saying who it is");
  return {};
}

/// Devices that are given access: the one that copies, and the one that has the memory, if it is seen here.
std::vector<cuda::Access> accesses_for(const Export& what, const Opening& with) {
  const auto access = [](cuda::Device device) {
    return cuda::Access{.location = {.type = cuda::LocationType::device, .id = device},
                        .flags = cuda::AccessFlags::read_write};
  };
  std::vector<cuda::Access> accesses{access(with.local)};
  if (const auto home = with.gpus.find(what.device); home && *home != with.local)
    accesses.push_back(access(*home));
  return accesses;
}

/// CUDA wants a descriptor where a pointer is.
void* as_pointer(int descriptor) {
  return reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor));
}

std::unexpected<Error> no_descriptor() {
  return fail(ErrorClass::intern, "a peer offers GPU memory whose descriptor has not come");
}

std::string why_not_reachable(const Export& what, const Opening& with) {
  const auto home = with.gpus.find(what.device);
  if (!home)
    return " (it lies on " + to_string(what.device) + ", which " +
           std::string(gpu_refusal::not_visible.text) + ": CUDA_VISIBLE_DEVICES)";
  if (with.gpus.link(with.local, *home) == PeerLink::none)
    return " (GPU " + std::to_string(with.local) + " " + std::string(gpu_refusal::no_peer_access.text) + " " +
           std::to_string(*home) + ")";
  return {};
}

}  // namespace

Result<std::shared_ptr<const ImportedPool>> ImportedPool::open(const cuda::Functions& functions,
                                                               int descriptor) {
  if (descriptor < 0) return no_descriptor();
  const cuda::RelaxedCapture relaxed(functions);
  std::shared_ptr<ImportedPool> imported(new ImportedPool(functions));
  const cuda::Status status =
      functions.pool_import(&imported->pool_, as_pointer(descriptor), cuda::HandleType::posix_descriptor, 0);
  if (status != cuda::Status::success) return cuda::fail(functions, status, "open a peer's memory pool");
  return imported;
}

ImportedPool::~ImportedPool() {
  if (!pool_) return;
  const cuda::RelaxedCapture relaxed(functions_);
  functions_.pool_destroy(pool_);
}

Result<std::shared_ptr<const Mapping>> Mapping::open(const Export& what, const Opening& with) {
  ISTHMUS_TRY(check(what));
  const cuda::Functions& functions = with.contexts.functions();
  auto context = with.contexts.of(with.local);
  if (!context) return std::unexpected(std::move(context).error());
  const cuda::ContextScope scope(functions, *context);
  std::shared_ptr<Mapping> mapping(new Mapping(with.contexts, with.local, what.kind));
  mapping->life_ = with.contexts.life(with.local);
  mapping->room_ = what.room;
  switch (what.kind) {
    case ExportKind::legacy:
      ISTHMUS_TRY(mapping->open_legacy(what, with));
      break;
    case ExportKind::vmm:
      ISTHMUS_TRY(mapping->open_vmm(what, with));
      break;
    case ExportKind::pool:
      ISTHMUS_TRY(mapping->open_pool(what, with));
  }
  return mapping;
}

Result<> Mapping::open_legacy(const Export& what, const Opening& with) {
  cuda::IpcMemory handle;
  std::memcpy(handle.bytes.data(), what.handle.data(), what.handle.size());
  cuda::Address address = 0;
  const cuda::Status status = functions_.ipc_open_memory(&address, handle, cuda::ipc_lazy_peer_access);
  if (status == cuda::Status::invalid_context && what.exporter != with.self.nonce &&
      what.pid == with.self.pid)
    return fail(
        ErrorClass::unsupported_operation,
        "both processes have the process id " + std::to_string(what.pid) +
            " in their pid namespaces, and the CUDA driver takes the peer's cudaMalloc memory for this "
            "process's own then; start the containers with different ids (--pid=host, or an init "
            "process), or allocate the buffer with MPI_Alloc_mem");
  if (status != cuda::Status::success) {
    auto error = cuda::fail(functions_, status, gpu_refusal::ipc_handle_not_opened.text);
    return isthmus::fail(error.error().error_class(), error.error().text() + why_not_reachable(what, with));
  }
  address_ = address;
  // What the peer says of its size is not believed: the driver knows.
  cuda::Address base = 0;
  std::size_t room = 0;
  if (functions_.address_range(&base, &room, address) == cuda::Status::success &&
      base + room - address < room_)
    return fail(ErrorClass::intern, "a peer offers more GPU memory than its allocation has");
  return {};
}

Result<> Mapping::open_vmm(const Export& what, const Opening& with) {
  if (with.descriptor < 0) return no_descriptor();
  // What is mapped, and refused then, would be unmapped, which waits for all that the GPU has to do: a kernel
  // may wait for the very message that this is for.
  if (const auto home = with.gpus.find(what.device);
      home && with.gpus.link(with.local, *home) == PeerLink::none)
    return fail(ErrorClass::unsupported_operation, "GPU " + std::to_string(with.local) +
                                                       " cannot be given access to a peer's memory" +
                                                       why_not_reachable(what, with));
  cuda::Physical physical = 0;
  cuda::Status status =
      functions_.physical_import(&physical, as_pointer(with.descriptor), cuda::HandleType::posix_descriptor);
  if (status != cuda::Status::success)
    return cuda::fail(functions_, status, "open a peer's cuMemCreate memory");
  physical_ = physical;
  cuda::Address address = 0;
  status = functions_.address_reserve(&address, room_, 0, 0, 0);
  if (status != cuda::Status::success)
    return cuda::fail(functions_, status, "reserve addresses for a peer's memory");
  address_ = address;
  status = functions_.map(address, room_, 0, physical, 0);
  if (status != cuda::Status::success)
    return cuda::fail(functions_, status, "map a peer's cuMemCreate memory");
  is_mapped_ = true;
  const auto accesses = accesses_for(what, with);
  status = functions_.set_access(address, room_, accesses.data(), accesses.size());
  if (status == cuda::Status::success) return {};
  auto error =
      cuda::fail(functions_, status, "give GPU " + std::to_string(with.local) + " access to a peer's memory");
  return isthmus::fail(error.error().error_class(), error.error().text() + why_not_reachable(what, with));
}

Result<> Mapping::open_pool(const Export& what, const Opening& with) {
  if (!with.pool) return no_descriptor();
  const auto accesses = accesses_for(what, with);
  cuda::Status status = functions_.pool_set_access(with.pool->get(), accesses.data(), accesses.size());
  if (status != cuda::Status::success) {
    auto error =
        cuda::fail(functions_, status, "give GPU " + std::to_string(with.local) + " access to a peer's pool");
    return isthmus::fail(error.error().error_class(), error.error().text() + why_not_reachable(what, with));
  }
  cuda::PoolPointer pointer;
  std::memcpy(pointer.bytes.data(), what.handle.data(), what.handle.size());
  cuda::Address address = 0;
  status = functions_.pool_import_pointer(&address, with.pool->get(), &pointer);
  if (status != cuda::Status::success)
    return cuda::fail(functions_, status, "open a peer's cudaMallocAsync memory");
  address_ = address;
  pool_ = with.pool;
  cuda::Address base = 0;
  std::size_t room = 0;
  if (functions_.address_range(&base, &room, address) == cuda::Status::success &&
      base + room - address < room_)
    return fail(ErrorClass::intern, "a peer offers more GPU memory than its allocation has");
  return {};
}

Mapping::~Mapping() {
  if (kind_ == ExportKind::legacy && !contexts_.is_alive(local_, life_)) return;
  const bool has_context = contexts_.is_alive(local_, contexts_.life(local_));
  const auto context = contexts_.of(local_);
  const cuda::ContextScope scope(functions_, has_context && context ? *context : nullptr);
  if (kind_ == ExportKind::vmm) {
    if (is_mapped_) functions_.unmap(address_, room_);
    if (address_ != 0) functions_.address_free(address_, room_);
    if (physical_ != 0) functions_.physical_release(physical_);
    return;
  }
  if (address_ == 0) return;
  if (kind_ == ExportKind::legacy)
    functions_.ipc_close_memory(address_);
  else
    functions_.free(address_);
}

}  // namespace isthmus
