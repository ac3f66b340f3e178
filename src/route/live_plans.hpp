#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/settings.hpp"
#include "base/ticks.hpp"
#include "route/shared_lessons.hpp"
#include "route/way_choice.hpp"

namespace isthmus {

/// A message that `LivePlans` knows to be under way; kept with its receive.
struct TransferMark {
  std::uint32_t epoch = 0;  ///< 0: it is not
  std::uint32_t batch = 0;  ///< the number of the one that it is of
  std::uint64_t work = 0;   ///< ticks that it has taken processors so far, where that is what counts
};

/// Plans for long messages that measure themselves: which way they come to this rank, by how long earlier
/// ones took.
///
/// What is measured is a batch: from the match of a message that finds none under way to the last byte of the
/// last, without the time in which the rank was not in MPI. Messages that follow each other without a
/// fruitless look in between are one batch as well. Where there are always messages under way, a batch ends
/// after `longest_batch` of them, and the next is measured from the end of its last one on.
///
/// There is one plan for each size class, for data from ranks on the same socket and from other sockets, for
/// data that both sides may copy and for other data, and for messages that come one at a time or several
/// together; which of these it is, the batch before tells. Where messages of several classes are under way
/// together, they are one plan's: the one of messages of their mean size in such a mixture.
///
/// Where ranks share cores, what a batch takes is what the scheduler does meanwhile: whoever else is to run
/// runs first. There, what the processors of both sides have spent on its messages counts: how long each copy
/// took by itself, on whichever side. A copy that is interrupted takes far too long, and medians leave it
/// out. Time decides one thing there too: a way by which messages come far too late is given up.
///
/// What has been learned is shared with the other ranks of the region, who begin with it.
///
/// Guarded by the engine's lock. Where there is no memory for a size class, it goes as assumed.
class LivePlans {
 public:
  /// Reads a clock that may jump: `ticks`, or a test's.
  using Ticks = std::uint64_t (*)() noexcept;

  /// Where a peer is, as far as it matters.
  enum class Nearness : std::uint8_t { near, far };
  static constexpr std::size_t nearness_count = 2;

  /// What a message costs.
  enum class Counted : std::uint8_t {
    time,  ///< until it is there
    work,  ///< of the processors on both sides: for ranks that share cores
  };

  /// Messages that are measured together where their stream does not break off.
  static constexpr std::uint32_t longest_batch = 64;
  /// So many in a batch came together.
  static constexpr std::uint32_t many_from = 4;

  /// Off where there is no memory for its tables.
  explicit LivePlans(bool on, SharedLessons shared = {}, Ticks clock = ticks,
                     Counted counted = Counted::time) noexcept;

  [[nodiscard]] bool on() const noexcept { return sizes_ != nullptr; }
  /// Whether work counts; also where this rank's own plans are off, because its peers' need not be.
  [[nodiscard]] bool by_work() const noexcept { return by_work_; }

  /// Begins, as all ranks do, with what a table says that nobody has learned yet in this job.
  void take(std::span<const TaughtWay> ways) const noexcept;

  /// The way of a message of `bytes`, more than 0. `possible` has `assumed`, and another one. `ended` or
  /// `given_up` has to follow, with the same `bytes`.
  LongWay begin(TransferMark& mark, Nearness nearness, std::uint64_t bytes, LongWay assumed,
                std::span<const LongWay> possible) noexcept;
  /// The last byte is there. Nothing happens for a message that has not begun here.
  void ended(TransferMark& mark, std::uint64_t bytes) noexcept {
    if (mark.epoch != 0) end(mark, bytes);
  }
  /// Now, to be handed to `work_since` behind a piece of a copy; 0 where work does not count.
  [[nodiscard]] std::uint64_t work_begins() const noexcept { return by_work_ ? clock_() : 0; }
  /// Ticks since then; 0 where work does not count, or a clock has jumped.
  [[nodiscard]] std::uint64_t work_since(std::uint64_t began) const noexcept {
    if (!by_work_) return 0;
    const std::uint64_t now = clock_();
    return now > began ? now - began : 0;
  }
  /// So many ticks have been spent on a message, here or, as its sender says, there.
  static void worked(TransferMark& mark, std::uint64_t spent) noexcept {
    mark.work += std::min(spent, most_work);
  }
  /// It goes another way after all.
  void given_up(TransferMark& mark) noexcept {
    if (mark.epoch == 0) return;
    batch_of(mark).is_spoiled = true;
    end(mark, 0);
  }
  /// A message that both sides could copy is over, and whether its sender copied anything.
  void noticed_sender(bool helped) noexcept {
    absent_senders_ = helped ? absent_senders_ / 2 : std::min(absent_senders_ + 1, most_absent);
  }
  /// Some of what is under way will never end: nothing is.
  void forget() noexcept;

