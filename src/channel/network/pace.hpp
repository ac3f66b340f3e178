#pragma once

#include <cstdint>

namespace isthmus::network {

/// How much of a long message is asked for ahead, from what the way to a peer has shown: as much as it holds
/// while an answer travels, and no more, because what waits in the kernels' buffers falls out of the caches
/// (1 MiB one way between two network namespaces: 5.9 GB/s with one piece of 256 KiB under way, 3.2 with
/// four).
///
/// The first messages begin with a short piece, whose time is that of the round trip, and a whole one alone,
/// whose time tells the rate beyond it.
class Pace {
 public:
  static constexpr std::uint64_t short_piece = 16U << 10U;
  static constexpr std::uint64_t piece = 256U << 10U;
  static constexpr std::uint64_t most_pieces = 16;
  /// Messages that are looked at.
  static constexpr unsigned samples = 8;

  [[nodiscard]] bool is_learning() const noexcept { return learned_ < samples; }
  /// What a question and a short piece cost both hosts where there is no way between them: 15 us, measured.
  static constexpr double handling_seconds = 15e-6;

  /// A short piece alone has taken so long from the question to its arrival; the least counts.
  void short_took(double seconds) noexcept {
    if (short_ == 0 || seconds < short_) short_ = seconds;
  }
  /// A whole piece alone; ends the look at a message.
  void piece_took(double seconds) noexcept {
    ++learned_;
    // A whole piece that comes no later than a short one says nothing.
    if (seconds > short_) {
      const double rate = static_cast<double>(piece) / (seconds - short_);
      if (rate > rate_) rate_ = rate;
    }
  }

  /// Bytes that are under way at a time.
  [[nodiscard]] std::uint64_t window() const noexcept {
    const double round_trip = short_ > handling_seconds ? short_ - handling_seconds : 0;
    const double held = round_trip * rate_ / static_cast<double>(piece);
    if (held >= static_cast<double>(most_pieces - 1)) return most_pieces * piece;
    return piece * (1 + static_cast<std::uint64_t>(held));
  }

 private:
  double short_ = 0;  ///< seconds that a short piece takes, 0: not known
  double rate_ = 0;   ///< bytes a second
  unsigned learned_ = 0;
};

}  // namespace isthmus::network
