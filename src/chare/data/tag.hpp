#pragma once

#include <cstdint>

#include "base/error.hpp"
#include "base/settings.hpp"

namespace isthmus::chare {

/// What a message is that goes apart from the records.
enum class TagType : std::uint32_t {
  buffer = 1,   ///< an argument of an invocation, whose record names the tag
  mailbox = 2,  ///< for memory that the receiver has named before; the counter is the mailbox's number
};
inline constexpr TagType last_tag_type = TagType::mailbox;

/// A tag, taken apart.
struct TagParts {
  TagType type;
  std::uint32_t source;
  std::uint64_t counter;
};

/// Makes tags and takes them apart. A tag has 64 bits, from the highest on (Choi and others, "GPU-aware
/// communication with UCX in parallel programming models", IPDPSW 2021, section III-A and figure 3): the type
/// of the message, the process that sends it, and a counter of that process; `TagDivision` says how many of
/// each.
class Tags {
 public:
  /// For a job of `processes`; refused where the division has no room for their numbers.
  static Result<Tags> make(const TagDivision& division, std::uint32_t processes);

  /// The counter is taken modulo the room that it has.
  [[nodiscard]] std::uint64_t tag(TagType type, std::uint32_t source, std::uint64_t counter) const noexcept {
    return (std::uint64_t{static_cast<std::uint32_t>(type)} << (64 - division_.type_bits)) |
           (std::uint64_t{source} << division_.counter_bits) | (counter & counter_mask());
  }
  /// A tag that a peer has written: its type, and that its source is in the job, are checked.
  Result<TagParts> parts(std::uint64_t tag) const;

  /// What the engine matches messages of one source by: the type above the lowest 28 bits of the counter.
  /// Counters of one source that are under way at a time differ in these, since 2^28 messages are never under
  /// way.
  [[nodiscard]] static int key(const TagParts& parts) noexcept {
    constexpr std::uint64_t mask = (std::uint64_t{1} << key_counter_bits) - 1;
    return static_cast<int>((static_cast<std::uint32_t>(parts.type) << key_counter_bits) |
                            static_cast<std::uint32_t>(parts.counter & mask));
  }
  /// The type that a key has.
  [[nodiscard]] static TagType type_of_key(int key) noexcept {
    return static_cast<TagType>(static_cast<std::uint32_t>(key) >> key_counter_bits);
  }
  /// How many counters there are.
  [[nodiscard]] std::uint64_t counters() const noexcept { return counter_mask() + 1; }
  [[nodiscard]] const TagDivision& division() const noexcept { return division_; }

 private:
  Tags(const TagDivision& division, std::uint32_t processes) noexcept
      : division_(division), processes_(processes) {}
  [[nodiscard]] std::uint64_t counter_mask() const noexcept {
    return (std::uint64_t{1} << division_.counter_bits) - 1;
  }

  static constexpr std::uint32_t key_counter_bits = 28;

  TagDivision division_;
  std::uint32_t processes_;
};

}  // namespace isthmus::chare
