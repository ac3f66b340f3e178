#pragma once

#include "gpu/driver/cuda_types.hpp"

/// The driver's functions that this library uses: X(name in `cuda::Functions`, exported symbol, parameters).
/// All of them return a `cuda::Status`. Every driver since 12.2 has them.

#define ISTHMUS_CUDA_DEVICE_FUNCTIONS(X)                                                             \
  X(init, cuInit, (unsigned flags))                                                                  \
  X(driver_version, cuDriverGetVersion, (int* version))                                              \
  X(error_name, cuGetErrorName, (::isthmus::cuda::Status status, const char** text))                 \
  X(error_string, cuGetErrorString, (::isthmus::cuda::Status status, const char** text))             \
  X(device_count, cuDeviceGetCount, (int* count))                                                    \
  X(device_get, cuDeviceGet, (::isthmus::cuda::Device * device, int ordinal))                        \
  X(device_name, cuDeviceGetName, (char* name, int length, ::isthmus::cuda::Device device))          \
  X(device_uuid, cuDeviceGetUuid_v2, (::isthmus::cuda::Uuid * uuid, ::isthmus::cuda::Device device)) \
  X(device_pci, cuDeviceGetPCIBusId, (char* text, int length, ::isthmus::cuda::Device device))       \
  X(device_attribute, cuDeviceGetAttribute,                                                          \
    (int* value, ::isthmus::cuda::DeviceAttribute attribute, ::isthmus::cuda::Device device))        \
  X(device_total_memory, cuDeviceTotalMem_v2, (std::size_t* bytes, ::isthmus::cuda::Device device))  \
  X(device_can_access_peer, cuDeviceCanAccessPeer,                                                   \
    (int* can, ::isthmus::cuda::Device device, ::isthmus::cuda::Device peer))                        \
  X(device_peer_attribute, cuDeviceGetP2PAttribute,                                                  \
    (int* value, ::isthmus::cuda::PeerAttribute attribute, ::isthmus::cuda::Device from,             \
     ::isthmus::cuda::Device to))                                                                    \
  X(primary_retain, cuDevicePrimaryCtxRetain,                                                        \
    (::isthmus::cuda::Context * context, ::isthmus::cuda::Device device))                            \
  X(primary_release, cuDevicePrimaryCtxRelease_v2, (::isthmus::cuda::Device device))                 \
  X(primary_state, cuDevicePrimaryCtxGetState,                                                       \
    (::isthmus::cuda::Device device, unsigned* flags, int* active))                                  \
  X(context_current, cuCtxGetCurrent, (::isthmus::cuda::Context * context))                          \
  X(context_set, cuCtxSetCurrent, (::isthmus::cuda::Context context))                                \
  X(context_push, cuCtxPushCurrent_v2, (::isthmus::cuda::Context context))                           \
  X(context_pop, cuCtxPopCurrent_v2, (::isthmus::cuda::Context * context))                           \
  X(context_id, cuCtxGetId, (::isthmus::cuda::Context context, unsigned long long* id))              \
  X(context_device, cuCtxGetDevice, (::isthmus::cuda::Device * device))                              \
  X(context_synchronize, cuCtxSynchronize, ())                                                       \
  X(context_enable_peer, cuCtxEnablePeerAccess, (::isthmus::cuda::Context peer, unsigned flags))     \
  X(context_disable_peer, cuCtxDisablePeerAccess, (::isthmus::cuda::Context peer))                   \
  X(device_default_pool, cuDeviceGetDefaultMemPool,                                                  \
    (::isthmus::cuda::Pool * pool, ::isthmus::cuda::Device device))

