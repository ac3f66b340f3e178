#include "p2p/protocol/cpu/shares.hpp"

#include <algorithm>
#include <atomic>
#include <limits>
#include <new>
#include <span>

namespace isthmus {
namespace {

/// The least that the heap hands out.
constexpr std::uint64_t share_block_bytes = 4096;
constexpr std::size_t shares_per_block = share_block_bytes / sizeof(wire::Share);

bool is_free(const wire::Share* share) noexcept {
  return share->in_use.load(std::memory_order_acquire) == 0;
}

}  // namespace

wire::Share* Shares::take() noexcept {
  auto found = std::ranges::find_if(resting_, is_free);
  if (found == resting_.end()) {
    if (!make_more()) return nullptr;
    found = resting_.end() - 1;
  }
  wire::Share* const share = *found;
  resting_.erase(found);
  share->claimed.store(0, std::memory_order_relaxed);
  share->done.store(0, std::memory_order_relaxed);
  share->failed.store(0, std::memory_order_relaxed);
  share->worked.store(0, std::memory_order_relaxed);
  share->in_use.store(1, std::memory_order_release);
  return share;
}

void Shares::give_back(wire::Share& share) noexcept {
  resting_.push_back(&share);  // `make_more` has reserved it
}

bool Shares::make_more() try {
  resting_.reserve(made_ + shares_per_block);
  blocks_.reserve(blocks_.size() + 1);
  const auto offset = heap_.allocate(share_block_bytes);
  const auto memory = offset ? heap_.at(*offset, share_block_bytes) : std::span<std::byte>();
  if (memory.empty()) return false;
  if (*offset / sizeof(wire::Share) > std::numeric_limits<std::uint32_t>::max() - shares_per_block) {
    heap_.release(*offset, share_block_bytes);  // further than a place tells: 256 GiB
    return false;
  }
  for (std::size_t i = 0; i < shares_per_block; ++i) {
    auto* const share = reinterpret_cast<wire::Share*>(memory.data()) + i;
    share->in_use.store(0, std::memory_order_relaxed);  // the memory may have been used before
    resting_.push_back(share);
  }
  made_ += shares_per_block;
  blocks_.push_back(*offset);
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

void Shares::leave() noexcept {
  for (const std::uint64_t offset : blocks_)
    heap_.release(offset, share_block_bytes);
  blocks_.clear();
  resting_.clear();
  made_ = 0;
}

std::uint32_t Shares::place_of(const wire::Share& share) const noexcept {
  const auto* const first = reinterpret_cast<const wire::Share*>(heap_.at(0, 0).data());
  return static_cast<std::uint32_t>(&share - first);
}

wire::Share* Shares::at(std::uint32_t place) const noexcept {
  const auto memory = heap_.at(place * std::uint64_t{sizeof(wire::Share)}, sizeof(wire::Share));
  return memory.empty() ? nullptr : reinterpret_cast<wire::Share*>(memory.data());
}

}  // namespace isthmus
