#include "vrank/process/move_steps.hpp"

#include <cpuid.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/types.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <system_error>

#include "channel/cma/cma.hpp"
#include "vrank/hosts/handshake.hpp"
#include "vrank/process/mapped_ranges.hpp"
#include "vrank/process/touched_pages.hpp"
#include "vrank/rank_copy.hpp"
#include "vrank/rank_thread.hpp"

namespace isthmus::vrank {
namespace {

constexpr std::uint64_t page = 4096;
/// Thread-local variables of libraries that are there from the program's start lie so close below the thread
/// pointer.
constexpr std::uint64_t most_below = std::uint64_t{1} << 20;
constexpr std::uint64_t hash_begin = 0xcbf2'9ce4'8422'2325, hash_factor = 0x100'0000'01b3;  // FNV-1a

void add_hash(std::uint64_t& hash, const void* bytes, std::size_t count) {
  for (const auto each : std::span(static_cast<const unsigned char*>(bytes), count))
    hash = (hash ^ each) * hash_factor;
}

std::uint64_t down(std::uint64_t address) {
  return address / page * page;
}
std::uint64_t up(std::uint64_t address) {
  return down(address + page - 1);
}
void* pointer(std::uint64_t address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
}

/// By its own name for its contents, which the linker has put there; nothing where it has none.
void add_build(std::uint64_t& hash, const dl_phdr_info& object) {
  for (const ElfW(Phdr) & each : std::span(object.dlpi_phdr, object.dlpi_phnum))
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    if (each.p_type == PT_NOTE) add_hash(hash, pointer(object.dlpi_addr + each.p_vaddr), each.p_memsz);
}

Result<> cannot(const char* what) {
  return fail(ErrorClass::no_mem, std::string(what) + ": " + std::generic_category().message(errno));
}

Result<> take_step(const MoveStep& step, LeftMemory& from, const RegionFile& region, std::uint64_t likeness) {
  void* const at = pointer(step.address);
  switch (step.kind) {
    case MoveStep::Kind::match:
      if (step.offset == likeness) return {};
      return fail(ErrorClass::other,
                  "it has other libraries than the process that the rank is in, or at other "
                  "addresses (a rank has loaded one)");
    case MoveStep::Kind::map:
      if (::mmap(at, step.bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0) != at)
        return cannot("mmap");
      return {};
    case MoveStep::Kind::share:
      if (::mmap(at, step.bytes, step.protection, MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE, region.fd,
                 static_cast<off_t>(step.offset)) != at)
        return cannot("mmap");
      return {};
    case MoveStep::Kind::open:
      return ::mprotect(at, step.bytes, PROT_READ | PROT_WRITE) == 0 ? Result<>() : cannot("mprotect");
    case MoveStep::Kind::copy:
      return from.read(step.address, step.bytes);
    case MoveStep::Kind::protect:
      return ::mprotect(at, step.bytes, step.protection) == 0 ? Result<>() : cannot("mprotect");
  }
  return {};
}

}  // namespace

Result<> MemoryOfProcess::read(std::uint64_t address, std::uint64_t bytes) {
  constexpr std::uint64_t most = std::uint64_t{1} << 30;
  for (std::uint64_t done = 0; done < bytes;) {
    const std::uint64_t piece = std::min(bytes - done, most);
    ISTHMUS_TRY(cma::read(process_, address + done, pointer(address + done), piece));
    done += piece;
  }
  return {};
}

Result<> MemoryByLine::read(std::uint64_t address, std::uint64_t bytes) {
  if (read_whole(line_, pointer(address), bytes)) return {};
  return fail(ErrorClass::other, "the connection to the process that it leaves has broken");
}

bool write_memory(std::span<const MoveStep> steps, int line) noexcept {
  return std::ranges::all_of(steps, [&](const MoveStep& step) {
    return step.kind != MoveStep::Kind::copy || write_whole(line, pointer(step.address), step.bytes);
  });
}

Result<> check(std::span<const MoveStep> steps, const RankSpace& space) {
  for (const MoveStep& step : steps) {
    const bool is_known = step.kind <= MoveStep::Kind::protect;
    const bool is_own = space.contains(step.address) && step.bytes <= space.end() - step.address;
    if (!is_known || (step.kind != MoveStep::Kind::match && !is_own))
      return fail(ErrorClass::intern, "what is to be done is not about the rank's own memory");
  }
  return {};
}

std::vector<MoveStep> steps_of(const RankSpace& space, const ProgramFile& program, std::uint64_t stack,
                               const ThreadLocalRange& locals, std::uint64_t likeness) {
  using Kind = MoveStep::Kind;
  std::vector<MoveStep> steps{{Kind::match, 0, 0, 0, likeness}}, protections;
  const auto copy = [&](std::uint64_t from, std::uint64_t bytes) {
    steps.push_back({Kind::copy, 0, from, bytes, 0});
  };
  // Of what is new pages there.
  const TouchedPages pages;
  const auto copy_touched = [&](std::uint64_t from, std::uint64_t bytes) {
    pages.for_each(from, bytes, copy);
  };
  const RankMemory& memory = *RankMemory::of(space);
  const std::uint64_t heap = space.heap(), behind_heap = heap + space.part_bytes() / 2;
  for (const MappedRange& range : mapped_ranges(space.stack_part(), space.end())) {
    const std::uint64_t bytes = range.end - range.begin;
    if (range.is_shared) {
      steps.push_back({Kind::share, range.protection, range.begin, bytes, range.offset});
      continue;
    }
    steps.push_back({Kind::map, 0, range.begin, bytes, 0});
    if (range.begin >= behind_heap && range.protection != PROT_NONE) copy_touched(range.begin, bytes);
    if (range.protection != (PROT_READ | PROT_WRITE))
      protections.push_back({Kind::protect, range.protection, range.begin, bytes, 0});
  }
  copy(heap, sizeof(RankMemory));
  memory.heap.for_each_range([&](std::uintptr_t from, std::size_t bytes) { copy_touched(from, bytes); });
  copy(stack, space.stack_end() - stack);
  copy(locals.begin, locals.pointer - locals.begin);
  copy(locals.pointer + RankThread::guard_at, sizeof(std::uint64_t));
  const auto written = program.written_at(space.program());
  for (const MappedRange& range : mapped_ranges(space.program(), space.program() + space.part_bytes())) {
    const bool is_written = std::ranges::any_of(written, [&](const ProgramFile::Span& each) {
      return range.begin >= down(each.begin) && range.begin < up(each.end);
    });
    if (!is_written) continue;
    const std::uint64_t bytes = range.end - range.begin;
    steps.push_back({Kind::open, 0, range.begin, bytes, 0});
    copy(range.begin, bytes);
    protections.push_back({Kind::protect, range.protection, range.begin, bytes, 0});
  }
  steps.insert(steps.end(), protections.begin(), protections.end());
  return steps;
}

Result<> take_over(std::span<const MoveStep> steps, LeftMemory& from, const RankSpace& space,
                   const RegionFile& region, std::uint64_t likeness) {
  for (const MoveStep& step : steps)
    if (auto done = take_step(step, from, region, likeness); !done) {
      let_go(space);
      return done;
    }
  return {};
}

void let_go(const RankSpace& space) noexcept {
  ::munmap(pointer(space.stack_part()), 2 * space.part_bytes());
}

std::uint64_t likeness_here(std::uintptr_t process_top) {
  std::uint64_t hash = hash_begin;
  const auto look = [](dl_phdr_info* info, std::size_t /*bytes*/, void* to) {
    const std::string_view name = info->dlpi_name;
    if (name.starts_with(RankCopy::names_begin)) return 0;
    auto& sum = *static_cast<std::uint64_t*>(to);
    add_hash(sum, name.data(), name.size());
    add_hash(sum, &info->dlpi_addr, sizeof info->dlpi_addr);
    add_build(sum, *info);
    // Those of libraries that have been loaded later lie anywhere, and keep a rank that uses them.
    const std::uint64_t below =
        RankThread::own_pointer() - reinterpret_cast<std::uint64_t>(info->dlpi_tls_data);
    if (below < most_below) add_hash(sum, &below, sizeof below);
    return 0;
  };
  ::dl_iterate_phdr(look, &hash);
  add_hash(hash, &process_top, sizeof process_top);
  const bool has_other_locale = !has_built_in_locale();
  add_hash(hash, &has_other_locale, sizeof has_other_locale);
  return hash;
}

/// Without what differs between the cores of one processor.
std::uint64_t likeness_of_processor() {
  std::uint64_t hash = hash_begin;
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned os_bits = 1U << 27;  // whether the kernel saves registers, which is asked for below
  if (__get_cpuid(1, &a, &b, &c, &d) != 0) {
    add_hash(hash, &c, sizeof c);
    add_hash(hash, &d, sizeof d);
  }
  if ((c & os_bits) != 0) {
    unsigned low = 0, high = 0;
    asm("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    add_hash(hash, &low, sizeof low);
  }
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) != 0)
    for (const unsigned word : {b, c, d})
      add_hash(hash, &word, sizeof word);
  return hash;
}

}  // namespace isthmus::vrank
