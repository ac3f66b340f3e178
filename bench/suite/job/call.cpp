#include "suite/job/call.hpp"

#include <algorithm>
#include <array>
#include <cctype>

namespace isthmus::bench {

void fail(int code, const char* function) {
  int error_class = MPI_ERR_OTHER;
  MPI_Error_class(code, &error_class);
  if (error_class == MPI_ERR_UNSUPPORTED_OPERATION)
    throw Stop{status_absent, library_name() + " does not provide " + function};
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw Stop{status_failed,
             std::string(function) + ": " + std::string(text.data(), static_cast<std::size_t>(length)),
             false};
}

void fail_without(const char* what, const char* since) {
  throw Stop{status_absent, library_name() + " does not provide " + what + ": its mpi.h is that of MPI " +
                                std::to_string(MPI_VERSION) + "." + std::to_string(MPI_SUBVERSION) +
                                ", and they came with MPI " + since};
}

std::string library_name() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> buffer{};
  int length = 0;
  MPI_Get_library_version(buffer.data(), &length);
  std::string text(buffer.data(), static_cast<std::size_t>(length));
  const std::size_t end = std::min(text.find_first_of(",\n"), text.size());
  text.resize(end);
  for (char& c : text)
    if (std::isspace(static_cast<unsigned char>(c)) != 0) c = ' ';
  const auto twice =
      std::unique(text.begin(), text.end(), [](char a, char b) { return a == ' ' && b == ' '; });
  text.erase(twice, text.end());
  while (text.ends_with('\0') || text.ends_with(' '))
    text.pop_back();
  return text;
}

}  // namespace isthmus::bench
