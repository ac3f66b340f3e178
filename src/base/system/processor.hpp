#pragma once

#include "base/settings.hpp"

namespace isthmus {

/// Whether a core that writes to a line gets it faster from a core that has written to it last than from one
/// that has only read it: on processors of AMD (and Hygon, of the same design). Between two cores of an EPYC
/// 9004 far from each other, a writer whose pieces of 16 KiB another core reads took 70 to 80 ticks a line,
/// and 12 to 19 where the reader has written a byte to each line behind reading it; between near ones 15 to
/// 19 and 4 to 6. The reader took 1 to 3 ticks more. Asked once.
[[nodiscard]] bool hands_on_written_lines() noexcept;

/// Whether lines are handed back (`hand_back_lines`) with that setting on this processor.
[[nodiscard]] inline bool hands_back_lines(LinesSetting setting) noexcept {
  return setting == LinesSetting::automatic ? hands_on_written_lines() : setting == LinesSetting::hand_back;
}

}  // namespace isthmus
