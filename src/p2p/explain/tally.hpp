#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "p2p/explain/rank_set.hpp"

namespace isthmus {

/// What is counted of a job for the summary of `isthmus explain`. `way`: what went one way. `plan`:
/// pairs whose messages take the same ways. `refusal`: why a faster way was not taken. `collectives`: with
/// data in GPU memory. `note`: what a rank has to say besides.
enum class TallyKind : char {
  way = 'w',
  plan = 'p',
  refusal = 'r',
  collectives = 'c',
  note = 'n',
};

/// What one rank counts: for each kind and text a line. What stands for itself is in `text`, lines of it
/// apart.
class RankTally {
 public:
  struct Line {
    std::string remedy;  ///< of a refusal: what would help; empty: nothing is known
    RankSet peers;       ///< it is about messages from these to the rank
    std::uint64_t messages = 0;
    std::uint64_t bytes = 0;
    std::uint64_t nanoseconds = 0;
  };
  struct Count {
    std::uint64_t messages = 0;
    std::uint64_t bytes = 0;
    std::uint64_t nanoseconds = 0;  ///< that they were under way; 0: nobody has looked
  };

  void add(TallyKind kind, std::string text, const Count& count);
  void add_plan(std::string text, std::uint32_t peer);
  /// `bytes`: what came from the peer in slower ways for that reason.
  void add_refusal(std::string text, std::string_view remedy, std::uint32_t peer, std::uint64_t bytes);
  /// For rank 0.
  [[nodiscard]] std::string packed() const;

 private:
  std::map<std::pair<TallyKind, std::string>, Line> lines_;
};

/// What a message takes that goes one way, as far as that is a line.
struct WayEstimate {
  std::string way;
  double microseconds = 0;  ///< of any message
  double per_byte = 0;      ///< and of each of its bytes

  [[nodiscard]] double nanoseconds(std::uint64_t messages, std::uint64_t bytes) const noexcept {
    return 1000 * (microseconds * static_cast<double>(messages) + per_byte * static_cast<double>(bytes));
  }
};

/// What all ranks have counted, as a text that fits on a screen for any number of ranks.
class JobTally {
 public:
  /// `size`: ranks of the job.
  explicit JobTally(std::uint32_t size) : size_(size) {}
  /// `packed`: of a rank; what is not that is left out.
  void add(std::uint32_t rank, std::string_view packed);
  /// For ways of which nobody has taken the time.
  void estimate(std::vector<WayEstimate> estimates) { estimates_ = std::move(estimates); }
  [[nodiscard]] std::string text() const;

 private:
  /// Who sends to whom: by the set of a receiver and its senders, the receivers.
  using Pairs = std::map<RankSet, RankSet>;
  struct Sum {
    std::string remedy;
    Pairs pairs;
    RankSet ranks;  ///< that have counted it
    std::uint64_t messages = 0;
    std::uint64_t bytes = 0;
    std::uint64_t nanoseconds = 0;
  };
  using Sums = std::map<std::string, Sum>;

  void add_line(std::uint32_t rank, std::string_view line);
  [[nodiscard]] const Sums& of(TallyKind kind) const;
  /// How long messages of a way were under way, measured or estimated.
  struct Time {
    double nanoseconds = 0;  ///< 0: not known
    bool is_estimated = false;
  };
  [[nodiscard]] Time time_of(const std::string& name, const Sum& way) const;
  [[nodiscard]] std::string ways_text() const;
  [[nodiscard]] std::string plans_text() const;
  [[nodiscard]] std::string refusals_text() const;
  [[nodiscard]] std::string collectives_text() const;
  [[nodiscard]] std::string notes_text() const;
  [[nodiscard]] std::string pairs_text(const Pairs& pairs) const;

  std::uint32_t size_;
  std::map<TallyKind, Sums> sums_;
  std::vector<WayEstimate> estimates_;
};

}  // namespace isthmus
