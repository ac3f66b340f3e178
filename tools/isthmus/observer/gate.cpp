#include "observer/gate.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstddef>

#include "observer/observer.hpp"

namespace isthmus::observer {
namespace {

constexpr unsigned portable = 1;  // CU_MEMHOSTALLOC_PORTABLE

template <class Function>
bool find(void* library, const char* name, Function*& function, std::string& why_not) {
  function = reinterpret_cast<Function*>(find_symbol(library, name));
  if (!function && why_not.empty()) why_not = std::string("the CUDA driver has no ") + name;
  return function != nullptr;
}

bool find_all(Driver& driver, std::string& why_not) {
  void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (!library) {
    why_not = "the program does not use CUDA";
    return false;
  }
  return find(library, "cuCtxGetCurrent", driver.context_get, why_not) &&
         find(library, "cuCtxSetCurrent", driver.context_set, why_not) &&
         find(library, "cuDevicePrimaryCtxRetain", driver.retain, why_not) &&
         find(library, "cuDevicePrimaryCtxRelease_v2", driver.release, why_not) &&
         find(library, "cuCtxGetDevice", driver.device_of_context, why_not) &&
         find(library, "cuPointerGetAttribute", driver.pointer_attribute, why_not) &&
         find(library, "cuStreamIsCapturing", driver.capturing, why_not) &&
         find(library, "cuStreamCreate", driver.stream_create, why_not) &&
         find(library, "cuStreamDestroy_v2", driver.stream_destroy, why_not) &&
         find(library, "cuStreamSynchronize", driver.stream_wait, why_not) &&
         find(library, "cuStreamWaitValue32_v2", driver.wait_value, why_not) &&
         find(library, "cuEventCreate", driver.event_create, why_not) &&
         find(library, "cuEventDestroy_v2", driver.event_destroy, why_not) &&
         find(library, "cuEventRecord", driver.event_record, why_not) &&
         find(library, "cuEventSynchronize", driver.event_wait, why_not) &&
         find(library, "cuEventElapsedTime", driver.elapsed, why_not) &&
         find(library, "cuMemHostAlloc", driver.host_allocate, why_not) &&
         find(library, "cuMemFreeHost", driver.host_free, why_not) &&
         find(library, "cuStreamBeginCapture_v2", driver.capture, why_not) &&
         find(library, "cuStreamEndCapture", driver.capture_end, why_not) &&
         find(library, "cuGraphInstantiateWithFlags", driver.instantiate, why_not) &&
         find(library, "cuGraphDestroy", driver.graph_destroy, why_not) &&
         find(library, "cuGraphLaunch", driver.graph_launch, why_not) &&
         find(library, "cuGraphExecDestroy", driver.executable_destroy, why_not) &&
         find(library, "cuMemsetD32Async", driver.fill, why_not) &&
         find(library, "cuMemAlloc_v2", driver.allocate, why_not) &&
         find(library, "cuMemFree_v2", driver.free, why_not);
}

}  // namespace

const Driver* Driver::find(std::string& why_not) {
  static Driver driver{};
  static bool is_whole = false;
  if (!is_whole) is_whole = find_all(driver, why_not);
  return is_whole ? &driver : nullptr;
}

Gate::Gate(const Driver& driver) : driver_(driver) {
  void* word = nullptr;
  if (driver_.host_allocate(&word, sizeof(std::uint32_t), portable) != 0) return;
  word_ = static_cast<volatile std::uint32_t*>(word);
  works_ = driver_.event_create(&begin_, 0) == 0 && driver_.event_create(&end_, 0) == 0;
  Stream stream = nullptr;
  if (!works_ || driver_.stream_create(&stream, 1) != 0) {
    works_ = false;
    return;
  }
  std::array<double, 15> samples{};
  for (double& sample : samples)
    sample = time(stream, [] {});
  std::ranges::sort(samples);
  nothing_ = samples[samples.size() / 2];
  works_ = samples[0] >= 0;
  driver_.stream_destroy(stream);
}

Gate::~Gate() {
  if (begin_) driver_.event_destroy(begin_);
  if (end_) driver_.event_destroy(end_);
  if (word_) driver_.host_free(const_cast<std::uint32_t*>(word_));
}

bool Gate::close(Stream stream) {
  *word_ = 0;
  // Pinned memory has one address for the host and for GPUs.
  return driver_.wait_value(stream, reinterpret_cast<Address>(word_), 1, equal) == 0 &&
         driver_.event_record(begin_, stream) == 0;
}

double Gate::open(Stream stream) {
  const bool is_marked = driver_.event_record(end_, stream) == 0;
  *word_ = 1;
  float milliseconds = 0;
  if (!is_marked || driver_.event_wait(end_) != 0 || driver_.elapsed(&milliseconds, begin_, end_) != 0)
    return -1;
  return std::max(0.0, 1e-3 * static_cast<double>(milliseconds) - nothing_);
}

Gate* Gates::here(const Driver& driver) {
  Context context = nullptr;
  if (driver.context_get(&context) != 0 || !context) return nullptr;
  const auto [at, is_new] = known_.try_emplace(context, nullptr);
  if (is_new) at->second = std::make_unique<Gate>(driver);
  return at->second->works() ? at->second.get() : nullptr;
}

void Gates::end(const Driver& driver) {
  Context before = nullptr;
  driver.context_get(&before);
  for (auto& [context, gate] : known_) {
    driver.context_set(context);
    gate.reset();
  }
  known_.clear();
  driver.context_set(before);
}

}  // namespace isthmus::observer
