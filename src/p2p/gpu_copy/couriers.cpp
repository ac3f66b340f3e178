#include "p2p/gpu_copy/couriers.hpp"

#include <algorithm>
#include <utility>

namespace isthmus {
namespace {

/// A message that comes later than this after the one before would have found the courier gone.
constexpr std::chrono::microseconds quickly{100};
/// What a program may have waited for a courier that left for want of work, because it synchronised its
/// device, and what one saves with each message (2 x H200: 8.7 us become 4.2). Nanoseconds.
constexpr std::int64_t cost = 100'000;
constexpr std::int64_t gain = 4'000;
/// What messages that came quickly, but without courier, count for: so that one is tried again.
constexpr std::int64_t hope = 100;
constexpr std::int64_t most_credit = 10 * cost;
/// How long a GPU may take to find room for a courier that the user insists on.
constexpr std::chrono::milliseconds insisted{10};

}  // namespace

void GpuCouriers::see_departure(Post& post) {
  const std::uint64_t parcels = post.courier->counts().parcels;
  const auto served = static_cast<std::int64_t>(parcels - std::exchange(post.served, parcels));
  post.credit = std::min(post.credit + served * gain, most_credit) - cost;
  post.was_out = false;
}

GpuCouriers::Post& GpuCouriers::post_of(cuda::Device device) {
  auto found = posts_.find(device);
  if (found == posts_.end())
    found = posts_.emplace(device, Post{.courier = {}, .trouble = {}, .credit = cost}).first;
  Post& post = found->second;
  if (post.life != contexts_.life(device)) {
    post = {.courier = {}, .trouble = {}, .credit = post.credit};
    post.life = contexts_.life(device);
  }
  return post;
}

void GpuCouriers::prepare(cuda::Device device) {
  if (setting_ == GpuCourierSetting::off) return;
  Post& post = post_of(device);
  if (!post.courier && post.trouble.empty()) static_cast<void>(engage(post, device));
}

bool GpuCouriers::is_worth_it(cuda::Device device) {
  Post& post = post_of(device);
  if (!post.trouble.empty()) return false;
  if (post.was_out) {
    if (post.courier->is_out()) return true;
    see_departure(post);
  }
  if (setting_ == GpuCourierSetting::on) return true;
  const auto now = Clock::now();
  if (now - std::exchange(post.last, now) > quickly) return false;
  post.credit = std::min(post.credit + hope, most_credit);
  return post.credit >= cost;
}

bool GpuCouriers::should_look_around(cuda::Device device) {
  Post& post = posts_.find(device)->second;
  return !post.was_out || ++post.given % 256 == 0;
}

bool GpuCouriers::engage(Post& post, cuda::Device device) {
  Courier::Patience patience;
  if (setting_ == GpuCourierSetting::on) patience.begin = insisted;
  auto made = Courier::make(contexts_, kernels_, device, patience);
  if (!made) {
    post.trouble = made.error().text();
    return false;
  }
  post.courier = std::move(*made);
  return true;
}

std::optional<std::uint64_t> GpuCouriers::note(Post& post, Result<std::uint64_t> number) {
  if (!number) {
    post.trouble = number.error().text();
    return std::nullopt;
  }
  post.was_out = true;
  return *number;
}

GpuErrand GpuCouriers::take(cuda::Device device, const kernel::MeetOrder& order, const std::byte* table,
                            std::uint64_t id) {
  Post& post = posts_.find(device)->second;
  if (!post.courier && !engage(post, device)) return {};
  if (!post.courier->can_take(order)) return {};
  const auto number = note(post, post.courier->take(order, table, id));
  if (!number) return {};
  return {.courier = post.courier.get(), .number = *number};
}

std::optional<CourierCopy> GpuCouriers::take(cuda::Device device, std::byte* to, const std::byte* from,
                                             std::uint64_t bytes) {
  Post& post = posts_.find(device)->second;
  if (!post.courier && !engage(post, device)) return std::nullopt;
  if (!post.courier->can_take(to, from, bytes)) return std::nullopt;
  const auto number = note(post, post.courier->take(to, from, bytes));
  if (!number) return std::nullopt;
  return CourierCopy{.courier = post.courier.get(),
                     .number = *number,
                     .device = device,
                     .life = post.courier->life(),
                     .to = to,
                     .from = from,
                     .bytes = bytes};
}

std::string GpuCouriers::explain() const {
  std::string text;
  for (const auto& [device, post] : posts_) {
    const bool has_served = post.courier && post.courier->counts().parcels > 0;
    if (!has_served && post.trouble.empty()) continue;
    text += "    GPU " + std::to_string(device) + ": ";
    if (post.courier) {
      const Courier::Counts& counts = post.courier->counts();
      text += std::to_string(counts.parcels - counts.orders) + " messages ";
      if (counts.orders > 0) text += "and " + std::to_string(counts.orders) + " collectives ";
      text += "by courier, sent out " + std::to_string(counts.sent_out) + " times, recalled " +
              std::to_string(counts.recalled) + " times because the GPU had no room";
    }
    if (!post.trouble.empty()) text += (post.courier ? "; " : "") + ("no courier: " + post.trouble);
    text += '\n';
  }
  return text;
}

}  // namespace isthmus
