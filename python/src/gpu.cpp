#include "gpu.hpp"

#include <dlfcn.h>

#include <limits>
#include <memory>
#include <new>
#include <utility>

namespace isthmus::python {
namespace {

// --- the driver

using Status = int;
using Context = void*;
constexpr int attribute_context = 1, attribute_memory_type = 2;
constexpr int primary_of_first = 0;
constexpr Status out_of_memory = 2;
constexpr std::uintptr_t legacy_stream = 1;

struct Driver {
  Status (*init)(unsigned) = nullptr;
  Status (*get_current)(Context*) = nullptr;
  Status (*set_current)(Context) = nullptr;
  Status (*push)(Context) = nullptr;
  Status (*pop)(Context*) = nullptr;
  Status (*get_device)(int*) = nullptr;
  Status (*retain)(Context*, int) = nullptr;
  Status (*allocate)(std::uintptr_t*, std::size_t) = nullptr;
  Status (*release)(std::uintptr_t) = nullptr;
  Status (*copy)(std::uintptr_t, std::uintptr_t, std::size_t) = nullptr;
  Status (*synchronize)(std::uintptr_t) = nullptr;
  Status (*attribute)(void*, int, std::uintptr_t) = nullptr;
  Status (*name)(Status, const char**) = nullptr;
};

template <class Function>
bool find(void* library, const char* symbol, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, symbol));
  return function != nullptr;
}

/// Null where there is none, or not all of it.
const Driver* find_driver() {
  static const Driver* const found = []() -> const Driver* {
    void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    static Driver all;
    const bool is_whole =
        library && find(library, "cuInit", all.init) && find(library, "cuCtxGetCurrent", all.get_current) &&
        find(library, "cuCtxSetCurrent", all.set_current) &&
        find(library, "cuCtxPushCurrent_v2", all.push) && find(library, "cuCtxPopCurrent_v2", all.pop) &&
        find(library, "cuCtxGetDevice", all.get_device) &&
        find(library, "cuDevicePrimaryCtxRetain", all.retain) &&
        find(library, "cuMemAlloc_v2", all.allocate) && find(library, "cuMemFree_v2", all.release) &&
        find(library, "cuMemcpy", all.copy) && find(library, "cuStreamSynchronize", all.synchronize) &&
        find(library, "cuPointerGetAttribute", all.attribute) && find(library, "cuGetErrorName", all.name);
    return is_whole && all.init(0) == 0 ? &all : nullptr;
  }();
  return found;
}

std::string text_of(Status status) {
  const char* name = nullptr;
  const Driver* const driver = find_driver();
  if (!driver || driver->name(status, &name) != 0 || !name) return "CUDA error " + std::to_string(status);
  return name;
}
void need(Status status, const char* what) {
  if (status != 0) throw std::runtime_error(std::string(what) + " (" + text_of(status) + ")");
}

const Driver& the_driver() {
  const Driver* const found = find_driver();
  if (!found) throw std::runtime_error("an array of a GPU, and no CUDA driver that works");
  return *found;
}

/// The program's context; where it has none, that of the first GPU, which is current from now on.
Context current_context(const Driver& driver) {
  Context context = nullptr;
  need(driver.get_current(&context), "there is no context of a GPU");
  if (context) return context;
  need(driver.retain(&context, primary_of_first), "the first GPU cannot be used");
  need(driver.set_current(context), "the first GPU cannot be used");
  return context;
}

// --- DLPack: what a capsule "dltensor" points to (dmlc/dlpack, dlpack.h, version 0.8)

struct DlDataType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};
struct DlTensor {
  void* data;
  std::int32_t device_type;
  std::int32_t device;
  std::int32_t dimensions;
  DlDataType type;
  std::int64_t* extents;
  std::int64_t* strides;  ///< in elements; null: contiguous
  std::uint64_t offset;
};
struct DlManagedTensor {
  DlTensor tensor;
  void* context;
  void (*end)(DlManagedTensor*);
};
constexpr const char* capsule_name = "dltensor";
constexpr const char* used_name = "used_dltensor";
constexpr std::int32_t device_cuda = 2;

/// Codes of elements, and the letter that NumPy has for them.
constexpr std::pair<std::uint8_t, char> letters[] = {{0, 'i'}, {1, 'u'}, {2, 'f'}, {5, 'c'}, {6, 'b'}};

void end_capsule(PyObject* capsule) {
  // Nobody has taken it over, if it still has its name.
  if (PyCapsule_IsValid(capsule, capsule_name) == 0) return;
  auto* const managed = static_cast<DlManagedTensor*>(PyCapsule_GetPointer(capsule, capsule_name));
  if (managed && managed->end) managed->end(managed);
}

/// Memory of ours that goes as a capsule.
struct Given {
  DlManagedTensor managed{};
  std::vector<std::int64_t> extents;
  nb::object owner;

  static void end(DlManagedTensor* managed) {
    const nb::gil_scoped_acquire held;
    delete static_cast<Given*>(managed->context);
  }
};

}  // namespace

