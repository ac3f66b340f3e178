#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/memory/buffer.hpp"
#include "route/plan.hpp"

/// Words that several reports of `isthmus explain` use.
namespace isthmus {

/// "64 KiB", "any size" for the largest number.
[[nodiscard]] std::string size_text(std::uint64_t bytes);
/// A line for each range of sizes, `indent` spaces deep.
[[nodiscard]] std::string steps_text(const Plan& plan, std::size_t indent);
[[nodiscard]] std::string kinds_text(const std::vector<MemoryKind>& kinds);
/// A way with its channel, where two ways have one name.
[[nodiscard]] std::string full_name_of(Protocol way);
/// A way of GPU memory where that is the subject.
[[nodiscard]] std::string_view short_name_of(Protocol way);

}  // namespace isthmus
