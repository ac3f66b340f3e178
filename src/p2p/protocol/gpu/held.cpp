// Short copies between GPUs that are started together.
#include <algorithm>
#include <utility>

#include "p2p/link/links.hpp"
#include "p2p/protocol/gpu/messages.hpp"

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

void GpuMessages::add(Request& request, Running running) {
  request.transfer = Request::Transfer::copy;
  running_.push_back(std::move(running));
}

Result<> GpuMessages::start_or_hold(Request& request, const Buffer& near, const Payload& from,
                                    const Payload& to, Running running) {
  const std::uint64_t bytes = std::min(from.bytes, to.bytes);
  const bool is_held = bytes <= longest && request.gpu && !from.type && !to.type &&
                       near.kind != MemoryKind::managed && engine_on(near.device).under_way() >= enough_calls;
  if (!is_held) {
    auto copy = start_copy(near, from, to, bytes);
    if (!copy) return std::unexpected(std::move(copy).error());
    running.copy = std::move(*copy);
    add(request, std::move(running));
    return {};
  }
  if (!held_.empty() && held_.front().near.device != near.device) start_held();
  request.transfer = Request::Transfer::copy;
  held_.push_back({.running = std::move(running), .near = near, .piece = {to.data, from.data, bytes}});
  held_bytes_ += bytes;
  // Which may end the request, and it is not to be touched after that.
  if (held_.size() == most_held || held_bytes_ >= enough_bytes) start_held();
  return {};
}

void GpuMessages::start_held_if_idle() {
  if (!held_.empty() && engine_on(held_.front().near.device).under_way() < enough_calls) start_held();
}

void GpuMessages::start_held() {
  std::vector<Held> held = std::exchange(held_, {});
  held_bytes_ = 0;
  CopyEngine& engine = engine_on(held.front().near.device);
  std::vector<CopyPiece> pieces;
  std::size_t kept = 0;
  for (Held& each : held) {
    // The program may have freed it, or the peer been lost, in the meantime.
    if (!completion_.find(each.running.request)) continue;
    if (Result<> there = check_still_there(each.near); !there) {
      ended(each.running, std::unexpected(std::move(there).error()));
      continue;
    }
    pieces.push_back(each.piece);
    if (&held[kept] != &each) held[kept] = std::move(each);
    ++kept;
  }
  held.resize(kept);
  if (held.empty()) return;
  auto copy = engine.start_together(pieces);
  for (Held& each : held) {
    if (!copy) {
      ended(each.running, isthmus::fail(copy.error().error_class(), copy.error().text()));
      continue;
    }
    const bool is_last = &each == &held.back();
    each.running.copy = is_last ? std::move(*copy) : copy->another();
    running_.push_back(std::move(each.running));
  }
  if (copy) started_together_ += held.size();
}

}  // namespace isthmus
