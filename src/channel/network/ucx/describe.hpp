#pragma once

#include <ucp/api/ucp.h>

#include <string>

/// Transports and their devices for people: "tcp on eth0, rc_verbs on mlx5_0:1".
namespace isthmus::network {

/// Those that carry messages to a peer.
std::string describe_endpoint(ucp_ep_h endpoint);
/// Those that this process may use.
std::string describe_context(ucp_context_h context);

}  // namespace isthmus::network
