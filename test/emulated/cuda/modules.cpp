// Modules and kernels: a kernel is a name, what runs is its host twin.
#include "modules.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "copies.hpp"
#include "emulated_cuda.h"
#include "memory/pools.hpp"
#include "streams/stream.hpp"

namespace isthmus::cuda {

struct ModuleObject {};
struct LibraryObject {};
struct FunctionObject {
  std::string name;
  const EmulatedTwin* twin = nullptr;
  /// Where it is loaded, and what the streams there had to do when it was. Guarded by the driver's mutex.
  std::map<Context, std::vector<emulated::Position>> loaded;
};

}  // namespace isthmus::cuda

namespace isthmus::emulated {
namespace {

struct Twins {
  std::mutex mutex;
  std::map<std::string, const EmulatedTwin*, std::less<>> by_name;
};

Twins& all_twins() {
  static auto* const instance = new Twins;
  return *instance;
}

/// Whose kernel runs on this thread.
Context& running() {
  thread_local Context context = nullptr;
  return context;
}

/// ELF, fatbin, its wrapper, or PTX.
bool is_image(const void* image) {
  if (!image) return false;
  std::uint32_t mark = 0;
  std::memcpy(&mark, image, sizeof mark);
  if (mark == 0x464c'457f || mark == 0xba55'ed50 || mark == 0x4662'43b1) return true;
  const std::string_view text(static_cast<const char*>(image));
  return text.contains(".version");
}

/// A copy of a launch's parameters, which the program may change once the call has returned.
struct Parameters {
  std::vector<std::byte> bytes;
  std::vector<void*> pointers;
};

std::shared_ptr<Parameters> copy_of(const EmulatedTwin& twin, void** parameters) {
  auto copied = std::make_shared<Parameters>();
  std::size_t count = 0;
  for (const std::size_t* size = twin.parameter_bytes; size && *size > 0; ++size, ++count)
    copied->bytes.resize(copied->bytes.size() + (*size + 15) / 16 * 16);
  std::byte* at = copied->bytes.data();
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t size = twin.parameter_bytes[i];
    std::memcpy(at, parameters[i], size);
    copied->pointers.push_back(at);
    at += (size + 15) / 16 * 16;
  }
  return copied;
}

Function add_function(Driver& cuda, const char* name) {
  const std::scoped_lock lock(all_twins().mutex);
  const auto found = all_twins().by_name.find(std::string_view(name));
  if (found == all_twins().by_name.end()) return nullptr;
  for (const auto& [handle, function] : cuda.functions.all())
    if (function->name == name) return handle;
  auto function = std::make_shared<FunctionObject>();
  function->name = name;
  function->twin = found->second;
  return cuda.functions.add(std::move(function));
}

/// A function is loaded when it is first asked for, which waits for all that the GPU has to do. The call
/// returns: what waits is the first launch. With the driver's mutex held.
void load(Driver& cuda, FunctionObject& function, Context context) {
  const auto [where, is_new] = function.loaded.try_emplace(context);
  if (is_new) where->second = last_of_all_streams(cuda, context);
}

void run(const EmulatedTwin& twin, EmulatedLaunch launch, Context context) {
  running() = context;
  begin_computing();
  if (const unsigned more = settings().kernel_us.load(); more > 0)
    std::this_thread::sleep_for(std::chrono::microseconds(more));
  if (const int error = twin.run(&launch); error != 0) settings().sticky = error;
  running() = nullptr;
}

}  // namespace

void load_twins() {
  std::string paths = variable("TWINS");
  while (!paths.empty()) {
    const std::size_t end = std::min(paths.find(':'), paths.size());
    const std::string path = paths.substr(0, end);
    paths.erase(0, end + 1);
    void* object = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    const void* array = object ? dlsym(object, "emulated_twins") : nullptr;
    if (array)
      emulated_cuda_register(static_cast<const EmulatedTwin*>(array));
    else
      std::fprintf(stderr, "emulated cuda: %s has no emulated_twins\n", path.c_str());
  }
}

extern "C" {

Status cuModuleLoadData(Module* module, const void* image) {
  Context context = nullptr;
  ISTHMUS_PASS(enter_with_context(context));
  if (!module || !is_image(image)) return Status::invalid_image;
  const std::scoped_lock lock(driver()->mutex);
  *module = driver()->modules.add(std::make_shared<ModuleObject>());
  ledger().opened(Held::module);
  return Status::success;
}

Status cuModuleUnload(Module module) {
  ISTHMUS_PASS(enter());
  const std::scoped_lock lock(driver()->mutex);
  if (!driver()->modules.remove(module)) return Status::invalid_handle;
  ledger().closed(Held::module);
  return Status::success;
}

Status cuModuleGetFunction(Function* function, Module module, const char* name) {
  Context context = nullptr;
  ISTHMUS_PASS(enter_with_context(context));
  const std::scoped_lock lock(driver()->mutex);
  if (!driver()->modules.find(module)) return Status::invalid_handle;
  *function = add_function(*driver(), name);
  if (!*function) return Status::not_found;
  load(*driver(), *driver()->functions.find(*function), context);
  return Status::success;
}

Status cuLibraryLoadData(Library* library, const void* image, int*, void**, unsigned, int*, void**,
                         unsigned) {
  ISTHMUS_PASS(enter());
  if (!library || !is_image(image)) return Status::invalid_image;
  const std::scoped_lock lock(driver()->mutex);
  *library = driver()->libraries.add(std::make_shared<LibraryObject>());
  ledger().opened(Held::library);
  return Status::success;
}

Status cuLibraryUnload(Library library) {
  ISTHMUS_PASS(enter());
  const std::scoped_lock lock(driver()->mutex);
  if (!driver()->libraries.remove(library)) return Status::invalid_handle;
  ledger().closed(Held::library);
  return Status::success;
}

Status cuLibraryGetKernel(Kernel* kernel, Library library, const char* name) {
  ISTHMUS_PASS(enter());
  const std::scoped_lock lock(driver()->mutex);
  if (!driver()->libraries.find(library)) return Status::invalid_handle;
  *kernel = reinterpret_cast<Kernel>(add_function(*driver(), name));
  return *kernel ? Status::success : Status::not_found;
}

Status cuKernelGetFunction(Function* function, Kernel kernel) {
  Context context = nullptr;
  ISTHMUS_PASS(enter_with_context(context));
  *function = reinterpret_cast<Function>(kernel);
  const std::scoped_lock lock(driver()->mutex);
  const auto found = driver()->functions.find(*function);
  if (!found) return Status::invalid_handle;
  load(*driver(), *found, context);
  return Status::success;
}

Status cuFuncLoad(Function function) {
  ISTHMUS_PASS(enter());
  const std::scoped_lock lock(driver()->mutex);
  return driver()->functions.find(function) ? Status::success : Status::invalid_handle;
}

Status cuLaunchKernel(Function handle, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                      unsigned block_y, unsigned block_z, unsigned shared_bytes, Stream stream,
                      void** parameters, void** extra) {
  Context context = nullptr;
  ISTHMUS_PASS(enter_with_context(context));
  constexpr std::uint64_t most_threads = 1024;
  const std::uint64_t threads = std::uint64_t{block_x} * block_y * block_z;
  if (threads == 0 || threads > most_threads || grid_x == 0 || grid_y == 0 || grid_z == 0 || extra)
    return Status::invalid_value;
  std::shared_ptr<FunctionObject> function;
  std::vector<Position> ahead;
  {
    const std::scoped_lock lock(driver()->mutex);
    function = driver()->functions.find(handle);
    if (!function) return Status::invalid_handle;
    if (const auto where = stream_of(stream)) context = where->context;
    ahead = std::exchange(function->loaded[context], {});
  }
  const auto kept = copy_of(*function->twin, parameters);
  EmulatedLaunch launch{.grid = {grid_x, grid_y, grid_z},
                        .block = {block_x, block_y, block_z},
                        .shared_bytes = shared_bytes,
                        .device = context->device,
                        .parameters = kept->pointers.data()};
  return submit(stream, [function, kept, launch, context, ahead = std::move(ahead)] {
    for (const Position& each : ahead)
      each.wait();
    run(*function->twin, launch, context);
  });
}

/// Kernels begin behind all that is before them, as they may.
Status cuLaunchKernelEx(const LaunchConfig* config, Function handle, void** parameters, void** extra) {
  for (unsigned i = 0; i < config->attribute_count; ++i)
    if (config->attributes[i].id != LaunchAttributeId::programmatic_stream_serialization)
      return Status::invalid_value;
  const auto& [grid, block, shared_bytes, stream, attributes, attribute_count] = *config;
  return cuLaunchKernel(handle, grid[0], grid[1], grid[2], block[0], block[1], block[2], shared_bytes, stream,
                        parameters, extra);
}

__attribute__((visibility("default"))) void emulated_cuda_register(const EmulatedTwin* twins) {
  Twins& known = all_twins();
  const std::scoped_lock lock(known.mutex);
  for (; twins->name; ++twins)
    known.by_name[twins->name] = twins;
}

__attribute__((visibility("default"))) void* emulated_cuda_view(unsigned long long address) {
  Driver* cuda = driver();
  if (!cuda) return nullptr;
  const Context context = running();
  const std::scoped_lock lock(cuda->mutex);
  const auto memory = cuda->addresses.find(address);
  if (!memory) return nullptr;
  const bool is_anothers = memory->origin == Origin::device && memory->context != context;
  if (!context || !memory->on_device() || (memory->device == context->device && !is_anothers))
    return memory->view_of(address);
  const auto pool = memory->pool ? cuda->pools.find(memory->pool) : nullptr;
  const auto& allowed = pool ? pool->accessible : memory->accessible;
  const bool given = std::find(allowed.begin(), allowed.end(), context->device) != allowed.end();
  // What was opened with lazy peer access is within reach.
  const bool reaches = given || (memory->origin == Origin::ipc) || context->peers.contains(memory->context);
  return reaches ? memory->view_of(address) : nullptr;
}
}

}  // namespace isthmus::emulated
