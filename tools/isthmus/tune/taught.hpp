#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <vector>

#include "commands.hpp"
#include "facts.hpp"

/// What the messages of a program have taught plans that measure themselves, kept in a table for later jobs.
namespace isthmus::tool {

/// Messages of one kind, and the way that has been found the fastest for them.
struct Taught {
  std::uint64_t from = 0;  ///< least bytes of their size class
  bool same_socket = true;
  bool any_way = true;
  bool several = false;  ///< under way together
  std::string way;       ///< as tables name it
  double ticks_per_byte = 0;
  std::uint64_t messages = 0;  ///< of the ranks that have found it
  int ranks = 0;
  int others = 0;  ///< ranks that have found another way
};

/// Of what the ranks of some jobs have learned (`reports`: `isthmus explain --json`, a line each), what most
/// messages speak for. Sizes that came mixed teach nothing of any size.
std::expected<std::vector<Taught>, std::string> taught_by(const std::vector<std::string>& reports);

/// `table`, which is one of this machine, or empty for a new one, with what has been taught besides or
/// instead.
std::string with_taught(const std::string& table, const std::vector<Taught>& taught);

/// `isthmus tune --from COMMAND`: runs it, and writes the table. The command's status where that is not 0.
int tune_from(const TuneOptions& options, const std::string& path);

}  // namespace isthmus::tool
