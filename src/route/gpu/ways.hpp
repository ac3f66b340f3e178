#pragma once

#include <cstdint>

#include "route/gpu/plan.hpp"
#include "route/gpu/plan_cache.hpp"
#include "route/plan.hpp"
#include "route/way_choice.hpp"

namespace isthmus {

/// Messages of more bytes than that may go in smaller chunks: below it there is one chunk size.
inline constexpr std::uint64_t gpu_finely_from = 1024 * 1024;

/// Which ways of a plan are worth a trial with a message of so many bytes: those that serve it, but
///
/// - through memory of the host not where a GPU copies straight over NVLink or within itself: 8 B take three
///   times as long so, 64 MiB eight times (2 x H200), and a few trials of that cost more than they can gain;
/// - through the library's GPU memory only where nobody can open the program's;
/// - where a courier may carry it, that alone: of all sizes that couriers carry, theirs was the least time on
///   each machine that was measured (8 B 4.4 us and 8.7 by copy engine, 64 KiB 6.6 and 8.6; H100 and H200). A
///   trial would cost twice the time for each message, and a courier that has nothing to carry for 100 us.
///
/// None where the plan's first way is no way of GPU memory between ranks of one host.
[[nodiscard]] GpuWays ways_worth_a_trial(const Plan& plan, const GpuPlanKey& key,
                                         std::uint64_t bytes) noexcept;

/// `ways`: of a message by that plan.
[[nodiscard]] GpuRoute route_of(const GpuPlanKey& key, GpuWays ways) noexcept;

}  // namespace isthmus
