#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/settings.hpp"
#include "base/ticks.hpp"
#include "route/live_plans.hpp"
#include "route/shared_lessons.hpp"
#include "route/way_choice.hpp"
#include "route/workload.hpp"
#include "wire/ring.hpp"

namespace isthmus {

/// Whether messages of middling length go with their envelope or by rendezvous, by what earlier ones took:
/// what a sender learns.
///
/// The sender decides, and the receiver alone sees when the last byte is there. So the sender gives the
/// messages that it wants to know of a number, the same to all of a batch, and the receiver tells in a word
/// of their ring how many of them are there, and what they took it (`wire::BatchReport`). One batch is under
/// way at a time. It ends when the next message finds that all of it are there; or has no more messages after
/// `longest_batch`. Until then what follows goes the same way. Where messages before it were not measured, it
/// has begun in the midst of others that came with it: such a batch is no measure, and the next one counts.
///
/// What a message costs is what it took the receiver, from the match on, and what it took the sender to write
/// it, up to its first piece: behind that both are at work. Several that are under way together cost what
/// they took the receiver together, or the sender to write them, where that is more.
///
/// There is one plan for each size class, for ranks on the same socket and on others, for blocking and
/// nonblocking sends, and for nonblocking ones of which several are under way; whether that is so, the batch
/// before tells. What has been learned is shared with the other ranks of the region.
///
/// Guarded by the engine's lock. Where there is no memory for a size class, it goes as assumed.
class EagerPlans {
 public:
  using Nearness = LivePlans::Nearness;
  using Ticks = LivePlans::Ticks;

  static constexpr std::uint64_t from = 4 * 1024;
  static constexpr std::uint64_t up_to = 128 * 1024;
  static constexpr std::uint32_t longest_batch = 64;
  /// So many in a batch were under way together.
  static constexpr std::uint32_t several_from = wire::BatchReport::several_from;
  /// Messages that go as assumed where that is by rendezvous: their receivers first learn which way those
  /// come. But ones that come one at a time are tried with their envelope sooner (`EagerChoice::patience`),
  /// while receivers try their ways in turn: that is taken if rendezvous takes `clearly` times as long, the
  /// fastest of those ways too. Else it counts for nothing. Of 32 KiB the first 200 took 2.2 times as long as
  /// by the best way, and so 1.3 times (EPYC of 2 cores).
  static constexpr std::uint32_t patience_of_rendezvous = 110;
  static constexpr double clearly = EagerChoice::hopeless;
  /// The same of messages of which several are under way and that are assumed to go with their envelope,
  /// which is seldom wrong. 200 of 4 KiB take 60 to 120 us in all, and a trial costs as much, half of it
  /// because it is the first time that the pair meets otherwise: they took 2.0 to 2.4 times as long as by the
  /// best way, when a trial came after 64 (Granite Rapids).
  static constexpr std::uint32_t patience_of_several = 170;
  /// Where nothing is to be decided, so many times as many messages are not measured as the last batch had,
  /// if that took what was predicted.
  static constexpr std::uint32_t unmeasured_for_each = 15;
  /// Messages that are as the one before them and go without `begin`, where it has nothing to measure.
  static constexpr std::uint32_t longest_run = 64;
  /// A batch of which so many later messages have heard nothing is given up; behind so many of these in a
  /// row, nothing is measured any more: the receivers do not.
  static constexpr std::uint32_t most_behind = 256;
  /// Behind a batch that has no more messages one in so many looks whether it is over.
  static constexpr std::uint32_t look_behind = 8;
  static constexpr std::uint32_t most_lost = 4;

  /// Off where the settings say how long messages go with their envelope. `longest`: what a ring carries.
  explicit EagerPlans(bool on, std::uint64_t longest = up_to, SharedEagerLessons shared = {},
                      Ticks clock = ticks) noexcept
      : shared_(shared), clock_(clock) {
    if (on && longest >= from) span_ = std::min(longest, up_to) - from + 1;
  }

  /// Whether these plans decide for messages of so many bytes.
  [[nodiscard]] bool covers(std::uint64_t bytes) const noexcept { return bytes - from < span_; }

