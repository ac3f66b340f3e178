#include "p2p/explain/rank_set.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>

namespace isthmus {

void RankSet::add(std::uint32_t rank) {
  // The first run that ends at the rank before this one, or later.
  auto run = std::ranges::lower_bound(runs_, rank, {}, [](const Run& each) { return each.last + 1; });
  if (run == runs_.end() || rank + 1 < run->first) {
    runs_.insert(run, {.first = rank, .last = rank});
    return;
  }
  run->first = std::min(run->first, rank);
  run->last = std::max(run->last, rank);
  if (const auto next = std::next(run); next != runs_.end() && next->first == run->last + 1) {
    run->last = next->last;
    runs_.erase(next);
  }
}

bool RankSet::contains(std::uint32_t rank) const noexcept {
  const auto run = std::ranges::lower_bound(runs_, rank, {}, &Run::last);
  return run != runs_.end() && run->first <= rank;
}

std::uint64_t RankSet::size() const noexcept {
  std::uint64_t count = 0;
  for (const Run& run : runs_)
    count += run.last - run.first + 1;
  return count;
}

std::uint32_t RankSet::first_but(std::uint32_t other) const noexcept {
  const Run& run = runs_.front();
  if (run.first != other) return run.first;
  return run.last > run.first ? run.first + 1 : runs_[1].first;
}

RankSet RankSet::complement(std::uint32_t all) const {
  RankSet rest;
  std::uint32_t from = 0;
  for (const Run& run : runs_) {
    if (run.first > from) rest.runs_.push_back({.first = from, .last = run.first - 1});
    from = run.last + 1;
  }
  if (from < all) rest.runs_.push_back({.first = from, .last = all - 1});
  return rest;
}

std::string RankSet::text() const {
  std::string text;
  for (const Run& run : runs_) {
    if (!text.empty()) text += ", ";
    text += std::to_string(run.first);
    if (run.last > run.first) text += (run.last == run.first + 1 ? ", " : "-") + std::to_string(run.last);
  }
  return text;
}

std::optional<RankSet> RankSet::parse(std::string_view text, std::uint32_t all) {
  RankSet set;
  const char* at = text.data();
  const char* const end = at + text.size();
  bool is_range = false;
  while (at != end) {
    std::uint32_t number = 0;
    const auto [after, error] = std::from_chars(at, end, number);
    // Ascending, so that whoever sends this has us add each rank once.
    const bool is_next = set.runs_.empty() || number > set.runs_.back().last;
    if (error != std::errc() || number >= all || !is_next) return std::nullopt;
    if (is_range || (!set.runs_.empty() && set.runs_.back().last + 1 == number))
      set.runs_.back().last = number;
    else
      set.runs_.push_back({.first = number, .last = number});
    at = after;
    if (at == end) break;
    is_range = !is_range && *at == '-';
    const std::string_view separator = is_range ? "-" : ", ";
    if (!std::string_view(at, end).starts_with(separator)) return std::nullopt;
    at += separator.size();
    if (at == end) return std::nullopt;
  }
  return set;
}

}  // namespace isthmus
