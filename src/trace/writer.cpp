#include "trace/writer.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/unique_fd.hpp"
#include "trace/file.hpp"

namespace isthmus::trace {
namespace {

/// By which a file grows. A page that the disk has no room for would end the process when it is written to.
constexpr std::uint64_t piece = 1 << 20;

std::int64_t clock(clockid_t which) noexcept {
  timespec time{};
  ::clock_gettime(which, &time);
  return time.tv_sec * std::int64_t{1'000'000'000} + time.tv_nsec;
}

std::uint32_t this_thread() noexcept {
  thread_local const auto id = static_cast<std::uint32_t>(::gettid());
  return id;
}

void read_boot(std::array<char, 40>& boot) noexcept {
  const UniqueFd file(::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  const ssize_t got = file ? ::read(file.get(), boot.data(), boot.size() - 1) : -1;
  if (got > 0 && boot[static_cast<std::size_t>(got) - 1] == '\n') boot[static_cast<std::size_t>(got) - 1] = 0;
}

Header header_of(Writer::Rank rank) {
  Header header{};
  header.magic = magic;
  header.header_bytes = header_bytes;
  header.record_bytes = sizeof(Record);
  header.rank = rank.rank;
  header.size = rank.size;
  header.monotonic = clock(CLOCK_MONOTONIC);
  header.realtime = clock(CLOCK_REALTIME);
  header.pid = ::getpid();
  read_boot(header.boot);
  if (::gethostname(header.host.data(), header.host.size() - 1) != 0) header.host = {};
  return header;
}

}  // namespace

std::int64_t now() noexcept {
  return clock(CLOCK_MONOTONIC);
}

Result<std::unique_ptr<Writer>> Writer::make(const std::string& folder, std::uint64_t limit, Rank rank) {
  UniqueFd file = take_file_of_launcher();
  const std::string path = file ? "the launcher's file" : folder + '/' + name_of_file(rank.rank);
  const auto refuse = [&](const char* what) {
    return fail(ErrorClass::other, std::string("cannot ") + what + " " + path + ": " + std::strerror(errno));
  };
  if (!file) file = make_file(path);
  if (!file) return refuse("make");
  void* const memory = ::mmap(nullptr, limit, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) return refuse("map");
  std::unique_ptr<Writer> writer(new Writer(file.leak(), static_cast<std::byte*>(memory), limit));
  if (!writer->grow()) return refuse("write");
  writer->header() = header_of(rank);
  return writer;
}

Writer::~Writer() {
  ::munmap(memory_, limit_);
  ::close(file_);
}

/// Gives the file room for more; false, and errno, where there is none.
bool Writer::grow() noexcept {
  const std::uint64_t more = std::min(room_ + piece, limit_);
  errno = ENOSPC;
  if (more == room_) return false;
  rlimit most{};
  // Beyond it the kernel sends a signal that ends the process.
  if (::getrlimit(RLIMIT_FSIZE, &most) == 0 && more > most.rlim_cur) {
    errno = EFBIG;
    return false;
  }
  // What is written from now on has its place on the disk.
  const int error = ::posix_fallocate(file_, static_cast<off_t>(room_), static_cast<off_t>(more - room_));
  errno = error;
  if (error != 0) return false;
  room_ = more;
  return true;
}

void Writer::add(const Record& record) noexcept {
  if (!is_full_ && next_ + sizeof record > room_) [[unlikely]] {
    const int kept = errno;
    is_full_ = !grow();
    errno = kept;
  }
  if (is_full_) [[unlikely]] {
    ++header().dropped;
    return;
  }
  Record* const place = reinterpret_cast<Record*>(memory_ + next_);
  next_ += sizeof record;
  place->thread = this_thread();
  place->time = record.time;
  constexpr std::size_t rest = offsetof(Record, of);
  std::memcpy(reinterpret_cast<std::byte*>(place) + rest, reinterpret_cast<const std::byte*>(&record) + rest,
              sizeof record - rest);
  std::atomic_ref(place->kind).store(record.kind, std::memory_order_release);
}

void Writer::set_text(Record& record, std::string_view text) noexcept {
  record.is.text = {};
  const std::size_t size = std::min(text.size(), record.is.text.size() - 1);
  std::ranges::copy(text.substr(0, size), record.is.text.data());
}

}  // namespace isthmus::trace
