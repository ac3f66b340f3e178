#include "gpu/copy/gdr_driver.hpp"

#include <dlfcn.h>

#include <cerrno>

#include <string>
#include <system_error>

namespace isthmus {
namespace {

std::unexpected<Error> missing(const std::string& what) {
  return fail(ErrorClass::unsupported_operation,
              what + ": short messages from and to GPUs are copied by the GPU, which takes longer");
}

std::unexpected<Error> refused(const char* what, int error) {
  return fail(ErrorClass::other, std::string("GDRCopy refuses to ") + what +
                                     " device memory: " + std::generic_category().message(error));
}

}  // namespace

Result<std::unique_ptr<GdrDriver>> GdrDriver::open(const char* file) {
  void* object = dlopen(file, RTLD_NOW | RTLD_NODELETE);
  if (!object) {
    const char* reason = dlerror();
    return missing("GDRCopy is not there (" + std::string(reason ? reason : file) + ")");
  }
  gdr::Functions functions;
  std::string lacking;
  const auto take = [&]<class Function>(Function*& function, const char* symbol) {
    function = reinterpret_cast<Function*>(dlsym(object, symbol));
    if (!function) lacking += (lacking.empty() ? "" : ", ") + std::string(symbol);
  };
#define ISTHMUS_TAKE_(name, symbol, result, parameters) take(functions.name, #symbol);
  ISTHMUS_GDR_FUNCTIONS(ISTHMUS_TAKE_)
#undef ISTHMUS_TAKE_
  if (!lacking.empty()) return missing("GDRCopy is another release, which lacks " + lacking);
  gdr::Session session = functions.open();
  if (!session)
    return missing("GDRCopy's kernel module gdrdrv is not loaded, or /dev/gdrdrv may not be opened");
  return std::unique_ptr<GdrDriver>(new GdrDriver(functions, session));
}

GdrDriver::~GdrDriver() {
  functions_.close(session_);
}

Result<std::unique_ptr<GdrMapping>> GdrMapping::open(const GdrDriver& driver, const Buffer& buffer) {
  if (buffer.kind != MemoryKind::device || !buffer.is_own)
    return fail(ErrorClass::unsupported_operation,
                std::string(name_of(buffer.kind)) + " is not what GDRCopy can map, cudaMalloc memory is");
  const gdr::Functions& functions = driver.functions();
  std::unique_ptr<GdrMapping> mapping(new GdrMapping(driver));
  const auto address = reinterpret_cast<unsigned long>(buffer.data);
  if (const int error = functions.pin(driver.session(), address, buffer.bytes, 0, 0, &mapping->pin_);
      error != 0)
    return refused("pin", error);
  mapping->is_pinned_ = true;
  gdr::Info info;
  if (const int error = functions.info(driver.session(), mapping->pin_, &info); error != 0)
    return refused("describe", error);
  void* host = nullptr;
  if (const int error = functions.map(driver.session(), mapping->pin_, &host, info.bytes); error != 0)
    return refused("map", error);
  mapping->host_ = static_cast<std::byte*>(host);
  mapping->begin_ = reinterpret_cast<std::byte*>(info.address);
  mapping->bytes_ = info.bytes;
  if (!mapping->covers(buffer.data, buffer.bytes)) return refused("map all of", ERANGE);
  return mapping;
}

bool GdrMapping::is_stale() const noexcept {
  int flag = 0;
  return driver_.functions().is_freed(driver_.session(), pin_, &flag) != 0 || flag != 0;
}

GdrMapping::~GdrMapping() {
  const gdr::Functions& functions = driver_.functions();
  if (host_) functions.unmap(driver_.session(), pin_, host_, bytes_);
  if (is_pinned_) functions.unpin(driver_.session(), pin_);
}

}  // namespace isthmus
