// What the benchmark uses of the CUDA driver's binary interface, in our own words: no toolkit is needed, and
// nothing of src/, so that it builds with any MPI.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

// X(name, exported symbol, parameters); all of them return a CUresult.
#define ISTHMUS_BENCH_DRIVER(X)                                                                             \
  X(init, cuInit, (unsigned flags))                                                                         \
  X(version, cuDriverGetVersion, (int* version))                                                            \
  X(error_text, cuGetErrorString, (int status, const char** text))                                          \
  X(device_count, cuDeviceGetCount, (int* count))                                                           \
  X(device_name, cuDeviceGetName, (char* name, int length, int device))                                     \
  X(retain, cuDevicePrimaryCtxRetain, (Context * context, int device))                                      \
  X(release, cuDevicePrimaryCtxRelease_v2, (int device))                                                    \
  X(set_context, cuCtxSetCurrent, (Context context))                                                        \
  X(synchronize, cuCtxSynchronize, ())                                                                      \
  X(allocate, cuMemAlloc_v2, (Address * address, std::size_t bytes))                                        \
  X(free, cuMemFree_v2, (Address address))                                                                  \
  X(host_allocate, cuMemHostAlloc, (void** address, std::size_t bytes, unsigned flags))                     \
  X(host_free, cuMemFreeHost, (void* address))                                                              \
  X(copy, cuMemcpy, (Address to, Address from, std::size_t bytes))                                          \
  X(copy_async, cuMemcpyAsync, (Address to, Address from, std::size_t bytes, Stream stream))                \
  X(granularity, cuMemGetAllocationGranularity,                                                             \
    (std::size_t* bytes, const PhysicalProperties* properties, int recommended))                            \
  X(physical_create, cuMemCreate,                                                                           \
    (Physical * handle, std::size_t bytes, const PhysicalProperties* properties, unsigned long long flags)) \
  X(physical_release, cuMemRelease, (Physical handle))                                                      \
  X(address_reserve, cuMemAddressReserve,                                                                   \
    (Address * address, std::size_t bytes, std::size_t alignment, Address hint, unsigned long long flags))  \
  X(address_free, cuMemAddressFree, (Address address, std::size_t bytes))                                   \
  X(map, cuMemMap,                                                                                          \
    (Address address, std::size_t bytes, std::size_t offset, Physical handle, unsigned long long flags))    \
  X(unmap, cuMemUnmap, (Address address, std::size_t bytes))                                                \
  X(set_access, cuMemSetAccess,                                                                             \
    (Address address, std::size_t bytes, const Access* accesses, std::size_t count))                        \
  X(ipc_get, cuIpcGetMemHandle, (IpcHandle * handle, Address address))                                      \
  X(ipc_open, cuIpcOpenMemHandle_v2, (Address * address, IpcHandle handle, unsigned flags))                 \
  X(ipc_close, cuIpcCloseMemHandle, (Address address))                                                      \
  X(stream_create, cuStreamCreate, (Stream * stream, unsigned flags))                                       \
  X(stream_destroy, cuStreamDestroy_v2, (Stream stream))                                                    \
  X(stream_synchronize, cuStreamSynchronize, (Stream stream))                                               \
  X(module_load, cuModuleLoadData, (Module * module, const void* image))                                    \
  X(module_unload, cuModuleUnload, (Module module))                                                         \
  X(module_function, cuModuleGetFunction, (Function * function, Module module, const char* name))           \
  X(launch, cuLaunchKernel,                                                                                 \
    (Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,                \
     unsigned block_y, unsigned block_z, unsigned shared, Stream stream, void** parameters, void** extra))  \
  X(event_create, cuEventCreate, (Event * event, unsigned flags))                                           \
  X(event_destroy, cuEventDestroy_v2, (Event event))                                                        \
  X(event_record, cuEventRecord, (Event event, Stream stream))                                              \
  X(event_query, cuEventQuery, (Event event))

namespace isthmus::bench::driver {

using Address = std::uint64_t;
using Physical = std::uint64_t;
using Context = struct CUctx_st*;
using Stream = struct CUstream_st*;
using Event = struct CUevent_st*;
using Module = struct CUmod_st*;
using Function = struct CUfunc_st*;

inline constexpr int success = 0;
inline constexpr int not_ready = 600;
inline constexpr unsigned non_blocking_stream = 1;
inline constexpr unsigned no_timing = 2;
inline constexpr unsigned lazy_peer_access = 1;

struct IpcHandle {
  std::array<char, 64> bytes{};
};
struct Location {
  int type = 1;  // a device
  int id = 0;
};
struct PhysicalProperties {
  int type = 1;          // pinned
  int handle_types = 1;  // POSIX descriptors
  Location location;
  void* win32 = nullptr;
  std::array<unsigned char, 8> flags{};
};
struct Access {
  Location location;
  int flags = 3;  // to read and to write
};

struct Functions {
#define ISTHMUS_BENCH_MEMBER_(name, symbol, parameters) int(*name) parameters = nullptr;
  ISTHMUS_BENCH_DRIVER(ISTHMUS_BENCH_MEMBER_)
#undef ISTHMUS_BENCH_MEMBER_
};

}  // namespace isthmus::bench::driver
