#include "suite/gpu/faults.hpp"

#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

#include "suite/job/call.hpp"

namespace isthmus::bench {
namespace {

constexpr int unified_memory_counter = 25;  // CUpti_ActivityKind
constexpr int whole_process = 2;            // CUpti_ActivityUnifiedMemoryCounterScope
enum class Kind : int { to_gpu = 1, to_host = 2, cpu_fault = 3, gpu_fault = 4 };

// The head of CUpti_ActivityUnifiedMemoryCounter2 and 3, packed to 8 bytes; later fields are not read.
struct Record {
  int kind;
  int counter;
  std::uint64_t value;
};

struct Tally {
  std::mutex mutex;
  Faults faults;
};

// CUPTI's callbacks have no argument of the user's.
Tally& tally() {
  static Tally instance;
  return instance;
}

void add(const Record& record) {
  Faults& faults = tally().faults;
  const auto value = static_cast<double>(record.value);
  switch (static_cast<Kind>(record.counter)) {
    case Kind::to_gpu:
      faults.bytes_to_gpu += value;
      break;
    case Kind::to_host:
      faults.bytes_to_host += value;
      break;
    case Kind::cpu_fault:  // its value is the address of the instruction
      faults.cpu += 1;
      break;
    case Kind::gpu_fault:
      faults.gpu += value;
      break;
  }
}

using NextRecord = int (*)(std::uint8_t* buffer, std::size_t valid, void** record);
NextRecord& next_record() {
  static NextRecord function = nullptr;
  return function;
}

void give_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* most_records) {
  constexpr std::size_t bytes = std::size_t{1} << 20;
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, bytes));
  *size = *buffer == nullptr ? 0 : bytes;
  *most_records = 0;
}

void take_buffer(void* /*context*/, std::uint32_t /*stream*/, std::uint8_t* buffer, std::size_t /*size*/,
                 std::size_t valid) {
  {
    const std::scoped_lock lock(tally().mutex);
    void* at = nullptr;
    while (valid > 0 && next_record()(buffer, valid, &at) == 0) {
      Record record{};
      std::memcpy(&record, at, sizeof record);
      if (record.kind == unified_memory_counter) add(record);
    }
  }
  std::free(buffer);
}

void* open_cupti() {
  for (const char* name :
       {"libcupti.so.13", "libcupti.so.12", "libcupti.so", "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so",
        "/usr/local/cuda/lib64/libcupti.so"})
    if (void* library = dlopen(name, RTLD_NOW | RTLD_GLOBAL)) return library;
  throw Stop{status_absent,
             "--faults needs CUPTI, which is not found: libcupti.so comes with the CUDA toolkit (name its "
             "folder in LD_LIBRARY_PATH)"};
}

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) throw Stop{status_absent, std::string("--faults: this CUPTI has no ") + name};
}

}  // namespace

FaultCounter::FaultCounter() {
  void* library = open_cupti();
  find(library, "cuptiActivityRegisterCallbacks", register_callbacks_);
  find(library, "cuptiActivityConfigureUnifiedMemoryCounter", configure_);
  find(library, "cuptiActivityEnable", enable_);
  find(library, "cuptiActivityDisable", disable_);
  find(library, "cuptiActivityFlushAll", flush_);
  find(library, "cuptiGetResultString", text_);
  find(library, "cuptiActivityGetNextRecord", next_record());
  std::array<Counter, 4> counters{};
  for (std::size_t i = 0; i < counters.size(); ++i)
    counters[i] = {whole_process, static_cast<int>(i) + 1, 0, 1};
  check(register_callbacks_(give_buffer, take_buffer), "take CUPTI's records");
  check(configure_(counters.data(), counters.size()), "count page faults");
}

FaultCounter::~FaultCounter() {
  disable_(unified_memory_counter);
}

void FaultCounter::check(Result result, const char* what) const {
  if (result == 0) return;
  const char* said = nullptr;
  text_(result, &said);
  throw Stop{status_absent,
             std::string("--faults: cannot ") + what + ": CUPTI says: " + (said != nullptr ? said : "?")};
}

void FaultCounter::begin() {
  check(enable_(unified_memory_counter), "count page faults");
  check(flush_(1), "fetch CUPTI's records");
  const std::scoped_lock lock(tally().mutex);
  tally().faults = {};
}

Faults FaultCounter::end() {
  check(flush_(1), "fetch CUPTI's records");
  check(disable_(unified_memory_counter), "stop counting page faults");
  const std::scoped_lock lock(tally().mutex);
  return tally().faults;
}

}  // namespace isthmus::bench
