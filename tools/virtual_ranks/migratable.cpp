// The program that mpiexec --migratable starts in place of virtual_ranks: what a rank allocates and maps lies
// at addresses of its own, so that the rank can go on in another process (docs/virtual-ranks.md). The
// functions here are found before those of the C library, also by all libraries.
//
// Who has which memory is told by the thread pointer, which lies in the rank's addresses in all of its turns.

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <grp.h>
#include <iconv.h>
#include <libintl.h>
#include <locale.h>
#include <malloc.h>
#include <netdb.h>
#include <pthread.h>
#include <pwd.h>
#include <semaphore.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <type_traits>

#include "vrank/rank_memory.hpp"

using isthmus::vrank::Heap;
using isthmus::vrank::LaterCall;
using isthmus::vrank::OwnMemory;
using isthmus::vrank::RankMemory;
using isthmus::vrank::RankSpace;

extern "C" int isthmus_migratable_ranks_main(int count, char** arguments, std::size_t thread_local_room,
                                             const OwnMemory* memory);

namespace {

constexpr std::size_t room = 16384;
/// As in virtual_ranks: keeps the place of the user's thread-local variables free.
alignas(64) [[gnu::used]] thread_local std::byte kept_free[room];

constexpr std::uintptr_t process_begin = std::uintptr_t{15} << 40, process_end = std::uintptr_t{16} << 40;
constexpr std::size_t page = 4096;

constinit Heap process_heap{};
/// Of a rank's space, whose size is a power of two; 0 before there are ranks.
constinit unsigned space_bits = 0;
constinit std::uint64_t heap_offset = 0;  ///< in a space
constinit std::uint32_t world_size = 1;
/// Where the dynamic linker lies.
constinit std::uintptr_t linker_begin = 0, linker_bytes = 0;

std::uintptr_t thread_pointer() noexcept {
  std::uintptr_t pointer;
  asm("mov %%fs:0, %0" : "=r"(pointer));
  return pointer;
}

/// Whose addresses these are; null: no rank's.
RankMemory* owner_of(std::uintptr_t address) noexcept {
  const std::uint64_t offset = address - RankSpace::begin;
  if (offset >= RankSpace::bytes_of_all || space_bits == 0) return nullptr;
  const std::uint64_t space = RankSpace::begin + (offset >> space_bits << space_bits);
  return reinterpret_cast<RankMemory*>(space + heap_offset);  // NOLINT(performance-no-int-to-ptr)
}

RankMemory* current() noexcept {
  return owner_of(thread_pointer());
}

Heap& process() noexcept {
  // Before any other thread, by the dynamic linker.
  if (!process_heap.is_open()) process_heap.open(process_begin, process_end);
  return process_heap;
}

/// For an allocation that is asked for at `caller`. What the dynamic linker keeps is the process's, whoever
/// has it load an object or look up a name.
Heap& heap_for(const void* caller) noexcept {
  RankMemory* const memory = current();
  if (!memory || memory->apart != 0) return process();
  return reinterpret_cast<std::uintptr_t>(caller) - linker_begin < linker_bytes ? process() : memory->heap;
}
Heap& heap_here() noexcept {
  return heap_for(nullptr);
}

Heap& heap_of(const void* memory) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  if (RankMemory* const owner = owner_of(address)) return owner->heap;
  if (address - process_begin >= process_end - process_begin) {
    constexpr char text[] = "isthmus: free() or realloc() of memory that malloc() has not given\n";
    static_cast<void>(::write(STDERR_FILENO, text, sizeof text - 1) < 0);
    std::abort();
  }
  return process();
}

/// The rank whose turn it is stays in its process.
void tie(const char* why) noexcept {
  if (RankMemory* const memory = current()) memory->tied_by = why;
}

void* or_error(void* memory) noexcept {
  if (!memory) errno = ENOMEM;
  return memory;
}

