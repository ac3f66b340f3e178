// Short copies between GPUs that are started together.
#include <algorithm>
#include <array>
#include <new>
#include <utility>

#include "p2p/protocol/gpu/transfers.hpp"

namespace isthmus {
namespace {

/// Calls under way from which on short copies wait for others. 64 messages of 1 MiB in flight, one way /
/// both, 2 x H200: 333 / 411 GB/s, none held back 270 / 302, held back from the eighth call on and up to
/// sixteen 291 / 351.
constexpr std::size_t enough_calls = 4;
/// Started together at most, and what a GPU copies in 45 us: none is known to have arrived before all have.
constexpr std::size_t most_held = 8;
constexpr std::size_t enough_bytes = std::size_t{16} << 20U;
/// What is longer fills the link by itself.
constexpr std::size_t longest = std::size_t{4} << 20U;
static_assert(most_held <= most_in_batch);

}  // namespace

Result<> GpuTransfers::start_or_hold(Request& request, const Buffer& near, const Payload& from,
                                     const Payload& to, Running running) {
  const std::uint64_t bytes = std::min(from.bytes, to.bytes);
  const bool is_held = bytes <= longest && (request.gpu || request.memory == MemoryKind::pinned) &&
                       !from.type && !to.type && near.kind != MemoryKind::managed &&
                       copies_.engine_on(near.device).under_way() >= enough_calls;
  if (!is_held) {
    reserve(1);
    auto copy = copies_.start(near, from, to, bytes);
    if (!copy) return std::unexpected(std::move(copy).error());
    running.copy = std::move(*copy);
    add(request, std::move(running));
    return {};
  }
  const bool is_full = held_.size() == most_held || held_bytes_ >= enough_bytes;
  if (is_full || (!held_.empty() && held_.front().near.device != near.device)) start_held();
  held_.push_back({.running = std::move(running), .near = near, .piece = {to.data, from.data, bytes}});
  request.transfer = Request::Transfer::copy;
  held_bytes_ += bytes;
  if (held_.size() < most_held && held_bytes_ < enough_bytes) return {};
  try {
    start_held();
  } catch (const std::bad_alloc&) {
    return {};  // `poll` does it, or the next
  }
  return {};
}

void GpuTransfers::start_held_if_idle() {
  if (!held_.empty() && copies_.engine_on(held_.front().near.device).under_way() < enough_calls) start_held();
}

/// Where memory runs out, all are still held.
void GpuTransfers::start_held() {
  over_.reserve(over_.size() + held_.size());
  reserve(held_.size());
  const auto give_up = [this](Held& each, Error why) {
    complain(why);
    over_.emplace_back(std::move(each.running), std::unexpected(std::move(why)));
  };
  // The program may have freed it, or the peer been lost, in the meantime.
  for (std::size_t i = 0; i < held_.size();) {
    Held& each = held_[i];
    const bool is_wanted = completion_.find(each.running.request) != nullptr;
    Result<> there;
    if (is_wanted) there = copies_.check_still_there(each.near);
    if (is_wanted && there) {
      ++i;
      continue;
    }
    held_bytes_ -= each.piece.bytes;
    if (!there) give_up(each, std::move(there).error());
    held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  if (held_.empty()) return;
  std::array<CopyPiece, most_held> pieces;
  std::ranges::transform(held_, pieces.begin(), &Held::piece);
  auto copy = copies_.start_together(held_.front().near.device, {pieces.data(), held_.size()});
  for (Held& each : held_) {
    if (!copy) {
      complain(copy.error());
      give_up(each, Error(copy.error().error_class()));  // a sentence for each would need memory
      continue;
    }
    each.running.copy = &each == &held_.back() ? std::move(*copy) : copy->another();
    running_.push_back(std::move(each.running));
  }
  held_.clear();
  held_bytes_ = 0;
}

}  // namespace isthmus
