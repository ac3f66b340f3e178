#include "gpu/memory/classify.hpp"

#include <fmt/format.h>

#include "base/system/readable.hpp"
#include "gpu/driver/cuda_context.hpp"
#include "gpu/driver/cuda_error.hpp"
#include "gpu/memory/allocation_id.hpp"

namespace isthmus {
namespace {

using cuda::PointerAttribute;

/// VMM memory has a handle of its physical memory, memory that was opened from a peer has not.
bool is_virtual(const cuda::Functions& functions, cuda::Address address) {
  cuda::Physical handle = 0;
  if (functions.physical_retain(&handle, reinterpret_cast<void*>(address)) != cuda::Status::success)
    return false;
  functions.physical_release(handle);
  return true;
}

}  // namespace

/// What is asked each time: enough to know whether the rest is known.
struct Classifier::Answer {
  int memory_type = 0;
  int is_managed = 0;
  cuda::Device device = cuda::no_device;
  std::uint64_t buffer = 0;
  std::uint64_t block = 0;

  cuda::Status ask(const cuda::Functions& functions, cuda::Address address) {
    std::array attributes{PointerAttribute::memory_type, PointerAttribute::is_managed,
                          PointerAttribute::device_ordinal, PointerAttribute::buffer_id,
                          PointerAttribute::block_id};
    std::array<void*, 5> values{&memory_type, &is_managed, &device, &buffer, &block};
    return functions.pointer_attributes(attributes.size(), attributes.data(), values.data(), address);
  }
};

Classifier::Known Classifier::inspect(const cuda::Functions& functions, cuda::Address address,
                                      const Answer& answer) const {
  // To ask for a handle of the memory would disturb a capture (H200).
  const cuda::RelaxedCapture relaxed(functions);
  Known known{
      .buffer = answer.buffer, .block = answer.block, .allocation = answer.buffer, .device = answer.device};
  int is_legacy = 0;
  cuda::Address mapping = 0;
  std::size_t mapped = 0;
  std::array attributes{PointerAttribute::context,     PointerAttribute::range_start,
                        PointerAttribute::range_size,  PointerAttribute::is_legacy_ipc_capable,
                        PointerAttribute::pool,        PointerAttribute::mapping_base,
                        PointerAttribute::mapping_size};
  std::array<void*, 7> values{&known.context, &known.base, &known.room, &is_legacy,
                              &known.pool,    &mapping,    &mapped};
  functions.pointer_attributes(attributes.size(), attributes.data(), values.data(), address);
  if (answer.is_managed != 0) {
    known.kind = MemoryKind::managed;
  } else if (answer.memory_type == static_cast<int>(cuda::MemoryType::host)) {
    known.kind = MemoryKind::pinned;
  } else if (known.pool) {
    known.kind = MemoryKind::pool;
  } else if (is_legacy != 0) {
    known.kind = MemoryKind::device;
  } else if (is_virtual(functions, address)) {
    known.kind = MemoryKind::vmm;
    if (mapped > 0) {
      known.base = mapping;
      known.room = mapped;
    }
  } else {
    known.kind = MemoryKind::device;
    known.is_own = false;
  }
  known.allocation = allocation_id(known.kind, answer.buffer, answer.block);
  return known;
}

Result<Buffer> Classifier::ask(const cuda::Functions& functions, const void* address, std::size_t bytes) {
  const auto where = reinterpret_cast<cuda::Address>(address);
  Answer answer;
  if (const cuda::Status status = answer.ask(functions, where); status != cuda::Status::success) {
    // The driver has gone, as in a child of fork() or at exit; or its context is dead. Host memory is as
    // good as ever.
    const bool is_gone = status == cuda::Status::not_initialized || status == cuda::Status::deinitialized;
    if (is_gone || is_readable(address)) return pageable(address, bytes);
    return cuda::fail(functions, status, "send or receive GPU memory");
  }
  if (answer.memory_type == static_cast<int>(cuda::MemoryType::none)) {
    if (is_readable(address)) return pageable(address, bytes);
    return fail(ErrorClass::buffer,
                fmt::format("there is no memory at {}, neither of this process nor of a GPU: memory of a GPU "
                            "that has been freed, or no address at all",
                            address));
  }
  Known& slot = known_[answer.buffer % known_.size()];
  const bool is_known = answer.buffer != 0 && slot.buffer == answer.buffer && slot.block == answer.block &&
                        where - slot.base < slot.room;
  if (!is_known) slot = inspect(functions, where, answer);
  const Known& known = slot;
  Buffer buffer{.data = const_cast<std::byte*>(static_cast<const std::byte*>(address)),
                .bytes = bytes,
                .kind = known.kind,
                .is_own = known.is_own,
                .device = known.device,
                .allocation = known.allocation,
                .base = reinterpret_cast<std::byte*>(known.base),
                .room = known.room,
                .context = known.context,
                .pool = known.pool};
  if (buffer.kind == MemoryKind::managed) pages_.locate(functions, buffer);
  return buffer;
}

}  // namespace isthmus
