#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/settings.hpp"

/// The table of measured values that `isthmus tune` writes and every job of the user loads.
namespace isthmus::tuning {

/// What the values hold for: they were measured there.
struct Machine {
  std::string processor;  ///< the model's name, as the kernel prints it
  long processors = 0;    ///< hardware threads
  std::string kernel;     ///< release

  static Machine here();
  [[nodiscard]] std::string text() const;
  friend bool operator==(const Machine&, const Machine&) = default;
};

/// A measured value. `variable` is that of the setting which it stands in for.
struct Value {
  std::string variable;
  std::uint64_t value = 0;
  std::string why;     ///< for people: the measurement that decided
  bool tuned = false;  ///< else the measurement left the default
};

/// The variables that a table may have values for.
inline constexpr std::array<std::string_view, 11> variables{"ISTHMUS_EAGER_LIMIT",
                                                            "ISTHMUS_BANDWIDTH_EAGER_LIMIT",
                                                            "ISTHMUS_SPLIT_FROM",
                                                            "ISTHMUS_FRAGMENT",
                                                            "ISTHMUS_RING_CELLS",
                                                            "ISTHMUS_RING_BYTES",
                                                            "ISTHMUS_NETWORK_EAGER_LIMIT",
                                                            "ISTHMUS_GPU_EAGER_LIMIT",
                                                            "ISTHMUS_GPU_PUSH_FROM",
                                                            "ISTHMUS_GPU_DIRECT_LIMIT",
                                                            "ISTHMUS_GPU_CHUNK"};

inline constexpr std::uint64_t version = 1;

/// The names in a table of the ways of long messages, in the order of `LongWay`.
inline constexpr std::array<std::string_view, 3> long_ways{"both copy", "receiver reads", "ring"};

/// The names in a table of the ways of messages of middling length, in the order of `EagerWay`.
inline constexpr std::array<std::string_view, 2> eager_ways{"eager", "rendezvous"};
/// The names in a table of collectives, and of their ways, in the order of `SharedCallLessons` and
/// `coll::TeamWay`.
inline constexpr std::array<std::string_view, 8> collectives{
    "bcast", "gather", "scatter", "allgather", "alltoall", "reduce", "allreduce", "reduce_scatter"};
inline constexpr std::array<std::string_view, 8> call_ways{"flat",        "staged",     "counted",  "direct",
                                                           "direct_both", "direct_all", "messages", "tree"};

/// What a table says.
struct Table {
  std::vector<Value> values;
  std::vector<TaughtWay> taught_ways;
  std::vector<TaughtEager> taught_eager;
  std::vector<TaughtGpu> taught_gpu;
  std::vector<TaughtCall> taught_calls;
};

/// Where the table of the user is: `$XDG_CONFIG_HOME/isthmus/tuning.json`, else below `$HOME/.config`; empty
/// where there is neither.
[[nodiscard]] std::string default_path();

/// Reads the JSON text of a table that was measured on `machine`. Errors are what is wrong with it, as the
/// end of a sentence that begins with the file's name.
[[nodiscard]] Result<Table> parse(std::string_view json, const Machine& machine);

/// Gives `settings` the values of the table that they name, or of the user's own if there is one, where the
/// environment says nothing. A table that cannot be used changes nothing; the result is then a sentence that
/// says why and what is used instead, else empty.
[[nodiscard]] std::string apply(Settings& settings);

}  // namespace isthmus::tuning
