#include "vrank/process/move_steps.hpp"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <locale.h>
#include <pthread.h>
#include <stdio_ext.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cinttypes>
#include <climits>
#include <clocale>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string_view>
#include <system_error>

#include "channel/cma/cma.hpp"
#include "vrank/process/touched_pages.hpp"
#include "vrank/rank_thread.hpp"

namespace isthmus::vrank {
namespace {

constexpr std::uint64_t page = 4096;
/// Names of what has been loaded for ranks (`RankCopy`).
constexpr std::string_view copies_begin = "/proc/self/fd/";
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

std::uint64_t begin_of(const RankSpace& space) {
  return space.program();
}
std::uint64_t stack_begin(const RankSpace& space) {
  return space.program() + 2 * space.part_bytes();
}
std::uint64_t end_of(const RankSpace& space) {
  return space.program() + 4 * space.part_bytes();
}
bool is_in(const RankSpace& space, std::uint64_t address) {
  return address - begin_of(space) < 4 * space.part_bytes();
}

bool is_region(const MappedRange& range, const RegionFile& region) {
  return range.is_shared && range.file == region.file;
}

/// Of the rank's memory: what cannot be had in another process.
std::string foreign_mapping(const RankSpace& space, const RegionFile& region) {
  for (const MappedRange& range : mapped_ranges(stack_begin(space), end_of(space))) {
    const bool is_own = !range.is_shared && range.file.file == 0;
    const bool is_life_line = is_region(range, region) && range.protection == PROT_NONE;
    if (!is_own && !is_region(range, region) && !is_life_line)
      return "it has mapped a file (" + range.path + ")";
  }
  return {};
}

/// Streams of the C library that have been opened in its turns.
std::string open_stream(const RankSpace& space) {
  const auto* const all = static_cast<FILE* const*>(::dlsym(RTLD_DEFAULT, "_IO_list_all"));
  if (!all) return "this C library does not tell which files are open";
  for (const FILE* each = *all; each; each = *reinterpret_cast<FILE* const*>(&each->_chain))
    if (is_in(space, reinterpret_cast<std::uint64_t>(each))) return "it has a file open";
  return {};
}

/// Calls `visit(descriptor, what it is open on)` until it says true.
template <class Visit>
bool any_open(Visit visit) {
  DIR* const folder = ::opendir("/proc/self/fd");
  bool found = false;
  while (const dirent* const entry = found || !folder ? nullptr : ::readdir(folder)) {
    const int fd = std::atoi(entry->d_name);
    struct stat status{};
    if (entry->d_name[0] == '.' || fd == ::dirfd(folder) || ::fstat(fd, &status) != 0) continue;
    found = visit(fd, OpenFile{status.st_dev, status.st_ino});
  }
  if (folder) ::closedir(folder);
  return found;
}

/// Descriptors of the process: which rank has opened one is not known.
std::string open_descriptor(const RegionFile& region) {
  std::string found;
  any_open([&](int fd, const OpenFile& file) {
    // Files in memory are all of one device: those of the library.
    if (file.device == region.file.device || std::ranges::find(region.known, file) != region.known.end())
      return false;
    std::array<char, PATH_MAX> path{};
    static_cast<void>(
        ::readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), path.data(), path.size() - 1));
    found = std::string("a rank of its process has a file open (") + path.data() + ")";
    return true;
  });
  return found;
}

std::string own_library(const RankSpace& space) {
  const auto* const debug = static_cast<const r_debug*>(::dlsym(RTLD_DEFAULT, "_r_debug"));
  if (!debug) return "the dynamic linker does not tell which libraries there are";
  for (const link_map* each = debug->r_map; each; each = each->l_next)
    if (is_in(space, reinterpret_cast<std::uint64_t>(each)))
      return std::string("it has loaded a library (") + each->l_name + ")";
  return {};
}

std::string thread_specific_data() {
  for (pthread_key_t key = 0; key < PTHREAD_KEYS_MAX; ++key)
    if (::pthread_getspecific(key)) return "it has thread-specific data (pthread_setspecific)";
  return {};
}

/// With another, the C library makes what it needs for all of the process in the turn of the rank that first
/// asks for it: messages, conversions of characters.
bool has_built_in_locale() {
  const char* const name = std::setlocale(LC_ALL, nullptr);
  return name && (std::strcmp(name, "C") == 0 || std::strcmp(name, "POSIX") == 0);
}

Result<> copy_from(pid_t process, std::uint64_t address, std::uint64_t bytes) {
  constexpr std::uint64_t most = std::uint64_t{1} << 30;
  for (std::uint64_t done = 0; done < bytes;) {
    const std::uint64_t piece = std::min(bytes - done, most);
    ISTHMUS_TRY(cma::read(process, address + done, pointer(address + done), piece));
    done += piece;
  }
  return {};
}

