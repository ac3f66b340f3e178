#include "suite/gpu/gpu.hpp"

#include <dlfcn.h>

#include "suite/gpu/kernels.hpp"
#include "suite/job/call.hpp"

namespace isthmus::bench {

using cuda::Status;

void Gpu::load() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr)
    throw Stop{status_absent, "there is no GPU here: libcuda.so.1, the CUDA driver, is not installed"};
#define ISTHMUS_LOAD(name, symbol, parameters)                                      \
  driver_.name = reinterpret_cast<decltype(driver_.name)>(dlsym(library, #symbol)); \
  if (driver_.name == nullptr)                                                      \
    throw Stop{status_absent, "this CUDA driver has no " #symbol ": 12.2 or newer is needed"};
  ISTHMUS_CUDA_FUNCTIONS(ISTHMUS_LOAD)
#undef ISTHMUS_LOAD
}

Gpu::Gpu(int local_rank, bool count_faults) {
  load();
  if (const Status status = driver_.init(0); status != Status::success) {
    const char* text = nullptr;
    driver_.error_string(status, &text);
    throw Stop{status_absent,
               "there is no GPU here: the CUDA driver says: " + std::string(text != nullptr ? text : "?")};
  }
  if (count_faults) faults_ = std::make_unique<FaultCounter>();
  int count = 0;
  check(driver_.device_count(&count), "count the GPUs");
  if (count == 0) throw Stop{status_absent, "there is no GPU here: the CUDA driver counts none"};
  check(driver_.device_get(&device_, local_rank % count), "find GPU " + std::to_string(local_rank % count));
  check(driver_.primary_retain(&context_, device_), "make a context on GPU " + std::to_string(device_));
  check(driver_.context_set(context_), "use the context of GPU " + std::to_string(device_));
  check(driver_.stream_create(&stream_, cuda::stream_non_blocking), "make a stream");
  check(driver_.module_load(&module_, kernels), "load the kernels");
  touch_ = kernel("isthmus_bench_touch");
  nothing_ = kernel("isthmus_bench_nothing");
  copy_ = kernel("isthmus_bench_copy");
  stencil_ = kernel("isthmus_bench_stencil");
}

Gpu::~Gpu() {
  if (module_ != nullptr) driver_.module_unload(module_);
  if (stream_ != nullptr) driver_.stream_destroy(stream_);
  if (context_ != nullptr) driver_.primary_release(device_);
}

void Gpu::check(Status status, const std::string& what) const {
  if (status == Status::success) return;
  const char* text = nullptr;
  driver_.error_string(status, &text);
  throw Stop{status_failed,
             "cannot " + what + ": the CUDA driver says: " + std::string(text != nullptr ? text : "?"),
             false};
}

void Gpu::copy_in(cuda::Address to, std::span<const std::uint8_t> from) const {
  check(driver_.copy_to_device_async(to, from.data(), from.size(), stream_), "copy to the GPU");
  wait();
}

void Gpu::copy_out(cuda::Address from, std::span<std::uint8_t> to) const {
  check(driver_.copy_to_host_async(to.data(), from, to.size(), stream_), "copy from the GPU");
  wait();
}

cuda::Function Gpu::kernel(const char* name) const {
  cuda::Function function = nullptr;
  check(driver_.module_function(&function, module_, name), std::string("find the kernel ") + name);
  return function;
}

void Gpu::launch(cuda::Function kernel, std::size_t threads, void** parameters) const {
  const auto blocks = static_cast<unsigned>((threads + threads_a_block - 1) / threads_a_block);
  check(driver_.launch(kernel, blocks == 0 ? 1 : blocks, 1, 1, threads_a_block, 1, 1, 0, stream_, parameters,
                       nullptr),
        "launch a kernel");
}

void Gpu::touch(cuda::Address address, std::size_t bytes) const {
  std::uint64_t length = bytes;
  void* parameters[] = {&address, &length};
  launch(touch_, (bytes + page_bytes - 1) / page_bytes, parameters);
}

void Gpu::nothing() const {
  launch(nothing_, threads_a_block, nullptr);
}

void Gpu::copy_numbers(cuda::Address to, cuda::Address from, std::size_t count) const {
  std::uint64_t numbers = count;
  void* parameters[] = {&to, &from, &numbers};
  launch(copy_, count, parameters);
}

void Gpu::stencil(cuda::Address to, cuda::Address from, std::size_t columns, std::size_t rows) const {
  std::uint64_t width = columns;
  std::uint64_t height = rows;
  void* parameters[] = {&to, &from, &width, &height};
  launch(stencil_, columns * rows, parameters);
}

void Gpu::wait() const {
  check(driver_.stream_synchronize(stream_), "wait for the GPU");
}

}  // namespace isthmus::bench
