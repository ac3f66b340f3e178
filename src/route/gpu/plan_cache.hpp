#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "route/gpu/plan.hpp"
#include "route/plan.hpp"
#include "route/way_choice.hpp"

namespace isthmus {

/// All that a plan between two memories follows from, but for the settings of the process: what differs from
/// pair to pair, from memory to memory, and while a job runs. Where something that a probe sees changes, that
/// is another key.
struct GpuPlanKey {
  GpuPlanEnd from, to;
  GpuLocality locality = GpuLocality::unknown;
  bool is_push_refused = false;    ///< by the sender, of the memory to which it is to write
  bool is_pull_refused = false;    ///< of the sender's memory
  bool is_bounce_refused = false;  ///< by the receiver, of the windows of the sender
  bool many_under_way = false;
  bool has_network = false;  ///< which is handed GPU memory
  std::uint32_t host_eager_limit = 0;
  std::uint32_t gpu_eager_limit = 0;
  std::uint32_t courier_limit = 0;
  friend bool operator==(const GpuPlanKey&, const GpuPlanKey&) = default;
};

/// A plan, and what follows from it for messages of the size that came last (`route/gpu/ways`).
struct GpuPlanned {
  Plan plan;
  std::uint64_t bytes = 0;  ///< 0: none has come
  GpuWays ways;
  GpuRoute route{};
};

/// The plans that messages of this process have last asked for.
class GpuPlanCache {
 public:
  /// The plan of `key`, which `make` makes where it is not known. Holds until the next call.
  template <class Make>
  [[nodiscard]] GpuPlanned& find(const GpuPlanKey& key, Make make) {
    if (last_ < count_ && entries_[last_].key == key) [[likely]]
      return entries_[last_].planned;
    const auto end = entries_.begin() + static_cast<std::ptrdiff_t>(count_);
    if (const auto known =
            std::find_if(entries_.begin(), end, [&](const Entry& each) { return each.key == key; });
        known != end) {
      last_ = static_cast<std::size_t>(known - entries_.begin());
      return known->planned;
    }
    Entry& entry = entries_[next_];
    entry.key = key;
    entry.planned = {};
    entry.planned.plan = make();
    last_ = next_;
    count_ = std::max(count_, next_ + 1);
    next_ = (next_ + 1) % most;
    return entry.planned;
  }

 private:
  /// Kinds of memory and neighbours of a program are few.
  static constexpr std::size_t most = 32;
  struct Entry {
    GpuPlanKey key;
    GpuPlanned planned;
  };
  std::array<Entry, most> entries_{};
  std::size_t count_ = 0;
  std::size_t next_ = 0;
  std::size_t last_ = 0;  ///< that has been asked for
};

}  // namespace isthmus
