#include "vrank/rank_copy.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <utility>

#include "vrank/rank_thread.hpp"

namespace isthmus::vrank {
namespace {

constexpr std::uintptr_t page_bytes = 4096;

struct Stream {
  std::string_view name;
  const void* object;
  std::size_t bytes;
};
template <class T>
constexpr Stream stream(std::string_view name, const T& object) {
  return {name, &object, sizeof object};
}
constexpr std::array streams{stream("_ZSt4cout", std::cout),   stream("_ZSt4cerr", std::cerr),
                             stream("_ZSt4clog", std::clog),   stream("_ZSt3cin", std::cin),
                             stream("_ZSt5wcout", std::wcout), stream("_ZSt5wcerr", std::wcerr),
                             stream("_ZSt5wclog", std::wclog), stream("_ZSt4wcin", std::wcin)};

bool is_environ(std::string_view name) {
  return name == "environ" || name == "__environ" || name == "_environ";
}

}  // namespace

/// The libraries that the copy would look for beside itself are loaded from beside the program: later, their
/// names are enough.
void load_needed(const ProgramFile& file) {
  for (const std::string& name : file.needed())
    for (const std::string& folder : file.folders())
      if (const std::string path = std::filesystem::path(folder) / name;
          ::access(path.c_str(), R_OK) == 0 && ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL))
        break;
}

namespace {

/// The C library's list of destructors of this thread's variables; it has no public name.
void run_thread_local_destructors() {
  using Function = void (*)();
  if (auto* const run =
          reinterpret_cast<Function>(::dlvsym(RTLD_DEFAULT, "__call_tls_dtors", "GLIBC_PRIVATE")))
    run();
}

/// The linker knows objects by their names: the descriptor, which stays open, makes this one its own.
Result<void*> open(UniqueFd& copy, bool is_executable) {
  const std::string name = std::string(RankCopy::names_begin) + std::to_string(copy.get());
  void* const handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | (is_executable ? 0 : RTLD_DEEPBIND));
  if (!handle) return fail(ErrorClass::other, ::dlerror());
  static_cast<void>(copy.leak());
  return handle;
}

Result<> check_place(void* handle) {
  link_map* map = nullptr;
  if (::dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0) return fail(ErrorClass::intern, ::dlerror());
  if (map->l_addr != 0)
    return fail(ErrorClass::no_mem, "something else is where it is to lie in this process");
  return {};
}

}  // namespace

Result<> RankCopy::load(const ProgramFile& file, std::uint64_t address,
                        std::span<const Replacement> replacements) {
  file_ = &file;
  load_needed(file);
  auto copy = file.copy(address);
  if (!copy) return std::unexpected(std::move(copy).error());
  fill_thread_locals();
  auto handle = open(*copy, file.is_executable());
  if (!handle) return std::unexpected(std::move(handle).error());
  handle_ = *handle;
  ISTHMUS_TRY(check_place(handle_));
  base_ = address - file.lowest();
  replace_all(replacements);
  return {};
}

Result<> RankCopy::load_quietly(const ProgramFile& file, std::uint64_t address,
                                std::span<const Replacement> replacements, RankMemory& memory) {
  file_ = &file;
  memory_ = &memory;
  fill_thread_locals();
  // What the linker keeps of it is the process's.
  ++memory.apart;
  Result<> made = make_room(file, address);
  --memory.apart;
  if (!made) return made;
  base_ = address - file.lowest();
  replace_all(replacements);
  return {};
}

Result<> RankCopy::make_room(const ProgramFile& file, std::uint64_t address) {
  auto copy = file.quiet_copy(address);
  if (!copy) return std::unexpected(std::move(copy).error());
  auto handle = open(*copy, true);
  if (!handle) return std::unexpected(std::move(handle).error());
  return check_place(*handle);
}

/// An executable finds its thread-local variables at fixed distances below the thread pointer, where the
/// program that has loaded it keeps the room free.
void RankCopy::fill_thread_locals() const {
  const ProgramFile::ThreadLocals& locals = file_->thread_locals();
  if (locals.bytes == 0) return;
  auto* const begin = reinterpret_cast<std::byte*>(RankThread::own_pointer()) - locals.bytes;
  std::memset(begin, 0, locals.bytes);
  std::memcpy(begin, locals.image.data(), locals.image.size());
}

void RankCopy::replace_all(std::span<const Replacement> replacements) const {
  for (const ProgramFile::Import& import : file_->functions())
    for (const Replacement& replacement : replacements)
      if (import.name == replacement.name)
        replace(import.offset, reinterpret_cast<const void*>(replacement.function));
}

