#include "comm/memory_kinds.hpp"

#include <algorithm>
#include <array>
#include <ranges>
#include <span>
#include <vector>

namespace isthmus::memory_kinds {
namespace {

struct Known {
  std::string_view name;
  std::span<const std::string_view> restrictors;
};

constexpr std::array<std::string_view, 3> of_mpi{"alloc_mem", "win_allocate", "win_allocate_shared"};
constexpr std::array<std::string_view, 3> of_cuda{"host", "device", "managed"};
constexpr std::array<Known, 3> known_kinds{{{"system", {}}, {"mpi", of_mpi}, {"cuda", of_cuda}}};
constexpr std::string_view always = "system,mpi";

/// A kind and its restrictors; none where all of the kind is meant.
struct Kind {
  std::string_view text;
  std::string_view name;
  std::vector<std::string_view> restrictors;
};

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    std::string_view part = text.substr(0, end);
    while (part.starts_with(' '))
      part.remove_prefix(1);
    while (part.ends_with(' '))
      part.remove_suffix(1);
    if (!part.empty()) parts.push_back(part);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

std::vector<Kind> parse(std::string_view text) {
  std::vector<Kind> kinds;
  for (const std::string_view each : split(text, ',')) {
    auto words = split(each, ':');
    if (words.empty()) continue;
    const std::string_view name = words.front();
    words.erase(words.begin());
    kinds.push_back({each, name, std::move(words)});
  }
  return kinds;
}

bool is_known(const Kind& kind) {
  const auto* const found = std::ranges::find(known_kinds, kind.name, &Known::name);
  return found != known_kinds.end() && std::ranges::all_of(kind.restrictors, [found](std::string_view word) {
           return std::ranges::find(found->restrictors, word) != found->restrictors.end();
         });
}

}  // namespace

std::string supported(std::string_view asked, bool has_cuda) {
  std::string text(always);
  for (const Kind& kind : parse(asked))
    if (is_known(kind) && (kind.name != "cuda" || has_cuda) && !is_within(kind.text, text))
      text.append(",").append(kind.text);
  return text;
}

bool is_within(std::string_view some, std::string_view all) {
  const std::vector<Kind> outer = parse(all);
  const auto covers = [&outer](std::string_view name, std::optional<std::string_view> restrictor) {
    return std::ranges::any_of(outer, [&](const Kind& kind) {
      return kind.name == name &&
             (kind.restrictors.empty() ||
              (restrictor && std::ranges::find(kind.restrictors, *restrictor) != kind.restrictors.end()));
    });
  };
  return std::ranges::all_of(parse(some), [&](const Kind& kind) {
    if (kind.restrictors.empty()) return covers(kind.name, std::nullopt);
    return std::ranges::all_of(kind.restrictors,
                               [&](std::string_view word) { return covers(kind.name, word); });
  });
}

std::optional<AllocationKind> to_allocate(std::string_view kinds) {
  const std::vector<Kind> parsed = parse(kinds);
  if (parsed.empty() || !is_known(parsed.front())) return std::nullopt;
  const Kind& first = parsed.front();
  if (first.name != "cuda") return AllocationKind::host;
  const std::string_view where = first.restrictors.empty() ? "device" : first.restrictors.front();
  if (where == "host") return AllocationKind::cuda_host;
  return where == "managed" ? AllocationKind::cuda_managed : AllocationKind::cuda_device;
}

}  // namespace isthmus::memory_kinds
