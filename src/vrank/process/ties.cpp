#include "vrank/process/ties.hpp"

#include <dirent.h>
#include <dlfcn.h>
#include <link.h>
#include <locale.h>
#include <pthread.h>
#include <stdio_ext.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <clocale>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string_view>

#include "vrank/process/kept_memory.hpp"
#include "vrank/process/touched_pages.hpp"
#include "vrank/rank_copy.hpp"
#include "vrank/rank_memory.hpp"
#include "vrank/rank_thread.hpp"

namespace isthmus::vrank {
namespace {

bool is_region(const MappedRange& range, const RegionFile& region) {
  return range.is_shared && range.file == region.file;
}

/// Of the rank's memory: what cannot be had in another process.
std::string foreign_mapping(const RankSpace& space, const RegionFile& region) {
  const TouchedPages pages;
  for (const MappedRange& range : mapped_ranges(space.stack_part(), space.end())) {
    if (is_region(range, region)) continue;
    if (range.is_shared || range.file.file != 0) return "it has mapped a file (" + range.path + ")";
    if (range.protection != PROT_NONE) continue;
    bool holds_any = false;
    pages.for_each(range.begin, range.end - range.begin,
                   [&](std::uint64_t, std::uint64_t) { holds_any = true; });
    if (holds_any) return "it has written to memory that may not be read now (mprotect)";
  }
  return {};
}

/// Streams of the C library that have been opened in its turns, and what those of the process have of it.
std::string open_stream(const RankSpace& space) {
  const auto* const all = static_cast<FILE* const*>(::dlsym(RTLD_DEFAULT, "_IO_list_all"));
  if (!all) return "this C library does not tell which files are open";
  for (const FILE* each = *all; each; each = *reinterpret_cast<FILE* const*>(&each->_chain)) {
    if (space.contains(each)) return "it has a file open";
    if (space.contains(each->_IO_buf_base) || space.contains(each->_IO_save_base))
      return "it has given its process's standard input or output a buffer (setvbuf)";
    if (each->_mode > 0) return "a rank of its process reads or writes wide characters by standard streams";
  }
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

/// What it is open on, for people.
std::string path_of(int fd) {
  std::array<char, PATH_MAX> path{};
  const ssize_t bytes = ::readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), path.data(), path.size());
  return {path.data(), static_cast<std::size_t>(std::max<ssize_t>(bytes, 0))};
}

/// Descriptors of the process: which rank has opened one is not known.
std::string open_descriptor(const RegionFile& region) {
  constexpr std::string_view of_library = "/memfd:isthmus (deleted)", shared_by_all = "anon_inode:";
  std::string found;
  const auto still = region.lines ? region.lines->hold_still() : std::unique_lock<std::mutex>();
  any_open([&](int fd, const OpenFile& file) {
    if (std::ranges::find(region.known, OpenDescriptor{fd, file}) != region.known.end()) return false;
    if (region.lines && region.lines->has(fd)) return false;
    const std::string path = path_of(fd);
    if (path == of_library) return false;
    const auto known = std::ranges::find(region.known, file, &OpenDescriptor::on);
    // Of those that have no file there is one for all.
    if (known != region.known.end() && !path.starts_with(shared_by_all)) return false;
    found = "a rank of its process has a file open (" + path + ")";
    return true;
  });
  return found;
}

/// Calls `visit` with the linker's records of what it has loaded, but copies of the program.
template <class Visit>
void each_object(Visit visit) {
  const auto* const debug = static_cast<const r_debug*>(::dlsym(RTLD_DEFAULT, "_r_debug"));
  for (const link_map* each = debug ? debug->r_map : nullptr; each; each = each->l_next)
    if (!std::string_view(each->l_name).starts_with(RankCopy::names_begin)) visit(*each);
}

std::string later_library(const RegionFile& region) {
  std::string found;
  each_object([&](const link_map& each) {
    if (std::ranges::find(region.libraries, &each) == region.libraries.end())
      found = std::string("a library has been loaded into its process since the start (") + each.l_name + ")";
  });
  return found;
}

std::string thread_specific_data() {
  for (pthread_key_t key = 0; key < PTHREAD_KEYS_MAX; ++key)
    if (::pthread_getspecific(key)) return "it has thread-specific data (pthread_setspecific)";
  return {};
}

}  // namespace

bool has_built_in_locale() {
  const char* const name = std::setlocale(LC_ALL, nullptr);
  return name && (std::strcmp(name, "C") == 0 || std::strcmp(name, "POSIX") == 0);
}

std::vector<const void*> loaded_objects() {
  std::vector<const void*> all;
  each_object([&](const link_map& each) { all.push_back(&each); });
  return all;
}

std::vector<OpenDescriptor> open_descriptors() {
  std::vector<OpenDescriptor> all;
  any_open([&](int fd, const OpenFile& file) {
    all.push_back({fd, file});
    return false;
  });
  return all;
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
  for (const std::string& why :
       {open_stream(space), later_library(region), keeper_of_ranks(), thread_specific_data(),
        foreign_mapping(space, region), open_descriptor(region)})
    if (!why.empty()) return why;
  return {};
}

}  // namespace isthmus::vrank