Result<> cannot(const char* what) {
  return fail(ErrorClass::no_mem, std::string(what) + ": " + std::generic_category().message(errno));
}

Result<> take_step(const MoveStep& step, pid_t from, const RegionFile& region, std::uint64_t likeness) {
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
      return copy_from(from, step.address, step.bytes);
    case MoveStep::Kind::protect:
      return ::mprotect(at, step.bytes, step.protection) == 0 ? Result<>() : cannot("mprotect");
  }
  return {};
}

}  // namespace

std::vector<OpenFile> open_files() {
  std::vector<OpenFile> files;
  any_open([&](int, const OpenFile& file) {
    files.push_back(file);
    return false;
  });
  return files;
}

std::vector<MappedRange> mapped_ranges(std::uint64_t begin, std::uint64_t end) {
  std::vector<MappedRange> ranges;
  std::ifstream file("/proc/self/maps");
  for (std::string line; std::getline(file, line);) {
    MappedRange range{};
    std::array<char, 5> modes{};
    unsigned major = 0, minor = 0;
    std::uint64_t inode = 0;
    int path = 0;
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %n",
                    &range.begin, &range.end, modes.data(), &range.offset, &major, &minor, &inode, &path) < 7)
      continue;
    if (range.begin < begin || range.begin >= end) continue;
    range.protection = (modes[0] == 'r' ? PROT_READ : 0) | (modes[1] == 'w' ? PROT_WRITE : 0) |
                       (modes[2] == 'x' ? PROT_EXEC : 0);
    range.is_shared = modes[3] == 's';
    range.file = {::makedev(major, minor), inode};
    range.path = line.substr(std::min<std::size_t>(static_cast<std::size_t>(path), line.size()));
    ranges.push_back(std::move(range));
  }
  return ranges;
}

Result<ThreadLocalRange> own_thread_locals(const RankSpace& space) {
  struct Seen {
    std::uint64_t begin, end, part;
    std::string elsewhere;
  };
  const std::uint64_t own = RankThread::own_pointer();
  Seen seen{own, own, space.program() + space.part_bytes(), {}};
  const auto look = [](dl_phdr_info* info, std::size_t /*bytes*/, void* to) {
    auto& found = *static_cast<Seen*>(to);
    const auto at = reinterpret_cast<std::uint64_t>(info->dlpi_tls_data);
    if (at == 0) return 0;
    if (at >= found.part && at < found.end)
      found.begin = std::min(found.begin, at);
    else
      found.elsewhere = info->dlpi_name;
    return 0;
  };
  ::dl_iterate_phdr(look, &seen);
  if (!seen.elsewhere.empty())
    return fail(ErrorClass::other, "it uses thread-local variables of " + seen.elsewhere +
                                       ", which has been loaded behind the program's start");
  return ThreadLocalRange{seen.begin, own};
}

std::string why_tied(const RankSpace& space, const RegionFile& region) {
  const RankMemory& memory = *RankMemory::of(space);
  if (memory.tied_by) return memory.tied_by;
  if (const auto locals = own_thread_locals(space); !locals) return locals.error().text();
  if (::uselocale(nullptr) != LC_GLOBAL_LOCALE) return "it has a locale of its own (uselocale)";
  if (!has_built_in_locale()) return "its process has another locale than C (setlocale)";
  for (const std::string& why : {open_stream(space), own_library(space), thread_specific_data(),
                                 foreign_mapping(space, region), open_descriptor(region)})
    if (!why.empty()) return why;
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
  for (const MappedRange& range : mapped_ranges(stack_begin(space), end_of(space))) {
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

Result<> take_over(std::span<const MoveStep> steps, pid_t from, const RankSpace& space,
                   const RegionFile& region, std::uint64_t likeness) {
  for (const MoveStep& step : steps)
    if (auto done = take_step(step, from, region, likeness); !done) {
      let_go(space);
      return done;
    }
  return {};
}

void let_go(const RankSpace& space) noexcept {
  ::munmap(pointer(stack_begin(space)), 2 * space.part_bytes());
}

std::uint64_t likeness_here(std::uintptr_t process_top) {
  std::uint64_t hash = hash_begin;
  const auto look = [](dl_phdr_info* info, std::size_t /*bytes*/, void* to) {
    const std::string_view name = info->dlpi_name;
    if (name.starts_with(copies_begin)) return 0;
    auto& sum = *static_cast<std::uint64_t*>(to);
    add_hash(sum, name.data(), name.size());
    add_hash(sum, &info->dlpi_addr, sizeof info->dlpi_addr);
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

}  // namespace isthmus::vrank