template <class Function>
Function* next(const char* name) noexcept {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

// --- mappings

/// Addresses of the rank's own for a mapping that may lie anywhere. They lie behind its heap.
void* map_for(RankMemory& memory, std::size_t bytes, int protection, int flags, int fd, off_t offset) {
  const std::size_t whole = (bytes + page - 1) / page * page;
  const auto base = reinterpret_cast<std::uintptr_t>(&memory);
  const std::uintptr_t part = RankSpace(0, world_size).part_bytes(), begin = base + part / 2,
                       end = base + part;
  for (int rounds = 0; rounds < 2;) {
    std::uintptr_t at = memory.next_mapping.fetch_add(whole + page, std::memory_order_relaxed);
    if (at < begin || whole > end - begin || at > end - whole) {
      memory.next_mapping.store(begin, std::memory_order_relaxed);
      ++rounds;
      continue;
    }
    const long got = ::syscall(SYS_mmap, at, bytes, protection, flags | MAP_FIXED_NOREPLACE, fd, offset);
    if (got != -1) return reinterpret_cast<void*>(got);  // NOLINT(performance-no-int-to-ptr)
    if (errno != EEXIST) return MAP_FAILED;
  }
  memory.tied_by = "its mappings have not found room among its addresses";
  return reinterpret_cast<void*>(
      ::syscall(SYS_mmap, nullptr, bytes, protection, flags, fd, offset));  // NOLINT
}

// --- what is to be called at the end

bool push(LaterCall*& list, Heap& heap, void (*function)(void*), void* argument) noexcept {
  auto* const call = static_cast<LaterCall*>(heap.allocate(sizeof(LaterCall)));
  if (!call) return false;
  *call = {function, argument, list};
  list = call;
  return true;
}

void run(LaterCall*& list, Heap& heap) {
  while (LaterCall* const call = list) {
    list = call->before;
    const LaterCall copy = *call;
    heap.free(call);
    copy.function(copy.argument);
  }
}

// --- what ranks' process is told

void find_linker() noexcept {
  const std::uintptr_t base = ::getauxval(AT_BASE);
  const auto& header = *reinterpret_cast<const Elf64_Ehdr*>(base);  // NOLINT(performance-no-int-to-ptr)
  const auto* const segments =
      reinterpret_cast<const Elf64_Phdr*>(base + header.e_phoff);  // NOLINT(performance-no-int-to-ptr)
  linker_begin = base;
  for (unsigned i = 0; i < header.e_phnum; ++i)
    if (segments[i].p_type == PT_LOAD)
      linker_bytes = std::max(linker_bytes, segments[i].p_vaddr + segments[i].p_memsz);
}

std::uintptr_t process_top() noexcept {
  return process().top();
}

void begin(std::uint32_t world) noexcept {
  find_linker();
  world_size = world;
  const RankSpace first(0, world);
  heap_offset = first.heap() - RankSpace::begin;
  space_bits = static_cast<unsigned>(std::countr_zero(first.end() - RankSpace::begin));
}

RankMemory* open(std::uint32_t rank) noexcept {
  const RankSpace space(rank, world_size);
  const std::uintptr_t at = space.heap();
  const long got = ::syscall(SYS_mmap, at, RankMemory::room, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (got != static_cast<long>(at)) return nullptr;
  RankMemory* const memory = RankMemory::of(space);
  memory->heap.open(at + RankMemory::room, at + space.part_bytes() / 2);
  memory->next_mapping.store(at + space.part_bytes() / 2, std::memory_order_relaxed);
  return memory;
}

/// Addresses that the C library hides (setjmp, exit handlers) are hidden alike in all processes of the job:
/// by a number that mpiexec has drawn. Before anything else runs.
void agree_on_guard(int /*count*/, char** /*arguments*/, char** environment) {
  constexpr char name[] = "ISTHMUS_MIGRATABLE=";
  for (; *environment; ++environment) {
    if (std::strncmp(*environment, name, sizeof name - 1) != 0) continue;
    std::uint64_t guard = 0;
    for (const char* at = *environment + sizeof name - 1; *at != '\0'; ++at)
      guard = guard * 31 + static_cast<unsigned char>(*at);
    asm volatile("mov %0, %%fs:0x30" : : "r"(guard) : "memory");
    return;
  }
}
[[gnu::section(".preinit_array"), gnu::used]] void (*const first_of_all)(int, char**,
                                                                         char**) = agree_on_guard;

}  // namespace

#define ISTHMUS_STAND_IN extern "C" __attribute__((visibility("default")))

ISTHMUS_STAND_IN void* malloc(std::size_t bytes) {
  return or_error(heap_for(__builtin_return_address(0)).allocate(bytes));
}
ISTHMUS_STAND_IN void free(void* memory) {
  if (!memory) return;
  const int kept = errno;
  heap_of(memory).free(memory);
  errno = kept;
}
ISTHMUS_STAND_IN void* calloc(std::size_t count, std::size_t bytes) {
  std::size_t all = 0;
  if (__builtin_mul_overflow(count, bytes, &all)) return or_error(nullptr);
  return or_error(heap_for(__builtin_return_address(0)).allocate_zeros(all));
}
ISTHMUS_STAND_IN void* realloc(void* memory, std::size_t bytes) {
  if (!memory) return or_error(heap_for(__builtin_return_address(0)).allocate(bytes));
  if (bytes == 0) {
    free(memory);
    return nullptr;
  }
  return or_error(heap_of(memory).resize(memory, bytes));
}
ISTHMUS_STAND_IN void* memalign(std::size_t alignment, std::size_t bytes) {
  return or_error(heap_here().allocate(bytes, alignment));
}
ISTHMUS_STAND_IN void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  return memalign(alignment, bytes);
}
ISTHMUS_STAND_IN int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) {
  if (alignment % sizeof(void*) != 0 || (alignment & (alignment - 1)) != 0 || alignment == 0) return EINVAL;
  void* const got = heap_here().allocate(bytes, alignment);
  if (!got) return ENOMEM;
  *memory = got;
  return 0;
}
ISTHMUS_STAND_IN void* valloc(std::size_t bytes) {
  return memalign(page, bytes);
}
ISTHMUS_STAND_IN void* pvalloc(std::size_t bytes) {
  return memalign(page, (bytes + page - 1) / page * page);
}
ISTHMUS_STAND_IN std::size_t malloc_usable_size(void* memory) {
  return memory ? Heap::usable(memory) : 0;
}

