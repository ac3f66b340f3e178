#include "common/gpu/device.hpp"

#include <dlfcn.h>

#include <stdexcept>
#include <string>
#include <utility>

#include "common/gpu/image.hpp"

struct CUctx_st;
struct CUmod_st;
struct CUgraph_st;

namespace apps::gpu {
namespace {

using Status = int;  // CUresult
using Context = CUctx_st*;
using Module = CUmod_st*;
using CapturedGraph = CUgraph_st*;
using GraphExecutable = CUgraphExec_st*;

constexpr unsigned non_blocking = 1;  // CU_STREAM_NON_BLOCKING
constexpr int relaxed = 2;            // CU_STREAM_CAPTURE_MODE_RELAXED

void* load_driver() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (!library)
    throw std::runtime_error(
        "there is no CUDA driver here (libcuda.so.1): run on the host, or where there is a GPU");
  return library;
}

}  // namespace

struct Device::Driver {
  void* library = load_driver();
  template <class Function>
  [[nodiscard]] Function* find(const char* name) const {
    void* const found = dlsym(library, name);
    if (!found) throw std::runtime_error(std::string("the CUDA driver is too old: it has no ") + name);
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
  Status (*capture)(Stream, int) = find<Status(Stream, int)>("cuStreamBeginCapture_v2");
  Status (*capture_end)(Stream, CapturedGraph*) = find<Status(Stream, CapturedGraph*)>("cuStreamEndCapture");
  Status (*instantiate)(GraphExecutable*, CapturedGraph, unsigned long long) =
      find<Status(GraphExecutable*, CapturedGraph, unsigned long long)>("cuGraphInstantiateWithFlags");
  Status (*graph_destroy)(CapturedGraph) = find<Status(CapturedGraph)>("cuGraphDestroy");
  Status (*graph_launch)(GraphExecutable, Stream) = find<Status(GraphExecutable, Stream)>("cuGraphLaunch");
  Status (*executable_destroy)(GraphExecutable) = find<Status(GraphExecutable)>("cuGraphExecDestroy");

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
        "this program was built without nvcc, so it has no kernels for GPUs; build it where there is one");
  driver_ = std::make_unique<Driver>();
  Driver& driver = *driver_;
  driver.demand(driver.init(0), "be used");
  int count = 0;
  driver.demand(driver.device_count(&count), "be found");
  if (count == 0) throw std::runtime_error("there is no GPU here: run on the host");
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

void Device::begin_capture() const {
  driver_->demand(driver_->capture(driver_->stream, relaxed), "capture its stream");
}

Graph Device::end_capture() const {
  CapturedGraph captured = nullptr;
  driver_->demand(driver_->capture_end(driver_->stream, &captured), "end the capture of its stream");
  Graph graph;
  graph.device_ = this;
  const Status status = driver_->instantiate(&graph.executable_, captured, 0);
  driver_->graph_destroy(captured);
  driver_->demand(status, "make a graph of what was captured");
  return graph;
}

void Device::launch(const Graph& graph) const {
  driver_->demand(driver_->graph_launch(graph.executable_, driver_->stream), "launch a graph");
}

Graph::Graph(Graph&& other) noexcept
    : device_(other.device_), executable_(std::exchange(other.executable_, nullptr)) {}

Graph& Graph::operator=(Graph&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(executable_, other.executable_);
  return *this;
}

Graph::~Graph() {
  if (executable_) device_->driver_->executable_destroy(executable_);
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

Stream Device::stream() const {
  return driver_->stream;
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

}  // namespace apps::gpu
