#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "coll/area/stripe.hpp"
#include "coll/select/call_choice.hpp"
#include "comm/communicator.hpp"
#include "route/call_report.hpp"
#include "route/shared_call_lessons.hpp"

namespace isthmus::coll {

/// How the longer calls go that do not block, by what blocking ones have taken (`LiveCalls`): how long a
/// nonblocking one takes is the program's doing, who looks for its end when it likes.
///
/// Rank 0 reads what teams of this size have learned, and says how calls go from a step on that nobody can
/// have reached: as many steps later as a stripe is deep. Who may use that step has seen that all members
/// have finished the one that rank 0 said it in. And nothing new is said until all have finished the first
/// step of what was said before. So members never differ, and nobody waits for anybody.
class LiveLanes final : public CallReporter {
 public:
  /// Reads what settings say.
  void open(const Communicator& comm);

  /// Of a call of that class in step `step`, for which `stripe` is free; none: as the table has it.
  /// `schedule` is that of its class on this stripe. All members have met.
  std::optional<TeamWay> way(ScheduleWord& schedule, std::size_t call_class, const Stripe& stripe,
                             std::uint64_t step, const Communicator& comm);

  /// A call of that class is to go `taken`, where the table has `assumed`: for reports.
  void note(CallReport::Form form, std::size_t call_class, TeamWay assumed, TeamWay taken) noexcept;
  void add_to(std::vector<CallReport>& reports, double nanoseconds) const override;

  /// Rank 0 has begun `step` of a stripe that is `depth` steps deep, and has seen that all have finished
  /// `finished`: calls shall go that way as soon as that can be said.
  static void say(ScheduleWord& schedule, TeamWay way, std::uint64_t step, std::uint64_t depth,
                  std::uint64_t finished) noexcept;
  /// How a call goes whose step is free; none: as the table has it.
  static std::optional<TeamWay> read(const ScheduleWord& schedule, std::uint64_t step) noexcept;

 private:
  [[nodiscard]] std::optional<TeamWay> wanted(std::size_t call_class, const Communicator& comm);

  struct Noted {
    TeamWay assumed{}, last{};
    std::array<std::uint64_t, team_way_count> calls{};  ///< by way
  };

  int members_ = 0;
  std::map<std::pair<CallReport::Form, std::size_t>, Noted> noted_;  ///< by size class of a collective
  bool is_explained_ = false;
  bool speaks_ = false;  ///< for all members
  std::optional<TeamWay> forced_;
  SharedCallLessons lessons_;   ///< none, where nothing is to be learned
  std::optional<bool> spread_;  ///< members over sockets, once that has been looked at
};

}  // namespace isthmus::coll
