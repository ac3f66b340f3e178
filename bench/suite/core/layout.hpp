// What the elements of a message are (-T), and where they lie in its buffer (-D).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace isthmus::bench {

enum class Element : std::uint8_t { byte, character, integer, real };

constexpr std::size_t bytes_of(Element element) {
  return element == Element::integer || element == Element::real ? 4 : 1;
}
constexpr std::string_view name_of(Element element) {
  switch (element) {
    case Element::byte:
      return "MPI_BYTE";
    case Element::character:
      return "MPI_CHAR";
    case Element::integer:
      return "MPI_INT";
    case Element::real:
      return "MPI_FLOAT";
  }
  return "?";
}

// Elements that lie one behind the other.
struct Stretch {
  std::size_t offset;  // in elements
  std::size_t count;
  friend bool operator==(const Stretch&, const Stretch&) = default;
};

// Blocks that repeat for as often as they fit into the message's buffer as a whole.
struct Layout {
  enum class Kind : std::uint8_t { plain, contiguous, vector, indexed };
  Kind kind = Kind::plain;  // plain and contiguous: without gaps, by the element's type or a type of its own
  std::size_t span = 1;     // elements from the beginning of the blocks to their repetition
  std::vector<Stretch> blocks;  // ascending, none within another; empty where there are no gaps

  [[nodiscard]] bool has_gaps() const { return !blocks.empty(); }
  // How many times they fit into `elements`.
  [[nodiscard]] std::size_t repetitions(std::size_t elements) const { return elements / span; }
  // Of `elements`, those that are in a block.
  [[nodiscard]] std::size_t carried(std::size_t elements) const;
  // Whether the element is in a block that fits into `elements`.
  [[nodiscard]] bool carries(std::size_t element, std::size_t elements) const;
};

// "cont"; "vect:STRIDE:BLOCK": BLOCK elements of each STRIDE; "indx:FILE": a line "OFFSET, COUNT" for each
// block, `#` begins a comment. Or what is wrong with it.
std::variant<Layout, std::string> layout_named(const std::string& text);

}  // namespace isthmus::bench
