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

/// More steps than that no rank has: who says so is not believed.
inline constexpr std::uint32_t most_steps = std::uint32_t{1} << 20;

/// The memory of the process that a rank leaves. The rank's, in order, as the steps `copy` name it.
class LeftMemory {
 public:
  virtual Result<> read(std::uint64_t address, std::uint64_t bytes) = 0;

 protected:
  ~LeftMemory() = default;
};
/// Of another process of this host.
class MemoryOfProcess final : public LeftMemory {
 public:
  explicit MemoryOfProcess(pid_t process) noexcept : process_(process) {}
  Result<> read(std::uint64_t address, std::uint64_t bytes) override;

 private:
  pid_t process_;
};
/// As it comes over a line from another host.
class MemoryByLine final : public LeftMemory {
 public:
  explicit MemoryByLine(int line) noexcept : line_(line) {}
  Result<> read(std::uint64_t address, std::uint64_t bytes) override;

 private:
  int line_;
};
/// The other end: all that `steps` copy, in order. False where the line has broken.
[[nodiscard]] bool write_memory(std::span<const MoveStep> steps, int line) noexcept;

/// Whether all of them are about the rank's own addresses.
Result<> check(std::span<const MoveStep> steps, const RankSpace& space);

/// All that another process has to do. The rank has no turn, and its stack is in use from `stack` on.
std::vector<MoveStep> steps_of(const RankSpace& space, const ProgramFile& program, std::uint64_t stack,
                               const ThreadLocalRange& locals, std::uint64_t likeness);
/// Does them. What has been mapped is unmapped again where one fails.
Result<> take_over(std::span<const MoveStep> steps, LeftMemory& from, const RankSpace& space,
                   const RegionFile& region, std::uint64_t likeness);
/// What `steps` have mapped is not there any more.
void let_go(const RankSpace& space) noexcept;

/// A number that processes have alike which have the same libraries at the same addresses, with their
/// thread-local variables at the same places. `process_top`: where the process's heap ended when libraries
/// alone had been begun, so that what they made then is alike too.
std::uint64_t likeness_here(std::uintptr_t process_top);
/// A number that processors have alike which have the same instructions.
std::uint64_t likeness_of_processor();

}  // namespace isthmus::vrank
