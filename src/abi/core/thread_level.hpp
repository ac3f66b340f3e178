#pragma once

#include <mpi.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

namespace isthmus::abi {

struct ThreadLevel {
  int level;
  std::string_view name;
};

/// In ascending order, as the ABI's numbers are.
inline constexpr std::array thread_levels{ThreadLevel{MPI_THREAD_SINGLE, "MPI_THREAD_SINGLE"},
                                          ThreadLevel{MPI_THREAD_FUNNELED, "MPI_THREAD_FUNNELED"},
                                          ThreadLevel{MPI_THREAD_SERIALIZED, "MPI_THREAD_SERIALIZED"},
                                          ThreadLevel{MPI_THREAD_MULTIPLE, "MPI_THREAD_MULTIPLE"}};

/// The lowest level that is enough for `required`, which may be any number; the highest where none is.
constexpr ThreadLevel enough_for(int required) {
  const auto* const found =
      std::ranges::find_if(thread_levels, [&](const ThreadLevel& each) { return required <= each.level; });
  return found == thread_levels.end() ? thread_levels.back() : *found;
}

constexpr std::optional<int> thread_level_named(std::string_view name) {
  const auto* const found = std::ranges::find(thread_levels, name, &ThreadLevel::name);
  return found == thread_levels.end() ? std::nullopt : std::optional(found->level);
}

}  // namespace isthmus::abi
