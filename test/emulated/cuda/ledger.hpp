#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <string>

namespace isthmus::emulated {

/// What a program opens and has to close.
enum class Held : std::size_t {
  device_memory,
  pinned_memory,
  registration,
  managed_memory,
  reservation,
  physical,
  mapping,
  pool,
  pool_memory,
  imported_pool,
  imported_pointer,
  ipc_memory,
  stream,
  event,
  ipc_event,
  module,
  library,
  graph,
  primary_context,
  context,
  count
};

/// Counts what is open, so that leaks are found.
class Ledger {
 public:
  void opened(Held what) { ++counts_[static_cast<std::size_t>(what)]; }
  void closed(Held what) { --counts_[static_cast<std::size_t>(what)]; }
  [[nodiscard]] unsigned total() const;
  /// "2 streams, 1 event", empty where nothing is open.
  [[nodiscard]] std::string text() const;

 private:
  std::array<std::atomic<int>, static_cast<std::size_t>(Held::count)> counts_{};
};

/// Of this process; lives forever.
Ledger& ledger();
/// Arranges for EMULATED_CUDA_LEAKS at exit.
void watch_for_leaks();

}  // namespace isthmus::emulated
