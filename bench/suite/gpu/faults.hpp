// Page faults of managed memory and what migrated, as CUPTI, NVIDIA's profiling interface, counts them: the
// paper's table II. Declared here in our own words (source: CUPTI's documentation, release 13.0) and loaded
// with dlopen.
#pragma once

#include <cstddef>
#include <cstdint>

namespace isthmus::bench {

struct Faults {
  double cpu = 0;
  double gpu = 0;  // groups of faults of one page
  double bytes_to_gpu = 0;
  double bytes_to_host = 0;
};

// One a process, made after cuInit and before the first context. Throws a Stop (job/call.hpp) where there is
// no CUPTI or it refuses.
class FaultCounter {
 public:
  FaultCounter();
  ~FaultCounter();
  FaultCounter(const FaultCounter&) = delete;
  FaultCounter& operator=(const FaultCounter&) = delete;

  void begin();
  // Of everything since `begin`, in this process.
  Faults end();

 private:
  using Result = int;
  using Request = void (*)(std::uint8_t** buffer, std::size_t* size, std::size_t* most_records);
  using Complete = void (*)(void* context, std::uint32_t stream, std::uint8_t* buffer, std::size_t size,
                            std::size_t valid);
  struct Counter {  // CUpti_ActivityUnifiedMemoryCounterConfig
    int scope;
    int kind;
    std::uint32_t device;
    std::uint32_t enable;
  };

  void check(Result result, const char* what) const;

  Result (*register_callbacks_)(Request, Complete) = nullptr;
  Result (*configure_)(Counter*, std::uint32_t) = nullptr;
  Result (*enable_)(int kind) = nullptr;
  Result (*disable_)(int kind) = nullptr;
  Result (*flush_)(std::uint32_t flags) = nullptr;
  Result (*text_)(Result, const char**) = nullptr;
};

}  // namespace isthmus::bench
