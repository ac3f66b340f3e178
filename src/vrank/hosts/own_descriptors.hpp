#pragma once

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

namespace isthmus::vrank {

/// Which descriptors of a process are of its lines, whenever they have been opened: they keep no rank there.
/// From any thread; nothing is allocated when one is opened.
class OwnDescriptors {
 public:
  [[nodiscard]] bool has(int descriptor) const noexcept {
    const auto index = static_cast<std::size_t>(descriptor);
    return index < flags_.size() && flags_[index].load(std::memory_order_acquire);
  }
  /// While it is held none is opened or closed.
  [[nodiscard]] std::unique_lock<std::mutex> hold_still() const { return std::unique_lock(mutex_); }

  /// What `make`, a system call, returns: a descriptor that is one of these from then on, or -1.
  template <class Make>
  int open(Make make) {
    const auto lock = hold_still();
    const int made = make();
    if (made < 0) return made;
    if (static_cast<std::size_t>(made) >= flags_.size()) {
      ::close(made);
      errno = EMFILE;
      return -1;
    }
    flags_[static_cast<std::size_t>(made)].store(true, std::memory_order_release);
    return made;
  }
  void close(int descriptor) noexcept {
    const auto lock = hold_still();
    flags_[static_cast<std::size_t>(descriptor)].store(false, std::memory_order_release);
    ::close(descriptor);
  }

 private:
  /// Descriptors above are not used for lines.
  static constexpr std::size_t most = 65536;

  mutable std::mutex mutex_;
  std::vector<std::atomic<bool>> flags_ = std::vector<std::atomic<bool>>(most);
};

/// Owns one of them.
class OwnFd {
 public:
  OwnFd() = default;
  OwnFd(OwnDescriptors& all, int descriptor) noexcept : all_(&all), fd_(descriptor) {}
  OwnFd(OwnFd&& other) noexcept : all_(other.all_), fd_(std::exchange(other.fd_, -1)) {}
  OwnFd& operator=(OwnFd&& other) noexcept {
    std::swap(all_, other.all_);
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~OwnFd() { reset(); }

  void reset() noexcept {
    if (fd_ >= 0) all_->close(std::exchange(fd_, -1));
  }
  [[nodiscard]] int get() const noexcept { return fd_; }
  [[nodiscard]] int leak() noexcept { return std::exchange(fd_, -1); }
  explicit operator bool() const noexcept { return fd_ >= 0; }

 private:
  OwnDescriptors* all_ = nullptr;
  int fd_ = -1;
};

}  // namespace isthmus::vrank
