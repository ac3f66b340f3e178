#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/settings.hpp"
#include "kernels/courier.hpp"
#include "p2p/gpu_copy/courier_copy.hpp"

namespace isthmus {

/// An order that a courier has taken; `courier` null: none has. After a reset of the device, the courier may
/// be no more.
struct GpuErrand {
  Courier* courier = nullptr;
  std::uint64_t number = 0;
};

/// The couriers of this rank's GPUs, and when one goes out: with a message whose sender is latency-bound and
/// that came within 100 us of the one before. A program that synchronises its device waits for a courier that
/// has nothing to do, 100 us at most. So each that has left costs the next ones that much, which they earn by
/// the messages that they serve; the first has it in advance. Whatever a program does, it loses 100 us once,
/// and a hundredth of its messages' time.
class GpuCouriers {
 public:
  /// The longest message that a courier takes.
  static constexpr std::uint64_t most_bytes = std::uint64_t{64} * 1024;

  GpuCouriers(cuda::PrimaryContexts& contexts, GpuKernels& kernels, GpuCourierSetting setting)
      : contexts_(contexts), kernels_(kernels), setting_(setting) {}
  GpuCouriers(const GpuCouriers&) = delete;
  GpuCouriers& operator=(const GpuCouriers&) = delete;
  ~GpuCouriers() = default;

  /// Whether a message may go by courier at all.
  [[nodiscard]] bool wants(std::uint64_t bytes, bool latency_bound) const noexcept {
    return bytes <= most_bytes && setting_ != GpuCourierSetting::off &&
           (latency_bound || setting_ == GpuCourierSetting::on);
  }
  /// The longest message that one of that device may take; 0 where none is wanted, or there is none.
  [[nodiscard]] std::uint32_t limit(cuda::Device device, bool latency_bound) const {
    const auto post = posts_.find(device);
    const bool has_none = post != posts_.end() && !post->second.trouble.empty();
    return wants(most_bytes, latency_bound) && !has_none ? static_cast<std::uint32_t>(most_bytes) : 0;
  }
  /// Makes the courier of that device, which `take` makes otherwise, and sends nobody out.
  void prepare(cuda::Device device);
  /// Counts a message for that device. False if it goes otherwise: no courier is out, and none should be.
  bool is_worth_it(cuda::Device device);
  /// Whether it is time to look who else uses that device: before a courier goes out, and now and then.
  bool should_look_around(cuda::Device device);
  /// Gives a message to the courier of that device; nothing if it cannot take it.
  std::optional<CourierCopy> take(cuda::Device device, std::byte* to, const std::byte* from,
                                  std::uint64_t bytes);

  /// The same for this member's part of a collective, of which `kernel::MeetTable` `id` lies at `table`.
  GpuErrand take(cuda::Device device, const kernel::MeetOrder& order, const std::byte* table,
                 std::uint64_t id);

  /// "GPU 0: 5000 messages by courier, ..." a line for each GPU that had one, or would have.
  [[nodiscard]] std::string explain() const;

 private:
  using Clock = std::chrono::steady_clock;
  /// What is known of a device.
  struct Post {
    std::unique_ptr<Courier> courier;
    cuda::ContextLife life = 0;  ///< that the rest is about
    std::string trouble;         ///< why there is none
    bool was_out = false;        ///< when it was looked at last
    std::uint32_t given = 0;     ///< messages since it went out
    std::int64_t credit;         ///< nanoseconds that couriers have gained more than they may have cost
    std::uint64_t served = 0;    ///< by all couriers before this one
    Clock::time_point last{};
  };
  void see_departure(Post& post);
  /// What is known of that device, of its life now.
  Post& post_of(cuda::Device device);
  /// What a courier says that was given something; nothing if it has failed.
  std::optional<std::uint64_t> note(Post& post, Result<std::uint64_t> number);
  /// Makes the courier; whether there is one.
  bool engage(Post& post, cuda::Device device);

  cuda::PrimaryContexts& contexts_;
  GpuKernels& kernels_;
  const GpuCourierSetting setting_;
  std::map<cuda::Device, Post> posts_;
};

}  // namespace isthmus
