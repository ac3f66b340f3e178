#include "wire/port.hpp"

#include <array>
#include <cstring>
#include <string>

#include "base/sip_hash.hpp"

namespace isthmus::wire {
namespace {

constexpr std::uint64_t address_magic = 0x5452'4F50'4854'5349;  // "ISTHPORT"
/// Of all that ports say to each other, and of what the engine says over them.
constexpr std::uint32_t address_version = 3;

struct AddressHeader {
  std::uint64_t magic;
  std::uint64_t checksum;  ///< of all that follows it
  std::uint64_t token;
  std::uint32_t version;
  std::uint32_t transport_bytes;
  std::uint16_t watch_port;
  std::uint16_t hosts;
  std::uint32_t reserved;
};
static_assert(sizeof(AddressHeader) == 40);

constexpr std::size_t checked_from = offsetof(AddressHeader, token);

/// FNV-1a, 64 bits: finds damage, proves nothing.
std::uint64_t checksum(std::span<const std::byte> bytes) {
  std::uint64_t sum = 0xcbf2'9ce4'8422'2325;
  for (const std::byte byte : bytes)
    sum = (sum ^ static_cast<std::uint64_t>(byte)) * 0x100'0000'01b3;
  return sum;
}

std::unexpected<Error> garbage(const char* why) {
  return fail(ErrorClass::other,
              std::string("what is published as the address of a process is none: ") + why);
}

}  // namespace

std::optional<PortMessage> read_port_message(std::span<const std::byte> bytes,
                                             std::size_t header_limit) noexcept {
  PortMessage message{};
  if (bytes.size() < sizeof message.envelope) return std::nullopt;
  std::memcpy(&message.envelope, bytes.data(), sizeof message.envelope);
  const std::size_t header = message.envelope.header_bytes;
  const std::size_t inlined = message.envelope.inlined;
  if (message.envelope.kind > PortKind::done || header > header_limit ||
      bytes.size() != sizeof message.envelope + header + inlined)
    return std::nullopt;
  message.header = bytes.subspan(sizeof message.envelope, header);
  message.inlined = bytes.last(inlined);
  return message;
}

std::vector<std::byte> PortAddress::write() const {
  AddressHeader header{.magic = address_magic,
                       .checksum = 0,
                       .token = token,
                       .version = address_version,
                       .transport_bytes = static_cast<std::uint32_t>(transport.size()),
                       .watch_port = watch_port,
                       .hosts = static_cast<std::uint16_t>(hosts.size()),
                       .reserved = 0};
  std::vector<std::byte> bytes(sizeof header + hosts.size() * sizeof hosts[0] + transport.size());
  std::byte* to = bytes.data() + sizeof header;
  if (!hosts.empty()) std::memcpy(to, hosts.data(), hosts.size() * sizeof hosts[0]);
  to += hosts.size() * sizeof hosts[0];
  if (!transport.empty()) std::memcpy(to, transport.data(), transport.size());
  std::memcpy(bytes.data(), &header, sizeof header);
  header.checksum = checksum(std::span(bytes).subspan(checked_from));
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

Result<PortAddress> PortAddress::read(std::span<const std::byte> bytes) {
  AddressHeader header;
  if (bytes.size() < sizeof header) return garbage("it is too short");
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.magic != address_magic) return garbage("it does not begin as one");
  if (header.version != address_version) return garbage("it is of another version of Isthmus");
  if (header.hosts > hosts_limit || header.transport_bytes > transport_limit)
    return garbage("it is too long");
  const std::size_t hosts_bytes = header.hosts * sizeof(std::uint32_t);
  if (bytes.size() != sizeof header + hosts_bytes + header.transport_bytes)
    return garbage("it is not as long as it says");
  if (header.checksum != checksum(bytes.subspan(checked_from))) return garbage("it is damaged");
  PortAddress address;
  address.token = header.token;
  address.watch_port = header.watch_port;
  address.hosts.resize(header.hosts);
  if (hosts_bytes > 0) std::memcpy(address.hosts.data(), bytes.data() + sizeof header, hosts_bytes);
  const auto transport = bytes.last(header.transport_bytes);
  address.transport.assign(transport.begin(), transport.end());
  return address;
}

std::uint64_t WatchHello::proof_of(std::uint64_t token, Way way) const noexcept {
  std::array<std::uint8_t, 16> key{};
  std::memcpy(key.data(), &token, sizeof token);
  std::array<std::byte, sizeof(WatchHello)> said{};
  std::memcpy(said.data(), this, offsetof(WatchHello, proof));
  said.back() = static_cast<std::byte>(way);
  return sip_hash(key, said);
}

bool WatchHello::is_proved(std::uint64_t token, Way way) const noexcept {
  const WatchHello expected;
  return magic == expected.magic && version == expected.version && proof == proof_of(token, way);
}

}  // namespace isthmus::wire
