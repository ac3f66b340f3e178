#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

/// The types and constants of the CUDA driver's binary interface that this library uses, under its own names,
/// so that it builds without a CUDA toolkit. Source: the CUDA driver API's documentation, release 13.0. Where
/// a toolkit is installed, `test/unit_cuda/gpu/cuda_header_test.cpp` holds every one of them against cuda.h.
namespace isthmus::cuda {

/// CUresult. The values that are told apart here; others may come.
enum class Status : int {
  success = 0,
  invalid_value = 1,
  out_of_memory = 2,
  not_initialized = 3,
  deinitialized = 4,
  no_device = 100,
  invalid_device = 101,
  invalid_image = 200,
  invalid_context = 201,
  map_failed = 205,
  already_mapped = 208,
  not_mapped = 211,
  peer_access_unsupported = 217,
  invalid_source = 300,
  operating_system = 304,
  invalid_handle = 400,
  illegal_state = 401,
  not_found = 500,
  not_ready = 600,
  illegal_address = 700,
  peer_access_already_enabled = 704,
  peer_access_not_enabled = 705,
  context_is_destroyed = 709,
  assertion_failed = 710,
  host_memory_already_registered = 712,
  host_memory_not_registered = 713,
  hardware_stack_error = 714,
  launch_failed = 719,
  not_permitted = 800,
  not_supported = 801,
  stream_capture_unsupported = 900,
  stream_capture_invalidated = 901,
  stream_capture_unmatched = 903,
  stream_capture_implicit = 906,
  stream_capture_wrong_thread = 908,
  unknown = 999,
};

/// CUdeviceptr: an address in the unified address space.
using Address = std::uint64_t;
/// CUdevice: an ordinal among the devices that the process sees.
using Device = int;

using Context = struct ContextObject*;
using Stream = struct StreamObject*;
using Event = struct EventObject*;
using Module = struct ModuleObject*;
using Function = struct FunctionObject*;
using Library = struct LibraryObject*;
using Kernel = struct KernelObject*;
using Pool = struct PoolObject*;
using Graph = struct GraphObject*;
using GraphExec = struct GraphExecObject*;
/// CUmemGenericAllocationHandle: physical memory of the virtual memory management.
using Physical = std::uint64_t;

struct Uuid {
  std::array<std::uint8_t, 16> bytes{};
  friend bool operator==(const Uuid&, const Uuid&) = default;
};

// Every one of these travels by value through memory: 64 bytes are too many for registers.
struct IpcMemory {
  std::array<char, 64> bytes{};
};
struct IpcEvent {
  std::array<char, 64> bytes{};
};
struct PoolPointer {
  std::array<unsigned char, 64> bytes{};
};

/// CUmemorytype; `none` is what cuPointerGetAttributes leaves for memory that CUDA does not know.
enum class MemoryType : int { none = 0, host = 1, device = 2, array = 3, unified = 4 };

enum class PointerAttribute : int {
  context = 1,
  memory_type = 2,
  device_pointer = 3,
  host_pointer = 4,
  sync_memops = 6,
  buffer_id = 7,
  is_managed = 8,
  device_ordinal = 9,
  is_legacy_ipc_capable = 10,
  range_start = 11,
  range_size = 12,
  is_mapped = 13,
  allowed_handle_types = 14,
  is_rdma_capable = 15,
  access_flags = 16,
  pool = 17,
  mapping_size = 18,
  mapping_base = 19,
  block_id = 20,
};

enum class DeviceAttribute : int {
  multiprocessor_count = 16,
  integrated = 18,
  pci_bus_id = 33,
  pci_device_id = 34,
  unified_addressing = 41,
  pci_domain_id = 50,
  compute_capability_major = 75,
  compute_capability_minor = 76,
  pageable_memory_access = 88,
  concurrent_managed_access = 89,
  can_flush_remote_writes = 98,
  pageable_memory_access_uses_host_page_tables = 100,
  virtual_memory_management = 102,
  posix_descriptors = 103,
  memory_pools = 115,
  rdma = 116,
  pool_handle_types = 119,
  stream_memory_operations_64 = 122,
  dma_buf = 124,
  ipc_events = 125,
  host_numa_id = 134,
};

enum class PeerAttribute : int {
  performance_rank = 1,
  access_supported = 2,
  native_atomic_supported = 3,
  array_access_supported = 4,
};

/// What CUDA writes where a device is asked for and none is meant.
inline constexpr Device no_device = -2;
inline constexpr Device host_device = -1;  ///< CU_DEVICE_CPU

enum class LocationType : int { invalid = 0, device = 1, host = 2, host_numa = 3, host_numa_current = 4 };

struct Location {
  LocationType type = LocationType::invalid;
  int id = 0;
};

/// When a copy of a batch may read its source: in the order of its stream, before the call returns, at any
/// time.
enum class SourceOrder : int { stream = 1, during_call = 2, any = 3 };

struct CopyAttributes {
  SourceOrder source_order = SourceOrder::stream;
  Location source_hint;  ///< these two of managed memory and what CUDA has not allocated
  Location target_hint;
  unsigned flags = 0;
};

enum class RangeAttribute : int {
  read_mostly = 1,
  preferred_location = 2,
  accessed_by = 3,
  last_prefetch_location = 4,
  preferred_location_type = 5,
  preferred_location_id = 6,
  last_prefetch_location_type = 7,
  last_prefetch_location_id = 8,
};

enum class Advice : int {
  set_read_mostly = 1,
  unset_read_mostly = 2,
  set_preferred_location = 3,
  unset_preferred_location = 4,
  set_accessed_by = 5,
  unset_accessed_by = 6,
};

enum class AllocationType : int { invalid = 0, pinned = 1, managed = 2 };
/// CUmemAllocationHandleType, a set of bits.
enum class HandleType : int { none = 0, posix_descriptor = 1, win32 = 2, win32_kmt = 4, fabric = 8 };
enum class AccessFlags : int { none = 0, read = 1, read_write = 3 };
enum class GranularityKind : int { minimum = 0, recommended = 1 };
enum class RangeHandleType : int { dma_buf = 1 };

struct AllocationProperties {
  AllocationType type = AllocationType::pinned;
  HandleType handle_types = HandleType::none;
  Location location;
  void* win32 = nullptr;
  struct Flags {
    std::uint8_t compression = 0;
    std::uint8_t rdma_capable = 0;
    std::uint16_t usage = 0;
    std::array<std::uint8_t, 4> reserved{};
  } flags;
};

struct Access {
  Location location;
  AccessFlags flags = AccessFlags::none;
};

struct PoolProperties {
  AllocationType type = AllocationType::pinned;
  HandleType handle_types = HandleType::none;
  Location location;
  void* win32 = nullptr;
  std::size_t maximum = 0;
  std::uint16_t usage = 0;
  std::array<std::uint8_t, 54> reserved{};
};

enum class PoolAttribute : int {
  reuse_follow_event_dependencies = 1,
  reuse_allow_opportunistic = 2,
  reuse_allow_internal_dependencies = 3,
  release_threshold = 4,
  reserved_current = 5,
  reserved_high = 6,
  used_current = 7,
  used_high = 8,
};

/// CUDA_MEMCPY2D.
struct Copy2D {
  std::size_t source_x = 0;  ///< bytes
  std::size_t source_y = 0;
  MemoryType source_type = MemoryType::unified;
  const void* source_host = nullptr;
  Address source = 0;
  void* source_array = nullptr;
  std::size_t source_pitch = 0;
  std::size_t target_x = 0;
  std::size_t target_y = 0;
  MemoryType target_type = MemoryType::unified;
  void* target_host = nullptr;
  Address target = 0;
  void* target_array = nullptr;
  std::size_t target_pitch = 0;
  std::size_t width = 0;  ///< bytes
  std::size_t height = 0;
};

enum class CaptureStatus : int { none = 0, active = 1, invalidated = 2 };
enum class CaptureMode : int { global = 0, thread_local_ = 1, relaxed = 2 };

enum class StreamOperationType : int {
  wait_value_32 = 1,
  write_value_32 = 2,
  flush_remote_writes = 3,
  wait_value_64 = 4,
  write_value_64 = 5,
  barrier = 6,
};

/// Of operations that are given to the driver at once; it takes at most 256.
inline constexpr std::size_t most_stream_operations = 128;

/// CUstreamBatchMemOpParams: waits, writes and fences have their fields at the same places.
struct StreamOperation {
  StreamOperationType type = StreamOperationType::barrier;
  std::uint32_t fence_flags = 0;  ///< of a flush or a barrier
  Address address = 0;
  std::uint64_t value = 0;  ///< of 32 bits: the low half
  std::uint32_t flags = 0;
  Address alias = 0;
  std::uint64_t reserved = 0;
};

enum class LaunchAttributeId : std::uint32_t {
  programmatic_stream_serialization = 6,
};

/// CUlaunchAttribute, whose value is a union of 64 bytes: as programmatic_stream_serialization has it.
struct alignas(8) LaunchAttribute {
  LaunchAttributeId id;
  std::uint32_t unused = 0;
  int allowed = 0;
  char others[60] = {};
};

/// CUlaunchConfig.
struct LaunchConfig {
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
  Stream stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};

inline constexpr unsigned wait_at_least = 0;  ///< (int)(*address - value) >= 0
inline constexpr unsigned wait_equal = 1;
inline constexpr unsigned wait_and = 2;
inline constexpr unsigned wait_nor = 3;
/// What others have written to the device before the wait could end is visible behind it.
inline constexpr unsigned wait_flush = 1U << 30U;

inline constexpr unsigned stream_default = 0;
inline constexpr unsigned stream_non_blocking = 1;

inline constexpr unsigned event_blocking_sync = 1;
inline constexpr unsigned event_disable_timing = 2;
inline constexpr unsigned event_interprocess = 4;

inline constexpr unsigned host_portable = 1;  ///< of cuMemHostAlloc and of cuMemHostRegister
inline constexpr unsigned host_device_map = 2;
inline constexpr unsigned host_write_combined = 4;

inline constexpr unsigned attach_global = 1;         ///< of cuMemAllocManaged
inline constexpr unsigned ipc_lazy_peer_access = 1;  ///< of cuIpcOpenMemHandle

using HostFunction = void (*)(void* argument);

}  // namespace isthmus::cuda
