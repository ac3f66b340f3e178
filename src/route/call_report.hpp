#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace isthmus {

/// What the calls of one kind have taught a team, for reports. Names live as long as the program.
struct CallReport {
  struct Way {
    std::string_view name;
    // Microseconds of a call of `up_to` bytes; 0: not known.
    double predicted = 0, measured = 0;
  };
  /// Of calls that do not block it is `Form::nonblocking` or `persistent`, and what each way takes is known
  /// where these have learned it themselves.
  enum class Form : std::uint8_t { blocking, nonblocking, persistent };
  Form form = Form::blocking;
  std::string_view collective;
  int members = 0;
  std::uint64_t up_to = 0;    ///< bytes, as the table of collectives counts them; from the class below on
  bool told = false;          ///< by another team or an earlier job, and not learned here
  bool tuned = false;         ///< and that was an earlier job
  bool spread = false;        ///< the members are on several sockets
  double ticks_per_byte = 0;  ///< of the chosen way
  /// The way of such calls that do not block; empty: not known. Of these themselves, what they have found.
  std::string_view in_lanes;
  std::string_view way, assumed;
  std::uint64_t calls = 0;
  std::uint64_t calls_so = 0;  ///< of `calls`, of forms that do not block: that went `way`
  std::vector<Way> ways;       ///< all that may be taken
};

[[nodiscard]] constexpr std::string_view name_of(CallReport::Form form) noexcept {
  switch (form) {
    case CallReport::Form::blocking:
      return "blocking";
    case CallReport::Form::nonblocking:
      return "nonblocking";
    case CallReport::Form::persistent:
      return "persistent";
  }
  return {};
}

/// Who has learned something of collectives. `nanoseconds`: of a tick.
class CallReporter {
 public:
  virtual void add_to(std::vector<CallReport>& reports, double nanoseconds) const = 0;

 protected:
  ~CallReporter() = default;
};

/// What all teams of a rank have to tell, also those that are no more.
class CallReports {
 public:
  void join(const CallReporter& reporter) { reporters_.push_back(&reporter); }
  /// It will be no more: what it has to tell is kept.
  void leave(const CallReporter& reporter, double nanoseconds) {
    if (std::erase(reporters_, &reporter) > 0 && kept_.size() < most_kept)
      reporter.add_to(kept_, nanoseconds);
  }
  [[nodiscard]] std::vector<CallReport> all(double nanoseconds) const {
    std::vector<CallReport> reports = kept_;
    for (const CallReporter* reporter : reporters_)
      reporter->add_to(reports, nanoseconds);
    return reports;
  }

 private:
  /// Of communicators that a program makes and frees all the time, the first are enough.
  static constexpr std::size_t most_kept = 256;

  std::vector<const CallReporter*> reporters_;
  std::vector<CallReport> kept_;
};

}  // namespace isthmus
