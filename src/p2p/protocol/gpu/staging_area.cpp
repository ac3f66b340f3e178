#include "p2p/protocol/gpu/staging_area.hpp"

#include <new>

namespace isthmus {

/// What a GPU's copies to the host and another's from there fill best: 64 MiB in 2 MiB chunks, four of them
/// under way, went at 49 GB/s, in 1 MiB chunks at 47 and in 4 MiB chunks at 50 (2 x H200, 55 GB/s each
/// alone).
constexpr std::uint32_t preferred_area = 8 * 1024 * 1024;

Result<StagingArea> StagingArea::take(wire::RegionHeap heap) {
  for (std::uint32_t bytes = preferred_area;; bytes /= 2) {
    auto offset = heap.allocate(bytes);
    if (offset) {
      const std::span<std::byte> memory = heap.at(*offset, bytes);
      new (memory.data()) wire::StagingHeader{};
      return StagingArea(*offset, memory);
    }
    const Error& why = offset.error();
    if (why.error_class() != ErrorClass::no_mem || bytes / 2 < wire::least_area)
      return fail(why.error_class(), "no memory through which messages of GPUs could go: " + why.text());
  }
}

Result<StagingArea> StagingArea::take_header(wire::RegionHeap heap) {
  constexpr auto bytes = static_cast<std::uint32_t>(wire::staging_data);
  const auto offset = heap.allocate(bytes);
  if (!offset)
    return fail(offset.error().error_class(),
                "no memory for what ranks tell each other of messages of GPUs: " + offset.error().text());
  const std::span<std::byte> memory = heap.at(*offset, bytes);
  new (memory.data()) wire::StagingHeader{};
  return StagingArea(*offset, memory);
}

std::optional<StagingArea> StagingArea::header_at(wire::RegionHeap heap, std::uint64_t offset,
                                                  std::uint32_t bytes) {
  if (bytes != wire::staging_data || offset % wire::staging_data != 0) return std::nullopt;
  const std::span<std::byte> memory = heap.at(offset, bytes);
  if (memory.empty()) return std::nullopt;
  return StagingArea(offset, memory);
}

std::optional<StagingArea> StagingArea::at(wire::RegionHeap heap, std::uint64_t offset, std::uint32_t bytes) {
  if (bytes < wire::least_area || bytes > wire::most_area || bytes % wire::staging_data != 0 ||
      offset % wire::staging_data != 0)
    return std::nullopt;
  const std::span<std::byte> memory = heap.at(offset, bytes);
  if (memory.empty()) return std::nullopt;
  return StagingArea(offset, memory);
}

}  // namespace isthmus
