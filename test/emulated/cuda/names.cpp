// What the driver calls its errors, and its functions by name.
#include <array>
#include <cstring>
#include <string_view>

#include "entry.hpp"

namespace isthmus::emulated {
namespace {

struct Name {
  Status status;
  const char* name;
  const char* text;
};

constexpr std::array entry_names{
    Name{Status::success, "CUDA_SUCCESS", "no error"},
    Name{Status::invalid_value, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    Name{Status::out_of_memory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    Name{Status::not_initialized, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    Name{Status::deinitialized, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    Name{Status::no_device, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    Name{Status::invalid_device, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    Name{Status::invalid_image, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    Name{Status::invalid_context, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    Name{Status::map_failed, "CUDA_ERROR_MAP_FAILED", "mapping of buffer object failed"},
    Name{Status::peer_access_unsupported, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",
         "peer access is not supported between these two devices"},
    Name{Status::invalid_handle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    Name{Status::not_found, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    Name{Status::not_ready, "CUDA_ERROR_NOT_READY", "device not ready"},
    Name{Status::illegal_address, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    Name{Status::peer_access_already_enabled, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED",
         "peer access is already enabled"},
    Name{Status::peer_access_not_enabled, "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED",
         "peer access has not been enabled"},
    Name{Status::context_is_destroyed, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
    Name{Status::host_memory_already_registered, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
         "part or all of the requested memory range is already mapped"},
    Name{Status::host_memory_not_registered, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
         "pointer does not correspond to a registered memory region"},
    Name{Status::launch_failed, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    Name{Status::not_permitted, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    Name{Status::not_supported, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    Name{Status::stream_capture_unsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
         "operation not permitted when stream is capturing"},
    Name{Status::stream_capture_invalidated, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
         "operation failed due to a previous error during capture"},
    Name{Status::stream_capture_unmatched, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
         "capture was not ended in the same stream as it began"},
    Name{Status::stream_capture_implicit, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
         "operation would make the legacy stream depend on a capturing blocking stream"},
    Name{Status::stream_capture_wrong_thread, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
         "attempt to terminate a thread-local capture sequence from another thread"},
    Name{Status::unknown, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

const Name* find(Status status) {
  for (const Name& name : entry_names)
    if (name.status == status) return &name;
  return nullptr;
}

struct Export {
  std::string_view symbol;
  void* function;
};

#define ISTHMUS_EXPORT_(name, symbol, parameters) Export{#symbol, reinterpret_cast<void*>(&symbol)},
const std::array exports{ISTHMUS_CUDA_FUNCTIONS(ISTHMUS_EXPORT_) ISTHMUS_CUDA_LATER_FUNCTIONS(ISTHMUS_EXPORT_)
                             ISTHMUS_EMULATED_FUNCTIONS(ISTHMUS_EXPORT_)};
#undef ISTHMUS_EXPORT_

/// "cuMemAlloc" names cuMemAlloc_v2: the header's macros do that for programs.
bool is_called(std::string_view symbol, std::string_view name) {
  if (!symbol.starts_with(name)) return false;
  symbol.remove_prefix(name.size());
  return symbol.empty() || (symbol.size() == 3 && symbol.starts_with("_v"));
}

}  // namespace

extern "C" {

Status cuGetErrorName(Status status, const char** text) {
  const Name* name = find(status);
  *text = name ? name->name : nullptr;
  return name ? Status::success : Status::invalid_value;
}

Status cuGetErrorString(Status status, const char** text) {
  const Name* name = find(status);
  *text = name ? name->text : nullptr;
  return name ? Status::success : Status::invalid_value;
}

Status cuGetProcAddress_v2(const char* name, void** function, int, std::uint64_t, int* found) {
  if (!name || !function) return Status::invalid_value;
  *function = nullptr;
  for (const Export& candidate : exports)
    if (is_called(candidate.symbol, name)) *function = candidate.function;
  if (found) *found = *function ? 0 : 1;  // CU_GET_PROC_ADDRESS_SUCCESS, _SYMBOL_NOT_FOUND
  return *function ? Status::success : Status::not_found;
}
}

}  // namespace isthmus::emulated