#define ISTHMUS_CUDA_MEMORY_FUNCTIONS(X)                                                                    \
  X(memory_info, cuMemGetInfo_v2, (std::size_t* free, std::size_t* total))                                  \
  X(allocate, cuMemAlloc_v2, (::isthmus::cuda::Address * address, std::size_t bytes))                       \
  X(free, cuMemFree_v2, (::isthmus::cuda::Address address))                                                 \
  X(host_allocate, cuMemHostAlloc, (void** address, std::size_t bytes, unsigned flags))                     \
  X(host_free, cuMemFreeHost, (void* address))                                                              \
  X(host_register, cuMemHostRegister_v2, (void* address, std::size_t bytes, unsigned flags))                \
  X(host_unregister, cuMemHostUnregister, (void* address))                                                  \
  X(host_device_pointer, cuMemHostGetDevicePointer_v2,                                                      \
    (::isthmus::cuda::Address * address, void* host, unsigned flags))                                       \
  X(managed_allocate, cuMemAllocManaged,                                                                    \
    (::isthmus::cuda::Address * address, std::size_t bytes, unsigned flags))                                \
  X(managed_prefetch, cuMemPrefetchAsync_v2,                                                                \
    (::isthmus::cuda::Address address, std::size_t bytes, ::isthmus::cuda::Location location,               \
     unsigned flags, ::isthmus::cuda::Stream stream))                                                       \
  X(range_attribute, cuMemRangeGetAttribute,                                                                \
    (void* value, std::size_t size, ::isthmus::cuda::RangeAttribute attribute,                              \
     ::isthmus::cuda::Address address, std::size_t bytes))                                                  \
  X(range_attributes, cuMemRangeGetAttributes,                                                              \
    (void** values, std::size_t* sizes, ::isthmus::cuda::RangeAttribute* attributes, std::size_t count,     \
     ::isthmus::cuda::Address address, std::size_t bytes))                                                  \
  X(address_range, cuMemGetAddressRange_v2,                                                                 \
    (::isthmus::cuda::Address * base, std::size_t* bytes, ::isthmus::cuda::Address address))                \
  X(pointer_attribute, cuPointerGetAttribute,                                                               \
    (void* value, ::isthmus::cuda::PointerAttribute attribute, ::isthmus::cuda::Address address))           \
  X(pointer_attributes, cuPointerGetAttributes,                                                             \
    (unsigned count, ::isthmus::cuda::PointerAttribute* attributes, void** values,                          \
     ::isthmus::cuda::Address address))                                                                     \
  X(pointer_set_attribute, cuPointerSetAttribute,                                                           \
    (const void* value, ::isthmus::cuda::PointerAttribute attribute, ::isthmus::cuda::Address address))     \
  X(granularity, cuMemGetAllocationGranularity,                                                             \
    (std::size_t* bytes, const ::isthmus::cuda::AllocationProperties* properties,                           \
     ::isthmus::cuda::GranularityKind kind))                                                                \
  X(physical_create, cuMemCreate,                                                                           \
    (::isthmus::cuda::Physical * handle, std::size_t bytes,                                                 \
     const ::isthmus::cuda::AllocationProperties* properties, unsigned long long flags))                    \
  X(physical_release, cuMemRelease, (::isthmus::cuda::Physical handle))                                     \
  X(physical_retain, cuMemRetainAllocationHandle, (::isthmus::cuda::Physical * handle, void* address))      \
  X(physical_properties, cuMemGetAllocationPropertiesFromHandle,                                            \
    (::isthmus::cuda::AllocationProperties * properties, ::isthmus::cuda::Physical handle))                 \
  X(physical_export, cuMemExportToShareableHandle,                                                          \
    (void* shareable, ::isthmus::cuda::Physical handle, ::isthmus::cuda::HandleType type,                   \
     unsigned long long flags))                                                                             \
  X(physical_import, cuMemImportFromShareableHandle,                                                        \
    (::isthmus::cuda::Physical * handle, void* shareable, ::isthmus::cuda::HandleType type))                \
  X(address_reserve, cuMemAddressReserve,                                                                   \
    (::isthmus::cuda::Address * address, std::size_t bytes, std::size_t alignment,                          \
     ::isthmus::cuda::Address hint, unsigned long long flags))                                              \
  X(address_free, cuMemAddressFree, (::isthmus::cuda::Address address, std::size_t bytes))                  \
  X(map, cuMemMap,                                                                                          \
    (::isthmus::cuda::Address address, std::size_t bytes, std::size_t offset,                               \
     ::isthmus::cuda::Physical handle, unsigned long long flags))                                           \
  X(unmap, cuMemUnmap, (::isthmus::cuda::Address address, std::size_t bytes))                               \
  X(set_access, cuMemSetAccess,                                                                             \
    (::isthmus::cuda::Address address, std::size_t bytes, const ::isthmus::cuda::Access* accesses,          \
     std::size_t count))                                                                                    \
  X(pool_create, cuMemPoolCreate,                                                                           \
    (::isthmus::cuda::Pool * pool, const ::isthmus::cuda::PoolProperties* properties))                      \
  X(pool_destroy, cuMemPoolDestroy, (::isthmus::cuda::Pool pool))                                           \
  X(pool_set_access, cuMemPoolSetAccess,                                                                    \
    (::isthmus::cuda::Pool pool, const ::isthmus::cuda::Access* accesses, std::size_t count))               \
  X(pool_allocate, cuMemAllocFromPoolAsync,                                                                 \
    (::isthmus::cuda::Address * address, std::size_t bytes, ::isthmus::cuda::Pool pool,                     \
     ::isthmus::cuda::Stream stream))                                                                       \
  X(pool_free, cuMemFreeAsync, (::isthmus::cuda::Address address, ::isthmus::cuda::Stream stream))          \
  X(pool_export, cuMemPoolExportToShareableHandle,                                                          \
    (void* shareable, ::isthmus::cuda::Pool pool, ::isthmus::cuda::HandleType type,                         \
     unsigned long long flags))                                                                             \
  X(pool_import, cuMemPoolImportFromShareableHandle,                                                        \
    (::isthmus::cuda::Pool * pool, void* shareable, ::isthmus::cuda::HandleType type,                       \
     unsigned long long flags))                                                                             \
  X(pool_export_pointer, cuMemPoolExportPointer,                                                            \
    (::isthmus::cuda::PoolPointer * data, ::isthmus::cuda::Address address))                                \
  X(pool_import_pointer, cuMemPoolImportPointer,                                                            \
    (::isthmus::cuda::Address * address, ::isthmus::cuda::Pool pool, ::isthmus::cuda::PoolPointer * data))  \
  X(ipc_get_memory, cuIpcGetMemHandle,                                                                      \
    (::isthmus::cuda::IpcMemory * handle, ::isthmus::cuda::Address address))                                \
  X(ipc_open_memory, cuIpcOpenMemHandle_v2,                                                                 \
    (::isthmus::cuda::Address * address, ::isthmus::cuda::IpcMemory handle, unsigned flags))                \
  X(ipc_close_memory, cuIpcCloseMemHandle, (::isthmus::cuda::Address address))                              \
  X(ipc_get_event, cuIpcGetEventHandle, (::isthmus::cuda::IpcEvent * handle, ::isthmus::cuda::Event event)) \
  X(ipc_open_event, cuIpcOpenEventHandle, (::isthmus::cuda::Event * event, ::isthmus::cuda::IpcEvent handle))

