#include "gpu/device.hpp"

#include <dlfcn.h>

#include <stdexcept>
#include <string>

#include "gpu/image.hpp"

namespace jacobi::gpu {
namespace {

using Status = int;  // CUresult
using Context = struct CUctx_st*;
using Module = struct CUmod_st*;

constexpr unsigned non_blocking = 1;  // CU_STREAM_NON_BLOCKING

void* load_driver() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (!library) throw std::runtime_error("--gpu: there is no CUDA driver here (libcuda.so.1)");
  return library;
}

}  // namespace

struct Device::Driver {
  void* library = load_driver();
  template <class Function>
  [[nodiscard]] Function* find(const char* name) const {
    void* const found = dlsym(library, name);
    if (!found) throw std::runtime_error(std::string("--gpu: the CUDA driver is too old: it has no ") + name);
    return reinterpret_cast<Function*>(found);
  }

  Status (*init)(unsigned) = find<Status(unsigned)>("cuInit");
  Status (*device_count)(int*) = find<Status(int*)>("cuDeviceGetCount");
  Status (*retain)(Context*, int) = find<Status(Context*, int)>("cuDevicePrimaryCtxRetain");
  Status (*release)(int) = find<Status(int)>("cuDevicePrimaryCtxRelease_v2");
  Status (*set_context)(Context) = find<Status(Context)>("cuCtxSetCurrent");
  Status (*error_text)(Status, const char**) = find<Status(Status, const char**)>("cuGetErrorString");
  Status (*allocate)(Address*, std::size_t) = find<Status(Address*, std::size_t)>("cuMemAlloc_v2");
  Status (*free)(Address) = find<Status(Address)>("cuMemFree_v2");
  Status (*host_allocate)(void**, std::size_t,
                          unsigned) = find<Status(void**, std::size_t, unsigned)>("cuMemHostAlloc");
  Status (*host_free)(void*) = find<Status(void*)>("cuMemFreeHost");
  Status (*copy)(Address, Address, std::size_t,
                 Stream) = find<Status(Address, Address, std::size_t, Stream)>("cuMemcpyAsync");
  Status (*fill)(Address, unsigned char, std::size_t,
                 Stream) = find<Status(Address, unsigned char, std::size_t, Stream)>("cuMemsetD8Async");
  Status (*stream_create)(Stream*, unsigned) = find<Status(Stream*, unsigned)>("cuStreamCreate");
  Status (*stream_destroy)(Stream) = find<Status(Stream)>("cuStreamDestroy_v2");
  Status (*stream_wait)(Stream) = find<Status(Stream)>("cuStreamSynchronize");
  Status (*load)(Module*, const void*) = find<Status(Module*, const void*)>("cuModuleLoadData");
  Status (*unload)(Module) = find<Status(Module)>("cuModuleUnload");
  Status (*function)(Kernel*, Module,
                     const char*) = find<Status(Kernel*, Module, const char*)>("cuModuleGetFunction");
  Status (*launch)(Kernel, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream,
                   void**,
                   void**) = find<Status(Kernel, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                                         unsigned, Stream, void**, void**)>("cuLaunchKernel");

  int device = 0;
  Stream stream = nullptr;
  Module module = nullptr;

  void demand(Status status, const char* what) const {
    if (status == 0) return;
    const char* text = nullptr;
    error_text(status, &text);
    throw std::runtime_error(std::string("the GPU cannot ") + what + ": " +
                             (text ? text : std::to_string(status).c_str()));
  }
};

Device::Device(int number) {
  if (!kernel_image())
    throw std::runtime_error(
        "--gpu: this jacobi3d was built without nvcc, so it has no kernels for GPUs; build it where there is "
        "one");
  driver_ = std::make_unique<Driver>();
  Driver& driver = *driver_;
  driver.demand(driver.init(0), "be used");
  int count = 0;
  driver.demand(driver.device_count(&count), "be found");
  if (count == 0) throw std::runtime_error("--gpu: there is no GPU here");
  driver.device = number % count;
  Context context = nullptr;
  driver.demand(driver.retain(&context, driver.device), "be used by this process");
  driver.demand(driver.set_context(context), "be used by this thread");
  driver.demand(driver.stream_create(&driver.stream, non_blocking), "make a stream");
  driver.demand(driver.load(&driver.module, kernel_image()), "load the kernels");
}

Device::~Device() {
  driver_->unload(driver_->module);
  driver_->stream_destroy(driver_->stream);
  driver_->set_context(nullptr);
  driver_->release(driver_->device);
}

Kernel Device::kernel(const char* name) const {
  Kernel found = nullptr;
  driver_->demand(driver_->function(&found, driver_->module, name), "find a kernel");
  return found;
}

void Device::launch(Kernel kernel, Grid blocks, Grid threads, void** parameters) const {
  driver_->demand(driver_->launch(kernel, blocks.x, blocks.y, blocks.z, threads.x, threads.y, threads.z, 0,
                                  driver_->stream, parameters, nullptr),
                  "start a kernel");
}

void Device::copy(void* to, const void* from, std::size_t bytes) const {
  driver_->demand(
      driver_->copy(reinterpret_cast<Address>(to), reinterpret_cast<Address>(from), bytes, driver_->stream),
      "copy");
}

void Device::clear(void* to, std::size_t bytes) const {
  driver_->demand(driver_->fill(reinterpret_cast<Address>(to), 0, bytes, driver_->stream), "clear memory");
}

void Device::wait() const {
  driver_->demand(driver_->stream_wait(driver_->stream), "finish what it was given");
}

void* Device::allocate(std::size_t bytes) const {
  Address address = 0;
  driver_->demand(driver_->allocate(&address, bytes), "allocate memory");
  return reinterpret_cast<void*>(address);
}

void Device::free(void* memory) const noexcept {
  driver_->free(reinterpret_cast<Address>(memory));
}

void* Device::allocate_pinned(std::size_t bytes) const {
  void* memory = nullptr;
  driver_->demand(driver_->host_allocate(&memory, bytes, 0), "allocate memory of the host");
  return memory;
}

void Device::free_pinned(void* memory) const noexcept {
  driver_->host_free(memory);
}

}  // namespace jacobi::gpu