  /// The rank goes back to its program.
  void leave() noexcept {
    if (looks_at_clock_) [[unlikely]]
      note_left();
  }
  /// It makes progress.
  void come() noexcept {
    if (left_ != 0) [[unlikely]]
      come_back();
  }
  /// It has looked in vain.
  void quiet() noexcept {
    if (batch_.choice && under_way_ == 0) [[unlikely]]
      close();
  }

  /// `present` is asked for from a call with +1 to one with -1, of which there may be several; `forget` ends
  /// all.
  void attend(int more) noexcept {
    attended_ += attended_ > 0 || more > 0 ? more : 0;
    note_measured();
  }
  [[nodiscard]] bool is_attended() const noexcept { return attended_ > 0; }
  /// `present` goes on to be right for a few calls, in which more of what was attended to may come. They pay
  /// for it.
  void linger() noexcept {
    lingering_ = lingered_calls;
    note_measured();
  }
  /// Ticks that the rank has spent in MPI since some time. It is in MPI now, and `attend` has been called.
  [[nodiscard]] std::uint64_t present() noexcept {
    come();
    return clock_() - absent_;
  }
  /// Of a tick, as found so far.
  [[nodiscard]] double nanoseconds() const noexcept;

  /// What has been learned of a size class, for reports.
  struct Report {
    Nearness nearness{};
    std::uint64_t from = 0;  ///< bytes; up to the next class
    bool has_all_ways = false;
    bool many = false;   ///< several are under way together
    bool mixed = false;  ///< with messages of other sizes, and this is their mean
    bool told = false;   ///< by another rank or an earlier job, and not learned here
    bool tuned = false;  ///< and that was an earlier job
    LongWay way{}, assumed{};
    std::uint64_t messages = 0;
    double ticks_per_byte = 0;  ///< of the chosen way
    /// Microseconds of a message of `from` bytes; 0: not known.
    struct Times {
      double predicted = 0, measured = 0;
    };
    std::array<Times, long_way_count> times{};
  };
  /// Of all classes that have settled, the smallest first.
  [[nodiscard]] std::vector<Report> report() const;

