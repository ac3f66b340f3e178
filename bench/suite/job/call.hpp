// Calls of MPI, checked: MPI_COMM_WORLD returns its errors (main.cpp), and what goes wrong ends the benchmark
// with a sentence.
#pragma once

#include <mpi.h>

#include <string>

namespace isthmus::bench {

// Exit statuses of a benchmark.
inline constexpr int status_failed = 1;
inline constexpr int status_bad_argument = 2;
inline constexpr int status_wrong_contents = 3;
inline constexpr int status_absent = 4;  // the library or the machine does not have what it measures

// Ends the benchmark; thrown by all ranks alike where `by_all`, else the job is aborted.
struct Stop {
  int status;
  std::string why;
  bool by_all = true;
};

// Throws the Stop that an MPI function's error code comes to.
[[noreturn]] void fail(int code, const char* function);

inline void call(int code, const char* function) {
  if (code != MPI_SUCCESS) [[unlikely]]
    fail(code, function);
}

// That this library's mpi.h is too old for a benchmark.
[[noreturn]] void fail_without(const char* what, const char* since);

// "Open MPI v4.1.4": the first words of what the library says of itself.
std::string library_name();

}  // namespace isthmus::bench
