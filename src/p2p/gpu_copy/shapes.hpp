#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "kernels/shape.hpp"
#include "p2p/message/message.hpp"
#include "wire/gpu_shape.hpp"

namespace isthmus {

/// A message with gaps as peers are told of it.
struct ShapedPayload {
  std::byte* first;  ///< its first packed byte
  wire::GpuShape shape;
};

/// Nothing where it is not nested loops alone: lists of blocks are not told.
[[nodiscard]] std::optional<ShapedPayload> shaped_payload(const Payload& payload) noexcept;
/// What a peer has told, checked by `wire::span_of`, for kernels.
[[nodiscard]] ShapedSide side_of(std::byte* first, const wire::GpuShape& shape) noexcept;
/// Whether a peer is sooner done reading it where it lies than the sender packing it and the peer reading
/// that.
[[nodiscard]] bool reads_well(const wire::GpuShape& shape, std::uint64_t bytes) noexcept;

}  // namespace isthmus
