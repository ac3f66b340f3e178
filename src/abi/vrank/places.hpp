#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "abi/core/runtime.hpp"
#include "base/error.hpp"
#include "base/rank_turns.hpp"

namespace isthmus::abi {

/// With which worker the rank has its turns, and how many there are: of its process, or, where ranks may go
/// on in other processes, of its host.
struct WorkerPlace {
  std::uint32_t own = 0, all = 1;
};
[[nodiscard]] WorkerPlace worker_place(const RankTurns* turns);

/// Whether `turns` are of a rank that may go on in other processes.
[[nodiscard]] bool is_migratable(const RankTurns* turns) noexcept;
/// What keeps it where it is now, as a sentence goes on; empty: nothing.
[[nodiscard]] std::string why_tied(Runtime& runtime);

/// Rank i goes on with worker `to[i]` of the host. The same for all ranks; collective over MPI_COMM_WORLD.
Result<> go_on(Runtime& runtime, std::span<const std::uint32_t> from, std::span<const std::uint32_t> to);

}  // namespace isthmus::abi