ISTHMUS_STAND_IN void* mmap(void* address, std::size_t bytes, int protection, int flags, int fd,
                            off_t offset) {
  RankMemory* const memory = current();
  if (address || !memory || memory->apart != 0)
    return reinterpret_cast<void*>(::syscall(SYS_mmap, address, bytes, protection, flags, fd, offset));
  return map_for(*memory, bytes, protection, flags, fd, offset);
}
ISTHMUS_STAND_IN void* mmap64(void* address, std::size_t bytes, int protection, int flags, int fd,
                              off_t offset) {
  return mmap(address, bytes, protection, flags, fd, offset);
}
ISTHMUS_STAND_IN void* mremap(void* old, std::size_t old_bytes, std::size_t bytes, int flags, ...) {
  void* wanted = nullptr;
  if ((flags & MREMAP_FIXED) != 0) {
    va_list rest;
    va_start(rest, flags);
    wanted = va_arg(rest, void*);
    va_end(rest);
  }
  RankMemory* const memory = current();
  if (memory && memory->apart == 0 && (flags & MREMAP_MAYMOVE) != 0 && !wanted) {
    const long here = ::syscall(SYS_mremap, old, old_bytes, bytes, 0, nullptr);
    if (here != -1) return reinterpret_cast<void*>(here);  // NOLINT(performance-no-int-to-ptr)
    wanted = map_for(*memory, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (wanted == MAP_FAILED) return wanted;
    flags |= MREMAP_FIXED;
  }
  return reinterpret_cast<void*>(::syscall(SYS_mremap, old, old_bytes, bytes, flags, wanted));  // NOLINT
}
ISTHMUS_STAND_IN void* shmat(int segment, const void* address, int flags) {
  tie("it has attached System V memory (shmat)");
  return reinterpret_cast<void*>(::syscall(SYS_shmat, segment, address, flags));  // NOLINT
}

ISTHMUS_STAND_IN int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                                    void* argument) {
  static const auto real = next<decltype(pthread_create)>("pthread_create");
  RankMemory* const memory = current();
  if (memory) memory->tied_by = "it has made a thread";
  // What the C library keeps of a thread is the process's.
  if (memory) ++memory->apart;
  const int result = real(thread, attributes, run, argument);
  if (memory) --memory->apart;
  return result;
}

