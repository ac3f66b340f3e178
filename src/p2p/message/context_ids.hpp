#pragma once

#include <cstdint>

#include "p2p/message/message.hpp"

namespace isthmus {

/// Ids of contexts that one process of a job hands out, unlike those of all others: which process, and a
/// counter. They are never used again: 2^39 last for a month where one is made every 5 us.
class ContextIds {
 public:
  /// What `take` gives when there are no more. MPI_COMM_WORLD has it.
  static constexpr ContextId none = 0;
  /// Ids below `first_of_job` are none that `take` gives; those from `internal` on the library's own.
  static constexpr ContextId internal = 4;
  static constexpr ContextId failure = internal + 2;  ///< of what is said of lost processes
  static constexpr ContextId first_of_job = 16;
  [[nodiscard]] static bool is_internal(ContextId id) noexcept { return id >= internal && id < first_of_job; }

  static constexpr unsigned counter_bits = 40;
  /// Ranks that have ids.
  static constexpr std::uint64_t most_ranks = (std::uint64_t{1} << (64 - counter_bits)) - 1;

  /// `next`: the first number to hand out.
  explicit ContextIds(PeerId maker, std::uint64_t next = 1) noexcept : maker_(maker), next_(next) {}

  /// A new id; the one behind it belongs to it.
  [[nodiscard]] ContextId take() noexcept {
    return next_ > last ? none : (std::uint64_t{maker_} + 1) << counter_bits | 2 * next_++;
  }
  /// Whether `take` has given this id.
  [[nodiscard]] bool has_given(ContextId id) const noexcept {
    return is_of(id, maker_) && (id & counter_mask) / 2 < next_;
  }
  /// The process whose id it is, if it is one.
  [[nodiscard]] static PeerId maker_of(ContextId id) noexcept {
    return static_cast<PeerId>((id >> counter_bits) - 1);
  }
  /// Whether process `maker` may have been given this id.
  [[nodiscard]] static bool is_of(ContextId id, PeerId maker) noexcept {
    return id >> counter_bits == std::uint64_t{maker} + 1 && id % 2 == 0 && (id & counter_mask) != 0;
  }

 private:
  static constexpr std::uint64_t counter_mask = (std::uint64_t{1} << counter_bits) - 1;
  static constexpr std::uint64_t last = counter_mask / 2;

  PeerId maker_;
  std::uint64_t next_;
};

/// A context for a new communicator, as this process has been told of it.
struct ContextProposal {
  ContextId context = ContextIds::none;
  PeerId maker = 0;  ///< the process whose id it has to be
};

}  // namespace isthmus