void need_gpu_memory(std::uintptr_t address, std::size_t bytes) {
  const Driver& driver = the_driver();
  for (const std::uintptr_t at : {address, address + bytes - 1}) {
    unsigned type = 0;
    if (driver.attribute(&type, attribute_memory_type, at) == 0 && type != 0) continue;
    throw nb::value_error(
        at == address
            ? "the memory of an array of a GPU is none that the driver knows: it may have been freed"
            : ("an array of a GPU of " + std::to_string(bytes) + " bytes has less memory than that").c_str());
  }
}

void synchronize_stream(std::uintptr_t stream, std::uintptr_t address) {
  if (stream == 0) throw nb::value_error("stream 0 of an array says nothing: 1 is the legacy default stream");
  const Driver& driver = the_driver();
  // 1 and 2 are the default streams of whatever context is current.
  Context context = nullptr;
  if (driver.attribute(&context, attribute_context, address) != 0) context = nullptr;
  const nb::gil_scoped_release released;
  if (context) need(driver.push(context), "the stream of an array cannot be waited for");
  const Status status = driver.synchronize(stream);
  if (context) driver.pop(&context);
  need(status, "the stream of an array cannot be waited for");
}

void copy_of_gpu(std::uintptr_t to, std::uintptr_t from, std::size_t bytes) {
  const Driver& driver = the_driver();
  current_context(driver);
  if (bytes == 0) return;
  need(driver.copy(to, from, bytes), "an array of a GPU cannot be copied");
  // From pageable memory the call may return before the last bytes are there (CUDA driver API, "API synchronization behavior").
  need(driver.synchronize(legacy_stream), "an array of a GPU cannot be copied");
}

GpuMemory::GpuMemory(std::size_t bytes) {
  const Driver& driver = the_driver();
  context_ = current_context(driver);
  need(driver.get_device(&device_), "there is no GPU");
  if (bytes == 0) return;
  const Status status = driver.allocate(&address_, bytes);
  if (status == out_of_memory) {
    PyErr_Format(PyExc_MemoryError, "the GPU has no %zu bytes for an array", bytes);
    raise_set();
  }
  need(status, "an array of a GPU cannot be made");
}

GpuMemory::~GpuMemory() {
  // Where the driver has ended already there is nothing to be freed.
  const Driver* const driver = find_driver();
  if (address_ == 0 || !driver || driver->push(context_) != 0) return;
  driver->release(address_);
  Context context = nullptr;
  driver->pop(&context);
}

DlpackView take_dlpack(nb::object capsule) {
  auto* const managed = static_cast<DlManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), capsule_name));
  if (!managed) raise_set();
  const DlTensor& tensor = managed->tensor;
  DlpackView view;
  for (const auto& [code, letter] : letters)
    if (code == tensor.type.code && tensor.type.lanes == 1 && tensor.type.bits % 8 == 0)
      view.type = std::string("<") + letter + std::to_string(tensor.type.bits / 8);
  if (view.type.empty()) throw nb::type_error("an array with elements that NumPy does not have");
  view.address = reinterpret_cast<std::uintptr_t>(tensor.data) + tensor.offset;
  for (std::int32_t i = 0; i < tensor.dimensions; ++i) {
    if (tensor.extents[i] < 0) throw nb::value_error("an array with an extent below 0");
    view.extents.push_back(static_cast<std::uint64_t>(tensor.extents[i]));
    if (tensor.strides) view.strides.push_back(tensor.strides[i] * (tensor.type.bits / 8));
  }
  // From here on it is ours to end.
  if (PyCapsule_SetName(capsule.ptr(), used_name) != 0) raise_set();
  view.owner = nb::capsule(managed, [](void* taken) noexcept {
    auto* const it = static_cast<DlManagedTensor*>(taken);
    if (it->end) it->end(it);
  });
  return view;
}

nb::object make_dlpack(nb::object owner, std::uintptr_t address, const std::vector<std::int64_t>& extents,
                       const std::string& type, int device) {
  auto given = std::make_unique<Given>();
  given->extents = extents;
  given->owner = std::move(owner);
  DlTensor& tensor = given->managed.tensor;
  for (const auto& [code, letter] : letters)
    if (type.size() > 2 && type[1] == letter)
      tensor.type = {code, static_cast<std::uint8_t>(8 * std::stoi(type.substr(2))), 1};
  if (tensor.type.lanes == 0) throw nb::type_error("an array with elements that DLPack does not have");
  tensor.data = reinterpret_cast<void*>(address);
  tensor.device_type = device_cuda;
  tensor.device = device;
  tensor.dimensions = static_cast<std::int32_t>(extents.size());
  tensor.extents = given->extents.data();
  given->managed.context = given.get();
  given->managed.end = Given::end;
  nb::object capsule = own(PyCapsule_New(&given->managed, capsule_name, end_capsule));
  given.release();  // the capsule's, or whose it is given to
  return capsule;
}

}  // namespace isthmus::python
