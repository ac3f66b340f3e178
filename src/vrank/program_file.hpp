#pragma once

#include <elf.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/unique_fd.hpp"
#include "vrank/elf_image.hpp"

namespace isthmus::vrank {

/// The file of a program, of which each rank of a process loads a copy of its own: so each has its own
/// globals and statics, while the libraries that the program needs are loaded once.
///
/// The C library loads no position-independent executable behind a program's start (dlopen, since
/// glibc 2.30). A copy is the same file but for the mark that says what it is, in a file of memory.
class ProgramFile {
 public:
  /// A place in a loaded copy that holds the address of a function or variable of a library.
  struct Import {
    std::string name;
    std::uint64_t offset;  ///< from where the copy has been loaded
  };
  /// Of the thread-local variables of an executable, which finds them at fixed distances below the thread
  /// pointer.
  struct ThreadLocals {
    std::uint64_t bytes = 0;           ///< below the thread pointer; 0: none
    std::span<const std::byte> image;  ///< what the first of them begin with, the others with 0
  };

  /// `thread_local_room`: bytes below the thread pointer that nobody else uses. Fails with a sentence that
  /// says why the program cannot be loaded several times, and what helps.
  static Result<ProgramFile> open(const std::string& path, std::size_t thread_local_room);

  /// Another copy, for `address`, at which segments may begin: where that is free, it is loaded there.
  /// Nothing of it has a name that outlives it.
  [[nodiscard]] Result<UniqueFd> copy(std::uint64_t address) const;
  /// The same, of which the dynamic linker runs nothing, neither when it is loaded nor at the end, and which
  /// has no thread-local variables for the linker: whoever loads it does that.
  [[nodiscard]] Result<UniqueFd> quiet_copy(std::uint64_t address) const;
  /// Addresses.
  struct Span {
    std::uint64_t begin, end;
  };
  /// Of a copy at `address`: what the program, or the linker, may write to.
  [[nodiscard]] std::vector<Span> written_at(std::uint64_t address) const;
  /// Where what is loaded begins, as addresses in this class have it.
  [[nodiscard]] std::uint64_t lowest() const noexcept { return image().lowest(); }

  /// Where an executable begins to run; 0 for a shared object, which is run by its function main.
  [[nodiscard]] std::uint64_t entry() const noexcept { return entry_; }
  [[nodiscard]] bool is_executable() const noexcept { return entry_ != 0; }
  /// All that is loaded of it.
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }
  [[nodiscard]] const ThreadLocals& thread_locals() const noexcept { return thread_locals_; }
  /// Where the copy keeps the addresses of functions that it calls in libraries.
  [[nodiscard]] std::span<const Import> functions() const noexcept { return functions_; }
  /// Variables of libraries of which the copy has one of its own (R_X86_64_COPY).
  [[nodiscard]] std::span<const Import> copied() const noexcept { return copied_; }
  /// What runs at the end of the program, an array of functions.
  struct Endings {
    std::uint64_t offset = 0;
    std::uint64_t count = 0;
    std::uint64_t size_offset = 0;  ///< of the word of the dynamic section that says how long the array is
  };
  [[nodiscard]] const Endings& endings() const noexcept { return endings_; }
  /// What runs at its beginning: a function, and an array of them. 0: there is none.
  struct Beginnings {
    std::uint64_t function = 0;
    std::uint64_t offset = 0;
    std::uint64_t count = 0;
  };
  [[nodiscard]] const Beginnings& beginnings() const noexcept { return beginnings_; }
  /// Names of the libraries that it asks for, and the folders relative to its own in which it looks for them
  /// first ($ORIGIN), which a copy could not find.
  [[nodiscard]] std::span<const std::string> needed() const noexcept { return needed_; }
  [[nodiscard]] std::span<const std::string> folders() const noexcept { return folders_; }

 private:
  ProgramFile() = default;

  Result<> read(const std::string& path);
  Result<> check_kind(const std::string& path, std::size_t thread_local_room);
  Result<> read_dynamic(const std::string& path);
  Result<> read_imports(const Elf64_Rela* first, std::size_t count);
  void prepare_copy();
  [[nodiscard]] Result<UniqueFd> written(std::vector<std::byte> bytes, std::uint64_t address) const;
  void find_folders(const std::string& path, std::string_view run_path);

  // Who has a file that is constant reads only.
  [[nodiscard]] ElfImage image() const noexcept {
    return ElfImage({const_cast<std::byte*>(bytes_.data()), bytes_.size()});
  }
  /// Empty where it is none.
  [[nodiscard]] std::string_view text(std::uint64_t offset);

  std::vector<std::byte> bytes_;  ///< of a copy: up to the end of what is loaded
  std::uint64_t entry_ = 0;
  ElfTables tables_;
  std::uint64_t strings_ = 0, string_bytes_ = 0;
  std::uint64_t flags_at_ = 0;  ///< where the mark is in the file; 0: nowhere
  ThreadLocals thread_locals_;
  std::vector<Import> functions_, copied_;
  Endings endings_;
  Beginnings beginnings_;
  std::vector<std::string> needed_, folders_;
};

}  // namespace isthmus::vrank