  /// The same for one of them. A blocking send that is assumed not to wait for its receiver never does.
  [[nodiscard]] bool decides(std::uint64_t bytes, Start start, bool assumed_eager) const noexcept {
    return covers(bytes) && (start == Start::nonblocking || !assumed_eager);
  }

  /// Begins, as all ranks do, with what a table says that nobody has learned yet in this job.
  void take(std::span<const TaughtEager> ways) const noexcept;

  struct Sending {
    std::uint32_t to = 0;  ///< which rank
    Nearness nearness{};
    std::uint64_t bytes = 0;
    Start start{};
    bool assumed_eager = true;
    std::uint64_t report = 0;  ///< what `to` tells, where `awaits(to)`; else 0
  };
  struct Fate {
    bool is_eager = false;
    std::uint16_t mark = 0;  ///< not 0: it is measured, and `wrote` has to follow
  };
  /// Whether what a rank tells is to be looked at now, and handed to `begin`. Not while messages follow each
  /// other closely: what is looked at, the rank has to fetch back to tell more. 64 of 4 KiB under way
  /// took 1.4 to 2.0 us each where each looked, and 0.7 to 1.1 so (Granite Rapids).
  [[nodiscard]] bool awaits(std::uint32_t rank) const noexcept {
    if (!batch_.choice || batch_.to != rank) return false;
    return batch_.messages < several_from ||
           (batch_.messages == longest_batch && batch_.behind % look_behind == 0) ||
           clock_() - batch_.wrote_at > batch_.write_took / 2;
  }
  /// How the next message goes, of those for which these plans decide.
  Fate begin(const Sending& sending) noexcept;
  /// Whether the next message goes with its envelope, if it is as the one before it and nothing is to be
  /// measured now; nothing otherwise: `begin` is to be asked. The fewer instructions stand between two
  /// copies, the sooner the processor fetches what it copies next, while it still writes. 64 of 4 KiB under
  /// way with fresh data took 0.75 us each where this was asked in the function that asks `begin`, 0.60 where
  /// those that go on take the way of fixed plans, and 0.59 by fixed plans (Granite Rapids, window 50 to
  /// 200).
  [[nodiscard]] std::optional<bool> goes_on(std::uint32_t to, std::uint64_t bytes, Start start) noexcept {
    if (run_.left == 0 || run_.bytes != bytes || run_.to != to || run_.start != start) return std::nullopt;
    --run_.left;
    return run_.is_eager;
  }
  /// Now, to be handed to `wrote`; 0 for a message that is not measured.
  [[nodiscard]] std::uint64_t write_begins(std::uint16_t mark) const noexcept {
    return mark != 0 ? clock_() : 0;
  }
  /// The message, or its offer, is in the ring, in so many pieces.
  void wrote(std::uint16_t mark, std::uint64_t began, std::uint32_t pieces) noexcept {
    if (mark != 0) note_written(mark, began, pieces);
  }
  /// Messages so far that went before their plan had settled: what they took is not what later ones will.
  [[nodiscard]] std::uint64_t unsettled() const noexcept { return unsettled_; }

  /// What has been learned of a size class, for reports.
  struct Report {
    Nearness nearness{};
    Start start{};
    bool several = false;    ///< are under way together
    std::uint64_t from = 0;  ///< bytes; up to the next class
    bool told = false;       ///< by another rank or an earlier job, and not learned here
    bool tuned = false;      ///< and that was an earlier job
    EagerWay way{}, assumed{};
    std::uint64_t messages = 0;
    double ticks_per_byte = 0;  ///< of the chosen way
    /// Microseconds of a message of `from` bytes; 0: not known.
    std::array<LivePlans::Report::Times, eager_way_count> times{};
  };
  /// Of all classes that have settled, the smallest first. `nanoseconds`: of a tick.
  [[nodiscard]] std::vector<Report> report(double nanoseconds) const;

 private:
  static constexpr std::size_t first_class = LivePlans::class_of(from);
  static constexpr std::size_t classes = LivePlans::class_of(up_to) - first_class + 1;