// NOLINTNEXTLINE(readability-identifier-naming)
ISTHMUS_STAND_IN int __cxa_atexit(void (*function)(void*), void* argument, void* object) {
  static const auto real = next<int(void (*)(void*), void*, void*)>("__cxa_atexit");
  if (RankMemory* const owner = owner_of(reinterpret_cast<std::uintptr_t>(object)))
    return push(owner->at_exit, owner->heap, function, argument) ? 0 : -1;
  RankMemory* const memory = current();
  if (memory) ++memory->apart;
  const int result = real(function, argument, object);
  if (memory) --memory->apart;
  return result;
}
// NOLINTNEXTLINE(readability-identifier-naming)
ISTHMUS_STAND_IN void __cxa_finalize(void* object) {
  static const auto real = next<void(void*)>("__cxa_finalize");
  if (RankMemory* const owner = owner_of(reinterpret_cast<std::uintptr_t>(object)))
    return run(owner->at_exit, owner->heap);
  real(object);
}
/// Of variables that ranks have, also of libraries: the C library would keep which object of its process it
/// is of.
// NOLINTNEXTLINE(readability-identifier-naming)
ISTHMUS_STAND_IN int __cxa_thread_atexit_impl(void (*function)(void*), void* argument, void* object) {
  static const auto real = next<int(void (*)(void*), void*, void*)>("__cxa_thread_atexit_impl");
  if (RankMemory* const memory = current())
    return push(memory->at_thread_exit, memory->heap, function, argument) ? 0 : -1;
  return real(function, argument, object);
}

// --- what the C library keeps for its process, and makes when it is first asked

namespace {

/// A function of the C library, in which what is allocated is the process's. `name`: that it has there.
template <auto function, class... Arguments>
auto apart(const char* name, Arguments... arguments) {
  static const auto real = next<std::remove_pointer_t<decltype(function)>>(name);
  RankMemory* const memory = current();
  if (memory) ++memory->apart;
  struct Back {
    ~Back() {
      if (memory) --memory->apart;
    }
    RankMemory* memory;
  } const back{memory};
  return real(arguments...);
}

bool is_built_in(const char* locale) noexcept {
  return locale && (std::strcmp(locale, "C") == 0 || std::strcmp(locale, "POSIX") == 0);
}

}  // namespace

