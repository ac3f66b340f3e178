#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace isthmus {

/// How MPI was called for a message.
enum class Start : std::uint8_t { nonblocking, blocking };

/// What a rank's sends to a peer wait for.
enum class Workload : std::uint8_t {
  unknown,    ///< too few messages so far
  latency,    ///< mostly blocking sends: one message at a time
  bandwidth,  ///< mostly nonblocking sends: many under way
};
[[nodiscard]] std::string_view name_of(Workload workload) noexcept;

/// Finds the workload of a pair from how its messages are started, after the tracing of C-GDR. Messages that
/// travel within their envelope are not counted: they go the same way whatever the workload. A nonblocking
/// send of GPU memory while no other to that peer is under way counts as a blocking one: so do halo
/// exchanges.
///
/// Decides once every `window` messages, from these alone, so that a program that changes phase is followed;
/// between the two limits it stays what it was, so that a mixture does not swing.
class WorkloadTrace {
 public:
  static constexpr std::uint32_t window = 256;
  static constexpr std::uint32_t bandwidth_from = 60;  ///< per cent nonblocking
  static constexpr std::uint32_t latency_to = 40;

  /// A message was sent. True if the workload is another one from the next on.
  bool started(Start start) noexcept {
    blocking_ += static_cast<std::uint32_t>(start);
    return ++started_ % window == 0 && decide();
  }

  [[nodiscard]] Workload workload() const noexcept { return workload_; }
  /// Messages before the workload became what it is.
  [[nodiscard]] std::uint64_t since() const noexcept { return since_; }
  /// Per cent of nonblocking messages in the last full window.
  [[nodiscard]] std::uint32_t nonblocking() const noexcept { return nonblocking_; }
  /// "bandwidth-bound (73 % nonblocking), since message 1024"; empty while unknown.
  [[nodiscard]] std::string text() const;

 private:
  bool decide() noexcept;

  std::uint64_t started_ = 0;
  std::uint64_t since_ = 0;
  std::uint32_t blocking_ = 0;  ///< in this window
  std::uint32_t nonblocking_ = 0;
  Workload workload_ = Workload::unknown;
};

}  // namespace isthmus
