#include "channel/cma/cma.hpp"

#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>

namespace isthmus::cma {
namespace {

/// IOV_MAX of the kernel for one call.
constexpr std::size_t pieces_per_call = 1024;

std::unexpected<Error> refused(const char* call, pid_t pid, int error) {
  const ErrorClass error_class = error == EFAULT  ? ErrorClass::buffer
                                 : error == ESRCH ? ErrorClass::proc_aborted
                                                  : ErrorClass::other;
  return fail(error_class,
              std::string(call) + " of process " + std::to_string(pid) + ": " + std::strerror(error));
}

/// Numbers that name no process, and that other system calls would take for a group of them.
Result<> check(pid_t pid) {
  if (pid > 0) return {};
  return fail(ErrorClass::other, std::to_string(pid) + " is not a pid");
}

/// What signal 0 to thread `pid` of process `group` says (tgkill(2)): 0, or an errno.
int ask(pid_t group, pid_t pid) {
  return ::syscall(SYS_tgkill, group, pid, 0) == 0 ? 0 : errno;
}

/// One direction, contiguous on both sides, going on after the partial transfers that signals and faults
/// cause.
template <class Transfer>
Result<> contiguous(const char* name, Transfer transfer, pid_t pid, std::uint64_t address, void* local,
                    std::size_t bytes) {
  ISTHMUS_TRY(check(pid));
  std::size_t moved = 0;
  while (moved < bytes) {
    const iovec mine{static_cast<std::byte*>(local) + moved, bytes - moved};
    const iovec theirs{reinterpret_cast<void*>(address + moved), bytes - moved};
    const ssize_t n = transfer(pid, &mine, 1, &theirs, 1, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return refused(name, pid, n < 0 ? errno : EFAULT);
    moved += static_cast<std::size_t>(n);
  }
  return {};
}

}  // namespace

Result<> read(pid_t pid, std::uint64_t address, void* local, std::size_t bytes) {
  return contiguous("process_vm_readv", ::process_vm_readv, pid, address, local, bytes);
}

Result<> write(pid_t pid, std::uint64_t address, const void* local, std::size_t bytes) {
  return contiguous("process_vm_writev", ::process_vm_writev, pid, address, const_cast<void*>(local), bytes);
}

Result<> read(pid_t pid, std::uint64_t address, std::span<const iovec> local) {
  ISTHMUS_TRY(check(pid));
  while (!local.empty()) {
    const std::size_t pieces = std::min(local.size(), pieces_per_call);
    std::size_t bytes = 0;
    for (const iovec& piece : local.first(pieces))
      bytes += piece.iov_len;
    const iovec theirs{reinterpret_cast<void*>(address), bytes};
    const ssize_t n = ::process_vm_readv(pid, local.data(), pieces, &theirs, 1, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return refused("process_vm_readv", pid, errno);
    if (static_cast<std::size_t>(n) == bytes) {
      address += bytes;
      local = local.subspan(pieces);
      continue;
    }
    // A partial transfer ends within a piece: what is left of these pieces goes one by one.
    std::size_t skip = static_cast<std::size_t>(n);
    for (const iovec& piece : local.first(pieces)) {
      const std::size_t done = std::min(skip, piece.iov_len);
      skip -= done;
      if (done < piece.iov_len)
        ISTHMUS_TRY(
            read(pid, address + done, static_cast<std::byte*>(piece.iov_base) + done, piece.iov_len - done));
      address += piece.iov_len;
    }
    local = local.subspan(pieces);
  }
  return {};
}

Result<> check_process(pid_t pid) {
  ISTHMUS_TRY(check(pid));
  // EPERM comes after the process has been found.
  if (const int error = ask(pid, pid); error == 0 || error == EPERM) return {};
  return fail(ErrorClass::proc_aborted,
              std::to_string(pid) + " names no process here: it is gone, or the id of a thread");
}

Result<> check_apart(pid_t pid) {
  if (ask(::getpid(), static_cast<pid_t>(::syscall(SYS_gettid))) != 0)
    return fail(ErrorClass::other, "the kernel does not say which ids are processes (tgkill)");
  ISTHMUS_TRY(check_process(pid));
  std::uint64_t secret = 0;
  if (::getrandom(&secret, sizeof secret, 0) != sizeof secret)
    return fail(ErrorClass::other, "no random numbers from the kernel");
  std::uint64_t found = ~secret;
  const Result<> reached = read(pid, reinterpret_cast<std::uint64_t>(&secret), &found, sizeof found);
  if (pid == ::getpid() || (reached && found == secret))
    return fail(ErrorClass::other, "pid " + std::to_string(pid) + " names the memory of this process");
  return {};
}

Result<> try_read(pid_t pid, std::uint64_t probe_address, std::uint64_t nonce) {
  std::uint64_t found = 0;
  ISTHMUS_TRY(read(pid, probe_address + offsetof(Probe, nonce), &found, sizeof found));
  if (found != nonce)
    return fail(ErrorClass::proc_aborted, "pid " + std::to_string(pid) + " names another process here");
  return {};
}

Result<> try_write(pid_t pid, std::uint64_t probe_address, std::uint64_t nonce) {
  ISTHMUS_TRY(try_read(pid, probe_address, nonce));
  return write(pid, probe_address + offsetof(Probe, scratch), &nonce, sizeof nonce);
}

}  // namespace isthmus::cma
