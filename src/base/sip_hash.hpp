#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace isthmus {

/// SipHash-2-4 (Aumasson and Bernstein, 2012): who does not know the key cannot tell the hash of anything,
/// and learns nothing of the key from hashes. For proofs that are tried once each; 64 bits are too few for
/// others.
std::uint64_t sip_hash(const std::array<std::uint8_t, 16>& key, std::span<const std::byte> bytes) noexcept;

}  // namespace isthmus
