#pragma once

#include <elf.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace isthmus::vrank {

/// The bytes of a file for x86-64, whose program headers have been checked to lie in it. Nothing outside of
/// it is touched, whatever its tables say and whatever they make of the headers.
class ElfImage {
 public:
  explicit ElfImage(std::span<std::byte> bytes) noexcept
      : bytes_(bytes),
        segments_(reinterpret_cast<Elf64_Phdr*>(bytes.data() + header().e_phoff), header().e_phnum) {}

  [[nodiscard]] Elf64_Ehdr& header() const noexcept { return *reinterpret_cast<Elf64_Ehdr*>(bytes_.data()); }
  [[nodiscard]] std::span<Elf64_Phdr> segments() const noexcept { return segments_; }
  /// What lies at `address` in the loaded program, `count` of it; null where the file has not so much there.
  template <class T>
  [[nodiscard]] T* at(std::uint64_t address, std::uint64_t count = 1) const noexcept {
    for (const Elf64_Phdr& segment : segments()) {
      if (segment.p_type != PT_LOAD || address < segment.p_vaddr || segment.p_offset > bytes_.size() ||
          segment.p_filesz > bytes_.size() - segment.p_offset)
        continue;
      const std::uint64_t offset = address - segment.p_vaddr;
      if (offset < segment.p_filesz && count <= (segment.p_filesz - offset) / sizeof(T))
        return reinterpret_cast<T*>(bytes_.data() + segment.p_offset + offset);
    }
    return nullptr;
  }
  /// The lowest address that is loaded, in whole pages.
  [[nodiscard]] std::uint64_t lowest() const noexcept;

 private:
  std::span<std::byte> bytes_;
  std::span<Elf64_Phdr> segments_;
};

/// Where the tables are that speak of a program's addresses.
struct ElfTables {
  struct Table {
    std::uint64_t address = 0, bytes = 0;
  };
  Table relocations, jumps;   ///< Elf64_Rela
  Table packed;               ///< Elf64_Relr
  std::uint64_t symbols = 0;  ///< Elf64_Sym
  std::uint64_t hash = 0, gnu_hash = 0;
  std::uint64_t symbol_count = 0;  ///< at least: of those that relocations name
};

/// How many symbols there are: what the hash tables say, which the linker finds them by, or what
/// relocations name.
std::uint64_t count_symbols(const ElfImage& image, const ElfTables& tables) noexcept;

/// Makes the file one that lies `distance` higher, as if it had been linked so: a multiple of the alignment
/// of its segments. False where the file is damaged; it is of no use then.
[[nodiscard]] bool rebase(const ElfImage& image, const ElfTables& tables, std::uint64_t distance) noexcept;

}  // namespace isthmus::vrank