  struct Kind {
    Nearness nearness{};
    Start start{};
    bool several = false;    ///< are under way together
    std::size_t number = 0;  ///< of its size class
  };
  /// The plans of a size class.
  struct Size {
    /// For messages that come one at a time, and for several.
    std::array<std::unique_ptr<EagerChoice>, 2> choices;
    bool several = false;   ///< so they came the last time
    bool is_early = false;  ///< those that come one at a time have not been tried behind the receivers' trial
  };
  struct Batch {
    EagerChoice* choice = nullptr;  ///< null: there is none
    Kind kind;
    std::uint32_t to = 0;
    EagerChoice::Turn turn;
    bool is_before = false;  ///< it is no measure: the turn's own batch comes behind it
    std::uint16_t mark = 0;
    std::uint32_t messages = 0;
    std::uint32_t behind = 0;  ///< messages since, that are not of it
    std::uint64_t bytes = 0;
    std::uint64_t other_bytes = 0;    ///< of those that did not go the way of its turn
    std::uint64_t written = 0;        ///< ticks that it took to write them
    std::uint64_t written_first = 0;  ///< the same of their first pieces
    std::uint64_t wrote_at = 0;       ///< ticks, when the last one was written
    std::uint64_t write_took = 0;     ///< and how long that took
  };

  /// Messages that `goes_on` lets go.
  struct Run {
    EagerChoice* choice = nullptr;  ///< null: there is none
    std::uint64_t bytes = 0;
    std::uint32_t to = 0;
    std::uint32_t length = 0;
    std::uint32_t left = 0;
    Start start{};
    bool is_eager = false;
  };

  /// What a report has told.
  struct Heard {
    bool is_over = false;                  ///< the batch that was under way
    const EagerChoice* expects = nullptr;  ///< it was the one before the batch of this choice's turn
    EagerChoice::Turn turn;                ///< that turn
  };

  [[nodiscard]] Size& size_of(const Kind& kind) noexcept {
    return sizes_[static_cast<std::size_t>(kind.nearness)][static_cast<std::size_t>(kind.start)]
                 [kind.number - first_class];
  }
  /// Whether its trial does not wait for receivers.
  [[nodiscard]] bool is_early(const Kind& kind) noexcept { return !kind.several && size_of(kind).is_early; }
  [[nodiscard]] SharedEagerLessons::Kind shared_kind(const Kind& kind) const noexcept {
    return {.far = kind.nearness == Nearness::far,
            .nonblocking = kind.start == Start::nonblocking,
            .several = kind.several,
            .size_class = kind.number - first_class};
  }
  EagerChoice* find(const Kind& kind, EagerWay assumed) noexcept;
  std::uint32_t gone_as_assumed(const Kind& kind) noexcept;
  void judge_early(const Kind& kind, EagerChoice& choice) noexcept;
  Fate open(const Sending& sending, const Kind& kind, EagerChoice& choice, const Heard& heard) noexcept;
  Fate begin_batch(const Sending& sending, const Kind& kind, EagerChoice& choice,
                   const EagerChoice::Turn& turn, bool is_before) noexcept;
  Fate join(const Sending& sending, bool is_of_batch, EagerChoice& choice) noexcept;
  void begin_run(const Sending& sending, EagerChoice& choice) noexcept;
  void end_run() noexcept;
  Heard hear(std::uint64_t report) noexcept;
  void note_measured(const Batch& batch, double ticks_per_byte) noexcept;
  void give_up() noexcept;
  void note_written(std::uint16_t mark, std::uint64_t began, std::uint32_t pieces) noexcept;
  void share(const Kind& kind, const EagerChoice& choice) const noexcept;

  SharedEagerLessons shared_;
  Ticks clock_;
  std::uint64_t span_ = 0;  ///< bytes above `from`; 0: off
  std::array<std::array<std::array<Size, classes>, 2>, LivePlans::nearness_count> sizes_;
  Batch batch_;
  Run run_;
  std::uint16_t last_mark_ = 0;
  std::uint32_t until_measured_ = 0;  ///< messages
  std::uint64_t unsettled_ = 0;       ///< messages
  std::uint32_t lost_ = 0;            ///< batches in a row that nothing has been heard of
};

}  // namespace isthmus
