#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstdint>
#include <span>

#include "base/error.hpp"

/// Copies between the address spaces of two processes by the kernel (process_vm_readv, process_vm_writev;
/// cross memory attach). Needs a pid that the kernel resolves in *our* pid namespace and the permission to
/// trace; whether a pid is the peer's, and whether it works, is found by reading a nonce.
namespace isthmus::cma {

/// Reads `local` bytes from `address` in process `pid`. All or an error with errno in words:
/// `ErrorClass::proc_aborted` where no such process is left, `ErrorClass::buffer` where it has no such
/// memory.
Result<> read(pid_t pid, std::uint64_t address, std::span<const iovec> local);
Result<> read(pid_t pid, std::uint64_t address, void* local, std::size_t bytes);
/// Writes `bytes` from `local` to `address` in process `pid`, which `check_process` has found not long ago.
Result<> write(pid_t pid, std::uint64_t address, const void* local, std::size_t bytes);

/// What a process offers to those who want to try.
struct Probe {
  std::uint64_t nonce;    ///< random; also published in shared memory, so that who reads it here knows whose
                          ///< memory this is
  std::uint64_t scratch;  ///< anybody may write `nonce` here
};

/// Whether `pid` names a process, and not just a thread: process_vm_* takes the ids of both, those of this
/// process too. The id of one that is gone may be given to such a thread, whose memory is not to be written
/// to. 0.1 us, and 1 us where two processes ask for each other at the same time. `ErrorClass::proc_aborted`.
Result<> check_process(pid_t pid);
/// Whether `pid` names a process with memory of its own here: no thread of this or another process, and none
/// that shares this one's memory (vfork, CLONE_VM), which is told by a number that no other memory has. What
/// a peer publishes must not lead back here, because it knows this process's probe as well as its own; for
/// that no /proc is asked, which may be another namespace's. To be asked before `try_read`.
Result<> check_apart(pid_t pid);
/// Tries to read the nonce of a peer: nothing, or why not; `ErrorClass::proc_aborted` where the pid is not
/// the peer's.
Result<> try_read(pid_t pid, std::uint64_t probe_address, std::uint64_t nonce);
/// Tries to write to the peer's scratch word.
Result<> try_write(pid_t pid, std::uint64_t probe_address, std::uint64_t nonce);

}  // namespace isthmus::cma
