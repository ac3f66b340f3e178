#include "launch/region/life_line.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

namespace isthmus::launch {
namespace {

constexpr std::size_t page_bytes = 4096;
/// Behind the end of every region: locks need no bytes.
constexpr off_t first_byte = off_t{1} << 50;

struct flock lock_of(std::uint32_t slot) {
  struct flock lock{};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = first_byte + static_cast<off_t>(slot);
  lock.l_len = 1;
  return lock;
}

std::unexpected<Error> cannot(const char* what) {
  return fail(ErrorClass::other, std::string(what) + ": " + std::generic_category().message(errno));
}

}  // namespace

Result<std::shared_ptr<const LifeLine>> LifeLine::take(int region, std::uint32_t slot) {
  struct stat status{};
  if (::fstat(region, &status) != 0) return cannot("fstat");
  UniqueFd shared(::fcntl(region, F_DUPFD_CLOEXEC, 0));
  if (!shared) return cannot("F_DUPFD_CLOEXEC");
  // Opened anew: the description that was inherited or handed over is everybody's.
  const UniqueFd own(::open(("/proc/self/fd/" + std::to_string(region)).c_str(), O_RDWR | O_CLOEXEC));
  if (!own) return cannot("/proc/self/fd");
  void* const page = ::mmap(nullptr, page_bytes, PROT_NONE, MAP_SHARED, own.get(), 0);
  if (page == MAP_FAILED) return cannot("mmap");
  std::shared_ptr<const LifeLine> line(new LifeLine(std::move(shared), page, status.st_dev, status.st_ino));
  if (::madvise(page, page_bytes, MADV_DONTFORK) != 0) return cannot("MADV_DONTFORK");
  struct flock lock = lock_of(slot);
  if (::fcntl(own.get(), F_OFD_SETLK, &lock) != 0) return cannot("F_OFD_SETLK");
  return line;
}

LifeLine::~LifeLine() {
  ::munmap(page_, page_bytes);
}

bool LifeLine::is_free(std::uint32_t other) const noexcept {
  struct stat status{};
  // A program that closes all descriptors may have opened another file under this number.
  if (::fstat(shared_.get(), &status) != 0 || status.st_dev != device_ || status.st_ino != file_)
    return false;
  struct flock lock = lock_of(other);
  return ::fcntl(shared_.get(), F_OFD_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
}

}  // namespace isthmus::launch