#define ISTHMUS_CUDA_STREAM_FUNCTIONS(X)                                                                     \
  X(stream_create, cuStreamCreate, (::isthmus::cuda::Stream * stream, unsigned flags))                       \
  X(stream_create_with_priority, cuStreamCreateWithPriority,                                                 \
    (::isthmus::cuda::Stream * stream, unsigned flags, int priority))                                        \
  X(stream_destroy, cuStreamDestroy_v2, (::isthmus::cuda::Stream stream))                                    \
  X(stream_query, cuStreamQuery, (::isthmus::cuda::Stream stream))                                           \
  X(stream_synchronize, cuStreamSynchronize, (::isthmus::cuda::Stream stream))                               \
  X(stream_wait_event, cuStreamWaitEvent,                                                                    \
    (::isthmus::cuda::Stream stream, ::isthmus::cuda::Event event, unsigned flags))                          \
  X(stream_context, cuStreamGetCtx, (::isthmus::cuda::Stream stream, ::isthmus::cuda::Context * context))    \
  X(stream_is_capturing, cuStreamIsCapturing,                                                                \
    (::isthmus::cuda::Stream stream, ::isthmus::cuda::CaptureStatus * status))                               \
  X(stream_begin_capture, cuStreamBeginCapture_v2,                                                           \
    (::isthmus::cuda::Stream stream, ::isthmus::cuda::CaptureMode mode))                                     \
  X(stream_end_capture, cuStreamEndCapture,                                                                  \
    (::isthmus::cuda::Stream stream, ::isthmus::cuda::Graph * graph))                                        \
  X(exchange_capture_mode, cuThreadExchangeStreamCaptureMode, (::isthmus::cuda::CaptureMode * mode))         \
  X(graph_instantiate, cuGraphInstantiateWithFlags,                                                          \
    (::isthmus::cuda::GraphExec * executable, ::isthmus::cuda::Graph graph, unsigned long long flags))       \
  X(graph_launch, cuGraphLaunch, (::isthmus::cuda::GraphExec executable, ::isthmus::cuda::Stream stream))    \
  X(graph_exec_destroy, cuGraphExecDestroy, (::isthmus::cuda::GraphExec executable))                         \
  X(graph_destroy, cuGraphDestroy, (::isthmus::cuda::Graph graph))                                           \
  X(launch_host_function, cuLaunchHostFunc,                                                                  \
    (::isthmus::cuda::Stream stream, ::isthmus::cuda::HostFunction function, void* argument))                \
  X(stream_wait_value_32, cuStreamWaitValue32_v2,                                                            \
    (::isthmus::cuda::Stream stream, ::isthmus::cuda::Address address, std::uint32_t value, unsigned flags)) \
  X(stream_write_value_32, cuStreamWriteValue32_v2,                                                          \
    (::isthmus::cuda::Stream stream, ::isthmus::cuda::Address address, std::uint32_t value, unsigned flags)) \
  X(stream_wait_value_64, cuStreamWaitValue64_v2,                                                            \
    (::isthmus::cuda::Stream stream, ::isthmus::cuda::Address address, std::uint64_t value, unsigned flags)) \
  X(stream_write_value_64, cuStreamWriteValue64_v2,                                                          \
    (::isthmus::cuda::Stream stream, ::isthmus::cuda::Address address, std::uint64_t value, unsigned flags)) \
  X(stream_batch, cuStreamBatchMemOp_v2,                                                                     \
    (::isthmus::cuda::Stream stream, unsigned count, ::isthmus::cuda::StreamOperation* operations,           \
     unsigned flags))                                                                                        \
  X(event_create, cuEventCreate, (::isthmus::cuda::Event * event, unsigned flags))                           \
  X(event_destroy, cuEventDestroy_v2, (::isthmus::cuda::Event event))                                        \
  X(event_record, cuEventRecord, (::isthmus::cuda::Event event, ::isthmus::cuda::Stream stream))             \
  X(event_query, cuEventQuery, (::isthmus::cuda::Event event))                                               \
  X(event_synchronize, cuEventSynchronize, (::isthmus::cuda::Event event))                                   \
  X(copy, cuMemcpy, (::isthmus::cuda::Address to, ::isthmus::cuda::Address from, std::size_t bytes))         \
  X(copy_async, cuMemcpyAsync,                                                                               \
    (::isthmus::cuda::Address to, ::isthmus::cuda::Address from, std::size_t bytes,                          \
     ::isthmus::cuda::Stream stream))                                                                        \
  X(copy_to_device_async, cuMemcpyHtoDAsync_v2,                                                              \
    (::isthmus::cuda::Address to, const void* from, std::size_t bytes, ::isthmus::cuda::Stream stream))      \
  X(copy_to_host_async, cuMemcpyDtoHAsync_v2,                                                                \
    (void* to, ::isthmus::cuda::Address from, std::size_t bytes, ::isthmus::cuda::Stream stream))            \
  X(copy_on_device_async, cuMemcpyDtoDAsync_v2,                                                              \
    (::isthmus::cuda::Address to, ::isthmus::cuda::Address from, std::size_t bytes,                          \
     ::isthmus::cuda::Stream stream))                                                                        \
  X(copy_peer_async, cuMemcpyPeerAsync,                                                                      \
    (::isthmus::cuda::Address to, ::isthmus::cuda::Context to_context, ::isthmus::cuda::Address from,        \
     ::isthmus::cuda::Context from_context, std::size_t bytes, ::isthmus::cuda::Stream stream))              \
  X(copy_2d, cuMemcpy2D_v2, (const ::isthmus::cuda::Copy2D* copy))                                           \
  X(copy_2d_async, cuMemcpy2DAsync_v2,                                                                       \
    (const ::isthmus::cuda::Copy2D* copy, ::isthmus::cuda::Stream stream))                                   \
  X(fill, cuMemsetD8_v2, (::isthmus::cuda::Address to, unsigned char value, std::size_t bytes))              \
  X(fill_async, cuMemsetD8Async,                                                                             \
    (::isthmus::cuda::Address to, unsigned char value, std::size_t bytes, ::isthmus::cuda::Stream stream))   \
  X(fill_32_async, cuMemsetD32Async,                                                                         \
    (::isthmus::cuda::Address to, unsigned value, std::size_t count, ::isthmus::cuda::Stream stream))

