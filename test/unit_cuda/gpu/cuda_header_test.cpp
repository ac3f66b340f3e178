// Our declarations of the driver's interface against NVIDIA's header, where there is one.
#include <gtest/gtest.h>

#include <cstddef>
#include <type_traits>

#include "gpu/driver/cuda_api.hpp"

#ifdef ISTHMUS_CUDA_HEADER
#include <cuda.h>

namespace isthmus::cuda::cuda_header_test {
namespace {

/// Whether values of both types take the same way through a call and the same room in memory.
template <class Ours, class Theirs>
constexpr bool same_value() {
  if constexpr (std::is_pointer_v<Ours> != std::is_pointer_v<Theirs>)
    return false;
  else if constexpr (std::is_class_v<Ours> || std::is_union_v<Theirs>)
    return sizeof(Ours) == sizeof(Theirs) && alignof(Ours) == alignof(Theirs);
  else if constexpr (!std::is_pointer_v<Ours>)
    return sizeof(Ours) == sizeof(Theirs);
  else {
    using OurTarget = std::remove_cv_t<std::remove_pointer_t<Ours>>;
    using TheirTarget = std::remove_cv_t<std::remove_pointer_t<Theirs>>;
    if constexpr (std::is_function_v<OurTarget> || std::is_void_v<OurTarget>)
      return std::is_function_v<OurTarget> == std::is_function_v<TheirTarget>;
    else if constexpr (std::is_void_v<TheirTarget>)
      return false;
    else if constexpr (requires { alignof(OurTarget), alignof(TheirTarget); })
      return same_value<OurTarget, TheirTarget>();
    else  // objects behind handles are incomplete on both sides
      return !requires { alignof(OurTarget); } && !requires { alignof(TheirTarget); };
  }
}

template <class Ours, class Theirs>
struct SameFunction : std::false_type {};
template <class... Ours, class... Theirs>
struct SameFunction<Status(Ours...), CUresult(Theirs...)> {
  static constexpr bool value = [] {
    if constexpr (sizeof...(Ours) != sizeof...(Theirs))
      return false;
    else
      return (same_value<Ours, Theirs>() && ...);
  }();
};

#define ISTHMUS_SAME_(name, symbol, parameters) \
  static_assert(SameFunction<Status parameters, std::remove_reference_t<decltype(::symbol)>>::value, #symbol);
ISTHMUS_CUDA_FUNCTIONS(ISTHMUS_SAME_)
#if CUDA_VERSION >= 13000
ISTHMUS_CUDA_LATER_FUNCTIONS(ISTHMUS_SAME_)
static_assert(static_cast<int>(SourceOrder::stream) == CU_MEMCPY_SRC_ACCESS_ORDER_STREAM &&
              static_cast<int>(SourceOrder::during_call) == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL &&
              static_cast<int>(SourceOrder::any) == CU_MEMCPY_SRC_ACCESS_ORDER_ANY);
static_assert(static_cast<int>(LaunchAttributeId::programmatic_stream_serialization) ==
                  CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION &&
              sizeof(LaunchAttribute) == sizeof(CUlaunchAttribute) &&
              offsetof(LaunchAttribute, allowed) == offsetof(CUlaunchAttribute, value) &&
              offsetof(LaunchConfig, attributes) == offsetof(CUlaunchConfig, attrs));
#endif
#undef ISTHMUS_SAME_

#define ISTHMUS_EQUAL_(ours, theirs) \
  static_assert(static_cast<long long>(ours) == static_cast<long long>(theirs))
ISTHMUS_EQUAL_(Status::invalid_value, CUDA_ERROR_INVALID_VALUE);
ISTHMUS_EQUAL_(Status::out_of_memory, CUDA_ERROR_OUT_OF_MEMORY);
ISTHMUS_EQUAL_(Status::not_initialized, CUDA_ERROR_NOT_INITIALIZED);
ISTHMUS_EQUAL_(Status::deinitialized, CUDA_ERROR_DEINITIALIZED);
ISTHMUS_EQUAL_(Status::no_device, CUDA_ERROR_NO_DEVICE);
ISTHMUS_EQUAL_(Status::invalid_device, CUDA_ERROR_INVALID_DEVICE);
ISTHMUS_EQUAL_(Status::invalid_image, CUDA_ERROR_INVALID_IMAGE);
ISTHMUS_EQUAL_(Status::invalid_context, CUDA_ERROR_INVALID_CONTEXT);
ISTHMUS_EQUAL_(Status::map_failed, CUDA_ERROR_MAP_FAILED);
ISTHMUS_EQUAL_(Status::already_mapped, CUDA_ERROR_ALREADY_MAPPED);
ISTHMUS_EQUAL_(Status::not_mapped, CUDA_ERROR_NOT_MAPPED);
ISTHMUS_EQUAL_(Status::peer_access_unsupported, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
ISTHMUS_EQUAL_(Status::invalid_source, CUDA_ERROR_INVALID_SOURCE);
ISTHMUS_EQUAL_(Status::operating_system, CUDA_ERROR_OPERATING_SYSTEM);
ISTHMUS_EQUAL_(Status::invalid_handle, CUDA_ERROR_INVALID_HANDLE);
ISTHMUS_EQUAL_(Status::illegal_state, CUDA_ERROR_ILLEGAL_STATE);
ISTHMUS_EQUAL_(Status::not_found, CUDA_ERROR_NOT_FOUND);
ISTHMUS_EQUAL_(Status::not_ready, CUDA_ERROR_NOT_READY);
ISTHMUS_EQUAL_(Status::illegal_address, CUDA_ERROR_ILLEGAL_ADDRESS);
ISTHMUS_EQUAL_(Status::peer_access_already_enabled, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
ISTHMUS_EQUAL_(Status::peer_access_not_enabled, CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
ISTHMUS_EQUAL_(Status::context_is_destroyed, CUDA_ERROR_CONTEXT_IS_DESTROYED);
ISTHMUS_EQUAL_(Status::assertion_failed, CUDA_ERROR_ASSERT);
ISTHMUS_EQUAL_(Status::host_memory_already_registered, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
ISTHMUS_EQUAL_(Status::host_memory_not_registered, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
ISTHMUS_EQUAL_(Status::hardware_stack_error, CUDA_ERROR_HARDWARE_STACK_ERROR);
ISTHMUS_EQUAL_(Status::launch_failed, CUDA_ERROR_LAUNCH_FAILED);
ISTHMUS_EQUAL_(Status::not_permitted, CUDA_ERROR_NOT_PERMITTED);
ISTHMUS_EQUAL_(Status::not_supported, CUDA_ERROR_NOT_SUPPORTED);
ISTHMUS_EQUAL_(Status::stream_capture_unsupported, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
ISTHMUS_EQUAL_(Status::stream_capture_invalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
ISTHMUS_EQUAL_(Status::stream_capture_unmatched, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
ISTHMUS_EQUAL_(Status::stream_capture_implicit, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
ISTHMUS_EQUAL_(Status::stream_capture_wrong_thread, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
ISTHMUS_EQUAL_(Status::unknown, CUDA_ERROR_UNKNOWN);

ISTHMUS_EQUAL_(MemoryType::host, CU_MEMORYTYPE_HOST);
ISTHMUS_EQUAL_(MemoryType::device, CU_MEMORYTYPE_DEVICE);
ISTHMUS_EQUAL_(MemoryType::array, CU_MEMORYTYPE_ARRAY);
ISTHMUS_EQUAL_(MemoryType::unified, CU_MEMORYTYPE_UNIFIED);

ISTHMUS_EQUAL_(PointerAttribute::context, CU_POINTER_ATTRIBUTE_CONTEXT);
ISTHMUS_EQUAL_(PointerAttribute::memory_type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
ISTHMUS_EQUAL_(PointerAttribute::device_pointer, CU_POINTER_ATTRIBUTE_DEVICE_POINTER);
ISTHMUS_EQUAL_(PointerAttribute::host_pointer, CU_POINTER_ATTRIBUTE_HOST_POINTER);
ISTHMUS_EQUAL_(PointerAttribute::sync_memops, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS);
ISTHMUS_EQUAL_(PointerAttribute::buffer_id, CU_POINTER_ATTRIBUTE_BUFFER_ID);
ISTHMUS_EQUAL_(PointerAttribute::is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED);
ISTHMUS_EQUAL_(PointerAttribute::device_ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
ISTHMUS_EQUAL_(PointerAttribute::is_legacy_ipc_capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE);
ISTHMUS_EQUAL_(PointerAttribute::range_start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR);
ISTHMUS_EQUAL_(PointerAttribute::range_size, CU_POINTER_ATTRIBUTE_RANGE_SIZE);
ISTHMUS_EQUAL_(PointerAttribute::is_mapped, CU_POINTER_ATTRIBUTE_MAPPED);
ISTHMUS_EQUAL_(PointerAttribute::allowed_handle_types, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES);
ISTHMUS_EQUAL_(PointerAttribute::is_rdma_capable, CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE);
ISTHMUS_EQUAL_(PointerAttribute::access_flags, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS);
ISTHMUS_EQUAL_(PointerAttribute::pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE);
ISTHMUS_EQUAL_(PointerAttribute::mapping_size, CU_POINTER_ATTRIBUTE_MAPPING_SIZE);
ISTHMUS_EQUAL_(PointerAttribute::mapping_base, CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR);
ISTHMUS_EQUAL_(PointerAttribute::block_id, CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID);

ISTHMUS_EQUAL_(DeviceAttribute::multiprocessor_count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
ISTHMUS_EQUAL_(DeviceAttribute::integrated, CU_DEVICE_ATTRIBUTE_INTEGRATED);
ISTHMUS_EQUAL_(DeviceAttribute::pci_bus_id, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
ISTHMUS_EQUAL_(DeviceAttribute::pci_device_id, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID);
ISTHMUS_EQUAL_(DeviceAttribute::unified_addressing, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING);
ISTHMUS_EQUAL_(DeviceAttribute::pci_domain_id, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID);
ISTHMUS_EQUAL_(DeviceAttribute::compute_capability_major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
ISTHMUS_EQUAL_(DeviceAttribute::compute_capability_minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
ISTHMUS_EQUAL_(DeviceAttribute::pageable_memory_access, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS);
ISTHMUS_EQUAL_(DeviceAttribute::concurrent_managed_access, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS);
ISTHMUS_EQUAL_(DeviceAttribute::can_flush_remote_writes, CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES);
ISTHMUS_EQUAL_(DeviceAttribute::pageable_memory_access_uses_host_page_tables,
               CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES);
ISTHMUS_EQUAL_(DeviceAttribute::virtual_memory_management,
               CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
ISTHMUS_EQUAL_(DeviceAttribute::posix_descriptors,
               CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
ISTHMUS_EQUAL_(DeviceAttribute::memory_pools, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
ISTHMUS_EQUAL_(DeviceAttribute::rdma, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED);
ISTHMUS_EQUAL_(DeviceAttribute::pool_handle_types, CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES);
ISTHMUS_EQUAL_(DeviceAttribute::stream_memory_operations_64,
               CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS);
ISTHMUS_EQUAL_(DeviceAttribute::dma_buf, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED);
ISTHMUS_EQUAL_(DeviceAttribute::ipc_events, CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED);
ISTHMUS_EQUAL_(DeviceAttribute::host_numa_id, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID);

ISTHMUS_EQUAL_(PeerAttribute::performance_rank, CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK);
ISTHMUS_EQUAL_(PeerAttribute::access_supported, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED);
ISTHMUS_EQUAL_(PeerAttribute::native_atomic_supported, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED);
ISTHMUS_EQUAL_(PeerAttribute::array_access_supported, CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED);
ISTHMUS_EQUAL_(no_device, CU_DEVICE_INVALID);
ISTHMUS_EQUAL_(host_device, CU_DEVICE_CPU);

ISTHMUS_EQUAL_(LocationType::device, CU_MEM_LOCATION_TYPE_DEVICE);
ISTHMUS_EQUAL_(LocationType::host, CU_MEM_LOCATION_TYPE_HOST);
ISTHMUS_EQUAL_(LocationType::host_numa, CU_MEM_LOCATION_TYPE_HOST_NUMA);
ISTHMUS_EQUAL_(LocationType::host_numa_current, CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT);
ISTHMUS_EQUAL_(RangeAttribute::read_mostly, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY);
ISTHMUS_EQUAL_(RangeAttribute::preferred_location, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION);
ISTHMUS_EQUAL_(RangeAttribute::accessed_by, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY);
ISTHMUS_EQUAL_(RangeAttribute::last_prefetch_location, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION);
ISTHMUS_EQUAL_(RangeAttribute::preferred_location_type, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE);
ISTHMUS_EQUAL_(RangeAttribute::preferred_location_id, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID);
ISTHMUS_EQUAL_(RangeAttribute::last_prefetch_location_type,
               CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE);
ISTHMUS_EQUAL_(RangeAttribute::last_prefetch_location_id, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID);
ISTHMUS_EQUAL_(Advice::set_read_mostly, CU_MEM_ADVISE_SET_READ_MOSTLY);
ISTHMUS_EQUAL_(Advice::unset_read_mostly, CU_MEM_ADVISE_UNSET_READ_MOSTLY);
ISTHMUS_EQUAL_(Advice::set_preferred_location, CU_MEM_ADVISE_SET_PREFERRED_LOCATION);
ISTHMUS_EQUAL_(Advice::unset_preferred_location, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION);
ISTHMUS_EQUAL_(Advice::set_accessed_by, CU_MEM_ADVISE_SET_ACCESSED_BY);
ISTHMUS_EQUAL_(Advice::unset_accessed_by, CU_MEM_ADVISE_UNSET_ACCESSED_BY);

ISTHMUS_EQUAL_(AllocationType::pinned, CU_MEM_ALLOCATION_TYPE_PINNED);
ISTHMUS_EQUAL_(AllocationType::managed, CU_MEM_ALLOCATION_TYPE_MANAGED);
ISTHMUS_EQUAL_(HandleType::none, CU_MEM_HANDLE_TYPE_NONE);
ISTHMUS_EQUAL_(HandleType::posix_descriptor, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
ISTHMUS_EQUAL_(HandleType::win32, CU_MEM_HANDLE_TYPE_WIN32);
ISTHMUS_EQUAL_(HandleType::win32_kmt, CU_MEM_HANDLE_TYPE_WIN32_KMT);
ISTHMUS_EQUAL_(HandleType::fabric, CU_MEM_HANDLE_TYPE_FABRIC);
ISTHMUS_EQUAL_(AccessFlags::none, CU_MEM_ACCESS_FLAGS_PROT_NONE);
ISTHMUS_EQUAL_(AccessFlags::read, CU_MEM_ACCESS_FLAGS_PROT_READ);
ISTHMUS_EQUAL_(AccessFlags::read_write, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
ISTHMUS_EQUAL_(GranularityKind::minimum, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
ISTHMUS_EQUAL_(GranularityKind::recommended, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
ISTHMUS_EQUAL_(RangeHandleType::dma_buf, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD);
ISTHMUS_EQUAL_(PoolAttribute::release_threshold, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD);
ISTHMUS_EQUAL_(PoolAttribute::reserved_current, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
ISTHMUS_EQUAL_(PoolAttribute::used_high, CU_MEMPOOL_ATTR_USED_MEM_HIGH);

ISTHMUS_EQUAL_(CaptureStatus::active, CU_STREAM_CAPTURE_STATUS_ACTIVE);
ISTHMUS_EQUAL_(CaptureStatus::invalidated, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
ISTHMUS_EQUAL_(CaptureMode::global, CU_STREAM_CAPTURE_MODE_GLOBAL);
ISTHMUS_EQUAL_(CaptureMode::thread_local_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
ISTHMUS_EQUAL_(CaptureMode::relaxed, CU_STREAM_CAPTURE_MODE_RELAXED);
ISTHMUS_EQUAL_(StreamOperationType::wait_value_32, CU_STREAM_MEM_OP_WAIT_VALUE_32);
ISTHMUS_EQUAL_(StreamOperationType::write_value_32, CU_STREAM_MEM_OP_WRITE_VALUE_32);
ISTHMUS_EQUAL_(StreamOperationType::flush_remote_writes, CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES);
ISTHMUS_EQUAL_(StreamOperationType::wait_value_64, CU_STREAM_MEM_OP_WAIT_VALUE_64);
ISTHMUS_EQUAL_(StreamOperationType::write_value_64, CU_STREAM_MEM_OP_WRITE_VALUE_64);
ISTHMUS_EQUAL_(StreamOperationType::barrier, CU_STREAM_MEM_OP_BARRIER);
ISTHMUS_EQUAL_(wait_at_least, CU_STREAM_WAIT_VALUE_GEQ);
ISTHMUS_EQUAL_(wait_equal, CU_STREAM_WAIT_VALUE_EQ);
ISTHMUS_EQUAL_(wait_and, CU_STREAM_WAIT_VALUE_AND);
ISTHMUS_EQUAL_(wait_nor, CU_STREAM_WAIT_VALUE_NOR);
ISTHMUS_EQUAL_(wait_flush, CU_STREAM_WAIT_VALUE_FLUSH);

ISTHMUS_EQUAL_(stream_non_blocking, CU_STREAM_NON_BLOCKING);
ISTHMUS_EQUAL_(event_blocking_sync, CU_EVENT_BLOCKING_SYNC);
ISTHMUS_EQUAL_(event_disable_timing, CU_EVENT_DISABLE_TIMING);
ISTHMUS_EQUAL_(event_interprocess, CU_EVENT_INTERPROCESS);
ISTHMUS_EQUAL_(host_portable, CU_MEMHOSTALLOC_PORTABLE);
ISTHMUS_EQUAL_(host_portable, CU_MEMHOSTREGISTER_PORTABLE);
ISTHMUS_EQUAL_(host_device_map, CU_MEMHOSTALLOC_DEVICEMAP);
ISTHMUS_EQUAL_(host_write_combined, CU_MEMHOSTALLOC_WRITECOMBINED);
ISTHMUS_EQUAL_(attach_global, CU_MEM_ATTACH_GLOBAL);
ISTHMUS_EQUAL_(ipc_lazy_peer_access, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);

#define ISTHMUS_PLACE_(ours, our_member, theirs, their_member)                  \
  static_assert(offsetof(ours, our_member) == offsetof(theirs, their_member) && \
                sizeof(ours::our_member) == sizeof(theirs::their_member))
ISTHMUS_PLACE_(Location, type, CUmemLocation, type);
ISTHMUS_PLACE_(Location, id, CUmemLocation, id);
ISTHMUS_PLACE_(AllocationProperties, handle_types, CUmemAllocationProp, requestedHandleTypes);
ISTHMUS_PLACE_(AllocationProperties, location, CUmemAllocationProp, location);
ISTHMUS_PLACE_(AllocationProperties, win32, CUmemAllocationProp, win32HandleMetaData);
ISTHMUS_PLACE_(AllocationProperties, flags.compression, CUmemAllocationProp, allocFlags.compressionType);
ISTHMUS_PLACE_(AllocationProperties, flags.rdma_capable, CUmemAllocationProp,
               allocFlags.gpuDirectRDMACapable);
ISTHMUS_PLACE_(AllocationProperties, flags.usage, CUmemAllocationProp, allocFlags.usage);
ISTHMUS_PLACE_(Access, flags, CUmemAccessDesc, flags);
ISTHMUS_PLACE_(PoolProperties, handle_types, CUmemPoolProps, handleTypes);
ISTHMUS_PLACE_(PoolProperties, location, CUmemPoolProps, location);
ISTHMUS_PLACE_(PoolProperties, maximum, CUmemPoolProps, maxSize);
ISTHMUS_PLACE_(PoolProperties, usage, CUmemPoolProps, usage);
ISTHMUS_PLACE_(Copy2D, source_x, CUDA_MEMCPY2D, srcXInBytes);
ISTHMUS_PLACE_(Copy2D, source_type, CUDA_MEMCPY2D, srcMemoryType);
ISTHMUS_PLACE_(Copy2D, source_host, CUDA_MEMCPY2D, srcHost);
ISTHMUS_PLACE_(Copy2D, source, CUDA_MEMCPY2D, srcDevice);
ISTHMUS_PLACE_(Copy2D, source_pitch, CUDA_MEMCPY2D, srcPitch);
ISTHMUS_PLACE_(Copy2D, target_x, CUDA_MEMCPY2D, dstXInBytes);
ISTHMUS_PLACE_(Copy2D, target_type, CUDA_MEMCPY2D, dstMemoryType);
ISTHMUS_PLACE_(Copy2D, target_host, CUDA_MEMCPY2D, dstHost);
ISTHMUS_PLACE_(Copy2D, target, CUDA_MEMCPY2D, dstDevice);
ISTHMUS_PLACE_(Copy2D, target_pitch, CUDA_MEMCPY2D, dstPitch);
ISTHMUS_PLACE_(Copy2D, width, CUDA_MEMCPY2D, WidthInBytes);
ISTHMUS_PLACE_(Copy2D, height, CUDA_MEMCPY2D, Height);
ISTHMUS_PLACE_(StreamOperation, type, CUstreamBatchMemOpParams, operation);
ISTHMUS_PLACE_(StreamOperation, address, CUstreamBatchMemOpParams, waitValue.address);
ISTHMUS_PLACE_(StreamOperation, value, CUstreamBatchMemOpParams, waitValue.value64);
ISTHMUS_PLACE_(StreamOperation, flags, CUstreamBatchMemOpParams, waitValue.flags);
ISTHMUS_PLACE_(StreamOperation, address, CUstreamBatchMemOpParams, writeValue.address);
ISTHMUS_PLACE_(StreamOperation, value, CUstreamBatchMemOpParams, writeValue.value64);
ISTHMUS_PLACE_(StreamOperation, flags, CUstreamBatchMemOpParams, writeValue.flags);
ISTHMUS_PLACE_(StreamOperation, fence_flags, CUstreamBatchMemOpParams, flushRemoteWrites.flags);
ISTHMUS_PLACE_(StreamOperation, fence_flags, CUstreamBatchMemOpParams, memoryBarrier.flags);

TEST(CudaHeader, AgreesWithOurDeclarations) {
  EXPECT_GE(CUDA_VERSION, 12020) << "what is asserted above was asserted when this was compiled";
}

}  // namespace
}  // namespace isthmus::cuda::cuda_header_test

#else

TEST(CudaHeader, AgreesWithOurDeclarations) {
  GTEST_SKIP() << "no cuda.h was found when this was built";
}

#endif
