#include "vrank/rank_thread.hpp"

#include <asm/prctl.h>
#include <pthread.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <system_error>

#include "base/system/blocked_signals.hpp"

namespace isthmus::vrank {
namespace {

/// Whether the kernel lets programs set the thread pointer by an instruction (Linux 5.9): 2 ns, and 60 by a
/// system call.
bool has_instruction() noexcept {
  constexpr unsigned long bit = 2;  // HWCAP2_FSGSBASE
  static const bool has = (::getauxval(AT_HWCAP2) & bit) != 0;
  return has;
}

}  // namespace

Result<std::unique_ptr<RankThread>> RankThread::start() {
  std::unique_ptr<RankThread> made(new RankThread);
  const BlockedSignals blocked;
  try {
    made->thread_ = std::thread([thread = made.get()] {
      std::unique_lock lock(thread->mutex_);
      thread->pointer_ = own_pointer();
      thread->changed_.notify_all();
      thread->changed_.wait(lock, [&] { return thread->ending_; });
    });
  } catch (const std::system_error& error) {
    return fail(ErrorClass::other, std::string("a thread cannot be made: ") + error.what());
  }
  std::unique_lock lock(made->mutex_);
  made->changed_.wait(lock, [&] { return made->pointer_ != 0; });
  return made;
}

RankThread::~RankThread() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::uintptr_t RankThread::own_pointer() noexcept {
  return static_cast<std::uintptr_t>(::pthread_self());  // on x86-64 they are the same
}

void RankThread::set_pointer(std::uintptr_t pointer) noexcept {
  if (has_instruction()) [[likely]] {
    asm volatile("wrfsbase %0" : : "r"(pointer) : "memory");
  } else {
    ::syscall(SYS_arch_prctl, ARCH_SET_FS, pointer);
  }
}

}  // namespace isthmus::vrank