#define ISTHMUS_CUDA_MODULE_FUNCTIONS(X)                                                         \
  X(module_load, cuModuleLoadData, (::isthmus::cuda::Module * module, const void* image))        \
  X(module_unload, cuModuleUnload, (::isthmus::cuda::Module module))                             \
  X(module_function, cuModuleGetFunction,                                                        \
    (::isthmus::cuda::Function * function, ::isthmus::cuda::Module module, const char* name))    \
  X(library_load, cuLibraryLoadData,                                                             \
    (::isthmus::cuda::Library * library, const void* image, int* jit_options, void** jit_values, \
     unsigned jit_count, int* library_options, void** library_values, unsigned library_count))   \
  X(library_unload, cuLibraryUnload, (::isthmus::cuda::Library library))                         \
  X(library_kernel, cuLibraryGetKernel,                                                          \
    (::isthmus::cuda::Kernel * kernel, ::isthmus::cuda::Library library, const char* name))      \
  X(kernel_function, cuKernelGetFunction,                                                        \
    (::isthmus::cuda::Function * function, ::isthmus::cuda::Kernel kernel))                      \
  X(launch, cuLaunchKernel,                                                                      \
    (::isthmus::cuda::Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,      \
     unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,                \
     ::isthmus::cuda::Stream stream, void** parameters, void** extra))

