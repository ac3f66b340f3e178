#pragma once

#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/ticks.hpp"
#include "route/way_choice.hpp"

namespace isthmus {

/// A message that `LivePlans` knows to be under way; kept with its receive.
struct TransferMark {
  std::uint32_t epoch = 0;  ///< 0: it is not
};

/// Plans for long messages that measure themselves: which way they come to this rank, by how long earlier
/// ones took.
///
/// What is measured is a batch: from the match of a message that finds none under way to the last byte of the
/// last, without the time in which the rank was not in MPI. Messages that follow each other without a
/// fruitless look in between are one batch as well. Where messages of several size classes are under way
/// together, nothing is learned. Messages from all peers on the same socket teach one plan, those from other
/// sockets another.
///
/// Guarded by the engine's lock. Where there is no memory for a size class, it goes as assumed.
class LivePlans {
 public:
  /// Where a peer is, as far as it matters.
  enum class Nearness : std::uint8_t { near, far };
  static constexpr std::size_t nearness_count = 2;

  explicit LivePlans(bool on) noexcept : on_(on), began_(ticks()), began_at_(Clock::now()) {}

  [[nodiscard]] bool on() const noexcept { return on_; }

  /// The way of a message of `bytes`, more than 0. `possible` has `assumed`, and another one. `ended` or
  /// `given_up` has to follow.
  LongWay begin(TransferMark& mark, Nearness nearness, std::uint64_t bytes, LongWay assumed,
                std::span<const LongWay> possible) noexcept;
  /// The last byte is there. Nothing happens for a message that has not begun here.
  void ended(TransferMark& mark) noexcept {
    if (mark.epoch != 0) end(mark);
  }
  /// It goes another way after all.
  void given_up(TransferMark& mark) noexcept {
    if (mark.epoch == 0) return;
    batch_.is_spoiled = true;
    end(mark);
  }
  /// Some of what is under way will never end: nothing is.
  void forget() noexcept;

  /// The rank goes back to its program.
  void leave() noexcept {
    if (batch_.is_measured) [[unlikely]]
      left_ = ticks();
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

  /// What has been learned of a size class, for reports.
  struct Report {
    Nearness nearness{};
    std::uint64_t from = 0;  ///< bytes; up to the next class
    bool has_all_ways = false;
    LongWay way{}, assumed{};
    std::uint64_t messages = 0;
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
  /// By whether all ways are possible.
  using Classes = std::array<std::array<std::unique_ptr<WayChoice>, classes>, 2>;

  struct Batch {
    WayChoice* choice = nullptr;  ///< null: there is none
    WayChoice::Turn turn;
    bool is_measured = false;
    bool is_spoiled = false;  ///< what it took says nothing
    std::uint32_t messages = 0;
    std::uint64_t bytes = 0;
    // In ticks.
    std::uint64_t began = 0;
    std::uint64_t ended = 0;  ///< when the last message did that left none under way
    std::uint64_t absent = 0;
    std::uint64_t absent_at_end = 0;
  };

  void end(TransferMark& mark) noexcept;
  void close() noexcept;
  void come_back() noexcept;
  WayChoice* find(Nearness nearness, std::uint64_t bytes, LongWay assumed,
                  std::span<const LongWay> possible) noexcept;

  bool on_;
  std::uint64_t began_;
  Clock::time_point began_at_;
  std::array<Classes, nearness_count> choices_;
  std::uint32_t epoch_ = 1;
  std::uint64_t under_way_ = 0;
  Batch batch_;
  std::uint64_t left_ = 0;    ///< ticks; 0: the rank is in MPI, or nothing is being measured
  std::uint64_t absent_ = 0;  ///< ticks that it has been away
};

}  // namespace isthmus
