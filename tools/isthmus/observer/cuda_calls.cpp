// Stands before functions of the CUDA driver. Nobody links with libcuda by force: the CUDA runtime and
// programs that use the driver ask dlsym, and then cuGetProcAddress, for its functions, and get ours.
#include <dlfcn.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>

#include "observer/gate.hpp"
#include "observer/observer.hpp"

namespace isthmus::observer {
namespace {

using Status = int;  // CUresult
using Unknown = void*;

struct SharedGates {
  std::mutex mutex;
  Gates gates;
};

SharedGates& shared_gates() {
  static auto* const shared = new SharedGates;  // calls come until the process has ended
  return *shared;
}

/// Whether a launch on this stream is to be timed alone, and how.
Gate* gate_for(Stream stream) {
  std::string why_not;
  const Driver* const driver = Driver::find(why_not);
  int is_capturing = 1;
  if (!driver || driver->capturing(stream, &is_capturing) != 0 || is_capturing != 0) return nullptr;
  const std::scoped_lock lock(shared_gates().mutex);
  return shared_gates().gates.here(*driver);
}

void note_device() {
  std::string why_not;
  int device = 0;
  if (const Driver* const driver = Driver::find(why_not); driver && driver->device_of_context(&device) == 0)
    Observer::self().note_device(device);
}

/// Whether the driver never waits with a copy from or to it: not so of memory that is not pinned.
bool is_known(Address address) {
  constexpr int memory_type = 2;  // CU_POINTER_ATTRIBUTE_MEMORY_TYPE
  std::string why_not;
  unsigned type = 0;
  const Driver* const driver = Driver::find(why_not);
  return driver && driver->pointer_attribute(&type, memory_type, address) == 0;
}
bool is_known(const void* address) {
  return is_known(reinterpret_cast<Address>(address));
}

/// `waits_never`: the call returns though the stream waits.
template <class WaitsNever, class Call>
Status launch(Stream stream, WaitsNever waits_never, Call call) {
  bool& inside = Observer::is_inside();
  Observer& observer = Observer::self();
  if (inside || !observer.is_on()) return call();
  static thread_local bool is_noted = false;
  if (!is_noted) {
    is_noted = true;
    note_device();
  }
  if (!observer.times_kernels()) return observe(Kind::launch, call);
  if (!observer.is_open()) return call();
  inside = true;
  const auto begin = Clock::now();
  Status status = 0;
  if (Gate* const gate = waits_never() ? gate_for(stream) : nullptr) {
    const double seconds = gate->time(stream, [&] { status = call(); });
    if (seconds >= 0 && status == 0) observer.ran(seconds);
  } else {
    status = call();
  }
  inside = false;
  observer.count(Kind::launch, begin);
  return status;
}

/// A function of the driver by its number in `hooks`, with where its stream is among its arguments.
template <int number, class Signature>
struct Launch;
template <int number, class... Arguments>
struct Launch<number, Status(Arguments...)> {
  static inline Status (*real)(Arguments...) = nullptr;
  static Status instead(Arguments... arguments) {
    Stream stream = nullptr;
    const auto look = [&stream](auto argument) {
      if constexpr (std::is_same_v<decltype(argument), Stream>) stream = argument;
    };
    (look(arguments), ...);
    return launch(stream, [] { return true; }, [&] { return real(arguments...); });
  }
};

template <int number, class Signature>
struct Copy;
template <int number, class To, class From>
struct Copy<number, Status(To, From, std::size_t, Stream)> {
  static inline Status (*real)(To, From, std::size_t, Stream) = nullptr;
  static Status instead(To to, From from, std::size_t bytes, Stream stream) {
    return launch(
        stream, [&] { return is_known(to) && is_known(from); },
        [&] { return real(to, from, bytes, stream); });
  }
};
/// Of two dimensions: where from and to is in a structure.
struct CopyOfRows {
  static inline Status (*real)(const void*, Stream) = nullptr;
  static Status instead(const void* what, Stream stream) {
    return observe(Kind::launch, [&] { return real(what, stream); });
  }
};

/// cuLaunchKernelEx has its stream in a structure, behind seven numbers of 32 bits.
struct LaunchConfiguration {
  std::array<unsigned, 7> sizes;
  Stream stream;
};
struct LaunchExtended {
  static inline Status (*real)(const LaunchConfiguration*, Unknown, void**, void**) = nullptr;
  static Status instead(const LaunchConfiguration* configuration, Unknown function, void** parameters,
                        void** extra) {
    return launch(
        configuration ? configuration->stream : nullptr, [] { return true; },
        [&] { return real(configuration, function, parameters, extra); });
  }
};

template <int number, class Signature>
struct Wait;
template <int number, class... Arguments>
struct Wait<number, Status(Arguments...)> {
  static inline Status (*real)(Arguments...) = nullptr;
  static Status instead(Arguments... arguments) {
    return observe(Kind::gpu_wait, [&] { return real(arguments...); });
  }
};

/// A context may go: what is in it goes before. The gates are made anew where they are needed.
template <int number, class Signature>
struct End;
template <int number, class... Arguments>
struct End<number, Status(Arguments...)> {
  static inline Status (*real)(Arguments...) = nullptr;
  static Status instead(Arguments... arguments) {
    bool& inside = Observer::is_inside();
    std::string why_not;
    const Driver* const driver = inside ? nullptr : Driver::find(why_not);
    if (driver && Observer::self().times_kernels()) {
      const std::scoped_lock lock(shared_gates().mutex);
      inside = true;
      shared_gates().gates.end(*driver);
      inside = false;
    }
    return real(arguments...);
  }
};

struct Hook {
  const char* name;
  void* instead;
  void** real;
};

template <class Stand>
Hook hook(const char* name) {
  return {name, reinterpret_cast<void*>(&Stand::instead), reinterpret_cast<void**>(&Stand::real)};
}

const Hook* find_hook(std::string_view name) {
  using Size = std::size_t;
  using Byte = unsigned char;
  using U = unsigned;
  static const std::array hooks{
      hook<Launch<0, Status(Unknown, U, U, U, U, U, U, U, Stream, void**, void**)>>("cuLaunchKernel"),
      hook<LaunchExtended>("cuLaunchKernelEx"),
      hook<Launch<1, Status(Unknown, U, U, U, U, U, U, U, Stream, void**)>>("cuLaunchCooperativeKernel"),
      hook<Launch<2, Status(Unknown, Stream)>>("cuGraphLaunch"),
      hook<Copy<0, Status(Address, Address, Size, Stream)>>("cuMemcpyAsync"),
      hook<Copy<1, Status(Address, const void*, Size, Stream)>>("cuMemcpyHtoDAsync_v2"),
      hook<Copy<2, Status(void*, Address, Size, Stream)>>("cuMemcpyDtoHAsync_v2"),
      hook<Copy<3, Status(Address, Address, Size, Stream)>>("cuMemcpyDtoDAsync_v2"),
      hook<CopyOfRows>("cuMemcpy2DAsync_v2"),
      hook<Launch<3, Status(Address, Byte, Size, Stream)>>("cuMemsetD8Async"),
      hook<Launch<4, Status(Address, U, Size, Stream)>>("cuMemsetD32Async"),
      hook<Wait<0, Status(Stream)>>("cuStreamSynchronize"),
      hook<Wait<1, Status(Event)>>("cuEventSynchronize"),
      hook<Wait<2, Status()>>("cuCtxSynchronize"),
      hook<Wait<3, Status(Address, Address, Size)>>("cuMemcpy"),
      hook<Wait<4, Status(Address, const void*, Size)>>("cuMemcpyHtoD_v2"),
      hook<Wait<5, Status(void*, Address, Size)>>("cuMemcpyDtoH_v2"),
      hook<Wait<6, Status(Address, Address, Size)>>("cuMemcpyDtoD_v2"),
      hook<End<0, Status(int)>>("cuDevicePrimaryCtxRelease_v2"),
      hook<End<1, Status(int)>>("cuDevicePrimaryCtxReset_v2"),
      hook<End<2, Status(Context)>>("cuCtxDestroy_v2"),
  };
  for (const Hook& each : hooks)
    if (name == each.name) return &each;
  return nullptr;
}

/// What cuGetProcAddress calls by a name without a version.
const Hook* find_hook_of_any_version(std::string_view name) {
  const Hook* const exact = find_hook(name);
  return exact ? exact : find_hook(std::string(name) + "_v2");
}

constexpr std::uint64_t stream_for_each_thread = 2;  // CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM

template <int version, class... More>
struct ByName {
  static inline Status (*real)(const char*, void**, int, std::uint64_t, More...) = nullptr;
  static Status instead(const char* name, void** function, int cuda, std::uint64_t flags, More... more);
};
using ByNameOld = ByName<1>;
using ByNameNew = ByName<2, int*>;

/// What a program that has asked for `name` gets in place of `found`; null: that.
void* stand_for(std::string_view name, void* found) {
  if (!found) return nullptr;
  if (name == "cuGetProcAddress_v2") {
    ByNameNew::real = reinterpret_cast<decltype(ByNameNew::real)>(found);
    return reinterpret_cast<void*>(&ByNameNew::instead);
  }
  if (name == "cuGetProcAddress") {
    ByNameOld::real = reinterpret_cast<decltype(ByNameOld::real)>(found);
    return reinterpret_cast<void*>(&ByNameOld::instead);
  }
  const Hook* const hook = find_hook(name);
  if (!hook) return nullptr;
  *hook->real = found;
  return hook->instead;
}

template <int version, class... More>
Status ByName<version, More...>::instead(const char* name, void** function, int cuda, std::uint64_t flags,
                                         More... more) {
  const Status status = real(name, function, cuda, flags, more...);
  if (status != 0 || !name || !function || !*function) return status;
  const std::string_view asked(name);
  if (asked == "cuGetProcAddress") {
    if (void* const stand = stand_for(cuda >= 12000 ? "cuGetProcAddress_v2" : "cuGetProcAddress", *function))
      *function = stand;
  } else if ((flags & stream_for_each_thread) == 0) {
    if (const Hook* const hook = find_hook_of_any_version(asked)) {
      *hook->real = *function;
      *function = hook->instead;
    }
  }
  return status;
}

/// The MPI library's own use of the driver is no part of the program's.
bool is_of_library(const void* caller) {
  Dl_info info{};
  return ::dladdr(caller, &info) != 0 && info.dli_fname &&
         (std::strstr(info.dli_fname, "libmpi_abi") || std::strstr(info.dli_fname, "libisthmus_") ||
          std::strstr(info.dli_fname, "libucs") || std::strstr(info.dli_fname, "libuct") ||
          std::strstr(info.dli_fname, "libcuda.so"));
}

using FindSymbol = void*(void*, const char*);

FindSymbol* real_find_symbol() {
  // Of glibc's versions, by architecture and age.
  static FindSymbol* const real = [] {
    for (const char* const version : {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"})
      if (void* const found = ::dlvsym(RTLD_NEXT, "dlsym", version))
        return reinterpret_cast<FindSymbol*>(found);
    return static_cast<FindSymbol*>(nullptr);
  }();
  return real;
}

/// What dlsym is to give instead of a function of the driver; null: what it would give.
void* stand_in(void* library, const char* name, const void* caller) {
  if (!Observer::self().is_on() || Observer::is_inside() || is_of_library(caller)) return nullptr;
  return stand_for(name, real_find_symbol()(library, name));
}

}  // namespace

void* find_symbol(void* library, const char* name) {
  return real_find_symbol()(library, name);
}

}  // namespace isthmus::observer

/// RTLD_NEXT means whoever calls, so the real one is jumped to, with the caller's return address: the last
/// call of a function that needs no more room on the stack.
extern "C" __attribute__((visibility("default"), noinline)) void* observed_dlsym(
    void* library, const char* name) asm("dlsym");
extern "C" __attribute__((optimize("O2"))) void* observed_dlsym(void* library, const char* name) {
  using namespace isthmus::observer;
  if (name && name[0] == 'c' && name[1] == 'u')
    if (void* const stand = stand_in(library, name, __builtin_return_address(0))) return stand;
  return real_find_symbol()(library, name);
}
