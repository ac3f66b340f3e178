#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace isthmus::coll {

enum class Collective : std::uint8_t {
  barrier,
  bcast,
  gather,
  scatter,
  allgather,  ///< and allgatherv
  alltoall,
  reduce,
  allreduce,
  reduce_scatter,
  scan,  ///< and exscan
  // Always over messages: known by name alone, so that calls that do not match are recognised.
  gatherv,
  scatterv,
  alltoallv,
  alltoallw,
};
/// Those that there is a choice for.
inline constexpr int collective_count = static_cast<int>(Collective::scan) + 1;
inline constexpr int named_collective_count = static_cast<int>(Collective::alltoallw) + 1;

enum class Algorithm : std::uint8_t {
  // In the memory that all members share (`Team`).
  flat,     ///< everybody writes its part to a line of its own and reads those of the others
  staged,   ///< the same for what does not fit into a line or slot
  counted,  ///< the last to arrive at a node of a tree works for all
  // Copies straight between the members' buffers (`direct.hpp`).
  direct,       ///< everybody fetches what it needs
  direct_both,  ///< two ranks: each copies one half
  direct_all,   ///< everybody fetches and reduces everything
  // Over messages (`algorithms.hpp`).
  dissemination,
  linear,
  binomial,
  scatter_allgather,
  doubling,
  halving,
  ring,
  bruck,
  pairwise,
  by_root,
  // Between domains by messages, in each domain as if it were alone (`domains.hpp`).
  leaders,   ///< one member of each domain speaks for it
  segments,  ///< the same, for a part of the data at a time
  slices,    ///< every member has a share in what goes between domains
  along,     ///< a ring of all members, one domain after the other
};

/// What members are spread over, so that there are several, and several members in some of them.
enum class Domains : std::uint8_t { none, sockets, hosts };

/// What the choice may depend on: nothing but what all members know alike.
struct Question {
  Collective collective;
  int ranks = 1;
  /// What one rank contributes: the whole vector of a bcast or reduction, one rank's block of a gather or
  /// allgather (for allgatherv the largest one), the block for one peer of a scatter or alltoall.
  std::uint64_t bytes = 0;
  bool shared = false;              ///< all members share memory, and the data may be staged there
  bool own_cores = false;           ///< where `shared`: each has a core of its own, and nobody sleeps
  bool direct = false;              ///< all members read each other's memory
  bool commutative = false;         ///< reductions
  Domains domains = Domains::none;  ///< for reductions only where the order of operands can be kept
  bool even = false;                ///< each domain has as many members as any other
};

[[nodiscard]] Algorithm select(const Question& question) noexcept;

/// Whether some answer for `collective` with this many ranks and bytes depends on `direct`, which costs
/// something to find out.
[[nodiscard]] bool asks_for_direct(const Question& question) noexcept;

[[nodiscard]] std::string_view name(Collective collective) noexcept;
[[nodiscard]] std::string_view name(Algorithm algorithm) noexcept;

/// The table as text, one line a row.
[[nodiscard]] std::string describe_selection();

}  // namespace isthmus::coll
