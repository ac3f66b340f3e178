// RegionView::open on memory that anybody may have written: what it accepts must lie within the memory.
#include <sys/mman.h>

#include <cstdlib>

#include "input.hpp"
#include "wire/region.hpp"

namespace isthmus {
namespace {

constexpr std::uint64_t mapped_bytes = std::uint64_t{1} << 36;

std::span<std::byte> mapping() {
  static void* const address = ::mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) std::abort();
  return {static_cast<std::byte*>(address), mapped_bytes};
}

/// Makes the numbers agree with each other, which random ones never would.
void mend(wire::RegionHeader& header, unsigned what) {
  if ((what & 1U) != 0) {
    header.magic = wire::region_magic;
    header.version = wire::region_version;
    header.header_bytes = sizeof(wire::RegionHeader);
  }
  if ((what & 2U) != 0) {
    wire::RegionShape& shape = header.shape;
    shape.slots = shape.slots % 600 + 1;
    shape.world = shape.slots + shape.world % 600;
    shape.geometry.cells = 16U << shape.geometry.cells % 8;
    shape.geometry.data_bytes = 4096U << shape.geometry.data_bytes % 6;
    shape.heap_bytes = (shape.heap_bytes % 64 + 1) << 12;
  }
  if ((what & 4U) != 0)
    if (const auto layout = wire::RegionLayout::make(header.shape)) header.region_bytes = layout->bytes;
}

void touch(volatile const std::byte* address) {
  static_cast<void>(*address);
}

template <class T>
void touch_all(std::span<T> items, const std::span<std::byte>& memory) {
  const auto bytes = std::as_writable_bytes(items);
  if (bytes.data() < memory.data() || bytes.data() + bytes.size() > memory.data() + memory.size())
    std::abort();
  if (bytes.empty()) return;
  touch(&bytes.front());
  touch(&bytes.back());
}

void use(const wire::RegionView& view, std::span<std::byte> memory, fuzz::Input& input) {
  for (const std::uint32_t rank : {0U, view.slots() - 1}) {
    touch_all(std::span(&view.roster(rank), 1), memory);
    touch_all(std::span(&view.block(rank), 1), memory);
    touch_all(view.doorbells(rank), memory);
    touch_all(view.directory(rank), memory);
  }
  if (view.ring_capacity() != 0)
    for (const std::uint64_t number : {std::uint64_t{0}, view.ring_capacity() - 1})
      touch_all(view.ring(static_cast<std::uint32_t>(number)), memory);
  const auto space = memory.subspan(view.layout().heap, view.layout().shape.heap_bytes);
  wire::RegionHeap heap(view.header().heap, space, std::chrono::milliseconds(0));
  for (int i = 0; i < 20 && !input.empty(); ++i) {
    const auto bytes = input.take<std::uint64_t>() >> input.below(64);
    if (const auto offset = heap.allocate(bytes)) {
      const auto block = heap.at(*offset, bytes);
      if (block.size() != bytes) std::abort();
      touch_all(block, memory);
      if (input.below(2) != 0 && bytes >= 8) input.fill(block.first(8));
      if (input.below(2) != 0) heap.release(*offset, bytes);
    }
    heap.release(input.take<std::uint64_t>() >> input.below(64), input.take<std::uint32_t>());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const unsigned what = input.below(256);
  const std::span<std::byte> all = mapping();
  auto& header = *reinterpret_cast<wire::RegionHeader*>(all.data());
  input.fill(all.first(sizeof(wire::RegionHeader)));
  mend(header, what);
  const std::uint64_t sizes[]{header.region_bytes, mapped_bytes, sizeof(wire::RegionHeader),
                              header.region_bytes - 1};
  const std::uint64_t bytes = std::min(sizes[what >> 3 & 3U], mapped_bytes);
  const std::span<std::byte> memory = all.first(bytes);
  if (const auto view = wire::RegionView::open(memory)) use(*view, memory, input);
  ::madvise(all.data(), all.size(), MADV_DONTNEED);
  return 0;
}

}  // namespace isthmus
