#include "base/sip_hash.hpp"

#include <bit>
#include <cstring>

namespace isthmus {
namespace {

static_assert(std::endian::native == std::endian::little);

std::uint64_t word_at(const void* bytes) noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

/// The four words that the paper's section 2 mixes.
struct State {
  std::uint64_t v0, v1, v2, v3;

  void round() noexcept {
    v0 += v1;
    v2 += v3;
    v1 = std::rotl(v1, 13) ^ v0;
    v3 = std::rotl(v3, 16) ^ v2;
    v0 = std::rotl(v0, 32) + v3;
    v2 += v1;
    v1 = std::rotl(v1, 17) ^ v2;
    v3 = std::rotl(v3, 21) ^ v0;
    v2 = std::rotl(v2, 32);
  }
  void take(std::uint64_t word) noexcept {
    v3 ^= word;
    round();
    round();
    v0 ^= word;
  }
};

}  // namespace

std::uint64_t sip_hash(const std::array<std::uint8_t, 16>& key, std::span<const std::byte> bytes) noexcept {
  const std::uint64_t k0 = word_at(key.data());
  const std::uint64_t k1 = word_at(key.data() + 8);
  State state{k0 ^ 0x736f'6d65'7073'6575, k1 ^ 0x646f'7261'6e64'6f6d, k0 ^ 0x6c79'6765'6e65'7261,
              k1 ^ 0x7465'6462'7974'6573};
  const std::size_t whole = bytes.size() / 8 * 8;
  for (std::size_t at = 0; at < whole; at += 8)
    state.take(word_at(bytes.data() + at));
  std::uint64_t last = static_cast<std::uint64_t>(bytes.size()) << 56;
  for (std::size_t at = whole; at < bytes.size(); ++at)
    last |= static_cast<std::uint64_t>(bytes[at]) << (8 * (at - whole));
  state.take(last);
  state.v2 ^= 0xff;
  for (int i = 0; i < 4; ++i)
    state.round();
  return state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
}

}  // namespace isthmus
