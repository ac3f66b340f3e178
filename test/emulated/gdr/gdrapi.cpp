// A stand-in for libgdrapi.so.2: the processor sees what the emulated copy engine sees. As there, pages of 64
// KiB are pinned, a mapping begins where the first page does, and only cudaMalloc memory is pinned.
// EMULATED_GDR=absent: the kernel module is not loaded. EMULATED_CUDA_LEAKS holds for pins and mappings too.
#include <dlfcn.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string_view>

#include "emulated_cuda.h"
#include "gpu/copy/gdr_api.hpp"
#include "gpu/driver/cuda_api.hpp"

namespace isthmus::gdr {

struct SessionObject {
  decltype(&::emulated_cuda_view) view = nullptr;
  decltype(cuda::Functions::pointer_attribute) attribute = nullptr;
};

}  // namespace isthmus::gdr

namespace isthmus::emulated {

using namespace gdr;

#define ISTHMUS_DECLARE_(name, symbol, result, parameters) \
  __attribute__((visibility("default"))) result symbol parameters;
extern "C" {
ISTHMUS_GDR_FUNCTIONS(ISTHMUS_DECLARE_)
}
#undef ISTHMUS_DECLARE_

namespace {

struct Pinned {
  cuda::Address asked = 0;
  std::uint64_t buffer = 0;  ///< the id of what was there
  Info info;
  std::byte* view = nullptr;  ///< of `info.address`
};

std::map<unsigned long, Pinned>& pins() {
  static auto* const all = new std::map<unsigned long, Pinned>;
  return *all;
}

std::mutex& mutex() {
  static auto* const only = new std::mutex;
  return *only;
}

void report_leaks() {
  const char* wish = std::getenv("EMULATED_CUDA_LEAKS");
  if (!wish || pins().empty()) return;
  std::fprintf(stderr, "emulated gdr: %zu pins are left\n", pins().size());
  if (std::string_view(wish) == "fail") ::_exit(86);
}

template <class T>
bool ask(Session session, cuda::PointerAttribute attribute, cuda::Address address, T& value) {
  return session->attribute(&value, attribute, address) == cuda::Status::success;
}

/// The first address of cudaMalloc memory in a range, 0 if there is none.
cuda::Address first_of(Session session, unsigned long begin, std::size_t bytes) {
  for (cuda::Address address = begin; address < begin + bytes; address += 512) {
    int is_legacy = 0;
    if (ask(session, cuda::PointerAttribute::is_legacy_ipc_capable, address, is_legacy) && is_legacy != 0)
      return address;
  }
  return 0;
}

Pinned* find(Pin pin) {
  const auto found = pins().find(pin.handle);
  return found == pins().end() ? nullptr : &found->second;
}

}  // namespace

extern "C" {

Session gdr_open() {
  const char* wish = std::getenv("EMULATED_GDR");
  if (wish && std::string_view(wish) == "absent") return nullptr;
  void* cuda = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (!cuda) return nullptr;
  auto* session = new SessionObject;
  session->view = reinterpret_cast<decltype(session->view)>(dlsym(cuda, "emulated_cuda_view"));
  session->attribute = reinterpret_cast<decltype(session->attribute)>(dlsym(cuda, "cuPointerGetAttribute"));
  static std::once_flag once;
  std::call_once(once, [] { std::atexit(report_leaks); });
  return session;
}

int gdr_close(Session session) {
  delete session;
  return 0;
}

int gdr_pin_buffer(Session session, unsigned long address, std::size_t bytes, std::uint64_t, std::uint32_t,
                   Pin* pin) {
  const unsigned long begin = address / page * page;
  const unsigned long end = (address + bytes + page - 1) / page * page;
  Pinned pinned;
  pinned.asked = first_of(session, address, bytes);
  if (bytes == 0 || pinned.asked == 0 ||
      !ask(session, cuda::PointerAttribute::buffer_id, pinned.asked, pinned.buffer))
    return EINVAL;
  pinned.info.address = begin;
  pinned.info.bytes = end - begin;
  pinned.info.page_bytes = page;
  pinned.view = static_cast<std::byte*>(session->view(pinned.asked)) - (pinned.asked - begin);
  const std::scoped_lock lock(mutex());
  static unsigned long last = 0;
  pin->handle = ++last;
  pins().emplace(pin->handle, pinned);
  return 0;
}

int gdr_unpin_buffer(Session, Pin pin) {
  const std::scoped_lock lock(mutex());
  const Pinned* pinned = find(pin);
  if (!pinned || pinned->info.is_mapped) return EINVAL;
  pins().erase(pin.handle);
  return 0;
}

int gdr_get_callback_flag(Session session, Pin pin, int* flag) {
  const std::scoped_lock lock(mutex());
  const Pinned* pinned = find(pin);
  if (!pinned) return EINVAL;
  std::uint64_t now = 0;
  *flag =
      ask(session, cuda::PointerAttribute::buffer_id, pinned->asked, now) && now == pinned->buffer ? 0 : 1;
  return 0;
}

int gdr_get_info_v2(Session, Pin pin, Info* info) {
  const std::scoped_lock lock(mutex());
  const Pinned* pinned = find(pin);
  if (!pinned) return EINVAL;
  *info = pinned->info;
  return 0;
}

int gdr_map(Session, Pin pin, void** address, std::size_t bytes) {
  const std::scoped_lock lock(mutex());
  Pinned* pinned = find(pin);
  if (!pinned || pinned->info.is_mapped) return EINVAL;
  if (bytes > pinned->info.bytes) return EINVAL;
  pinned->info.is_mapped = 1;
  *address = pinned->view;
  return 0;
}

int gdr_unmap(Session, Pin pin, void*, std::size_t) {
  const std::scoped_lock lock(mutex());
  Pinned* pinned = find(pin);
  if (!pinned || !pinned->info.is_mapped) return EINVAL;
  pinned->info.is_mapped = 0;
  return 0;
}

int gdr_copy_to_mapping(Pin, void* to, const void* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
  return 0;
}

int gdr_copy_from_mapping(Pin, void* to, const void* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
  return 0;
}

void gdr_runtime_get_version(int* major, int* minor) {
  *major = 2;
  *minor = 5;
}

int gdr_driver_get_version(Session, int* major, int* minor) {
  *major = 2;
  *minor = 5;
  return 0;
}
}

}  // namespace isthmus::emulated