void RankCopy::run_beginnings(int count, char** arguments, char** environment) {
  using Beginning = void (*)(int, char**, char**);
  const ProgramFile::Beginnings& beginnings = file_->beginnings();
  // NOLINTBEGIN(performance-no-int-to-ptr)
  if (beginnings.function != 0)
    reinterpret_cast<Beginning>(base_ + beginnings.function)(count, arguments, environment);
  const auto* const functions = reinterpret_cast<const Beginning*>(base_ + beginnings.offset);
  // NOLINTEND(performance-no-int-to-ptr)
  for (std::uint64_t i = 0; i < beginnings.count; ++i)
    functions[i](count, arguments, environment);
}

/// Writes to a word of the copy that the linker may have made read-only.
void RankCopy::replace(std::uint64_t offset, const void* address) const {
  auto* const word = reinterpret_cast<const void**>(base_ + offset);  // NOLINT(performance-no-int-to-ptr)
  auto* const page = reinterpret_cast<void*>((base_ + offset) / page_bytes * page_bytes);  // NOLINT
  // It stays writable: the page may hold words that were so before.
  if (::mprotect(page, page_bytes, PROT_READ | PROT_WRITE) == 0) *word = address;
}

void RankCopy::take_variable(std::string_view name, void* place) {
  if (name == "optarg")
    variables_.argument = static_cast<char**>(place);
  else if (name == "optind")
    variables_.index = static_cast<int*>(place);
  else if (name == "opterr")
    variables_.prints = static_cast<int*>(place);
  else if (name == "optopt")
    variables_.unknown = static_cast<int*>(place);
  else if (is_environ(name))
    variables_.environment = static_cast<char***>(place);
}

/// A stream with formats of its own, which writes and reads where the library's does: what the linker makes
/// in a program that is not compiled with -fPIC.
void RankCopy::give_stream(const ProgramFile::Import& import) {
  const auto* const found = std::ranges::find(streams, import.name, &Stream::name);
  if (found == streams.end()) return;
  std::unique_ptr<std::byte[]>& own = streams_[import.name];
  if (!own) {
    own = std::make_unique<std::byte[]>(found->bytes);
    std::memcpy(own.get(), found->object, found->bytes);
  }
  replace(import.offset, own.get());
}

/// Variables that the linker has put into the copy, and, of a program with -fPIC, references to the
/// library's.
void RankCopy::find_variables(bool keeps_environ) {
  for (const ProgramFile::Import& variable : file_->copied())
    take_variable(variable.name,
                  reinterpret_cast<void*>(base_ + variable.offset));  // NOLINT(performance-no-int-to-ptr)
  const auto place_of = [&](std::string_view name) -> void* {
    if (name == "optarg") return &stand_.argument;
    if (name == "optind") return &stand_.index;
    if (name == "opterr") return &stand_.prints;
    if (name == "optopt") return &stand_.unknown;
    return keeps_environ && is_environ(name) ? &stand_.environment : nullptr;
  };
  for (const ProgramFile::Import& import : file_->functions()) {
    if (void* const place = place_of(import.name)) {
      replace(import.offset, place);
      take_variable(import.name, place);
    }
    give_stream(import);
  }
}

int RankCopy::run(int count, char** arguments, char** environment, bool keeps_environ) {
  find_variables(keeps_environ);
  // The linker has copied the values of the library's variables, which another rank may have changed.
  if (variables_.argument) *variables_.argument = nullptr;
  if (variables_.index) *variables_.index = 1;
  if (variables_.prints) *variables_.prints = 1;
  if (variables_.unknown) *variables_.unknown = '?';
  if (variables_.environment) *variables_.environment = environment;
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
  while (memory_ && memory_->at_thread_exit) {
    const LaterCall call = *memory_->at_thread_exit;
    std::free(std::exchange(memory_->at_thread_exit, call.before));
    call.function(call.argument);
  }
  run_thread_local_destructors();
  const ProgramFile::Endings& endings = file_->endings();
  auto* const functions =
      reinterpret_cast<Function*>(base_ + endings.offset);  // NOLINT(performance-no-int-to-ptr)
  for (std::uint64_t left = endings.count; left > 0; --left)
    functions[left - 1]();
  // The linker runs them at the end of the process otherwise, a second time.
  if (endings.size_offset != 0 && !memory_) replace(endings.size_offset, nullptr);
}

}  // namespace isthmus::vrank
