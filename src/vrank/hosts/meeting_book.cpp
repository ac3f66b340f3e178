#include "vrank/hosts/meeting_book.hpp"

namespace isthmus::vrank {

bool MeetingBook::add(std::uint32_t number, std::span<const Statement> statements) {
  if (number != number_) return false;
  for (const Statement& each : statements) {
    if (each.rank >= words_.size() || has_said_[each.rank]) continue;
    has_said_[each.rank] = true;
    words_[each.rank] = each.words;
    ++count_;
  }
  return count_ == words_.size();
}

const std::vector<MeetingWords>& MeetingBook::close() {
  ++number_;
  count_ = 0;
  has_said_.assign(has_said_.size(), false);
  return words_;
}

}  // namespace isthmus::vrank
