#include "vrank/rank_copy.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "vrank/rank_thread.hpp"

namespace isthmus::vrank {
namespace {

constexpr std::uintptr_t page_bytes = 4096;

/// The libraries that the copy would look for beside itself are loaded from beside the program: later, their
/// names are enough.
void load_needed(const ProgramFile& file) {
  for (const std::string& name : file.needed())
    for (const std::string& folder : file.folders())
      if (const std::string path = std::filesystem::path(folder) / name;
          ::access(path.c_str(), R_OK) == 0 && ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL))
        break;
}

/// The C library's list of destructors of this thread's variables; it has no public name.
void run_thread_local_destructors() {
  using Function = void (*)();
  if (auto* const run =
          reinterpret_cast<Function>(::dlvsym(RTLD_DEFAULT, "__call_tls_dtors", "GLIBC_PRIVATE")))
    run();
}

}  // namespace

Result<> RankCopy::load(const ProgramFile& file, std::uint64_t address,
                        std::span<const Replacement> replacements) {
  file_ = &file;
  load_needed(file);
  auto copy = file.copy(address);
  if (!copy) return std::unexpected(std::move(copy).error());
  // An executable finds its thread-local variables at fixed distances below the thread pointer, where the
  // program that has loaded it keeps the room free.
  const ProgramFile::ThreadLocals& locals = file.thread_locals();
  if (locals.bytes != 0) {
    auto* const begin = reinterpret_cast<std::byte*>(RankThread::own_pointer()) - locals.bytes;
    std::memset(begin, 0, locals.bytes);
    std::memcpy(begin, locals.image.data(), locals.image.size());
  }
  // The linker knows objects by their names: the descriptor, which stays open, makes this one its own.
  const std::string name = "/proc/self/fd/" + std::to_string(copy->get());
  handle_ = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | (file.is_executable() ? 0 : RTLD_DEEPBIND));
  if (!handle_) return fail(ErrorClass::other, ::dlerror());
  static_cast<void>(copy->leak());
  link_map* map = nullptr;
  if (::dlinfo(handle_, RTLD_DI_LINKMAP, &map) != 0) return fail(ErrorClass::intern, ::dlerror());
  if (map->l_addr != 0)
    return fail(ErrorClass::no_mem, "something else is where it is to lie in this process");
  base_ = address - file.lowest();
  for (const ProgramFile::Import& import : file.functions())
    for (const Replacement& replacement : replacements)
      if (import.name == replacement.name)
        replace(import.offset, reinterpret_cast<const void*>(replacement.function));
  return {};
}

/// Writes to a word of the copy that the linker may have made read-only.
void RankCopy::replace(std::uint64_t offset, const void* address) const {
  auto* const word = reinterpret_cast<const void**>(base_ + offset);  // NOLINT(performance-no-int-to-ptr)
  auto* const page = reinterpret_cast<void*>((base_ + offset) / page_bytes * page_bytes);  // NOLINT
  // It stays writable: the page may hold words that were so before.
  if (::mprotect(page, page_bytes, PROT_READ | PROT_WRITE) == 0) *word = address;
}

/// The copy has got the values of the library's variables, which another rank may have changed.
void RankCopy::adopt_variables(char** environment) {
  for (const ProgramFile::Import& variable : file_->copied()) {
    auto* const place =
        reinterpret_cast<void*>(base_ + variable.offset);  // NOLINT(performance-no-int-to-ptr)
    if (variable.name == "environ" || variable.name == "__environ" || variable.name == "_environ")
      *static_cast<char***>(place) = environment;
    else if (variable.name == "optarg")
      *(options_.argument = static_cast<char**>(place)) = nullptr;
    else if (variable.name == "optind")
      *(options_.index = static_cast<int*>(place)) = 1;
    else if (variable.name == "opterr")
      *(options_.prints = static_cast<int*>(place)) = 1;
    else if (variable.name == "optopt")
      *(options_.unknown = static_cast<int*>(place)) = '?';
  }
}

int RankCopy::run(int count, char** arguments, char** environment) {
  adopt_variables(environment);
  if (!file_->is_executable()) {
    const auto main = reinterpret_cast<Main>(::dlsym(handle_, "main"));
    return main(count, arguments, environment);
  }
  // What a program finds where it begins: the number of arguments, the arguments, the environment. The
  // replacement of __libc_start_main knows them.
  alignas(16) std::array<std::uintptr_t, 8> beginning{};
  asm volatile(
      "mov %0, %%rsp\n\t"
      "xor %%ebp, %%ebp\n\t"
      "xor %%edx, %%edx\n\t"
      "jmp *%1"
      :
      : "c"(beginning.data()), "a"(base_ + file_->entry())
      : "memory");
  __builtin_unreachable();
}

void RankCopy::run_endings() {
  run_thread_local_destructors();
  const ProgramFile::Endings& endings = file_->endings();
  auto* const functions =
      reinterpret_cast<Function*>(base_ + endings.offset);  // NOLINT(performance-no-int-to-ptr)
  for (std::uint64_t left = endings.count; left > 0; --left)
    functions[left - 1]();
  // The linker runs them at the end of the process otherwise, a second time.
  if (endings.size_offset != 0) replace(endings.size_offset, nullptr);
}

}  // namespace isthmus::vrank
