#include "talk/secrecy.hpp"

#include <cstddef>
#include <cstring>
#include <stdexcept>

namespace isthmus::mpiexec {
namespace {

/// libsodium chooses among its implementations once in a process.
void prepare() {
  if (::sodium_init() < 0) throw std::runtime_error("libsodium cannot be prepared");
}

const unsigned char* octets_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

/// A hash under the job's key; `purpose` keeps one use's results out of another's.
template <std::size_t size>
std::array<std::uint8_t, size> hash(const wire::JobKey& key, std::string_view purpose,
                                    std::string_view text) {
  static_assert(size >= crypto_generichash_BYTES_MIN && size <= crypto_generichash_BYTES_MAX);
  static_assert(sizeof(wire::JobKey) >= crypto_generichash_KEYBYTES_MIN);
  std::string hashed(purpose);
  hashed += '\0';
  hashed += text;
  std::array<std::uint8_t, size> result{};
  ::crypto_generichash(result.data(), result.size(), octets_of(hashed), hashed.size(), key.data(),
                       key.size());
  return result;
}

std::string_view said_in(const Opening& opening) {
  return {reinterpret_cast<const char*>(&opening), offsetof(Opening, proof)};
}

}  // namespace

Opening Opening::make(const wire::JobKey& key, std::uint32_t host) {
  prepare();
  Opening opening;
  opening.host = host;
  ::randombytes_buf(opening.nonce.data(), opening.nonce.size());
  opening.proof = hash<32>(key, "isthmus opening", said_in(opening));
  return opening;
}

bool Opening::is_proved(const wire::JobKey& key) const {
  const Opening expected;
  const auto proved = hash<32>(key, "isthmus opening", said_in(*this));
  return magic == expected.magic && version == secrecy_version &&
         ::sodium_memcmp(proved.data(), proof.data(), proof.size()) == 0;
}

Secrecy::Secrecy(const wire::JobKey& key, Side own, const Opening& opening, const Answer& answer) {
  prepare();
  std::string agreed(said_in(opening));
  agreed.append(reinterpret_cast<const char*>(answer.nonce.data()), answer.nonce.size());
  Key own_key = hash<sizeof(Key)>(key, own == Side::head ? "isthmus head" : "isthmus agent", agreed);
  other_key_ = hash<sizeof(Key)>(key, own == Side::head ? "isthmus agent" : "isthmus head", agreed);
  ::crypto_secretstream_xchacha20poly1305_init_push(&own_, header_.data(), own_key.data());
  ::sodium_memzero(own_key.data(), own_key.size());
}

Secrecy::~Secrecy() {
  ::sodium_memzero(other_key_.data(), other_key_.size());
  ::sodium_memzero(&own_, sizeof own_);
  ::sodium_memzero(&other_, sizeof other_);
}

void Secrecy::hear_header(std::string_view header) {
  // Any bytes will do here: wrong ones open nothing.
  ::crypto_secretstream_xchacha20poly1305_init_pull(&other_, octets_of(header), other_key_.data());
}

std::string Secrecy::seal(std::string_view text) {
  std::string sealed(text.size() + seal_bytes, '\0');
  ::crypto_secretstream_xchacha20poly1305_push(&own_, reinterpret_cast<unsigned char*>(sealed.data()),
                                               nullptr, octets_of(text), text.size(), nullptr, 0,
                                               crypto_secretstream_xchacha20poly1305_TAG_MESSAGE);
  return sealed;
}

std::optional<std::string> Secrecy::open(std::string_view sealed) {
  if (sealed.size() < seal_bytes) return std::nullopt;
  std::string text(sealed.size() - seal_bytes, '\0');
  unsigned char tag = 0;
  if (::crypto_secretstream_xchacha20poly1305_pull(&other_, reinterpret_cast<unsigned char*>(text.data()),
                                                   nullptr, &tag, octets_of(sealed), sealed.size(), nullptr,
                                                   0) != 0)
    return std::nullopt;
  return text;
}

}  // namespace isthmus::mpiexec
