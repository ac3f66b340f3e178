#include "wire/roster.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace isthmus::wire {
namespace {

constexpr std::uint64_t each_byte = 0x0101'0101'0101'0101;
constexpr std::uint64_t states = 0x03 * each_byte;  // bits that states use

/// The lowest bit of each byte that names a state other than `absent`.
constexpr std::uint64_t presence(std::uint64_t word) {
  const std::uint64_t present = (word | word >> 1) & each_byte;
  const std::uint64_t foreign = word & ~states;  // what no release writes
  if (foreign == 0) [[likely]]
    return present;
  std::uint64_t result = 0;
  for (unsigned shift = 0; shift < 64; shift += 8)
    if ((foreign >> shift & 0xffU) == 0) result |= present & std::uint64_t{1} << shift;
  return result;
}

/// How many bits of a `presence` are set.
constexpr unsigned bytes_in(std::uint64_t presence) {
  return static_cast<unsigned>(presence * each_byte >> 56);
}

}  // namespace

static_assert(std::endian::native == std::endian::little);

Roster::Roster(std::span<const std::atomic<RosterState>> bytes)
    : bytes_(bytes), cache_((bytes.size() + word_bytes - 1) / word_bytes) {
  for (std::size_t word = 0; word < cache_.size(); ++word)
    cache_[word] = load(word);
  list_members();
}

/// Eight ranks at a time where there are as many: 2^20 ranks are 131,072 loads.
std::uint64_t Roster::load(std::size_t word) const noexcept {
  const std::size_t first = word * word_bytes;
  if (first + word_bytes <= bytes_.size()) [[likely]]
    return __atomic_load_n(reinterpret_cast<const std::uint64_t*>(bytes_.data() + first), __ATOMIC_ACQUIRE);
  std::uint64_t value = 0;
  for (std::size_t i = first; i < bytes_.size(); ++i)
    value |= std::uint64_t{static_cast<std::uint8_t>(bytes_[i].load(std::memory_order_acquire))}
             << (i - first) * 8;
  return value;
}

void Roster::list_members() {
  std::size_t members = 0;
  for (const std::uint64_t word : cache_)
    members += bytes_in(presence(word));
  members_.resize(members);
  std::uint32_t* out = members_.data();
  std::uint32_t first = 0;
  for (const std::uint64_t word : cache_) {
    std::uint64_t bits = presence(word);
    if (bits == each_byte) {
      for (std::uint32_t i = 0; i < word_bytes; ++i)
        out[i] = first + i;
      out += word_bytes;
    } else {
      for (; bits != 0; bits &= bits - 1)
        *out++ = first + static_cast<std::uint32_t>(std::countr_zero(bits)) / 8;
    }
    first += word_bytes;
  }
}

std::optional<std::uint32_t> Roster::position(std::uint32_t rank) const noexcept {
  const auto found = std::ranges::lower_bound(members_, rank);
  if (found == members_.end() || *found != rank) return std::nullopt;
  return static_cast<std::uint32_t>(found - members_.begin());
}

std::vector<Roster::Change> Roster::refresh() {
  std::vector<Change> changes;
  for (std::size_t word = 0; word < cache_.size(); ++word) {
    const std::uint64_t now = load(word);
    const std::uint64_t before = std::exchange(cache_[word], now);
    if (now == before) continue;
    for (unsigned i = 0; i < word_bytes; ++i) {
      const auto state_before = static_cast<RosterState>(before >> i * 8 & 0xffU);
      const auto state_now = static_cast<RosterState>(now >> i * 8 & 0xffU);
      if (state_before != state_now)
        changes.push_back({static_cast<std::uint32_t>(word * word_bytes + i), state_before, state_now});
    }
  }
  if (!changes.empty()) list_members();
  return changes;
}

}  // namespace isthmus::wire
