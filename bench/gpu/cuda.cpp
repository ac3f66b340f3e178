#include "gpu/cuda.hpp"

#include <dlfcn.h>
#include <mpi.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace isthmus::bench {

namespace {

[[noreturn]] void give_up(const std::string& text) {
  std::fprintf(stderr, "bench_gpu: %s\n", text.c_str());
  MPI_Abort(MPI_COMM_WORLD, 2);
  std::abort();
}

}  // namespace

Cuda::Cuda(int rank) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (!library) give_up("there is no CUDA driver here: libcuda.so.1 was not found");
  using namespace driver;
#define ISTHMUS_BENCH_LOAD(name, symbol, parameters)                              \
  functions_.name = reinterpret_cast<int(*) parameters>(dlsym(library, #symbol)); \
  if (!functions_.name) give_up("the CUDA driver has no " #symbol ": it is older than what this needs");
  ISTHMUS_BENCH_DRIVER(ISTHMUS_BENCH_LOAD)
#undef ISTHMUS_BENCH_LOAD
  demand(functions_.init(0), "cuInit");
  demand(functions_.device_count(&devices_), "cuDeviceGetCount");
  if (devices_ == 0) give_up("there is no GPU here");
  device_ = rank % devices_;
  Context context = nullptr;
  demand(functions_.retain(&context, device_), "cuDevicePrimaryCtxRetain");
  demand(functions_.set_context(context), "cuCtxSetCurrent");
  demand(functions_.stream_create(&stream_, driver::non_blocking_stream), "cuStreamCreate");
  demand(functions_.event_create(&event_, driver::no_timing), "cuEventCreate");
}

Cuda::~Cuda() {
  functions_.event_destroy(event_);
  functions_.stream_destroy(stream_);
  functions_.release(device_);
}

void Cuda::demand(int status, const char* what) const {
  if (status == driver::success) return;
  const char* words = nullptr;
  functions_.error_text(status, &words);
  give_up(std::string(what) + ": " + (words ? words : "unknown error"));
}

std::string Cuda::name() const {
  std::array<char, 256> text{};
  demand(functions_.device_name(text.data(), text.size(), device_), "cuDeviceGetName");
  return text.data();
}

void Cuda::poll() const {
  demand(functions_.event_record(event_, stream_), "cuEventRecord");
  int status = driver::not_ready;
  while (status == driver::not_ready)
    status = functions_.event_query(event_);
  demand(status, "cuEventQuery");
}

Memory::Memory(const Cuda& cuda, Kind kind, std::size_t bytes) : cuda_(cuda), kind_(kind) {
  void* host = nullptr;
  switch (kind) {
    case Kind::device:
      cuda.demand(cuda->allocate(&address_, bytes), "cuMemAlloc");
      break;
    case Kind::pinned:
      cuda.demand(cuda->host_allocate(&host, bytes, 0), "cuMemHostAlloc");
      std::memset(host, 0, bytes);
      address_ = reinterpret_cast<driver::Address>(host);
      break;
    case Kind::pageable:
      host = std::calloc(bytes, 1);
      if (!host) give_up("no memory");
      std::memset(host, 1, bytes);
      address_ = reinterpret_cast<driver::Address>(host);
      break;
    case Kind::virtual_memory:
      allocate_virtual(bytes);
      break;
  }
}

Memory::~Memory() {
  switch (kind_) {
    case Kind::device:
      cuda_->free(address_);
      break;
    case Kind::pinned:
      cuda_->host_free(data());
      break;
    case Kind::pageable:
      std::free(data());
      break;
    case Kind::virtual_memory:
      cuda_->unmap(address_, room_);
      cuda_->address_free(address_, room_);
      break;
  }
}

void Memory::allocate_virtual(std::size_t bytes) {
  driver::PhysicalProperties properties;
  properties.location.id = cuda_.device();
  std::size_t grain = 0;
  cuda_.demand(cuda_->granularity(&grain, &properties, 1), "cuMemGetAllocationGranularity");
  room_ = (bytes + grain - 1) / grain * grain;
  driver::Physical physical = 0;
  cuda_.demand(cuda_->physical_create(&physical, room_, &properties, 0), "cuMemCreate");
  cuda_.demand(cuda_->address_reserve(&address_, room_, 0, 0, 0), "cuMemAddressReserve");
  cuda_.demand(cuda_->map(address_, room_, 0, physical, 0), "cuMemMap");
  cuda_.demand(cuda_->physical_release(physical), "cuMemRelease");
  const driver::Access access{properties.location};
  cuda_.demand(cuda_->set_access(address_, room_, &access, 1), "cuMemSetAccess");
}

void Memory::put(const void* from, std::size_t bytes) const {
  if (kind_ == Kind::pageable) {
    std::memcpy(data(), from, bytes);
    return;
  }
  cuda_.demand(cuda_->copy(address_, reinterpret_cast<driver::Address>(from), bytes), "cuMemcpy");
  cuda_.demand(cuda_->synchronize(), "cuCtxSynchronize");
}

void Memory::get(void* to, std::size_t bytes) const {
  if (kind_ == Kind::pageable)
    std::memcpy(to, data(), bytes);
  else
    cuda_.demand(cuda_->copy(reinterpret_cast<driver::Address>(to), address_, bytes), "cuMemcpy");
}

PeerMemory::PeerMemory(const Cuda& cuda, const Memory& mine, int peer) : cuda_(cuda) {
  driver::IpcHandle handle;
  driver::IpcHandle theirs;
  cuda.demand(cuda->ipc_get(&handle, mine.address()), "cuIpcGetMemHandle");
  MPI_Sendrecv(&handle, sizeof handle, MPI_BYTE, peer, 7, &theirs, sizeof theirs, MPI_BYTE, peer, 7,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (cuda->ipc_open(&address_, theirs, driver::lazy_peer_access) != driver::success) address_ = 0;
  // Both or none.
  const int opened = address_ != 0 ? 1 : 0;
  int both = 0;
  MPI_Allreduce(&opened, &both, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  if (both == 0 && address_ != 0) {
    cuda->ipc_close(address_);
    address_ = 0;
  }
}

PeerMemory::~PeerMemory() {
  if (address_ != 0) cuda_->ipc_close(address_);
  MPI_Barrier(MPI_COMM_WORLD);  // before the owner frees it
}

}  // namespace isthmus::bench
