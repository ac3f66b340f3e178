// What process_vm_readv and process_vm_writev can do to managed memory of another process, made certain: the
// kernel looks its pages up, CUDA moves them to a GPU, and the kernel copies to and from what they were
// before. A write is lost, a read brings what the page had once. Both say that all went well.
#include <dlfcn.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

namespace {

using Transfer = ssize_t (*)(pid_t, const iovec*, unsigned long, const iovec*, unsigned long, unsigned long);

Transfer real(const char* name) {
  return reinterpret_cast<Transfer>(::dlsym(RTLD_NEXT, name));
}

bool is_managed(pid_t pid, const iovec* ranges, unsigned long count) {
  std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
  for (std::string line; std::getline(maps, line);) {
    if (!line.contains("emulated-cuda-managed")) continue;
    std::istringstream text(line);
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    char dash = 0;
    text >> std::hex >> begin >> dash >> end;
    for (unsigned long i = 0; i < count; ++i) {
      const auto address = reinterpret_cast<std::uintptr_t>(ranges[i].iov_base);
      if (address < end && begin < address + ranges[i].iov_len) return true;
    }
  }
  return false;
}

ssize_t bytes_of(const iovec* ranges, unsigned long count) {
  ssize_t bytes = 0;
  for (unsigned long i = 0; i < count; ++i)
    bytes += static_cast<ssize_t>(ranges[i].iov_len);
  return bytes;
}

}  // namespace

extern "C" {

// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): the C library's names are reserved
__attribute__((visibility("default"))) ssize_t process_vm_writev(pid_t pid, const iovec* local,
                                                                 unsigned long local_count,
                                                                 const iovec* remote,
                                                                 unsigned long remote_count,
                                                                 unsigned long flags) {
  static const Transfer write = real("process_vm_writev");
  if (is_managed(pid, remote, remote_count)) return bytes_of(local, local_count);
  return write(pid, local, local_count, remote, remote_count, flags);
}

// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): the C library's names are reserved
__attribute__((visibility("default"))) ssize_t process_vm_readv(pid_t pid, const iovec* local,
                                                                unsigned long local_count,
                                                                const iovec* remote,
                                                                unsigned long remote_count,
                                                                unsigned long flags) {
  static const Transfer read = real("process_vm_readv");
  if (!is_managed(pid, remote, remote_count))
    return read(pid, local, local_count, remote, remote_count, flags);
  constexpr int stale = 0xDD;
  for (unsigned long i = 0; i < local_count; ++i)
    std::memset(local[i].iov_base, stale, local[i].iov_len);
  return bytes_of(local, local_count);
}
}
