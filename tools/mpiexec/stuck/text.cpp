#include "stuck/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>

#include "base/spelling.hpp"
#include "stuck/analysis.hpp"

namespace isthmus::mpiexec::stuck {
namespace {

using wire::WaitItem;
using wire::WaitReport;

constexpr std::size_t most_items = 4;
constexpr std::size_t most_unmatched = 3;
constexpr std::size_t most_lines = 64;

std::span<const WaitItem> items_of(const WaitReport& report) {
  return std::span(report.item).first(report.items);
}

std::string peer_text(std::int32_t peer) {
  return peer == wire::wait_any_peer ? "any rank" : fmt::format("rank {}", peer);
}

std::string tag_text(std::int32_t tag) {
  return tag == wire::wait_any_tag ? "any tag" : fmt::format("tag {}", tag);
}

std::string describe(const WaitItem& item, const WaitReport& report) {
  const std::string comm = name_of(item.context, report);
  if (item.kind == WaitItem::Kind::collective)
    return fmt::format("a nonblocking or persistent collective on {}", comm);
  const bool inner = (item.flags & WaitItem::inner) != 0;
  const bool matched = (item.flags & WaitItem::matched) != 0;
  const std::string what = inner ? fmt::format("(the library's own, on {})", comm)
                                 : fmt::format("{} on {}", tag_text(item.tag), comm);
  switch (item.kind) {
    case WaitItem::Kind::send:
      return fmt::format("a send of {} to {}, {}", bytes_text(item.bytes), peer_text(item.peer), what);
    case WaitItem::Kind::probe:
      return fmt::format("a message from {}, {}", peer_text(item.peer), what);
    default:
      return fmt::format("a {} from {}, {}{}", matched ? "message (under way)" : "message",
                         peer_text(item.peer), what,
                         matched ? "" : fmt::format(" (up to {})", bytes_text(item.bytes)));
  }
}

std::string describe_items(const WaitReport& report, bool briefly) {
  std::string text;
  std::size_t named = 0, more = 0, pending = 0;
  for (const WaitItem& item : items_of(report)) {
    if (item.kind == WaitItem::Kind::unmatched) continue;
    if ((item.flags & WaitItem::awaited) == 0)
      ++pending;
    else if (named == most_items)
      ++more;
    else
      text += (named++ == 0 ? "" : report.any ? " or " : "; ") + describe(item, report);
  }
  if (more > 0) text += fmt::format(" and {} more", more);
  std::string result = text.empty() ? "" : " for " + text;
  if (pending > 0 && !briefly)
    result += fmt::format("; {} other message{} of it {} not complete", pending, pending == 1 ? "" : "s",
                          pending == 1 ? "is" : "are");
  return result;
}

std::string describe_unmatched(const WaitReport& report) {
  std::string text;
  std::size_t count = 0;
  for (const WaitItem& item : items_of(report)) {
    if (item.kind != WaitItem::Kind::unmatched || (item.flags & WaitItem::inner) != 0) continue;
    if (count++ < most_unmatched)
      text += fmt::format("{}{}, {} on {}", count == 1 ? "" : "; ", peer_text(item.peer), tag_text(item.tag),
                          name_of(item.context, report));
  }
  if (count == 0) return "";
  if (count > most_unmatched) text += fmt::format(" and {} more", count - most_unmatched);
  return fmt::format("; has got and not received: from {}", text);
}

std::string describe_waiting(const WaitReport& report, bool briefly) {
  std::string text = report.call.front() != '\0' ? report.call.data() : "an MPI call";
  if (report.collective_number != 0) {
    text += fmt::format(", collective {} on {}", report.collective_number,
                        name_of(report.collective_context, report));
    if (report.root_process >= 0) text += fmt::format(", root rank {}", report.root_process);
    if (report.collective_bytes != wire::wait_unknown_bytes && report.collective_bytes != 0)
      text += ", " + bytes_text(report.collective_bytes);
  } else {
    text += describe_items(report, briefly);
  }
  if (briefly) return text;
  text += describe_unmatched(report);
  if (report.left_out > 0) text += fmt::format("; {} messages are not listed", report.left_out);
  if (report.others > 0)
    text += fmt::format("; {} other thread{} of it in MPI", report.others, report.others == 1 ? "" : "s");
  return text;
}

std::string process_text(char process) {
  switch (process) {
    case 'R':
      return "it computes";
    case 'S':
      return "it sleeps";
    case 'D':
      return "the kernel holds it (a disk, or a network file system)";
    case 'T':
      return "it is stopped by a signal";
    case 't':
      return "a debugger has stopped it";
    case 'Z':
    case 'X':
      return "its process has ended";
    default:
      return "its process is not seen from here";
  }
}

}  // namespace

std::string list_ranks(const std::vector<std::uint32_t>& ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + list_of(ranks);
}

std::string name_of(std::uint64_t context, const wire::WaitReport& report) {
  for (const wire::WaitComm& comm : std::span(report.comm).first(report.comms))
    if (comm.context == context && comm.name.front() != '\0') return comm.name.data();
  return fmt::format("communicator {:x}", context);
}

std::string bytes_text(std::uint64_t bytes) {
  if (bytes == wire::wait_unknown_bytes) return "some bytes";
  return fmt::format("{} byte{}", bytes, bytes == 1 ? "" : "s");
}

std::string duration_text(double seconds) {
  if (seconds < 120) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<std::uint64_t>(seconds);
  if (whole < 7200) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole / 60 % 60);
}

