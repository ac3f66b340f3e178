#ifndef ISTHMUS_DEVICE_HPP
#define ISTHMUS_DEVICE_HPP

#include <isthmus/device_runtime.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <utility>

/// The host's half of <isthmus/device.cuh>, in C++17 and later: docs/device.md.
///
///     isthmus::device::Port port(MPI_COMM_WORLD, 16);
///     const std::uint32_t halo = port.share(ghost, bytes);
///     step<<<blocks, threads, 0, stream>>>(isthmus::device::DevicePort(port.view()), ...);
///     ...
///     port.check();        // what kernels were refused, who has died
///
/// Ownership: a port owns what it has made, not what is shared. Its destructor is collective, as `free`.
/// Threading: one thread at a time. Errors: `Error`.
namespace isthmus::device {

/// What a call could not do. `code`: a class of MPI.
class Error : public std::runtime_error {
 public:
  Error(int code, const char* text) : std::runtime_error(text), code_(code) {}
  [[nodiscard]] int code() const noexcept { return code_; }

 private:
  int code_;
};

/// Processes, and what their kernels share.
class Port {
 public:
  /// Collective, on the current GPU. `signals`: of each process, all 0.
  explicit Port(MPI_ABI_Comm* comm, std::uint32_t signals, std::uint32_t most_shares = 64) {
    check(isthmus_device_make(comm, signals, most_shares, &port_));
  }
  Port(Port&& other) noexcept : port_(std::exchange(other.port_, nullptr)) {}
  Port& operator=(Port&& other) noexcept {
    std::swap(port_, other.port_);
    return *this;
  }
  ~Port() {
    if (port_) static_cast<void>(isthmus_device_free(port_));
  }
  /// Collective; throws where that is not right yet, and then it stays.
  void free() {
    check(isthmus_device_free(port_));
    port_ = nullptr;
  }

  /// Collective. The number of this memory for kernels. The memory stays the program's.
  [[nodiscard]] std::uint32_t share(void* address, std::size_t bytes) const {
    std::uint32_t number = 0;
    check(isthmus_device_share(port_, address, bytes, &number));
    return number;
  }
  /// Collective.
  void unshare(std::uint32_t number) const { check(isthmus_device_unshare(port_, number)); }
  /// Whether kernels reach it by their own loads and stores.
  [[nodiscard]] bool reaches(std::uint32_t number, int rank) const noexcept {
    return isthmus_device_reach(port_, number, rank) == 0;
  }
  /// What a kernel that is launched now gets, as a `DevicePort`.
  [[nodiscard]] isthmus_device_view view() const {
    isthmus_device_view made;
    check(isthmus_device_view_of(port_, &made));
    return made;
  }
  /// Throws where a process has died, the port was cancelled, or a kernel was refused a call.
  void check() const { check(isthmus_device_check(port_)); }
  void cancel() const { check(isthmus_device_cancel(port_)); }

 private:
  static void check(int code) {
    if (code != 0) throw Error(code, isthmus_device_error());
  }

  isthmus_device_port* port_ = nullptr;
};

}  // namespace isthmus::device

#endif
