#pragma once

#include <array>
#include <cstdint>

#include "wire/region.hpp"

/// What a process and another's broker say to each other over a UNIX socket, one packet each: the broker
/// greets, the visitor asks, the broker answers, and beside the answer come descriptors (SCM_RIGHTS). Both
/// prove that they have the job's key, and the key does not travel.
///
/// With the request the visitor sends one end of a pair of sockets of its own, and the answer goes there. The
/// proof covers that end's inode number, which is the same for all processes of a kernel; so who stands
/// between the two and passes on what each says gets no descriptor.
namespace isthmus::wire {

inline constexpr std::uint64_t visit_magic = 0x6973'7468'7669'7301;  // "isthvis", 1
inline constexpr std::uint32_t visit_version = 3;

enum class VisitWish : std::uint32_t { region = 1 };

using VisitNonce = std::array<std::uint8_t, 16>;

struct VisitGreeting {
  std::uint64_t magic = visit_magic;
  std::uint32_t version = visit_version;
  std::uint32_t reserved = 0;
  VisitNonce nonce{};
};

struct VisitRequest {
  std::uint64_t magic = visit_magic;
  std::uint32_t version = visit_version;
  VisitWish wish = VisitWish::region;
  std::uint64_t socket = 0;  ///< whom the visitor means: `Place::socket`
  std::uint32_t rank = 0;    ///< the visitor's
  std::uint32_t reserved = 0;
  VisitNonce nonce{};
  std::uint64_t reply = 0;  ///< inode number of the socket to answer on
  std::uint64_t proof = 0;  ///< `proof_of` what has been said, this included
};

struct VisitAnswer {
  std::uint64_t magic = visit_magic;
  std::uint32_t version = visit_version;
  std::uint32_t rank = 0;   ///< the broker's
  std::uint64_t proof = 0;  ///< as above
};

static_assert(sizeof(VisitGreeting) == 32 && sizeof(VisitRequest) == 64 && sizeof(VisitAnswer) == 24);

}  // namespace isthmus::wire