namespace {

std::string describe(const RankState& rank, bool briefly) {
  switch (rank.where) {
    case RankState::Where::unknown:
      return fmt::format("not known: mpiexec on host {} has not answered", rank.host);
    case RankState::Where::before:
      return "has not called MPI_Init, or waits in it; " + process_text(rank.process);
    case RankState::Where::outside:
      return "does not wait in MPI; " + process_text(rank.process);
    case RankState::Where::finalized:
      return "is done with MPI_Finalize; " + process_text(rank.process);
    case RankState::Where::ended:
      return "has ended";
    case RankState::Where::waiting:
      break;
  }
  return (rank.is_stopped() ? "stopped by a signal in " : "") + describe_waiting(rank.report, briefly);
}

}  // namespace

std::string describe(const RankState& rank) {
  return describe(rank, false);
}

std::string describe_briefly(const RankState& rank) {
  return describe(rank, true);
}

std::vector<std::string> fold(const std::vector<RankState>& ranks) {
  struct Alike {
    std::vector<std::uint32_t> ranks;
    double least = 0, most = 0;
    bool waits = false;
  };
  std::vector<std::pair<std::string, Alike>> all;
  std::map<std::string, std::size_t> index;
  for (const RankState& rank : ranks) {
    const std::string text = describe(rank);
    const auto [found, is_new] = index.emplace(text, all.size());
    if (is_new)
      all.push_back({text, {{}, rank.seconds, rank.seconds, rank.where == RankState::Where::waiting}});
    Alike& alike = all[found->second].second;
    alike.ranks.push_back(rank.rank);
    alike.least = std::min(alike.least, rank.seconds);
    alike.most = std::max(alike.most, rank.seconds);
  }
  std::vector<std::string> lines;
  for (const auto& [text, alike] : all) {
    if (lines.size() == most_lines) {
      lines.push_back(fmt::format("{} more lines are not shown", all.size() - most_lines));
      break;
    }
    std::string line = list_ranks(alike.ranks);
    if (alike.ranks.size() > 2) line += fmt::format(" ({})", alike.ranks.size());
    line += ": " + text;
    if (alike.waits)
      line += alike.most - alike.least < 1
                  ? ", for " + duration_text(alike.most)
                  : fmt::format(", for {} to {}", duration_text(alike.least), duration_text(alike.most));
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string report(const std::vector<RankState>& ranks) {
  std::string text = "What the ranks do (numbers are ranks in MPI_COMM_WORLD):\n";
  for (const std::string& line : fold(ranks))
    text += "  " + line + "\n";
  const std::vector<std::string> findings = analyse(ranks);
  if (!findings.empty()) text += "What follows:\n";
  for (const std::string& line : findings)
    text += "  " + line + "\n";
  return text;
}

}  // namespace isthmus::mpiexec::stuck
