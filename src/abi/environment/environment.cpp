// MPI 5.0, sections 9.1 and 9.6: versions, names and clocks; MPI_Pcontrol (section 15.2.4) and what this
// library says about its binary interface (chapter 20).

#include <mpi.h>

#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <string_view>

#include "abi/core/call.hpp"
#include "abi/core/entry.hpp"

namespace isthmus::abi {
namespace {

/// Copies a string that is known to fit, with its zero.
void store(std::string_view text, char* to, int* length) {
  std::ranges::copy(text, to);
  to[text.size()] = '\0';
  *length = static_cast<int>(text.size());
}

double seconds(const timespec& time) {
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

ISTHMUS_ENTRY(int, Get_version)(int* version, int* subversion) {
  return call_any_time("MPI_Get_version", [&](Runtime&) -> Result<> {
    ISTHMUS_TRY(check_pointer(version, "version"));
    ISTHMUS_TRY(check_pointer(subversion, "subversion"));
    *version = MPI_VERSION;
    *subversion = MPI_SUBVERSION;
    return {};
  });
}

ISTHMUS_ENTRY(int, Get_library_version)(char* version, int* resultlen) {
  return call_any_time("MPI_Get_library_version", [&](Runtime&) -> Result<> {
    ISTHMUS_TRY(check_pointer(version, "version"));
    ISTHMUS_TRY(check_pointer(resultlen, "resultlen"));
    store("Isthmus " ISTHMUS_VERSION, version, resultlen);
    return {};
  });
}

ISTHMUS_ENTRY(int, Get_processor_name)(char* name, int* resultlen) {
  return call("MPI_Get_processor_name", [&](Runtime&) -> Result<> {
    ISTHMUS_TRY(check_pointer(name, "name"));
    ISTHMUS_TRY(check_pointer(resultlen, "resultlen"));
    std::array<char, MPI_MAX_PROCESSOR_NAME> host{};
    if (::gethostname(host.data(), host.size() - 1) != 0)
      return fail(ErrorClass::other, fmt::format("gethostname: {}", std::strerror(errno)));
    store(host.data(), name, resultlen);
    return {};
  });
}

// CLOCK_MONOTONIC is one clock for all processes of a host (MPI_WTIME_IS_GLOBAL) and is read without a system
// call.
ISTHMUS_ENTRY(double, Wtime)() {
  timespec now;
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return seconds(now);
}

ISTHMUS_ENTRY(double, Wtick)() {
  timespec resolution;
  ::clock_getres(CLOCK_MONOTONIC, &resolution);
  return seconds(resolution);
}

ISTHMUS_ENTRY(int, Pcontrol)(const int, ...) {
  return MPI_SUCCESS;
}

ISTHMUS_ENTRY(int, Abi_get_version)(int* abi_major, int* abi_minor) {
  return call_any_time("MPI_Abi_get_version", [&](Runtime&) -> Result<> {
    ISTHMUS_TRY(check_pointer(abi_major, "abi_major"));
    ISTHMUS_TRY(check_pointer(abi_minor, "abi_minor"));
    *abi_major = MPI_ABI_VERSION;
    *abi_minor = MPI_ABI_SUBVERSION;
    return {};
  });
}

ISTHMUS_ENTRY(int, Abi_get_info)(MPI_Info* info) {
  return call_any_time("MPI_Abi_get_info", [&](Runtime& runtime) -> Result<> {
    ISTHMUS_TRY(check_pointer(info, "info"));
    *info = runtime.infos.add(make_ref<Info>(std::initializer_list<Info::Entry>{
        {"mpi_aint_size", std::to_string(sizeof(MPI_Aint))},
        {"mpi_count_size", std::to_string(sizeof(MPI_Count))},
        {"mpi_offset_size", std::to_string(sizeof(MPI_Offset))},
    }));
    return {};
  });
}

}  // namespace isthmus::abi
