#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "coll/area/lane_area.hpp"
#include "coll/flow/lane.hpp"
#include "coll/select/select.hpp"

namespace isthmus::coll {

/// What a call is asked for its algorithm with; `room`: the most bytes that a member puts into a line or slot
/// where the algorithm is flat.
struct LaneQuestion {
  Question question;
  std::uint64_t room = 0;

  /// What lanes ask, and nothing else of a question.
  [[nodiscard]] bool is_as(const LaneQuestion& other) const noexcept {
    return question.bytes == other.question.bytes && room == other.room &&
           question.commutative == other.question.commutative;
  }
};

/// What a member's part may have at most to go into slots of such a lane.
[[nodiscard]] constexpr std::uint64_t most_in_slot(Lane::Kind kind) noexcept {
  return kind == Lane::Kind::persistent ? short_slot_bytes : slot_bytes;
}

/// The algorithm, of those that there is a flow for, by whether members read and write each other's memory.
/// Alike at all members. Null: messages.
struct LaneChoice {
  std::optional<Algorithm> direct;
  std::optional<Algorithm> indirect;

  LaneChoice() = default;
  LaneChoice(const LaneQuestion& asked, int ranks, Lane::Kind kind);
  [[nodiscard]] bool is_none() const noexcept { return !direct && !indirect; }
  [[nodiscard]] bool is_one() const noexcept { return direct == indirect; }
  [[nodiscard]] const std::optional<Algorithm>& of(bool is_direct) const noexcept {
    return is_direct ? direct : indirect;
  }
};

/// The last answer for each collective: programs ask the same again and again, and the table is read twice
/// for each answer.
class LaneChoices {
 public:
  [[gnu::always_inline]] const LaneChoice& find(const LaneQuestion& asked, int ranks, Lane::Kind kind) {
    Answer& last = answers_[static_cast<std::size_t>(asked.question.collective)];
    if (!last.known || last.kind != kind || !last.asked.is_as(asked)) [[unlikely]]
      last = {asked, LaneChoice(asked, ranks, kind), kind, true};
    return last.choice;
  }

 private:
  struct Answer {
    LaneQuestion asked;
    LaneChoice choice;
    Lane::Kind kind = Lane::Kind::blocking;
    bool known = false;
  };
  std::array<Answer, collective_count> answers_{};
};

}  // namespace isthmus::coll
