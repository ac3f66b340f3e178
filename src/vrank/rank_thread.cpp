#include "vrank/rank_thread.hpp"

#include <asm/prctl.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "base/system/blocked_signals.hpp"
#include "vrank/rank_space.hpp"

namespace isthmus::vrank {
namespace {

/// Of the thread's own stack, on which only destructors of thread-local variables run, and where the C
/// library puts the thread-local storage of all libraries. Address space, and a page for the guard is enough.
constexpr std::size_t stack_bytes = std::size_t{8} << 20, guard_bytes = 4096;

/// Whether the kernel lets programs set the thread pointer by an instruction (Linux 5.9): 2 ns, and 60 by a
/// system call.
bool has_instruction() noexcept {
  constexpr unsigned long bit = 2;  // HWCAP2_FSGSBASE
  static const bool has = (::getauxval(AT_HWCAP2) & bit) != 0;
  return has;
}

std::uint64_t& guard_of(std::uintptr_t pointer) noexcept {
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  return *reinterpret_cast<std::uint64_t*>(pointer + RankThread::guard_at);
}

}  // namespace

void RankThread::keep() {
  std::unique_lock lock(mutex_);
  pointer_ = own_pointer();
  guard_ = guard_of(pointer_);
  changed_.notify_all();
  changed_.wait(lock, [&] { return ending_; });
}

Result<std::unique_ptr<RankThread>> RankThread::start(std::uint64_t end) {
  std::unique_ptr<RankThread> made(new RankThread);
  auto stack = map_before(end, stack_bytes, "the thread that keeps a rank's thread-local storage", MAP_STACK);
  if (!stack) return std::unexpected(std::move(stack).error());
  made->stack_ = *stack;
  if (::mprotect(stack->data(), guard_bytes, PROT_NONE) != 0)
    return fail(ErrorClass::no_mem,
                "the guard below a thread's stack: " + std::generic_category().message(errno));
  pthread_attr_t attributes;
  pthread_t thread{};
  int error = ::pthread_attr_init(&attributes);
  if (error == 0) {
    error = ::pthread_attr_setstack(&attributes, stack->data() + guard_bytes, stack_bytes - guard_bytes);
    const auto run = [](void* of) -> void* {
      static_cast<RankThread*>(of)->keep();
      return nullptr;
    };
    const BlockedSignals blocked;
    if (error == 0) error = ::pthread_create(&thread, &attributes, run, made.get());
    ::pthread_attr_destroy(&attributes);
  }
  if (error != 0)
    return fail(ErrorClass::other, "a thread cannot be made: " + std::generic_category().message(error));
  made->thread_ = thread;
  std::unique_lock lock(made->mutex_);
  made->changed_.wait(lock, [&] { return made->pointer_ != 0; });
  return made;
}

RankThread::~RankThread() {
  if (thread_) {
    guard_of(pointer_) = guard_;
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    ::pthread_join(*thread_, nullptr);
  }
  if (!stack_.empty()) ::munmap(stack_.data(), stack_.size());
}

std::uintptr_t RankThread::own_pointer() noexcept {
  return static_cast<std::uintptr_t>(::pthread_self());  // on x86-64 they are the same
}

/// Pointers to the tables of characters; the function has no public name.
void RankThread::renew_locale() noexcept {
  using Function = void (*)();
  if (auto* const renew = reinterpret_cast<Function>(::dlvsym(RTLD_DEFAULT, "__ctype_init", "GLIBC_PRIVATE")))
    renew();
}

void RankThread::set_pointer(std::uintptr_t pointer) noexcept {
  if (has_instruction()) [[likely]] {
    asm volatile("wrfsbase %0" : : "r"(pointer) : "memory");
  } else {
    ::syscall(SYS_arch_prctl, ARCH_SET_FS, pointer);
  }
}

}  // namespace isthmus::vrank
