#include "wire/region.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "base/futex.hpp"
#include "wire/ring.hpp"

namespace isthmus::wire {
namespace {

constexpr std::uint64_t page = 4096;
/// Address space only: pages that nobody touches cost nothing.
constexpr std::uint64_t heap_base = std::uint64_t{1} << 30;
constexpr std::uint64_t heap_per_rank = std::uint64_t{64} << 20;
constexpr std::uint64_t heap_least = page;
constexpr std::uint64_t heap_most = heap_base + maximum_local_ranks * heap_per_rank;

constexpr std::uint32_t least_cells = 16;
constexpr std::uint32_t least_data_bytes = 4096;

constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

template <std::size_t N>
void copy_name(std::array<char, N>& out, const char* name) {
  std::strncpy(out.data(), name, N - 1);
}

}  // namespace

RingGeometry RingGeometry::for_ranks(std::uint32_t local_ranks) noexcept {
  // What lies in a smaller ring lies in nearer caches: 64 messages of 4 KiB under way, each, far cores, 512
  // KiB 0.70 to 0.96 us, 256 KiB 0.58; 64 KiB with their envelopes, near ones, 5.6 and 2.6 (EPYC 9004).
  // Granite Rapids: equal. There 128 KiB are too few for 64 of 2 KiB: 5.8 GB/s in place of 9.8.
  if (local_ranks <= 8) return {512, 256 * 1024};
  if (local_ranks <= 64) return {128, 64 * 1024};
  return {32, 16 * 1024};
}

bool RingGeometry::valid() const noexcept {
  return std::has_single_bit(cells) && cells >= least_cells && cells <= 65536 &&
         std::has_single_bit(data_bytes) && data_bytes >= least_data_bytes && data_bytes <= (1U << 30);
}

RegionShape RegionShape::of(std::uint32_t slots, std::uint32_t world, RingGeometry geometry) noexcept {
  return {
      .slots = slots, .world = world, .geometry = geometry, .heap_bytes = heap_base + slots * heap_per_rank};
}

Result<RegionShape> RegionShape::fitting(std::uint32_t slots, std::uint32_t world, RingGeometry preferred,
                                         std::uint64_t bytes) {
  const std::uint64_t heap = std::min(bytes / 4 / page * page, heap_base + slots * heap_per_rank);
  RegionShape shape{
      .slots = slots, .world = world, .geometry = preferred, .heap_bytes = std::max(heap, page)};
  while (true) {
    auto layout = RegionLayout::make(shape);
    if (!layout) return std::unexpected(std::move(layout).error());
    if (layout->bytes <= bytes) return shape;
    RingGeometry& rings = shape.geometry;
    const bool data_is_larger = rings.data_bytes >= rings.cells * sizeof(Cell);
    if (rings.data_bytes > least_data_bytes && (data_is_larger || rings.cells <= least_cells))
      rings.data_bytes /= 2;
    else if (rings.cells > least_cells)
      rings.cells /= 2;
    else
      return fail(ErrorClass::no_mem, std::to_string(slots) + " ranks need " +
                                          std::to_string((layout->bytes + 1023) >> 10) + " KiB, there are " +
                                          std::to_string(bytes >> 10) + " for a job");
  }
}

Result<RegionLayout> RegionLayout::make(const RegionShape& shape) {
  const std::uint32_t slots = shape.slots;
  if (slots == 0 || slots > maximum_local_ranks)
    return fail(ErrorClass::arg, std::to_string(slots) + " ranks on one host; allowed are 1 to " +
                                     std::to_string(maximum_local_ranks));
  if (shape.world < slots || shape.world > maximum_world)
    return fail(ErrorClass::arg, std::to_string(shape.world) + " ranks in the job, " + std::to_string(slots) +
                                     " of them on one host; allowed are up to " +
                                     std::to_string(maximum_world));
  if (!shape.geometry.valid())
    return fail(ErrorClass::arg, "ring geometry out of range or not a power of two");
  if (shape.heap_bytes < heap_least || shape.heap_bytes > heap_most || shape.heap_bytes % page != 0)
    return fail(ErrorClass::arg, "heap size out of range or not in pages");
  RegionLayout layout;
  layout.shape = shape;
  layout.roster = round_up(sizeof(RegionHeader), cache_line);
  layout.blocks = round_up(layout.roster + shape.world, page);
  layout.doorbells = layout.blocks + std::uint64_t{slots} * sizeof(RankBlock);
  layout.doorbell_words = round_up((slots + 63) / 64, cache_line / sizeof(std::uint64_t));
  layout.waits = round_up(layout.doorbells + slots * layout.doorbell_words * sizeof(std::uint64_t), page);
  layout.directory = round_up(layout.waits + std::uint64_t{slots} * sizeof(WaitBoard), page);
  layout.rings = round_up(layout.directory + std::uint64_t{slots} * slots * sizeof(std::uint32_t), page);
  layout.ring_bytes = round_up(place_offset(shape.geometry) + place_bytes(shape.geometry), page);
  layout.heap = layout.rings + std::uint64_t{slots} * (slots - 1) * layout.ring_bytes;
  layout.bytes = layout.heap + shape.heap_bytes;
  return layout;
}

RegionView RegionView::format(std::span<std::byte> memory, const RegionLayout& layout, const Format& format) {
  auto* header = new (memory.data()) RegionHeader{};
  header->version = region_version;
  header->header_bytes = sizeof(RegionHeader);
  header->region_bytes = layout.bytes;
  header->key = format.key;
  header->shape = layout.shape;
  header->idle = format.idle;
  header->cores = format.cores;
  header->universe = format.universe;
  header->outlives = format.outlives ? 1 : 0;
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
  const RegionShape shape = header->shape;
  auto layout = RegionLayout::make(shape);
  if (!layout) return fail(ErrorClass::intern, "shared region: " + layout.error().text());
  if (layout->bytes > memory.size())
    return fail(ErrorClass::intern, "shared region has " + std::to_string(memory.size()) +
                                        " bytes, its header needs " + std::to_string(layout->bytes));
  if (header->region_bytes != layout->bytes)
    return fail(ErrorClass::intern, "shared region: its header contradicts itself about its size");
  const IdlePolicy idle = header->idle;
  if (idle != IdlePolicy::spin && idle != IdlePolicy::sleep && idle != IdlePolicy::nap)
    return fail(ErrorClass::intern, "shared region: unknown idle policy");
  return RegionView(memory, *layout);
}

void RegionView::wake(std::uint32_t slot) const noexcept {
  std::atomic<std::uint32_t>& sleeping = block(slot).sleeping;
  if (sleeping.load(std::memory_order_seq_cst) == 0 || sleeping.exchange(0, std::memory_order_seq_cst) == 0)
    return;
  const std::uint32_t with = block(slot).sleeps_with.load(std::memory_order_relaxed);
  if (with == 0 || with > slots()) return futex_wake(sleeping);
  std::atomic<std::uint32_t>& wakes = block(with - 1).process_wakes;
  wakes.fetch_add(1, std::memory_order_seq_cst);
  futex_wake(wakes);
}

}  // namespace isthmus::wire
