#include "p2p/protocol/mapping/peer_mappings.hpp"

#include <algorithm>
#include <utility>

namespace isthmus {

PeerMappings::Entries::const_iterator PeerMappings::where(PeerId peer, std::uint32_t number) const noexcept {
  return std::ranges::find_if(entries_,
                              [&](const Entry& each) { return each.number == number && each.peer == peer; });
}

void PeerMappings::erase(Entries::const_iterator entry) noexcept {
  bytes_ -= entry->range.bytes();
  entries_.erase(entry);
}

void PeerMappings::told(PeerId peer, const wire::MemoryTold& what, Clock::time_point now) {
  entries_.push_front(
      {.peer = peer, .number = what.number, .address = what.address, .awaited = {what.ticket, now}});
  const auto before = std::ranges::find_if(
      std::next(entries_.begin()), entries_.end(),
      [&](const Entry& each) { return each.number == what.number && each.peer == peer; });
  if (before != entries_.end()) erase(before);
  if (entries_.size() > limits_.entries) erase(std::prev(entries_.end()));
}

std::optional<std::string> PeerMappings::arrived(PeerId peer, std::uint32_t number, const UniqueFd& file) {
  const auto found = where(peer, number);
  if (found == entries_.end()) return std::nullopt;
  entries_.splice(entries_.begin(), entries_, found);
  Entry& entry = entries_.front();
  entry.state = State::refused;
  bytes_ -= std::exchange(entry.range, {}).bytes();
  auto range = map_shared_memory(file, limits_.bytes);
  if (!range) return range.error().text();
  while (bytes_ + range->bytes() > limits_.bytes)
    erase(std::prev(entries_.end()));
  bytes_ += range->bytes();
  entry.range = std::move(*range);
  entry.state = State::mapped;
  return std::nullopt;
}

void PeerMappings::refuse(PeerId peer, std::uint32_t number) noexcept {
  const auto found = where(peer, number);
  if (found == entries_.end()) return;
  entries_.splice(entries_.begin(), entries_, found);
  entries_.front().state = State::refused;
}

PeerMappings::Found PeerMappings::find(PeerId peer, std::uint32_t number, std::uint64_t address,
                                       std::uint64_t bytes) {
  const auto found = where(peer, number);
  if (found == entries_.end()) return {};
  entries_.splice(entries_.begin(), entries_, found);
  const Entry& entry = entries_.front();
  const std::uint64_t offset = address - entry.address;  // beyond all sizes where it lies before
  const bool is_inside = offset <= entry.range.bytes() && bytes <= entry.range.bytes() - offset;
  return {entry.state, is_inside && entry.range ? entry.range.data() + offset : nullptr};
}

std::optional<PeerMappings::Awaited> PeerMappings::awaited(PeerId peer, std::uint32_t number) const noexcept {
  const auto found = where(peer, number);
  if (found == entries_.end() || found->state != State::awaited) return std::nullopt;
  return found->awaited;
}

void PeerMappings::forget(PeerId peer, std::uint32_t number) noexcept {
  if (const auto found = where(peer, number); found != entries_.end()) erase(found);
}

void PeerMappings::forget(PeerId peer) noexcept {
  for (auto next = entries_.cbegin(); next != entries_.cend();) {
    const auto each = next++;
    if (each->peer == peer) erase(each);
  }
}

void PeerMappings::clear() noexcept {
  entries_.clear();
  bytes_ = 0;
}

}  // namespace isthmus
