#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "vrank/program_file.hpp"
#include "vrank/rank_memory.hpp"

namespace isthmus::vrank {

/// A function of this library that ranks call in place of one of a library.
struct Replacement {
  std::string_view name;
  void (*function)();
};

/// Loads the libraries that `file` asks for from beside the program.
void load_needed(const ProgramFile& file);

/// The program as one rank has loaded it.
class RankCopy {
 public:
  /// The names that the dynamic linker has of copies.
  static constexpr std::string_view names_begin = "/proc/self/fd/";

  /// The variables of the C library that the copy has for itself; null: the program does not name it.
  struct Variables {
    char** argument = nullptr;  ///< optarg
    int* index = nullptr;       ///< optind
    int* prints = nullptr;      ///< opterr
    int* unknown = nullptr;     ///< optopt
    char*** environment = nullptr;
  };

  /// Loads a copy at `address`, which runs its constructors: with the rank's stack, thread-local storage and
  /// environment.
  Result<> load(const ProgramFile& file, std::uint64_t address, std::span<const Replacement> replacements);
  /// The same in a process between which and others ranks move. `memory`: of the rank, whose turn it is.
  Result<> load_quietly(const ProgramFile& file, std::uint64_t address,
                        std::span<const Replacement> replacements, RankMemory& memory);
  /// Has a copy at `address` for a rank that comes from another process, and brings what it has written.
  static Result<> make_room(const ProgramFile& file, std::uint64_t address);
  /// The rank goes on in a process that has the program from this file.
  void arrive(const ProgramFile& file) noexcept { file_ = &file; }
  /// What the program's constructors are, with these arguments. Only of a copy that has been loaded quietly.
  void run_beginnings(int count, char** arguments, char** environment);
  /// Runs the program on the stack of the caller. An executable goes on in the replacement of
  /// __libc_start_main, and this does not return; of a shared object it is what its main has returned.
  /// `keeps_environ`: the C library's `environ` is not switched with the turns of ranks.
  int run(int count, char** arguments, char** environment, bool keeps_environ);
  /// What the C library does at the end of a program: destructors of thread-local variables, then what atexit
  /// has been given, and the destructors of globals.
  void run_endings();

  [[nodiscard]] const Variables& variables() const noexcept { return variables_; }

 private:
  using Main = int (*)(int, char**, char**);
  using Function = void (*)();

  void replace_all(std::span<const Replacement> replacements) const;
  void fill_thread_locals() const;
  void replace(std::uint64_t offset, const void* address) const;
  void find_variables(bool keeps_environ);
  void take_variable(std::string_view name, void* place);
  void give_stream(const ProgramFile::Import& import);

  const ProgramFile* file_ = nullptr;
  RankMemory* memory_ = nullptr;  ///< null: its process keeps what it asks the C library to do at its end
  void* handle_ = nullptr;
  std::uintptr_t base_ = 0;  ///< from the addresses that the file has
  Variables variables_;
  // What stands in for variables of libraries that a program compiled with -fPIC would share with other
  // ranks.
  struct Stand {
    char* argument = nullptr;
    int index = 1;
    int prints = 1;
    int unknown = '?';
    char** environment = nullptr;
  } stand_;
  std::map<std::string, std::unique_ptr<std::byte[]>, std::less<>> streams_;
};

}  // namespace isthmus::vrank
