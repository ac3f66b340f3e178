#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <vector>

#include "commands.hpp"
#include "facts.hpp"

/// What the messages of a program have taught plans that measure themselves, kept in a table for later jobs.
namespace isthmus::tool {

/// The way that has been found the fastest for something.
struct Verdict {
  std::string way;  ///< as tables name it
  double ticks_per_byte = 0;
  std::uint64_t messages = 0;  ///< or calls, of the ranks that have found it
  int ranks = 0;
  int others = 0;  ///< ranks that have found another way
};

/// Messages of one kind, and their way.
struct Taught {
  std::uint64_t from = 0;  ///< least bytes of their size class
  bool same_socket = true;
  bool any_way = true;
  bool several = false;  ///< under way together
  Verdict verdict;
};

/// The same of anything else that has a way: an entry of the table without its way and what follows from it,
/// which says what it is of; and for people the words that say it.
struct TaughtEntry {
  std::string kind;  ///< JSON
  std::string words;
  Verdict verdict;           ///< its `way` is empty where only calls that do not block have taught something
  Verdict nonblocking = {};  ///< of a collective; its `way` is empty: none
};

/// All that some jobs have taught, as the lists of a table.
struct TaughtAll {
  std::vector<Taught> ways;
  std::vector<TaughtEntry> eager;
  std::vector<TaughtEntry> gpu;
  std::vector<TaughtEntry> collectives;

  [[nodiscard]] bool empty() const noexcept {
    return ways.empty() && eager.empty() && gpu.empty() && collectives.empty();
  }
};

/// Of what the ranks of some jobs have learned (`reports`: `isthmus explain --json`, a line each), what most
/// messages speak for. Sizes that came mixed teach nothing of any size.
std::expected<TaughtAll, std::string> taught_by(const std::vector<std::string>& reports);

/// `table`, which is one of this machine, or empty for a new one, with what has been taught besides or
/// instead.
std::string with_taught(const std::string& table, const TaughtAll& taught);

/// `isthmus tune --from COMMAND`: runs it, and writes the table. The command's status where that is not 0.
int tune_from(const TuneOptions& options, const std::string& path);

}  // namespace isthmus::tool
