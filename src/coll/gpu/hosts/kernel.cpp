#include "coll/gpu/hosts/kernel.hpp"

#include <algorithm>
#include <array>

#include "coll/call/even_cut.hpp"
#include "gpu/driver/cuda_error.hpp"

namespace isthmus::coll {
namespace {

/// What one kernel does not read at once, the next one adds to the result.
Result<> combine(GpuMessages& gpu, GpuStream where, const Reduction& what,
                 std::span<const std::byte* const> operands, std::byte* result) {
  std::array<const std::byte*, GpuKernels::most_sources> sources{};
  std::size_t n = 0;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    sources[n++] = operands[i];
    if (n < sources.size() && i + 1 < operands.size()) continue;
    ISTHMUS_TRY(gpu.copies().kernels().reduce(where, *what.op, *what.type, std::span(sources).first(n),
                                              result, what.count));
    sources[0] = result;
    n = 1;
  }
  return {};
}

}  // namespace

std::int64_t elements_of_segment(const AcrossHosts& all, const Datatype& type) noexcept {
  const std::int64_t grain = grain_of(type);
  const std::int64_t fitting = static_cast<std::int64_t>(all.segment()) / type.size();
  return std::max(fitting / grain * grain, std::int64_t{1});
}

Result<PendingCopy> combine_by_kernel(const AcrossHosts& all, const Reduction& what,
                                      std::span<const std::byte* const> operands, std::byte* result,
                                      std::byte* copy) {
  GpuMessages& gpu = all.gpu();
  return gpu.copies().start(all.device(), [&](cuda::Stream stream) -> Result<> {
    ISTHMUS_TRY(combine(gpu, {.device = all.device(), .stream = stream}, what, operands, result));
    if (!copy) return {};
    const cuda::Functions& functions = gpu.copies().contexts().functions();
    const auto bytes = static_cast<std::size_t>(what.count * what.type->size());
    const cuda::Status copied = functions.copy_async(reinterpret_cast<cuda::Address>(copy),
                                                     reinterpret_cast<cuda::Address>(result), bytes, stream);
    if (copied == cuda::Status::success) return {};
    return cuda::fail(functions, copied, "copy a result to the host");
  });
}

}  // namespace isthmus::coll
