#include "kernels/run_lists.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "gpu/driver/cuda_error.hpp"

namespace isthmus {

GpuKernels::RunLists::~RunLists() {
  for (const Entry& entry : entries_)
    drop(entry);
}

void GpuKernels::RunLists::drop(const Entry& entry) noexcept {
  const auto context = contexts_.of(entry.device);
  if (!context || !contexts_.is_alive(entry.device, entry.life)) return;
  const cuda::ContextScope scope(contexts_.functions(), *context);
  contexts_.functions().free(entry.memory);
}

Result<> GpuKernels::RunLists::place(GpuStream where, const Datatype& type, ShapedSide& side) {
  const Layout& layout = type.layout();
  auto found = std::ranges::find_if(entries_, [&](const Entry& entry) {
    return entry.layout.get() == &layout && entry.device == where.device &&
           entry.life == contexts_.life(where.device);
  });
  if (found == entries_.end()) {
    ISTHMUS_TRY(add(where, layout, *side.irregular));
    found = entries_.begin();
  }
  entries_.splice(entries_.begin(), entries_, found);
  const Entry& entry = entries_.front();
  side.shape.runs = reinterpret_cast<const kernel::Run*>(entry.memory);  // NOLINT(performance-no-int-to-ptr)
  side.shape.run_count = entry.count;
  // By numbers: with MPI_BOTTOM the base is null so far.
  const auto base = reinterpret_cast<std::uintptr_t>(side.shape.base);
  side.shape.base = reinterpret_cast<kernel::Byte*>(  // NOLINT(performance-no-int-to-ptr)
      base + static_cast<std::uintptr_t>(entry.list.first_offset));
  side.factors |= entry.list.factors;
  return {};
}

Result<> GpuKernels::RunLists::add(GpuStream where, const Layout& layout, const Layout::Node& node) {
  RunList list = runs_of(layout, node);
  const std::size_t bytes = list.runs.size() * sizeof(kernel::Run);
  // Of two sides of one copy, both may be irregular: the one that was placed last stays.
  while (bytes_ + bytes > most && entries_.size() > 1) {
    drop(entries_.back());
    bytes_ -= entries_.back().bytes;
    entries_.pop_back();
  }
  const cuda::Functions& functions = contexts_.functions();
  auto context = contexts_.of(where.device);
  if (!context) return std::unexpected(std::move(context).error());
  const cuda::ContextScope scope(functions, *context);
  std::list<Entry> made(1);  // what the device gives is not lost for want of the host's
  cuda::Address memory = 0;
  cuda::Status status = functions.allocate(&memory, bytes);
  if (status != cuda::Status::success)
    return cuda::fail(functions, status,
                      "allocate " + std::to_string(bytes) + " bytes for a datatype's blocks on GPU " +
                          std::to_string(where.device));
  status = functions.copy_to_device_async(memory, list.runs.data(), bytes, where.stream);
  // Other streams may use it next, and the runs here are about to go.
  if (status == cuda::Status::success) status = functions.stream_synchronize(where.stream);
  if (status != cuda::Status::success) {
    functions.free(memory);
    return cuda::fail(functions, status, "copy a datatype's blocks to GPU " + std::to_string(where.device));
  }
  const auto count = static_cast<std::uint32_t>(list.runs.size());
  list.runs = {};
  made.front() = {.layout = Ref<const Layout>::share(&layout),
                  .device = where.device,
                  .life = contexts_.life(where.device),
                  .memory = memory,
                  .bytes = bytes,
                  .list = std::move(list),
                  .count = count};
  entries_.splice(entries_.begin(), made);
  bytes_ += bytes;
  return {};
}

}  // namespace isthmus
