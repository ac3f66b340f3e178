#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

namespace isthmus::emulated {

/// What can be refused on demand, as bits.
enum class Refusal : unsigned { peer = 1, ipc = 2, event = 4, vmm = 8, pool = 16, managed = 32, memops = 64 };

/// Faults and settings; README.md beside this file explains each. Changed at any time, by any thread.
struct Settings {
  std::atomic<std::uint64_t> memory{std::uint64_t{1} << 30};
  std::atomic<std::uint64_t> pinned{UINT64_MAX};
  std::atomic<unsigned> delay_us{20};
  std::atomic<unsigned> megabytes_per_second{0};
  // Microseconds more of each copy to another process's memory, from there, and between a device and memory
  // of the host.
  std::atomic<unsigned> writes_us{0};
  std::atomic<unsigned> reads_us{0};
  std::atomic<unsigned> host_us{0};
  // Microseconds more of each kernel, fill or copy that is not right behind another one in its stream.
  std::atomic<unsigned> start_us{0};
  // And of each piece of a graph, and of each kernel.
  std::atomic<unsigned> graph_us{0};
  std::atomic<unsigned> kernel_us{0};
  std::atomic<unsigned> refused{0};
  std::atomic<int> sticky{0};
  std::atomic<std::uint64_t> sticky_after{0};
  std::atomic<std::uint64_t> moves{0};
  std::atomic<std::uint64_t> shuffle{0};

  [[nodiscard]] bool refuses(Refusal what) const noexcept {
    return (refused.load() & static_cast<unsigned>(what)) != 0;
  }
  /// False for a name that is none of the above, or a value that it cannot have.
  bool set(std::string_view name, std::string_view value);
  /// EMULATED_CUDA_*.
  void read_environment();
};

/// Of this process; lives forever.
Settings& settings();
/// EMULATED_CUDA_<name>, or nothing.
std::string variable(const char* name);

/// Calls of the driver's functions so far.
std::atomic<std::uint64_t>& call_counter();

}  // namespace isthmus::emulated
