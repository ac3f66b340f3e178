#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "wire/region.hpp"
#include "wire/ring.hpp"

namespace isthmus {

/// Decides, between a sender and a receiver of one region, who has a message that waits for its receive: the
/// receiver, who claims it when it matches it, or the sender, who takes it back (MPI_Cancel). MPI 5.0,
/// section 3.8.4, wants that to be local: so neither asks the other.
///
/// Each request of the sender has a word in shared memory, which names the request while its message is
/// offered. Both sides exchange the name for 0, and who finds the name has the message. A word is used again
/// for the next request of that index, which has another name: so what is left of a message that was taken
/// back, in the ring or among the receiver's unexpected messages, can be told from it at any later time.
///
/// Matching order holds because a message is claimed in the same step in which it is matched: one that was
/// taken back has never been matched, and no receive has passed over another message for its sake.
///
/// The words lie in blocks of the region's heap, and a directory of them, made when they are first needed.
/// Where the heap is full, or a rank has more requests than the directory has room for, messages have no
/// word: every claim succeeds, and none can be taken back. Guarded by the engine's lock.
class Claims {
 public:
  Claims(const wire::RegionView& region, std::uint32_t slot) noexcept : region_(region), slot_(slot) {}

  // The sender's side.

  /// To be called before the envelope of the message can be seen.
  void offer(wire::Cookie send);
  /// True: no receiver will ever have the message. False: one has it, or the message cannot be taken back.
  [[nodiscard]] bool take_back(wire::Cookie send) noexcept;
  /// This rank goes to another region: gives its words back. No message of it is offered here any more.
  void leave() noexcept;

  // The receiver's side: a message of the rank in `sender`, a slot. What comes from there is not believed.

  /// True: the message is this rank's. False: its sender has taken it back.
  [[nodiscard]] bool claim(std::uint32_t sender, wire::Cookie send) const noexcept;
  /// Whether `claim` would succeed now. It may fail later.
  [[nodiscard]] bool is_offered(std::uint32_t sender, wire::Cookie send) const noexcept;

 private:
  using Word = std::atomic<std::uint64_t>;

  [[nodiscard]] Word* own_word(wire::Cookie send) const noexcept;
  [[nodiscard]] Word* make_block(std::size_t number);
  [[nodiscard]] Word* word_of(std::uint32_t sender, wire::Cookie send) const noexcept;

  wire::RegionView region_;
  std::uint32_t slot_;
  Word* directory_ = nullptr;
  std::vector<std::optional<Word*>> blocks_;  ///< null where the heap had none; empty where it was not asked
};

}  // namespace isthmus
