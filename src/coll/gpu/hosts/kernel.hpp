#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/error.hpp"
#include "coll/call/coll.hpp"
#include "coll/gpu/hosts/across_hosts.hpp"
#include "gpu/copy/engine.hpp"

/// What reductions across hosts compute with.
namespace isthmus::coll {

[[nodiscard]] std::int64_t elements_of_segment(const AcrossHosts& all, const Datatype& type) noexcept;

/// Combines `what.count` elements of any number of operands, in their order, by a kernel; each may lie in the
/// GPU's memory, which `result` does, or in pinned memory. Then copies the result to `copy`, if that is not
/// null.
Result<PendingCopy> combine_by_kernel(const AcrossHosts& all, const Reduction& what,
                                      std::span<const std::byte* const> operands, std::byte* result,
                                      std::byte* copy);

}  // namespace isthmus::coll