  /// Two classes between each power of two and the next.
  [[nodiscard]] static constexpr std::size_t class_of(std::uint64_t bytes) noexcept {
    const auto high = static_cast<std::size_t>(std::bit_width(bytes)) - 1;
    return 2 * high + (high > 0 ? (bytes >> (high - 1)) & 1 : 0);
  }
  /// The least number of bytes of a class.
  [[nodiscard]] static constexpr std::uint64_t least_of(std::size_t number) noexcept {
    const std::uint64_t power = std::uint64_t{1} << (number / 2);
    return power + (number % 2) * (power / 2);
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t classes = 128;
  static constexpr std::uint32_t most_absent = 8;
  static constexpr std::uint8_t lingered_calls = 16;
  /// Of a piece of a copy: what a peer says may be anything, and sums must not overflow.
  static constexpr std::uint64_t most_work = std::uint64_t{1} << 40;

  /// The plans of a size class.
  struct Size {
    /// For messages that come one at a time, and for several.
    std::array<std::unique_ptr<WayChoice>, 2> choices;
    bool many = false;  ///< so they came the last time
  };
  /// What a message has in common with those that teach the same.
  struct Kind {
    Nearness nearness{};
    bool has_all = false;
    std::size_t number = 0;  ///< of its size class

    friend bool operator==(const Kind&, const Kind&) = default;
  };
  /// By whether sizes are mixed, nearness, whether all ways are possible, and size class.
  using Sizes = std::array<std::array<std::array<std::array<Size, classes>, 2>, nearness_count>, 2>;

  struct Batch {
    WayChoice* choice = nullptr;  ///< null: there is none
    Kind kind;
    bool is_mixed = false;  ///< messages of all sizes are welcome
    bool many = false;
    WayChoice::Turn turn;
    bool is_measured = false;
    bool is_spoiled = false;   ///< what it took says nothing
    bool has_others = false;   ///< messages that it has no place for were under way meanwhile
    bool varies = false;       ///< in its messages' size classes
    std::size_t first = 0;     ///< size class of its first message
    std::uint32_t number = 0;  ///< for marks
    std::uint32_t under_way = 0;
    std::uint32_t messages = 0;     ///< all that have begun in it
    std::uint64_t bytes = 0;        ///< the same
    std::uint64_t other_bytes = 0;  ///< of those that did not go the way of its turn
    std::uint64_t ended_bytes = 0;  ///< of those that ended since it is measured
    std::uint64_t work = 0;         ///< ticks, of the same
    // In ticks.
    std::uint64_t began = 0;  ///< 0: what was before it is still under way
    std::uint64_t ended = 0;  ///< when the last message did that left none under way
    std::uint64_t absent = 0;
    std::uint64_t absent_at_end = 0;
  };

  [[nodiscard]] Batch& batch_of(const TransferMark& mark) noexcept {
    return draining_.choice && mark.batch == draining_.number ? draining_ : batch_;
  }
  [[nodiscard]] Size& size_of(const Kind& kind, bool mixed) noexcept {
    return (*sizes_)[static_cast<std::size_t>(mixed)][static_cast<std::size_t>(kind.nearness)]
                    [static_cast<std::size_t>(kind.has_all)][kind.number];
  }
  /// Senders compute, mostly: what needs them to be in MPI is not tried. Where ranks share cores, a sender
  /// that copies nothing may just not have been its turn.
  [[nodiscard]] bool senders_compute() const noexcept {
    return !by_work_ && absent_senders_ >= most_absent / 2;
  }
  bool open(const Kind& kind, LongWay assumed, std::span<const LongWay> possible) noexcept;
  void begin_measuring() noexcept;
  void end(TransferMark& mark, std::uint64_t bytes) noexcept;
  void close() noexcept;
  void notice_habits(const Batch& batch) noexcept;
  void learn(const Batch& batch) const noexcept;
  void share(const Batch& batch) const noexcept;
  void come_back() noexcept;
  WayChoice* find(const Kind& kind, bool mixed, bool many, LongWay assumed,
                  std::span<const LongWay> possible) noexcept;
  void note_measured() noexcept {
    looks_at_clock_ = attended_ > 0 || lingering_ > 0 || batch_.is_measured || draining_.is_measured;
  }
  void note_left() noexcept {
    left_ = clock_();
    if (lingering_ == 0) return;
    --lingering_;
    note_measured();
  }

  SharedLessons shared_;
  Ticks clock_;
  std::uint64_t began_;
  Clock::time_point began_at_;
  std::unique_ptr<Sizes> sizes_;
  std::uint32_t epoch_ = 1;
  std::uint64_t under_way_ = 0;
  Batch batch_;
  Batch draining_;  ///< the one before it, where some of its messages are still under way
  std::uint32_t last_number_ = 0;
  std::uint32_t absent_senders_ = 0;
  bool by_work_;
  int attended_ = 0;
  std::uint8_t lingering_ = 0;   ///< calls in which the clock is looked at all the same
  bool looks_at_clock_ = false;  ///< when the rank leaves MPI
  bool mixed_ = false;           ///< the last batch had messages of several size classes
  std::uint64_t mean_ = 0;       ///< their bytes
  std::uint64_t left_ = 0;       ///< ticks; 0: the rank is in MPI, or nothing is being measured
  std::uint64_t absent_ = 0;     ///< ticks that it has been away
};

}  // namespace isthmus
