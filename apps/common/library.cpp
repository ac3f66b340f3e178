#include "common/library.hpp"

#include <mpi.h>

#include <array>

namespace apps {

std::string library() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  const std::string all(text.data());  // not by `length`: Open MPI 4.1 counts the terminating zero
  return all.substr(0, all.find('\n'));
}

}  // namespace apps
