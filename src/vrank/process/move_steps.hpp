#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/error.hpp"
#include "vrank/process/ties.hpp"
#include "vrank/program_file.hpp"
#include "vrank/rank_memory.hpp"
#include "vrank/rank_space.hpp"

namespace isthmus::vrank {

/// One thing that a process does to take over a rank's memory, at the rank's addresses.
struct MoveStep {
  enum class Kind : std::uint32_t {
    match,    ///< both processes are alike: `offset` is `likeness` of the one that the rank leaves
    map,      ///< new pages, all 0
    share,    ///< the region's pages from `offset` on
    open,     ///< what is there may be written
    copy,     ///< the bytes of the process that the rank leaves
    protect,  ///< as it was there
  };
  Kind kind;
  std::int32_t protection;
  std::uint64_t address, bytes, offset;
};

/// All that another process has to do. The rank has no turn, and its stack is in use from `stack` on.
std::vector<MoveStep> steps_of(const RankSpace& space, const ProgramFile& program, std::uint64_t stack,
                               const ThreadLocalRange& locals, std::uint64_t likeness);
/// Does them. What has been mapped is unmapped again where one fails.
Result<> take_over(std::span<const MoveStep> steps, pid_t from, const RankSpace& space,
                   const RegionFile& region, std::uint64_t likeness);
/// What `steps` have mapped is not there any more.
void let_go(const RankSpace& space) noexcept;

/// A number that processes have alike which have the same libraries at the same addresses, with their
/// thread-local variables at the same places. `process_top`: where the process's heap ended when libraries
/// alone had been begun, so that what they made then is alike too.
std::uint64_t likeness_here(std::uintptr_t process_top);

}  // namespace isthmus::vrank
