#include "wire/region.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <string>

#include "wire/ring.hpp"

namespace isthmus::wire {
namespace {

constexpr std::uint64_t page = 4096;
/// Address space only: pages that nobody touches cost nothing.
constexpr std::uint64_t heap_base = std::uint64_t{1} << 30;
constexpr std::uint64_t heap_per_rank = std::uint64_t{64} << 20;

constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

template <std::size_t N>
void copy_name(std::array<char, N>& out, const char* name) {
  std::strncpy(out.data(), name, N - 1);
}

}  // namespace

RingGeometry RingGeometry::for_ranks(std::uint32_t local_ranks) noexcept {
  if (local_ranks <= 8) return {512, 512 * 1024};
  if (local_ranks <= 64) return {128, 64 * 1024};
  return {32, 16 * 1024};
}

bool RingGeometry::valid() const noexcept {
  return std::has_single_bit(cells) && cells >= 16 && cells <= 65536 && std::has_single_bit(data_bytes) &&
         data_bytes >= 4096 && data_bytes <= (1U << 30);
}

Result<RegionLayout> RegionLayout::make(std::uint32_t ranks, RingGeometry geometry) {
  if (ranks == 0 || ranks > maximum_local_ranks)
    return fail(ErrorClass::arg, std::to_string(ranks) + " ranks on one host; allowed are 1 to " +
                                     std::to_string(maximum_local_ranks));
  if (!geometry.valid()) return fail(ErrorClass::arg, "ring geometry out of range or not a power of two");
  RegionLayout layout;
  layout.ranks = ranks;
  layout.geometry = geometry;
  layout.roster = round_up(sizeof(RegionHeader), cache_line);
  layout.blocks = round_up(layout.roster + ranks, page);
  layout.doorbells = layout.blocks + std::uint64_t{ranks} * sizeof(RankBlock);
  layout.doorbell_words = round_up((ranks + 63) / 64, cache_line / sizeof(std::uint64_t));
  layout.directory = round_up(layout.doorbells + ranks * layout.doorbell_words * sizeof(std::uint64_t), page);
  layout.rings = round_up(layout.directory + std::uint64_t{ranks} * ranks * sizeof(std::uint32_t), page);
  layout.ring_bytes =
      round_up(sizeof(RingHeader) + geometry.cells * sizeof(Cell) + geometry.data_bytes, page);
  layout.heap = layout.rings + std::uint64_t{ranks} * (ranks - 1) * layout.ring_bytes;
  layout.heap_bytes = heap_base + ranks * heap_per_rank;
  layout.bytes = layout.heap + layout.heap_bytes;
  return layout;
}

RegionView RegionView::format(std::span<std::byte> memory, const RegionLayout& layout, const Format& format) {
  auto* header = new (memory.data()) RegionHeader{};
  header->version = region_version;
  header->header_bytes = sizeof(RegionHeader);
  header->region_bytes = layout.bytes;
  header->key = format.key;
  header->ranks = layout.ranks;
  header->idle = format.idle;
  header->geometry = layout.geometry;
  header->cores = format.cores;
  header->universe = format.universe;
  copy_name(header->job, format.job);
  copy_name(header->host, format.host);
  header->magic = region_magic;
  return {memory, layout};
}

Result<RegionView> RegionView::open(std::span<std::byte> memory) {
  if (memory.size() < sizeof(RegionHeader) ||
      reinterpret_cast<std::uintptr_t>(memory.data()) % cache_line != 0)
    return fail(ErrorClass::intern, "shared region is smaller than its header or not aligned");
  RegionHeader* header = reinterpret_cast<RegionHeader*>(memory.data());
  if (header->magic != region_magic) return fail(ErrorClass::intern, "shared region has no Isthmus header");
  if (header->version != region_version || header->header_bytes != sizeof(RegionHeader))
    return fail(ErrorClass::intern, "shared region has layout version " + std::to_string(header->version) +
                                        ", this library has " + std::to_string(region_version) +
                                        ": launcher and library are of different releases");
  const std::uint32_t ranks = header->ranks;
  const RingGeometry geometry = header->geometry;
  auto layout = RegionLayout::make(ranks, geometry);
  if (!layout) return fail(ErrorClass::intern, "shared region: " + layout.error().text());
  if (layout->bytes > memory.size())
    return fail(ErrorClass::intern, "shared region has " + std::to_string(memory.size()) +
                                        " bytes, its header needs " + std::to_string(layout->bytes));
  if (header->region_bytes != layout->bytes)
    return fail(ErrorClass::intern, "shared region: its header contradicts itself about its size");
  const IdlePolicy idle = header->idle;
  if (idle != IdlePolicy::spin && idle != IdlePolicy::sleep)
    return fail(ErrorClass::intern, "shared region: unknown idle policy");
  return RegionView(memory, *layout);
}

}  // namespace isthmus::wire
