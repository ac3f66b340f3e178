#include "p2p/protocol/mapping/shared_memory.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <string>
#include <system_error>

#include "base/system/memory_file.hpp"

namespace isthmus {
namespace {

/// Of a large page on x86-64.
constexpr std::size_t large_page = std::size_t{2} << 20;

std::unexpected<Error> cannot(const char* step) {
  const int error = errno;
  return fail(ErrorClass::other, std::string(step) + ": " + std::generic_category().message(error));
}

/// Addresses from a multiple of `alignment` on. The kernel refuses here what is more memory than it has, as
/// it does for malloc; of a file it would refuse nothing before pages are touched.
MappedRange reserve(std::size_t bytes, std::size_t alignment, std::size_t page) {
  const std::size_t room = bytes + (alignment - page);
  void* const got = ::mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (got == MAP_FAILED) return {};
  auto* const first = static_cast<std::byte*>(got);
  const std::size_t before = (alignment - reinterpret_cast<std::uintptr_t>(got) % alignment) % alignment;
  const MappedRange front(std::span(first, before));
  const MappedRange back(std::span(first + before + bytes, room - before - bytes));
  return MappedRange(std::span(first + before, bytes));
}

}  // namespace

MappedRange::~MappedRange() {
  if (!memory_.empty()) ::munmap(memory_.data(), memory_.size());
}

Result<SharedMemory> SharedMemory::make(std::size_t bytes, std::size_t alignment) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  alignment = std::max(alignment, page);
  const bool is_large = bytes >= large_page;
  if (is_large) alignment = std::max(alignment, large_page);
  if (bytes > std::numeric_limits<std::ptrdiff_t>::max() - 2 * page ||
      alignment > static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max()) - bytes - 2 * page)
    return fail(ErrorClass::no_mem, "more than there are addresses for");
  const std::size_t room = (std::max<std::size_t>(bytes, 1) + page - 1) / page * page;
  SharedMemory memory;
  memory.range = reserve(room, alignment, page);
  if (!memory.range) return fail(ErrorClass::no_mem, "no addresses are left for it");
  memory.file = make_memory_file();
  if (!memory.file) return cannot("memfd_create");
  if (!set_size(memory.file, room)) return cannot("ftruncate");
  if (::mmap(memory.range.data(), room, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE,
             memory.file.get(), 0) == MAP_FAILED)
    return cannot("mmap");
  if (is_large) ::madvise(memory.range.data(), room, MADV_HUGEPAGE);  // a hint
  if (::fcntl(memory.file.get(), F_ADD_SEALS,
              F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) != 0)
    return cannot("F_ADD_SEALS with F_SEAL_FUTURE_WRITE");
  return memory;
}

void SharedMemory::part_from_parent() const noexcept {
  if (!range) return;
  // Where that fails, it is not there at all: rather than that the child writes to its parent's.
  if (::mmap(range.data(), range.bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE,
             file.get(), 0) == MAP_FAILED)
    ::munmap(range.data(), range.bytes());
}

std::string why_no_shared_memory() {
  // Where the kernel promises no memory that it does not have, it does not promise that of files: touching
  // the last of it would end the program in SIGBUS, where MPI_Alloc_mem has to fail.
  const UniqueFd policy(::open("/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC));
  char strictness = '0';
  if (policy && ::read(policy.get(), &strictness, 1) == 1 && strictness == '2')
    return "the system promises no memory that it has not got (vm.overcommit_memory is 2)";
  return {};
}

Result<MappedRange> map_shared_memory(const UniqueFd& file, std::uint64_t most) {
  const int seals = ::fcntl(file.get(), F_GET_SEALS);
  if (seals < 0) return cannot("F_GET_SEALS");
  if ((seals & F_SEAL_SHRINK) == 0) return fail(ErrorClass::intern, "its size is not sealed");
  struct statfs system{};
  if (::fstatfs(file.get(), &system) != 0) return cannot("fstatfs");
  if (system.f_type != TMPFS_MAGIC) return fail(ErrorClass::intern, "it is not a file in memory");
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) return cannot("fstat");
  const auto bytes = static_cast<std::uint64_t>(std::max<off_t>(status.st_size, 0));
  if (bytes == 0) return fail(ErrorClass::intern, "it is empty");
  if (bytes > most) return fail(ErrorClass::no_mem, "it is larger than all that this process maps of others");
  void* const got = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED | MAP_NORESERVE, file.get(), 0);
  if (got == MAP_FAILED) return cannot("mmap");
  MappedRange range(std::span(static_cast<std::byte*>(got), bytes));
  // Neither children nor core dumps have a use for it.
  ::madvise(got, bytes, MADV_DONTFORK);
  ::madvise(got, bytes, MADV_DONTDUMP);
  return range;
}

}  // namespace isthmus
