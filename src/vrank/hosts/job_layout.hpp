#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace isthmus::vrank {

/// The processes of a job whose ranks may go on in others, as they have been started.
struct JobLayout {
  struct Process {
    std::uint32_t first;  ///< rank, by which it is named
    std::uint32_t count;
    std::uint32_t host;  ///< counted from 0
    friend bool operator==(const Process&, const Process&) = default;
  };
  std::vector<Process> processes;  ///< ascending
  std::uint32_t hosts = 1;

  /// What `launcher_variable::migratable` says of a job of `world`.
  static Result<JobLayout> parse(std::string_view word, std::uint32_t world);

  /// In which a rank, or a process by its name, has been started.
  [[nodiscard]] const Process& process_of(std::uint32_t rank) const noexcept;
};

}  // namespace isthmus::vrank
