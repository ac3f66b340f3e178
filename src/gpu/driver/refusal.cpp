#include "gpu/driver/refusal.hpp"

#include <algorithm>
#include <array>

namespace isthmus::gpu_refusal {
namespace {

/// What the driver has refused may go on with why: that is the better reason, and comes first.
constexpr std::array all{not_visible,        no_peer_access,      out_of_reach,       managed,
                         of_another_process, several_allocations, vmm_without_handle, pool_without_handle,
                         no_ipc_handle,      not_pinned,          path_is_set,        ipc_handle_not_opened};

}  // namespace

std::string_view remedy_of(std::string_view why) noexcept {
  const auto* const found =
      std::ranges::find_if(all, [&](const Words& words) { return why.contains(words.text); });
  return found == all.end() ? std::string_view() : found->remedy;
}

}  // namespace isthmus::gpu_refusal
