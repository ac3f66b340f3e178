#include "gpu/memory/host_ranges.hpp"

#include <link.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <array>
#include <span>
#include <utility>

#include "base/system/process_stat.hpp"

namespace isthmus {
namespace {

/// Linux maps nothing of its own choice so close below the top of the main thread's stack: mmap begins 128 MB
/// below, or more where the stack may be larger (arch/x86/mm/mmap.c and mm/util.c, `mmap_base`).
constexpr std::uintptr_t stack_bytes = std::uintptr_t{8} << 20U;

using Segment = std::pair<std::uintptr_t, std::uintptr_t>;

/// The writable segments of the program itself.
int program_data(dl_phdr_info* object, std::size_t, void* out) {
  auto segments = *static_cast<std::span<Segment>*>(out);
  for (const auto& header : std::span(object->dlpi_phdr, object->dlpi_phnum)) {
    if (header.p_type != PT_LOAD || (header.p_flags & PF_W) == 0 || segments.empty()) continue;
    segments.front() = {object->dlpi_addr + header.p_vaddr, header.p_memsz};
    segments = segments.subspan(1);
  }
  return 1;  // the first object is the program
}

/// Where the heap begins; where the kernel does not tell, where it ends now.
std::uintptr_t start_of_heap() {
  const auto end = reinterpret_cast<std::uintptr_t>(::sbrk(0));
  const std::uintptr_t begin = ProcessStat::of_self().value_or(ProcessStat{}).heap_begin;
  return begin == 0 || begin > end ? end : begin;
}

}  // namespace

HostRanges::HostRanges() : heap_(start_of_heap()) {
  // The kernel puts these bytes above the first frame.
  if (const auto top = static_cast<std::uintptr_t>(::getauxval(AT_RANDOM)); top > stack_bytes)
    ranges_[0] = {top - stack_bytes, stack_bytes};
  std::array<Segment, 2> segments{};
  std::span<Segment> out(segments);
  dl_iterate_phdr(program_data, &out);
  for (std::size_t i = 0; i < segments.size(); ++i)
    ranges_[i + 1] = {segments[i].first, segments[i].second};
}

}  // namespace isthmus
