#include "p2p/explain/tally.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <vector>

namespace isthmus {
namespace {

/// What parts lines of a text from each other in a packed line, and its fields.
constexpr char inner_newline = '\v';
constexpr char separator = '\t';
constexpr std::size_t field_count = 7;

/// What is said of each kind at most; the rest is counted.
constexpr std::size_t most_ways = 8;
constexpr std::size_t most_plans = 4;
constexpr std::size_t most_refusals = 4;
constexpr std::size_t most_notes = 4;
constexpr std::size_t most_groups = 4;

std::string on_one_line(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c == '\n')
      c = inner_newline;
    else if (static_cast<unsigned char>(c) < 0x20)
      c = ' ';
  return result;
}

std::string bytes_text(std::uint64_t bytes) {
  constexpr std::array units{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < units.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, units[unit]);
}

std::string time_text(double nanoseconds) {
  constexpr std::array units{"ns", "us", "ms", "s"};
  std::size_t unit = 0;
  while (nanoseconds >= 1000 && unit + 1 < units.size()) {
    nanoseconds /= 1000;
    ++unit;
  }
  return fmt::format("{:.3g} {}", nanoseconds, units[unit]);
}

template <class Number>
double per_cent(Number part, Number whole) {
  return whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

std::string plural(std::uint64_t count, std::string_view word) {
  return fmt::format("{} {}{}", count, word, count == 1 ? "" : "s");
}

/// How many are left out, where some are.
std::string rest_text(std::size_t all, std::size_t shown, std::string_view words) {
  return all > shown ? fmt::format("      and {} more {}\n", all - shown, words) : std::string();
}

/// Each line of a text, deeper by `depth`.
std::string indented(std::string_view text, std::size_t depth) {
  std::string result;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    result += fmt::format("{}{}\n", std::string(depth, ' '), text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return result;
}

bool parse_number(std::string_view text, std::uint64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

/// "0-3; 4-7; 8-11 and 5 more".
template <class Groups>
std::string groups_text(const Groups& groups) {
  std::string text;
  std::size_t count = 0;
  for (const auto& [group, members] : groups) {
    if (++count > most_groups) continue;
    text += fmt::format("{}{}", text.empty() ? "" : "; ", group.text());
  }
  return count > most_groups ? fmt::format("{} and {} more", text, count - most_groups) : text;
}

/// The entries of a map, those that weigh most first.
template <class Map, class Weight>
std::vector<const typename Map::value_type*> sorted(const Map& map, const Weight& weight) {
  std::vector<const typename Map::value_type*> entries;
  entries.reserve(map.size());
  for (const auto& entry : map)
    entries.push_back(&entry);
  std::ranges::stable_sort(entries, std::ranges::greater(),
                           [&](const auto* entry) { return weight(entry->second); });
  return entries;
}

/// Whether the groups and who is in them are the same: nobody is in two, and nobody knows a group otherwise
/// than its members.
bool are_groups(const std::map<RankSet, RankSet>& groups) {
  return std::ranges::all_of(groups, [](const auto& group) { return group.first == group.second; });
}

std::uint64_t count_pairs(const std::map<RankSet, RankSet>& pairs) {
  std::uint64_t count = 0;
  for (const auto& [all, receivers] : pairs)
    count += (all.size() - 1) * receivers.size();
  return count;
}

}  // namespace

void RankTally::add(TallyKind kind, std::string text, const Count& count) {
  Line& line = lines_[{kind, std::move(text)}];
  line.messages += count.messages;
  line.bytes += count.bytes;
  line.nanoseconds += count.nanoseconds;
}

void RankTally::add_plan(std::string text, std::uint32_t peer) {
  lines_[{TallyKind::plan, std::move(text)}].peers.add(peer);
}

void RankTally::add_refusal(std::string text, std::string_view remedy, std::uint32_t peer,
                            std::uint64_t bytes) {
  Line& line = lines_[{TallyKind::refusal, std::move(text)}];
  line.remedy = remedy;
  line.peers.add(peer);
  line.bytes += bytes;
}

std::string RankTally::packed() const {
  std::string text;
  for (const auto& [key, line] : lines_)
    text +=
        fmt::format("{}\t{}\t{}\t{}\t{}\t{}\t{}\n", static_cast<char>(key.first), line.messages, line.bytes,
                    line.nanoseconds, line.peers.text(), on_one_line(key.second), on_one_line(line.remedy));
  return text;
}

void JobTally::add(std::uint32_t rank, std::string_view packed) {
  while (!packed.empty()) {
    const std::size_t end = std::min(packed.find('\n'), packed.size());
    add_line(rank, packed.substr(0, end));
    packed.remove_prefix(std::min(end + 1, packed.size()));
  }
}

void JobTally::add_line(std::uint32_t rank, std::string_view line) {
  std::array<std::string_view, field_count> fields;
  for (std::size_t i = 0; i < field_count; ++i) {
    const std::size_t end = line.find(separator);
    if ((end == std::string_view::npos) != (i + 1 == field_count)) return;
    fields[i] = line.substr(0, end);
    line.remove_prefix(i + 1 == field_count ? 0 : end + 1);
  }
  const auto& [kind, messages, bytes, time, peers, text, remedy] = fields;
  std::uint64_t message_count = 0;
  std::uint64_t byte_count = 0;
  std::uint64_t nanoseconds = 0;
  std::optional<RankSet> senders = RankSet::parse(peers, size_);
  if (kind.size() != 1 || !std::string_view("wprcn").contains(kind[0]) || !senders ||
      !parse_number(messages, message_count) || !parse_number(bytes, byte_count) ||
      !parse_number(time, nanoseconds))
    return;
  std::string whole(text);
  std::ranges::replace(whole, inner_newline, '\n');
  Sum& sum = sums_[static_cast<TallyKind>(kind[0])][std::move(whole)];
  sum.remedy = remedy;
  sum.messages += message_count;
  sum.bytes += byte_count;
  sum.nanoseconds += nanoseconds;
  sum.ranks.add(rank);
  if (senders->size() == 0) return;
  senders->add(rank);
  sum.pairs[*senders].add(rank);
}

const JobTally::Sums& JobTally::of(TallyKind kind) const {
  static const Sums none;
  const auto found = sums_.find(kind);
  return found != sums_.end() ? found->second : none;
}

std::string JobTally::pairs_text(const Pairs& pairs) const {
  if (pairs.size() == 1 && pairs.begin()->first.size() == size_ && pairs.begin()->second.size() == size_)
    return size_ == 2 ? "between both ranks" : fmt::format("between any two of all {} ranks", size_);
  if (are_groups(pairs))
    return pairs.size() == 1
               ? fmt::format("between any two of ranks {}", pairs.begin()->first.text())
               : fmt::format("within each of {} groups of ranks: {}", pairs.size(), groups_text(pairs));
  // Who does not send to a rank is its group, if all senders are in other groups.
  std::map<RankSet, RankSet> groups;
  for (const auto& [all, receivers] : pairs) {
    const RankSet rest = all.complement(size_);
    receivers.for_each([&](std::uint32_t receiver) {
      RankSet group = rest;
      group.add(receiver);
      groups[std::move(group)].add(receiver);
    });
  }
  std::uint64_t grouped = 0;
  for (const auto& [group, members] : groups)
    grouped += members.size();
  if (grouped == size_ && are_groups(groups))
    return groups.size() == 2
               ? fmt::format("between ranks {} and ranks {}", groups.begin()->first.text(),
                             groups.rbegin()->first.text())
               : fmt::format("between {} groups of ranks: {}", groups.size(), groups_text(groups));
  const auto& [all, receivers] = *pairs.begin();
  const std::uint32_t receiver = receivers.first_but(size_);
  return fmt::format("for {}, such as from rank {} to rank {}", plural(count_pairs(pairs), "pair"),
                     all.first_but(receiver), receiver);
}

JobTally::Time JobTally::time_of(const std::string& name, const Sum& way) const {
  if (way.nanoseconds > 0) return {.nanoseconds = static_cast<double>(way.nanoseconds)};
  const auto found = std::ranges::find(estimates_, name, &WayEstimate::way);
  if (found == estimates_.end()) return {};
  return {.nanoseconds = found->nanoseconds(way.messages, way.bytes), .is_estimated = true};
}

std::string JobTally::ways_text() const {
  const Sums& ways = of(TallyKind::way);
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
  double time = 0;
  for (const auto& [name, way] : ways) {
    messages += way.messages;
    bytes += way.bytes;
    time += time_of(name, way).nanoseconds;
  }
  if (messages == 0) return "    no messages were sent\n";
  std::string text =
      fmt::format("    all ranks together: {}, {}{}\n", plural(messages, "message"), bytes_text(bytes),
                  time > 0 ? fmt::format(", under way for {}", time_text(time)) : "");
  const auto entries = sorted(ways, [](const Sum& way) { return std::pair(way.bytes, way.messages); });
  std::size_t width = 0;
  for (std::size_t i = 0; i < std::min(entries.size(), most_ways); ++i)
    width = std::max(width, entries[i]->first.size());
  for (std::size_t i = 0; i < std::min(entries.size(), most_ways); ++i) {
    const auto& [name, way] = *entries[i];
    text += fmt::format("      {:<{}} {:>5.1f} % of messages, {:>5.1f} % of bytes ({})", name, width,
                        per_cent(way.messages, messages), per_cent(way.bytes, bytes), bytes_text(way.bytes));
    const auto [taken, is_estimated] = time_of(name, way);
    text += taken > 0 ? fmt::format(", {:>5.1f} % of time ({}{})\n", per_cent(taken, time), time_text(taken),
                                    is_estimated ? ", estimated" : "")
                      : ", time not known\n";
  }
  return text + rest_text(entries.size(), most_ways, "ways");
}

std::string JobTally::plans_text() const {
  const auto entries = sorted(of(TallyKind::plan), [](const Sum& plan) { return count_pairs(plan.pairs); });
  std::string text;
  for (std::size_t i = 0; i < std::min(entries.size(), most_plans); ++i)
    text += fmt::format("    {}\n{}", pairs_text(entries[i]->second.pairs), indented(entries[i]->first, 6));
  return text + rest_text(entries.size(), most_plans, "kinds of pairs");
}

std::string JobTally::refusals_text() const {
  const auto entries = sorted(of(TallyKind::refusal),
                              [](const Sum& each) { return std::pair(each.bytes, count_pairs(each.pairs)); });
  std::string text;
  for (std::size_t i = 0; i < std::min(entries.size(), most_refusals); ++i) {
    const auto& [what, refusal] = *entries[i];
    text += fmt::format("    refused: {}\n      {}", what, pairs_text(refusal.pairs));
    if (refusal.bytes > 0) text += fmt::format("; {} went a slower way", bytes_text(refusal.bytes));
    text += '\n';
    if (!refusal.remedy.empty()) text += fmt::format("      what helps: {}\n", refusal.remedy);
  }
  return text + rest_text(entries.size(), most_refusals, "refusals");
}

std::string JobTally::collectives_text() const {
  std::string text;
  for (const auto& [how, sum] : of(TallyKind::collectives))
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", sum.messages, how);
  return text.empty()
             ? text
             : fmt::format("    collectives with data in GPU memory, counted by each rank: {}\n", text);
}

std::string JobTally::notes_text() const {
  const Sums& notes = of(TallyKind::note);
  std::string text;
  std::size_t shown = 0;
  for (const auto& [note, sum] : notes)
    if (++shown <= most_notes)
      text +=
          fmt::format("    {} ({} {})\n", note, sum.ranks.size() == 1 ? "rank" : "ranks", sum.ranks.text());
  return text + rest_text(notes.size(), most_notes, "notes");
}

std::string JobTally::text() const {
  return ways_text() + plans_text() + refusals_text() + collectives_text() + notes_text();
}

}  // namespace isthmus
