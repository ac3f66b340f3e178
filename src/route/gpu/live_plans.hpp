#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/settings.hpp"
#include "route/gpu/transfer_mark.hpp"
#include "route/lesson_word.hpp"
#include "route/live_plans.hpp"
#include "route/way_choice.hpp"
#include "wire/region.hpp"

namespace isthmus {

/// What messages in GPU memory have in common that teach the same.
struct GpuMessageKind {
  GpuRoute route{};
  bool has_gaps = false;  ///< at either side
  std::uint8_t size_class = 0;

  friend bool operator==(const GpuMessageKind&, const GpuMessageKind&) = default;
};

/// What the ranks of a region have learned of the ways of messages in GPU memory, as `SharedLessons` has it
/// of those in memory of hosts: anybody may write anything there, and a lesson is a guess to begin with.
class SharedGpuLessons {
 public:
  struct Lesson {
    GpuWay way{};
    double ticks_per_byte = 0;
    bool is_tuned = false;
  };
  /// Messages of 4 GiB and more are never asked for.
  static constexpr std::size_t size_classes = 64;

  SharedGpuLessons() = default;
  /// `words` must outlive this; fewer than `wire::gpu_lesson_words` are as none.
  explicit SharedGpuLessons(std::span<std::atomic<std::uint64_t>> words) noexcept
      : words_(words.size() < wire::gpu_lesson_words ? std::span<std::atomic<std::uint64_t>>() : words) {}

  /// `many`: several messages are under way together.
  [[nodiscard]] std::optional<Lesson> read(const GpuMessageKind& kind, bool many) const noexcept;
  void write(const GpuMessageKind& kind, bool many, const Lesson& lesson) const noexcept;

 private:
  [[nodiscard]] std::atomic<std::uint64_t>* word_of(const GpuMessageKind& kind, bool many) const noexcept;

  std::span<std::atomic<std::uint64_t>> words_;
};

/// Plans for messages in GPU memory that measure themselves: which way they come to this rank, by how long
/// earlier ones took.
///
/// What is measured is a batch: messages of one kind, from the match of one that finds none under way to the
/// last byte of the last, without the time in which the rank was not in MPI. Where there are always messages
/// under way, a batch ends after `longest_batch` of them, and the next is measured from the end of its last
/// one on. Nothing is learned of a batch while which messages of another kind were under way.
///
/// There is a plan for each kind, for messages that come one at a time and for several together; which of
/// both it is, the batch before tells. What has been learned is shared with the other ranks of the region.
///
/// Guarded by the engine's lock. Where there is no memory for it, messages go as assumed.
class LiveGpuPlans {
 public:
  static constexpr std::uint32_t longest_batch = LivePlans::longest_batch;
  static constexpr std::uint32_t many_from = LivePlans::many_from;
  /// So many messages of a kind in a row to which other ways are open than to those before, and it is learned
  /// anew.
  static constexpr std::uint8_t most_misfits = 16;
  /// So many batches in a row that began beside messages of other kinds: the end of one has not been told.
  static constexpr std::uint32_t most_disturbed = 64;

  /// By the time of `clock`, which need not be on itself.
  LiveGpuPlans(bool on, LivePlans& clock, SharedGpuLessons shared = {}) noexcept
      : shared_(shared), clock_(clock), on_(on) {}
  LiveGpuPlans(const LiveGpuPlans&) = delete;
  LiveGpuPlans& operator=(const LiveGpuPlans&) = delete;
  ~LiveGpuPlans() { forget(); }

  [[nodiscard]] bool on() const noexcept { return on_; }

  /// Begins, as all ranks do, with what a table says that nobody has learned yet in this job.
  void take(std::span<const TaughtGpu> ways) const noexcept;

  /// The way of a message of `bytes`, more than 0, which is one of `ways`. There are two or more of these.
  /// `ended` or `given_up` has to follow. On.
  GpuWay begin(GpuTransferMark& mark, GpuRoute route, bool has_gaps, std::uint64_t bytes,
               GpuWays ways) noexcept;
  /// The last byte is there. Nothing happens for a message that has not begun here.
  void ended(GpuTransferMark& mark, std::uint64_t bytes) noexcept {
    if (mark.epoch != 0) end(mark, bytes, false);
  }
  /// It goes another way after all, or has failed.
  void given_up(GpuTransferMark& mark) noexcept {
    if (mark.epoch != 0) end(mark, 0, true);
  }
  /// Some of what is under way will never end: nothing is.
  void forget() noexcept;

  /// What has been learned of a kind, for reports.
  struct Report {
    GpuMessageKind kind;
    std::uint64_t from = 0;  ///< bytes; up to the next class
    bool many = false;       ///< several are under way together
    bool told = false;       ///< by another rank or an earlier job, and not learned here
    bool tuned = false;      ///< and that was an earlier job
    GpuWay way{}, assumed{};
    std::uint64_t messages = 0;
    double ticks_per_byte = 0;  ///< of the chosen way
    /// Microseconds of a message of `from` bytes; 0: not known.
    std::array<LivePlans::Report::Times, gpu_way_count> times{};
  };
  /// Of all kinds that have settled, the smallest first of each route.
  [[nodiscard]] std::vector<Report> report() const;

 private:
  static constexpr std::size_t classes = SharedGpuLessons::size_classes;

  struct Plan {
    std::unique_ptr<GpuChoice> choice;
    GpuWays ways;
    std::uint8_t misfits = 0;
  };
  struct Size {
    std::array<Plan, 2> plans;  ///< for messages that come one at a time, and for several
    bool many = false;          ///< so they came the last time
  };
  /// By route, whether there are gaps, and size class.
  using Sizes = std::array<std::array<std::array<Size, classes>, 2>, gpu_route_count>;

  struct Batch {
    GpuChoice* choice = nullptr;  ///< null: there is none
    Size* size = nullptr;
    GpuMessageKind kind;
    bool many = false;
    GpuChoice::Turn turn;
    bool is_measured = false;
    bool is_spoiled = false;  ///< what it took says nothing
    std::uint32_t number = 0;
    std::uint32_t under_way = 0;
    std::uint32_t messages = 0;     ///< all that have begun in it
    std::uint64_t bytes = 0;        ///< the same
    std::uint64_t other_bytes = 0;  ///< of those that did not go the way of its turn
    std::uint64_t ended_bytes = 0;  ///< of those that ended since it is measured
    std::uint64_t began = 0;        ///< ticks in MPI; 0: what was before it is still under way
  };

  GpuChoice* find(Size& size, const GpuMessageKind& kind, GpuWays ways) noexcept;
  GpuWay stray(GpuTransferMark& mark, const GpuChoice* choice, GpuWays ways) noexcept;
  void drain() noexcept;
  void open(Size& size, const GpuMessageKind& kind, GpuChoice& choice) noexcept;
  void end(GpuTransferMark& mark, std::uint64_t bytes, bool is_spoiled) noexcept;
  void learn(const Batch& batch) noexcept;

  SharedGpuLessons shared_;
  LivePlans& clock_;
  bool on_;
  std::unique_ptr<Sizes> sizes_;
  std::uint32_t epoch_ = 1;
  Batch batch_;
  Batch draining_;  ///< the one before it, where some of its messages are still under way
  std::uint32_t last_number_ = 0;
  std::uint32_t strays_ = 0;     ///< messages under way of which nothing is learned
  std::uint32_t disturbed_ = 0;  ///< batches in a row that began while there were such
};

}  // namespace isthmus
