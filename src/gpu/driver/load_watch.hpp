#pragma once

#include <link.h>

#include <atomic>

namespace isthmus {

/// Tells whether objects were loaded into the process. Threads may share it.
///
/// While nothing was loaded since this was made, that costs one load of the loader's list: 1 ns. Later it
/// asks the loader for its count: 25 ns, measured.
class LoadWatch {
 public:
  LoadWatch() noexcept;
  /// Whether something was loaded since the last time that this said so, or since this was made.
  [[nodiscard]] bool changed() noexcept {
    return __atomic_load_n(&last_->l_next, __ATOMIC_ACQUIRE) != nullptr && count_changed();
  }

 private:
  [[gnu::cold]] bool count_changed() noexcept;

  const link_map* last_;
  std::atomic<unsigned long long> count_;
};

}  // namespace isthmus
