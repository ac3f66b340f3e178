#pragma once

#include <cstdint>

namespace isthmus::network {

/// The only active message there is.
inline constexpr unsigned active_message_id = 1;

/// Largest message that is sent without being asked for, where no setting says otherwise.
/// TCP between two network namespaces (test/measure/network_port.cpp --sizes): eager messages are sooner
/// there and carry more up to 256 KiB (1.35 GB/s against 1.12 at 128 KiB, 1.44 against 1.00 at 256), fetched
/// ones from 512 KiB on.
inline constexpr std::uint64_t eager_limit_tcp = 128U << 10U;
/// InfiniBand and RoCE: assumed, not measured.
inline constexpr std::uint64_t eager_limit_rdma = 16U << 10U;

}  // namespace isthmus::network
