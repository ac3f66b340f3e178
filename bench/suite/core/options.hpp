// What the user asked for. Names and meaning of the options are those that users of the OSU micro-benchmarks
// know, where they have one for it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "suite/core/layout.hpp"
#include "suite/core/placement.hpp"
#include "suite/core/sampling.hpp"

namespace isthmus::bench {

// How one operation of a collective is timed.
enum class Timing : std::uint8_t {
  barrier,       // a barrier before each, as the OSU suite: the mean of what the ranks measured
  loop,          // back to back
  synchronised,  // all ranks begin at one moment of the synchronised clock: until the last has finished
};
// How one-sided operations are completed (MPI 4.1, section 12.5).
enum class Synchronisation : std::uint8_t { flush, lock, fence, post_start };
enum class WindowKind : std::uint8_t { allocate, create };
enum class Format : std::uint8_t { text, json };

// What only some benchmarks understand: a bit for each.
enum class Feature : unsigned {
  sizes = 1,
  window = 2,
  placement = 4,
  collective = 8,
  one_sided = 16,
  threads = 32,
  pairs = 64,
  partitions = 128,
  overlap = 256,
  rate = 512,
  managed = 1024,  // knows what to do with memory that moves
  types = 2048,
  layouts = 4096,
};
constexpr unsigned operator|(Feature a, Feature b) {
  return static_cast<unsigned>(a) | static_cast<unsigned>(b);
}
constexpr unsigned operator|(unsigned a, Feature b) {
  return a | static_cast<unsigned>(b);
}
constexpr bool has(unsigned features, Feature feature) {
  return (features & static_cast<unsigned>(feature)) != 0;
}

struct Options {
  std::size_t smallest = 1;
  std::size_t largest = std::size_t{4} << 20;
  std::vector<std::size_t> sizes;  // these alone, where there are any
  Effort effort;
  int window = 64;
  bool validate = false;
  bool full = false;
  std::vector<int> percentiles;
  std::array<Placement, 2> placement{Placement::host, Placement::host};
  std::vector<Element> elements;  // one after the other; none: the benchmark's own
  Layout layout;
  bool print_rate = true;
  std::string compute_target = "cpu";
  int test_calls = 0;
  int threads = 2;
  int pairs = 0;  // 0: as many as there are
  int partitions = 16;
  Timing timing = Timing::barrier;
  Synchronisation synchronisation = Synchronisation::flush;
  WindowKind window_kind = WindowKind::allocate;
  Format format = Format::text;
  bool samples = false;
  bool faults = false;
  std::size_t memory_limit = std::size_t{512} << 20;
  bool help = false;
};

// What is wrong with the command line, as a sentence.
struct Refusal {
  std::string why;
};

// The words after the benchmark's name; `features`: what this benchmark understands.
std::variant<Options, Refusal> parse_options(const std::vector<std::string>& words, unsigned features);

// The options that a benchmark with these features has, each with its meaning.
std::string options_help(unsigned features);

// The sizes to be measured: powers of two, with 0 before them where the smallest is 0, or what -m lists.
// `unit`: the least that can be moved, of which all are multiples.
std::vector<std::size_t> sizes_of(const Options& options, std::size_t unit);

// "4096", "64K", "64KiB", "4M", "1G".
std::optional<std::size_t> size_of(std::string_view text);

}  // namespace isthmus::bench
