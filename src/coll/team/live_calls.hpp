#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ticks.hpp"
#include "coll/area/team_area.hpp"
#include "coll/select/call_choice.hpp"
#include "route/call_report.hpp"
#include "route/shared_call_lessons.hpp"
#include "route/shared_lessons.hpp"

namespace isthmus::coll {

/// How the longer calls of a team go, by what earlier ones took.
///
/// Rank 0 alone learns (`CallChoice`), and says for each class of calls how they go, in a word of the team's
/// memory that all members read: so they never differ, and nobody waits for anybody. What it says takes
/// effect `depth` steps later: who begins a step has seen that all others have finished the one `depth`
/// before it, so it reads what rank 0 had said by then. And nothing new is said until all members have gone
/// by what was said before.
///
/// What a call takes is from when the last member has begun it to when the last one has ended it: so waiting
/// for a late member does not count. Members write both into the team's memory, in the turns that ways have
/// and of one call in four besides, of short ones in sixteen; rank 0 reads it when all have gone on.
///
/// Calls that do not match are an error. Where they have not, calls are no longer counted alike: rank 0 finds
/// no more times of the calls that it looks for, and what was chosen last holds.
class LiveCalls final : public CallReporter {
 public:
  /// Calls of more bytes than that, as the table counts them. An 8 B allreduce pays two comparisons.
  static constexpr std::uint64_t above = SharedCallLessons::above;
  static constexpr std::uint64_t most_bytes = std::uint64_t{64} << 20;
  static constexpr std::size_t size_classes = SharedCallLessons::size_classes;
  static constexpr std::size_t collectives = SharedCallLessons::collectives;
  /// One call in so many is measured besides those of turns. A measured one costs 0.1 us among near cores
  /// and 0.4 among far ones, for its times go from core to core: with one in sixteen an alltoall of 2 KiB
  /// took 0.35 and 0.84 us, with one in four 0.37 and 0.91 (Zen 4; 0.29 and 0.79 where nothing is learned).
  [[nodiscard]] static constexpr std::uint64_t measured_each(std::uint64_t bytes) noexcept {
    return bytes <= slot_bytes ? 16 : 4;
  }
  static_assert(size_classes * collectives == call_classes);

  /// Before ways over messages have a turn, pages of rings are mapped for so many.
  static constexpr std::uint64_t mapped_messages = 16;

  using Ticks = std::uint64_t (*)() noexcept;

  /// What is the same for all calls of a member.
  struct Member {
    int rank = 0, size = 2;
    std::optional<TeamWay> forced;  ///< that way wherever it is possible, and nothing is learned
    SharedCallLessons shared;
    /// What messages take that such calls consist of, where that has been learned.
    SharedLessons messages = {};
    std::uint64_t eager_limit = most_bytes;  ///< longer messages learn their own way
    /// Has the pages mapped through which the next so many bytes go, of the rings that there are among the
    /// members.
    std::function<void(std::uint64_t bytes)> map_rings = {};
  };
  explicit LiveCalls(Member member, Ticks clock = ticks) noexcept
      : member_(std::move(member)), clock_(clock) {}

  [[nodiscard]] static bool covers(std::uint64_t bytes) noexcept {
    return bytes > above && bytes <= most_bytes;
  }
  /// The members are on several sockets. For rank 0, before the first call.
  void set_spread(bool spread) noexcept { spread_ = spread; }

  /// Of the team, before a call.
  struct Steps {
    std::uint64_t next = 1;      ///< the call's first step, which is free
    std::uint64_t finished = 0;  ///< all members have finished this one, `next - depth` at least
  };
  /// The way of a call that `covers` its bytes. `possible` has `assumed`, what the table gives, and another
  /// one; all members say the same. `end` has to follow, and the call takes one step at least.
  TeamWay begin(const Area& area, const Steps& steps, const Question& question, TeamWay assumed,
                TeamWays possible) noexcept;
  void end(const Area& area) noexcept {
    if (is_measured_) write_time(area);
  }

  /// Calls of so many bytes over messages before what they take is what messages take that have learned their
  /// own way; 0: those go with their envelope. `messages`: what others have learned of them; `spread`: over
  /// sockets.
  [[nodiscard]] static std::uint8_t settling_of(std::uint64_t bytes, std::uint64_t eager_limit,
                                                const SharedLessons& messages, bool spread) noexcept;

  void add_to(std::vector<CallReport>& reports, double nanoseconds) const override;
  /// What rank 0 thinks of a class; null where there has been none of its calls.
  [[nodiscard]] const CallChoice* choice_of(Collective collective, std::uint64_t bytes) const noexcept {
    return choices_[class_of(collective, bytes)].get();
  }

  /// Two classes between each power of two and the next, which belongs to the lower one.
  [[nodiscard]] static std::size_t class_of(Collective collective, std::uint64_t bytes) noexcept;
  /// What is learned of a class among so many members, on several sockets or one.
  [[nodiscard]] static SharedCallLessons::Kind kind_of(std::size_t call_class, int members,
                                                       bool spread) noexcept {
    return {.collective = call_class / size_classes,
            .members = members,
            .spread = spread,
            .size_class = call_class % size_classes};
  }
  [[nodiscard]] static std::string_view collective_name(std::size_t call_class) noexcept;
  /// The largest call of the class.
  [[nodiscard]] static std::uint64_t most_of(std::size_t call_class) noexcept;

 private:
  /// Where a class is in its schedule, from this member's side.
  struct Progress {
    std::uint32_t from = 0;
    std::uint32_t calls = 0;
  };
  /// What rank 0 keeps of a call until all have gone on.
  struct Begun {
    CallChoice* choice = nullptr;  ///< null: it is not measured
    std::uint64_t step = 0;        ///< its first
    std::uint64_t bytes = 0;
    std::optional<std::uint32_t> index;  ///< in the turns
    TeamWay way{};
  };

  [[nodiscard]] CallChoice* find(std::size_t call_class, std::uint64_t bytes, TeamWay assumed,
                                 TeamWays possible) noexcept;
  void learn(const Area& area, const Steps& steps) noexcept;
  [[nodiscard]] std::optional<std::uint64_t> read_time(const Area& area, std::uint64_t number) const noexcept;
  void write_time(const Area& area) noexcept;
  void touch_slots(const Area& area, std::uint64_t bytes) noexcept;
  void map_rings(std::uint64_t bytes) noexcept;
  [[nodiscard]] std::optional<TeamWay> fastest_in_lanes(std::size_t call_class,
                                                        const CallChoice& choice) const noexcept;
  [[nodiscard]] double cost_in_lanes(std::size_t call_class, const CallChoice& choice,
                                     TeamWay way) const noexcept;
  void share(std::size_t call_class, const CallChoice& choice) const noexcept;
  [[nodiscard]] SharedCallLessons::Kind kind_of(std::size_t call_class) const noexcept {
    return kind_of(call_class, member_.size, spread_);
  }

  Member member_;
  Ticks clock_;
  bool spread_ = false;
  bool is_measured_ = false;
  std::uint64_t touched_ = 0;  ///< bytes of each slot
  std::uint64_t mapped_ = 0;   ///< bytes of the rings
  std::uint64_t began_ = 0;    ///< ticks
  std::uint64_t number_ = 0;   ///< of the call that is under way, or was the last
  std::array<Progress, call_classes> progress_{};
  // Of rank 0.
  std::array<std::unique_ptr<CallChoice>, call_classes> choices_;
  std::array<Begun, timed_calls> begun_{};
  std::uint64_t learned_ = 0;  ///< the last call whose times have been looked at
};

}  // namespace isthmus::coll
