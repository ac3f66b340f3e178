#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/rank_turns.hpp"

namespace isthmus::vrank {

/// What one rank has said at a meeting.
struct Statement {
  std::uint32_t rank;
  std::uint32_t reserved;
  MeetingWords words;
};

/// What the ranks of a job have said so far at the meeting that is under way. For one thread.
class MeetingBook {
 public:
  explicit MeetingBook(std::uint32_t world) : words_(world), has_said_(world) {}

  /// Whether all have said something at meeting `number` now. What is of another meeting, or of no rank, is
  /// not taken.
  bool add(std::uint32_t number, std::span<const Statement> statements);
  /// Of the meeting that is under way; the first is 1.
  [[nodiscard]] std::uint32_t number() const noexcept { return number_; }
  /// What they have said, by rank; the next meeting begins.
  const std::vector<MeetingWords>& close();

 private:
  std::uint32_t number_ = 1;
  std::uint32_t count_ = 0;
  std::vector<MeetingWords> words_;
  std::vector<bool> has_said_;
};

}  // namespace isthmus::vrank
