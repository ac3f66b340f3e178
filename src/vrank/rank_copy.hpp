#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "vrank/program_file.hpp"

namespace isthmus::vrank {

/// A function of this library that ranks call in place of one of a library.
struct Replacement {
  std::string_view name;
  void (*function)();
};

/// The program as one rank has loaded it.
class RankCopy {
 public:
  /// The copy's own variables of the C library's option parser; null where it shares the library's.
  struct Options {
    char** argument = nullptr;
    int* index = nullptr;
    int* prints = nullptr;
    int* unknown = nullptr;
  };

  /// Loads a copy at `address`, which runs its constructors: with the rank's stack, thread-local storage and
  /// environment.
  Result<> load(const ProgramFile& file, std::uint64_t address, std::span<const Replacement> replacements);
  /// Runs the program on the stack of the caller. An executable goes on in the replacement of
  /// __libc_start_main, and this does not return; of a shared object it is what its main has returned.
  int run(int count, char** arguments, char** environment);
  /// What the C library does at the end of a program: destructors of thread-local variables, then what atexit
  /// has been given, and the destructors of globals.
  void run_endings();

  [[nodiscard]] const Options& options() const noexcept { return options_; }

 private:
  using Main = int (*)(int, char**, char**);
  using Function = void (*)();

  void replace(std::uint64_t offset, const void* address) const;
  void adopt_variables(char** environment);

  const ProgramFile* file_ = nullptr;
  void* handle_ = nullptr;
  std::uintptr_t base_ = 0;  ///< from the addresses that the file has
  Options options_;
};

}  // namespace isthmus::vrank
