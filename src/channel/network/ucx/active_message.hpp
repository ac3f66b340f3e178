#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace isthmus::network {

/// The only active message there is.
inline constexpr unsigned active_message_id = 1;

/// Largest message that is sent without being asked for, where no setting says otherwise.
inline constexpr std::uint64_t default_eager_limit = 64U << 10U;

/// "tcp on eth0, rc_verbs on mlx5_0:1" out of what `ucp_ep_print_info` prints: a line
/// `lane[N]: 2:TRANSPORT/DEVICE.N ...` for each lane.
std::string describe_lanes(std::string_view printed);

}  // namespace isthmus::network