ISTHMUS_STAND_IN char* setlocale(int category, const char* name) {
  char* const result = apart<setlocale>("setlocale", category, name);
  // The conversions of wide characters, which would be made when one is first converted.
  if (name) apart<btowc>("btowc", 'a');
  return result;
}
ISTHMUS_STAND_IN locale_t newlocale(int mask, const char* name, locale_t base) {
  if (!is_built_in(name)) tie("it has loaded a locale");
  return apart<newlocale>("newlocale", mask, name, base);
}
ISTHMUS_STAND_IN iconv_t iconv_open(const char* to, const char* from) {
  tie("it converts characters (iconv_open)");
  return apart<iconv_open>("iconv_open", to, from);
}
ISTHMUS_STAND_IN char* bindtextdomain(const char* domain, const char* folder) {
  tie("it has translations (bindtextdomain)");
  return apart<bindtextdomain>("bindtextdomain", domain, folder);
}
ISTHMUS_STAND_IN void tzset() {
  apart<tzset>("tzset");
}
ISTHMUS_STAND_IN int on_exit(void (*function)(int, void*), void* argument) {
  tie("it has asked for a call at its process's end (on_exit)");
  return apart<on_exit>("on_exit", function, argument);
}
ISTHMUS_STAND_IN sem_t* sem_open(const char* name, int flags, ...) {
  tie("it has a semaphore with a name (sem_open)");
  static const auto real = next<decltype(sem_open)>("sem_open");
  if ((flags & O_CREAT) == 0) return real(name, flags);
  va_list rest;
  va_start(rest, flags);
  const auto mode = va_arg(rest, mode_t);
  const auto value = va_arg(rest, unsigned);
  va_end(rest);
  return real(name, flags, mode, value);
}
/// What pthread_atfork calls.
// NOLINTNEXTLINE(readability-identifier-naming)
ISTHMUS_STAND_IN int __register_atfork(void (*prepare)(), void (*parent)(), void (*child)(), void* object) {
  if (owner_of(reinterpret_cast<std::uintptr_t>(object)))
    tie("it has asked to be told of forks (pthread_atfork)");
  return apart<__register_atfork>("__register_atfork", prepare, parent, child, object);
}
/// Of a library: those of programs are others.
ISTHMUS_STAND_IN int setenv(const char* name, const char* value, int overwrites) {
  tie("a library has changed its environment (setenv)");
  return apart<setenv>("setenv", name, value, overwrites);
}
ISTHMUS_STAND_IN int putenv(char* entry) {
  tie("a library has changed its environment (putenv)");
  return apart<putenv>("putenv", entry);
}
ISTHMUS_STAND_IN tm* localtime(const time_t* time) {
  return apart<localtime>("localtime", time);
}
ISTHMUS_STAND_IN tm* localtime_r(const time_t* time, tm* to) {
  return apart<localtime_r>("localtime_r", time, to);
}
ISTHMUS_STAND_IN time_t mktime(tm* time) {
  return apart<mktime>("mktime", time);
}
ISTHMUS_STAND_IN char* ctime(const time_t* time) {
  return apart<ctime>("ctime", time);
}
ISTHMUS_STAND_IN char* ctime_r(const time_t* time, char* to) {
  return apart<ctime_r>("ctime_r", time, to);
}
ISTHMUS_STAND_IN std::size_t strftime(char* to, std::size_t bytes, const char* format, const tm* time) {
  return apart<strftime>("strftime", to, bytes, format, time);
}
ISTHMUS_STAND_IN std::size_t strftime_l(char* to, std::size_t bytes, const char* format, const tm* time,
                                        locale_t locale) {
  return apart<strftime_l>("strftime_l", to, bytes, format, time, locale);
}
ISTHMUS_STAND_IN passwd* getpwnam(const char* name) {
  return apart<getpwnam>("getpwnam", name);
}
ISTHMUS_STAND_IN passwd* getpwuid(uid_t user) {
  return apart<getpwuid>("getpwuid", user);
}
ISTHMUS_STAND_IN group* getgrnam(const char* name) {
  return apart<getgrnam>("getgrnam", name);
}
ISTHMUS_STAND_IN group* getgrgid(gid_t id) {
  return apart<getgrgid>("getgrgid", id);
}
ISTHMUS_STAND_IN hostent* gethostbyname(const char* name) {
  tie("it has looked up addresses (gethostbyname)");
  return apart<gethostbyname>("gethostbyname", name);
}
ISTHMUS_STAND_IN int getaddrinfo(const char* node, const char* service, const addrinfo* hints,
                                 addrinfo** found) {
  // What it gives is the process's too.
  tie("it has looked up addresses (getaddrinfo)");
  return apart<getaddrinfo>("getaddrinfo", node, service, hints, found);
}

int main(int count, char** arguments) {
  kept_free[0] = std::byte{0};
  const OwnMemory memory{.begin = begin, .open = open, .current = current, .process_top = process_top};
  return isthmus_migratable_ranks_main(count, arguments, room, &memory);
}
