#pragma once

#include <ucp/api/ucp.h>

#include <string>
#include <vector>

#include "channel/network/port.hpp"

/// Transports and their devices, out of what UCX prints: it has no other way to ask.
namespace isthmus::network {

/// Those that carry messages to a peer, for people: "tcp on eth0, rc_verbs on mlx5_0:1".
std::string describe_endpoint(ucp_ep_h endpoint);
/// Those that a process may use with a context.
std::vector<Inventory::Transport> transports_of(ucp_context_h context);
/// For people, as above.
std::string to_string(const std::vector<Inventory::Transport>& transports);

}  // namespace isthmus::network
