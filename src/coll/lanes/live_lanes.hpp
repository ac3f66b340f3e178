#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/ticks.hpp"
#include "coll/area/lane_area.hpp"
#include "coll/select/call_choice.hpp"
#include "comm/communicator.hpp"
#include "route/call_report.hpp"
#include "route/shared_call_lessons.hpp"
#include "route/shared_lessons.hpp"

namespace isthmus::coll {

/// How the longer calls go that do not block, by what earlier ones took, or by what blocking ones have taken
/// (`LiveCalls`) where there were such before.
///
/// Rank 0 alone learns (`CallChoice`), and says how calls go in a word of the members' memory: one for each
/// class of nonblocking calls, one for each persistent operation. Calls are numbered as they start, alike at
/// all members, and what is said is of numbers: flows may ask in any order. Whoever asks has seen that all
/// members have finished the step `lead` before its own, so it reads what rank 0 had said by then: that
/// takes effect `lead` calls later, and members never differ. Nothing new is said until all have finished
/// the calls in turns that were said before.
///
/// What a call takes is from when the last member has asked to when its last member is through. Members write
/// that into their memory, and whether they were looking all the time: how long a call takes during which the
/// program computes is the program's doing, so rank 0 learns nothing from it. Nor does it from calls of which
/// several are under way. Without `enough` calls that teach something, no way is tried. And they say whether
/// they sent messages that have not settled on their own way yet (`EagerPlans`): then messages are judged
/// later.
class LiveLanes final : public CallReporter {
 public:
  /// As `LaneHeader::ways`, where this is rank 0.
  [[nodiscard]] static std::uint32_t chooser(const Engine& engine);
  /// Reads what settings say. `learns`: rank 0 does.
  void open(const Communicator& comm, bool learns);

  struct Asked {
    CallReport::Form form{};
    std::size_t schedule = 0;  ///< the index of its word
    std::size_t call_class = 0;
    std::uint64_t bytes = 0;
    std::uint64_t number = 0;           ///< on its stripe
    std::uint32_t number_in_class = 0;  ///< of those that share the word
    TeamWay assumed{};                  ///< as the table has it
    TeamWays possible;                  ///< `assumed`, and another one
  };
  struct Said {
    TeamWay way{};
    bool is_measured = false;  ///< `write_time` has to follow
    bool is_in_turn = false;   ///< it goes that way to be measured
  };
  /// All members have met, and have finished the step `lead` before this call's.
  Said ask(const Asked& asked, ScheduleWord& word, const StripeMemory& memory, const Communicator& comm);

  /// What a call took a member.
  struct Time {
    std::uint64_t began = 0, ended = 0;
    bool teaches = false;      ///< it was looking all the time, and at nothing else
    bool is_learning = false;  ///< it has sent messages that have not settled on their own way
  };
  static void write_time(CallTime& time, std::uint64_t number, const Time& taken) noexcept;
  /// None: that member has not told it.
  static std::optional<Time> read_time(const CallTime& time, std::uint64_t number) noexcept;

  void add_to(std::vector<CallReport>& reports, double nanoseconds) const override;

  struct Read {
    std::optional<TeamWay> way;          ///< none: as the table has it
    std::optional<std::uint32_t> index;  ///< in the turns
  };
  /// How the call of that number in its class goes, as the word has it.
  static Read read(const ScheduleWord& word, std::uint32_t number) noexcept;

  /// Calls that have to teach something before another way than the table's is tried.
  static constexpr std::uint32_t enough = 8;
  /// So many calls are measured that go as the table has it; later, and of those that go as chosen, one in
  /// `measured_each`.
  static constexpr std::uint32_t first_measured = 16;
  static constexpr std::uint32_t measured_each = 4;

 private:
  /// What rank 0 knows of the calls that share a word.
  struct Learner {
    std::optional<CallChoice> choice;  ///< none: they go as the table has it so far
    std::uint32_t taught = 0;          ///< calls before that which taught something
  };
  /// A call whose times rank 0 has not read yet.
  struct Begun {
    const StripeMemory* memory;
    Learner* learner;
    std::uint64_t number;
    std::uint64_t bytes;
    std::optional<std::uint32_t> index;  ///< in the turns
    std::uint32_t said_from;             ///< which turns these are: as `CallChoice` says
    TeamWay way;
  };
  struct Noted {
    TeamWay assumed{}, last{};
    std::array<std::uint64_t, team_way_count> calls{};  ///< by way
    const Learner* learner = nullptr;
  };
  static constexpr std::size_t most_begun = 64;

  [[nodiscard]] Learner* find(std::size_t schedule) noexcept;
  void learn(Learner& learner, const Asked& asked, ScheduleWord& word, std::uint32_t lead);
  void begin_choice(Learner& learner, const Asked& asked, std::uint32_t lead) const;
  void collect(const StripeMemory& memory, std::uint64_t number) noexcept;
  void note(const Asked& asked, TeamWay taken, const Learner* learner) noexcept;

  int members_ = 0;
  std::uint64_t eager_limit_ = 0;
  bool is_explained_ = false;
  bool speaks_ = false;  ///< for all members
  bool measures_ = false;
  bool learns_ = false;
  std::optional<TeamWay> forced_;
  SharedCallLessons lessons_;   ///< none, where nothing is to be learned
  SharedLessons messages_;      ///< the same of messages
  std::optional<bool> spread_;  ///< members over sockets, once that has been looked at
  // Of rank 0.
  std::map<std::size_t, Learner> learners_;  ///< by the index of their word
  std::vector<Begun> begun_;
  std::map<std::pair<CallReport::Form, std::size_t>, Noted> noted_;  ///< by size class of a collective
};

}  // namespace isthmus::coll
