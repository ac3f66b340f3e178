#pragma once

#include <cstdint>

#include "wire/region.hpp"

/// What a process says to another's broker, and the broker's answer: one packet each over a UNIX socket. The
/// descriptor comes beside the answer (SCM_RIGHTS).
namespace isthmus::wire {

inline constexpr std::uint64_t visit_magic = 0x6973'7468'7669'7301;  // "isthvis", 1
inline constexpr std::uint32_t visit_version = 1;

enum class VisitWish : std::uint32_t { region = 1 };

struct VisitRequest {
  std::uint64_t magic = visit_magic;
  std::uint32_t version = visit_version;
  VisitWish wish = VisitWish::region;
  std::uint64_t socket = 0;  ///< whom the visitor means: `Place::socket`
  std::uint32_t rank = 0;    ///< the visitor's
  std::uint32_t reserved = 0;
  JobKey key{};
};

struct VisitAnswer {
  std::uint64_t magic = visit_magic;
  std::uint32_t version = visit_version;
  std::uint32_t rank = 0;  ///< the broker's
};

static_assert(sizeof(VisitRequest) == 48 && sizeof(VisitAnswer) == 16);

}  // namespace isthmus::wire
