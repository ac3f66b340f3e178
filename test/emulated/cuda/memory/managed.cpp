// Managed memory, and where its pages are.
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "memory/memory.hpp"
#include "moves.hpp"
#include "streams/capture.hpp"
#include "streams/stream.hpp"

namespace isthmus::emulated {
namespace {

using Page = Allocation::Page;

/// The pages that a range touches.
std::pair<std::size_t, std::size_t> pages_of(const Allocation& memory, Address address, std::size_t bytes) {
  const std::size_t first = (address - memory.base) / Allocation::page_bytes;
  const std::size_t last = (address - memory.base + bytes - 1) / Allocation::page_bytes;
  return {first, last + 1};
}

std::shared_ptr<Allocation> managed_at(Address address, std::size_t bytes) {
  auto memory = driver()->addresses.find(address);
  if (!memory || memory->origin != Origin::managed || bytes == 0 ||
      address - memory->base + bytes > memory->bytes)
    return nullptr;
  return memory;
}

bool is_valid(const Location& location) {
  if (location.type == LocationType::device) return driver()->machine.has(location.id);
  return location.type == LocationType::host || location.type == LocationType::host_numa ||
         location.type == LocationType::host_numa_current;
}

/// The one location of all pages, or none.
Location common(const Allocation& memory, std::size_t first, std::size_t last, Location Page::* which) {
  const Location location = memory.pages[first].*which;
  for (std::size_t i = first; i < last; ++i)
    if ((memory.pages[i].*which).type != location.type || (memory.pages[i].*which).id != location.id)
      return {};
  return location;
}

int old_style(const Location& location) {
  if (location.type == LocationType::invalid) return no_device;
  return location.type == LocationType::device ? location.id : host_device;
}

Status answer(void* value, std::size_t size, RangeAttribute attribute, const Allocation& memory,
              Address address, std::size_t bytes) {
  if (size < sizeof(int)) return Status::invalid_value;
  const auto [first, last] = pages_of(memory, address, bytes);
  const Location preferred = common(memory, first, last, &Page::preferred);
  const Location prefetched = common(memory, first, last, &Page::prefetched);
  int result = 0;
  switch (attribute) {
    case RangeAttribute::read_mostly:
      result = std::all_of(memory.pages.begin() + static_cast<std::ptrdiff_t>(first),
                           memory.pages.begin() + static_cast<std::ptrdiff_t>(last),
                           [](const Page& page) { return page.read_mostly; });
      break;
    case RangeAttribute::preferred_location:
      result = old_style(preferred);
      break;
    case RangeAttribute::last_prefetch_location:
      result = old_style(prefetched);
      break;
    case RangeAttribute::preferred_location_type:
      result = static_cast<int>(preferred.type);
      break;
    case RangeAttribute::preferred_location_id:
      result = preferred.id;
      break;
    case RangeAttribute::last_prefetch_location_type:
      result = static_cast<int>(prefetched.type);
      break;
    case RangeAttribute::last_prefetch_location_id:
      result = prefetched.id;
      break;
    default:
      return Status::not_supported;
  }
  std::memcpy(value, &result, sizeof result);
  return Status::success;
}

/// Pages that move to a device leave the process's page table.
void move_pages(const Allocation& memory, Address address, std::size_t bytes, const Location& location) {
  const auto [first, last] = pages_of(memory, address, bytes);
  auto* begin = reinterpret_cast<std::byte*>(memory.base + first * Allocation::page_bytes);
  if (location.type == LocationType::device) {
    ::madvise(begin, (last - first) * Allocation::page_bytes, MADV_DONTNEED);
    return;
  }
  for (std::size_t i = 0; i < (last - first) * Allocation::page_bytes; i += Allocation::page_bytes)
    __atomic_load_n(reinterpret_cast<unsigned char*>(begin + i), __ATOMIC_RELAXED);
}

/// A pseudo-random number that follows from the seed (splitmix64).
std::uint64_t next_random(std::uint64_t seed) {
  static std::atomic<std::uint64_t> drawn{0};
  std::uint64_t x = seed + ++drawn * 0x9e37'79b9'7f4a'7c15;
  x = (x ^ (x >> 30U)) * 0xbf58'476d'1ce4'e5b9;
  x = (x ^ (x >> 27U)) * 0x94d0'49bb'1331'11eb;
  return x ^ (x >> 31U);
}

}  // namespace

void perhaps_move_pages() {
  const std::uint64_t seed = settings().moves;
  if (seed == 0) return;
  const std::uint64_t random = next_random(seed);
  if (random % 4 != 0) return;
  Driver& cuda = *driver();
  const std::scoped_lock lock(cuda.mutex);
  std::vector<std::shared_ptr<Allocation>> managed;
  for (const auto& [base, memory] : cuda.addresses.all())
    if (memory->origin == Origin::managed) managed.push_back(memory);
  if (managed.empty()) return;
  Allocation& memory = *managed[(random >> 8U) % managed.size()];
  // To the host; to a device, which CUDA knows; or to a device of which it says nothing.
  const std::uint64_t where = (random >> 40U) % 3;
  const Location device{.type = LocationType::device, .id = memory.device};
  const Location host{.type = LocationType::host};
  for (Page& page : memory.pages)
    page.prefetched = where == 0 ? host : where == 1 ? device : Location{};
  move_pages(memory, memory.base, memory.bytes, where == 0 ? host : device);
}

extern "C" {

Status cuMemAllocManaged(Address* address, std::size_t bytes, unsigned flags) {
  Context context = nullptr;
  ISTHMUS_PASS(enter_with_context(context));
  ISTHMUS_PASS(unsafe_in_capture());
  if (settings().refuses(Refusal::managed)) return Status::not_supported;
  if (!address || bytes == 0 || flags == 0 || flags > 2) return Status::invalid_value;
  Driver& cuda = *driver();
  const std::scoped_lock lock(cuda.mutex);
  if (!charge(cuda, context->device, bytes)) return Status::out_of_memory;
  auto backing = Backing::create(BackingKind::managed, cuda.machine.physical(context->device), bytes);
  const Address base = backing ? cuda.addresses.reserve(bytes, Allocation::page_bytes) : 0;
  if (base == 0) {
    discharge(cuda, context->device, bytes);
    return Status::out_of_memory;
  }
  std::byte* view = backing->view();
  const auto memory =
      add_allocation(cuda, {.origin = Origin::managed,
                            .base = base,
                            .bytes = bytes,
                            .view = view,
                            .backing = std::move(backing),
                            .device = context->device,
                            .context = context,
                            .pages = std::vector<Page>((bytes - 1) / Allocation::page_bytes + 1)});
  if (!make_readable(*memory)) {
    forget(cuda, *memory);
    return Status::out_of_memory;
  }
  *address = base;
  return Status::success;
}

Status cuMemPrefetchAsync_v2(Address address, std::size_t bytes, Location location, unsigned flags,
                             Stream stream) {
  Context context = nullptr;
  ISTHMUS_PASS(enter_with_context(context));
  std::shared_ptr<Allocation> memory;
  {
    const std::scoped_lock lock(driver()->mutex);
    memory = managed_at(address, bytes);
    if (!memory || flags != 0) return Status::invalid_value;
    if (!is_valid(location)) return Status::invalid_device;
    const auto [first, last] = pages_of(*memory, address, bytes);
    for (std::size_t i = first; i < last; ++i)
      memory->pages[i].prefetched = location;
  }
  return submit(stream,
                [memory, address, bytes, location] { move_pages(*memory, address, bytes, location); });
}

Status cuMemAdvise_v2(Address address, std::size_t bytes, Advice advice, Location location) {
  ISTHMUS_PASS(enter());
  const std::scoped_lock lock(driver()->mutex);
  const auto memory = managed_at(address, bytes);
  if (!memory) return Status::invalid_value;
  const auto [first, last] = pages_of(*memory, address, bytes);
  for (std::size_t i = first; i < last; ++i) {
    Page& page = memory->pages[i];
    if (advice == Advice::set_preferred_location) page.preferred = location;
    if (advice == Advice::unset_preferred_location) page.preferred = {};
    if (advice == Advice::set_read_mostly) page.read_mostly = true;
    if (advice == Advice::unset_read_mostly) page.read_mostly = false;
  }
  return Status::success;
}

Status cuMemRangeGetAttribute(void* value, std::size_t size, RangeAttribute attribute, Address address,
                              std::size_t bytes) {
  return cuMemRangeGetAttributes(&value, &size, &attribute, 1, address, bytes);
}

Status cuMemRangeGetAttributes(void** values, std::size_t* sizes, RangeAttribute* attributes,
                               std::size_t count, Address address, std::size_t bytes) {
  ISTHMUS_PASS(enter());
  const std::scoped_lock lock(driver()->mutex);
  const auto memory = managed_at(address, bytes);
  if (!memory) return Status::invalid_value;
  for (std::size_t i = 0; i < count; ++i)
    ISTHMUS_PASS(answer(values[i], sizes[i], attributes[i], *memory, address, bytes));
  return Status::success;
}
}

}  // namespace isthmus::emulated