#define ISTHMUS_CUDA_FUNCTIONS(X)  \
  ISTHMUS_CUDA_DEVICE_FUNCTIONS(X) \
  ISTHMUS_CUDA_MEMORY_FUNCTIONS(X) \
  ISTHMUS_CUDA_STREAM_FUNCTIONS(X) \
  ISTHMUS_CUDA_MODULE_FUNCTIONS(X)

/// What later drivers have: cuLaunchKernelEx since 11.8, cuFuncLoad since 12.4, the other since 13.0.
#define ISTHMUS_CUDA_LATER_FUNCTIONS(X)                                                                     \
  X(launch_with, cuLaunchKernelEx,                                                                          \
    (const ::isthmus::cuda::LaunchConfig* config, ::isthmus::cuda::Function function, void** parameters,    \
     void** extra))                                                                                         \
  X(function_load, cuFuncLoad, (::isthmus::cuda::Function function))                                        \
  X(copy_batch, cuMemcpyBatchAsync_v2,                                                                      \
    (::isthmus::cuda::Address * to, ::isthmus::cuda::Address * from, std::size_t* bytes, std::size_t count, \
     ::isthmus::cuda::CopyAttributes* attributes, std::size_t* first_of_attributes,                         \
     std::size_t attribute_count, ::isthmus::cuda::Stream stream))

namespace isthmus::cuda {

/// Pointers to the driver's functions, all of them set but those of later drivers. Threads may share it.
struct Functions {
#define ISTHMUS_CUDA_MEMBER_(name, symbol, parameters) Status(*name) parameters = nullptr;
  ISTHMUS_CUDA_FUNCTIONS(ISTHMUS_CUDA_MEMBER_)
  ISTHMUS_CUDA_LATER_FUNCTIONS(ISTHMUS_CUDA_MEMBER_)
#undef ISTHMUS_CUDA_MEMBER_
};

}  // namespace isthmus::cuda
