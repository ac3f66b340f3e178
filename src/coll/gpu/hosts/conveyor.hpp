#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "coll/flow/ranks.hpp"
#include "coll/gpu/hosts/across_hosts.hpp"
#include "gpu/copy/engine.hpp"

namespace isthmus::coll {

/// A part of a carrier's share on its way between its GPU and other hosts.
class Segment {
 public:
  Segment(std::uint64_t index, std::byte* memory) : index_(index), memory_(memory) {}
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  [[nodiscard]] std::uint64_t index() const noexcept { return index_; }
  /// Pinned, of the size that the call has asked for; nobody else's while this segment lasts.
  [[nodiscard]] std::byte* memory() const noexcept { return memory_; }
  /// What the running stage waits for: copies that have been started,
  void add(Result<PendingCopy> copy);
  /// and messages. `ranks` must outlive the stage.
  Batch& messages(const Ranks& ranks) { return messages_.emplace(ranks); }

 private:
  friend class Conveyor;
  [[nodiscard]] bool is_copying();
  [[nodiscard]] bool is_over();
  Result<> end();

  const std::uint64_t index_;
  std::byte* const memory_;
  std::size_t stage_ = 0;
  bool over_ = false;  ///< the stage is, and the next one waits for its turn
  std::vector<PendingCopy> copies_;
  std::optional<Batch> messages_;
  Result<> failed_;
};

/// What is done with a segment, one stage after the other: starts copies or messages, and adds them to the
/// segment. Of each stage the segments go in order, so that messages of one tag find each other; different
/// stages of different segments run at the same time.
using Stage = std::function<void(Segment&)>;

/// Takes `segments` segments through all stages. Whatever fails at this member, its messages go on, with
/// whatever bytes there are, so that nobody waits for ever; the first error is the result.
Result<> convey(const AcrossHosts& all, std::uint64_t segments, std::span<const Stage> stages);

}  // namespace isthmus::coll
