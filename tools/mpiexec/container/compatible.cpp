#include "container/compatible.hpp"

#include <array>
#include <string>

namespace isthmus::mpiexec {
namespace {

constexpr std::array names{"OMPI_COMM_WORLD_RANK",
                           "OMPI_COMM_WORLD_SIZE",
                           "OMPI_COMM_WORLD_LOCAL_RANK",
                           "OMPI_COMM_WORLD_LOCAL_SIZE",
                           "PMI_RANK",
                           "PMI_SIZE",
                           "MPI_LOCALRANKID",
                           "MPI_LOCALNRANKS"};

}  // namespace

std::span<const char* const> compatible_variables() {
  return names;
}

void set_compatible_variables(Environment& environment, const RankNumbers& numbers) {
  const std::array values{numbers.rank, numbers.size, numbers.local_rank, numbers.local_size,
                          numbers.rank, numbers.size, numbers.local_rank, numbers.local_size};
  static_assert(values.size() == names.size());
  for (std::size_t i = 0; i < names.size(); ++i)
    environment.set(names[i], std::to_string(values[i]));
}

}  // namespace isthmus::mpiexec
