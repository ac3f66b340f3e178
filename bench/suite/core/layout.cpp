#include "suite/core/layout.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <numeric>
#include <optional>

namespace isthmus::bench {
namespace {

/// So that no product of elements and bytes passes 63 bits.
constexpr std::size_t most = std::size_t{1} << 40;

std::optional<std::size_t> number_in(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return std::nullopt;
  text = text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number > most) return std::nullopt;
  return number;
}

std::variant<Layout, std::string> vector_of(std::string_view text) {
  const std::size_t colon = text.find(':');
  const auto stride = number_in(text.substr(0, colon));
  const auto block = colon == std::string_view::npos ? std::nullopt : number_in(text.substr(colon + 1));
  if (!stride || !block || *block == 0 || *block > *stride)
    return "vect needs vect:STRIDE:BLOCK, numbers of elements, BLOCK from 1 to STRIDE";
  return Layout{.kind = Layout::Kind::vector, .span = *stride, .blocks = {{0, *block}}};
}

std::variant<Layout, std::string> indexed_of(const std::string& path) {
  std::ifstream file(path);
  if (!file) return "'" + path + "' cannot be read";
  Layout layout{.kind = Layout::Kind::indexed, .span = 0, .blocks = {}};
  std::string line;
  for (std::size_t number = 1; std::getline(file, line); ++number) {
    const std::string_view text = std::string_view(line).substr(0, line.find('#'));
    if (text.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::size_t comma = text.find(',');
    const auto offset = number_in(text.substr(0, comma));
    const auto count = comma == std::string_view::npos ? std::nullopt : number_in(text.substr(comma + 1));
    if (!offset || !count || *count == 0 || *offset < layout.span)
      return "'" + path + "', line " + std::to_string(number) +
             ": needs OFFSET, COUNT, numbers of elements, behind the block before";
    layout.blocks.push_back({*offset, *count});
    layout.span = *offset + *count;
  }
  if (layout.blocks.empty()) return "'" + path + "' has no line OFFSET, COUNT";
  return layout;
}

}  // namespace

std::size_t Layout::carried(std::size_t elements) const {
  if (!has_gaps()) return elements;
  return repetitions(elements) *
         std::accumulate(blocks.begin(), blocks.end(), std::size_t{0},
                         [](std::size_t sum, const Stretch& block) { return sum + block.count; });
}

bool Layout::carries(std::size_t element, std::size_t elements) const {
  if (!has_gaps()) return element < elements;
  if (element / span >= repetitions(elements)) return false;
  const std::size_t at = element % span;
  const auto next =
      std::upper_bound(blocks.begin(), blocks.end(), at,
                       [](std::size_t place, const Stretch& block) { return place < block.offset; });
  return next != blocks.begin() && at < std::prev(next)->offset + std::prev(next)->count;
}

std::variant<Layout, std::string> layout_named(const std::string& text) {
  if (text == "cont") return Layout{.kind = Layout::Kind::contiguous, .blocks = {}};
  if (text.starts_with("vect:")) return vector_of(std::string_view(text).substr(5));
  if (text.starts_with("indx:")) return indexed_of(text.substr(5));
  return "knows cont, vect:STRIDE:BLOCK and indx:FILE";
}

}  // namespace isthmus::bench
