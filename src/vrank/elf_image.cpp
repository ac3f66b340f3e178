#include "vrank/elf_image.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace isthmus::vrank {
namespace {

constexpr std::uint64_t elf_page = 4096;

/// Entries of the dynamic section that are addresses.
constexpr std::array<Elf64_Sxword, 19> addresses{
    DT_PLTGOT,     DT_HASH,          DT_STRTAB,   DT_SYMTAB,      DT_RELA,       DT_INIT,    DT_FINI,
    DT_REL,        DT_JMPREL,        DT_RELR,     DT_VERSYM,      DT_VERDEF,     DT_VERNEED, DT_INIT_ARRAY,
    DT_FINI_ARRAY, DT_PREINIT_ARRAY, DT_GNU_HASH, DT_TLSDESC_PLT, DT_TLSDESC_GOT};

/// Words of a bitmap of packed relocations, and the bytes that one of them speaks of.
constexpr std::uint64_t words_of_bitmap = 63, bytes_of_bitmap = words_of_bitmap * sizeof(std::uint64_t);

std::uint64_t count_by_gnu_hash(const ElfImage& image, std::uint64_t table) noexcept {
  const auto* const head = image.at<std::uint32_t>(table, 4);
  if (!head) return 0;
  const std::uint64_t buckets = head[0], first = head[1], bloom = head[2];
  const std::uint64_t buckets_at = table + 4 * sizeof(std::uint32_t) + bloom * sizeof(std::uint64_t);
  const auto* const bucket = image.at<std::uint32_t>(buckets_at, buckets);
  if (!bucket || buckets == 0) return 0;
  std::uint64_t last = *std::max_element(bucket, bucket + buckets);
  if (last < first) return 0;
  const std::uint64_t chains_at = buckets_at + buckets * sizeof(std::uint32_t);
  // The last of a chain is odd.
  for (;; ++last) {
    const auto* const hash = image.at<std::uint32_t>(chains_at + (last - first) * sizeof(std::uint32_t));
    if (!hash) return 0;
    if ((*hash & 1) != 0) return last + 1;
  }
}

bool rebase_relocations(const ElfImage& image, ElfTables::Table table, std::uint64_t distance) noexcept {
  const std::uint64_t count = table.bytes / sizeof(Elf64_Rela);
  if (count == 0) return true;
  auto* const first = image.at<Elf64_Rela>(table.address, count);
  if (!first) return false;
  for (Elf64_Rela& each : std::span(first, count)) {
    each.r_offset += distance;
    const auto type = ELF64_R_TYPE(each.r_info);
    if (type == R_X86_64_RELATIVE || type == R_X86_64_RELATIVE64 || type == R_X86_64_IRELATIVE)
      each.r_addend += static_cast<Elf64_Sxword>(distance);
  }
  return true;
}

/// What these speak of holds an address itself.
bool rebase_word(const ElfImage& image, std::uint64_t address, std::uint64_t distance) noexcept {
  auto* const place = image.at<std::byte>(address, sizeof(std::uint64_t));
  if (!place) return false;
  std::uint64_t value = 0;
  std::memcpy(&value, place, sizeof value);
  value += distance;
  std::memcpy(place, &value, sizeof value);
  return true;
}

bool rebase_packed(const ElfImage& image, ElfTables::Table table, std::uint64_t distance) noexcept {
  const std::uint64_t count = table.bytes / sizeof(Elf64_Relr);
  if (count == 0) return true;
  auto* const first = image.at<Elf64_Relr>(table.address, count);
  if (!first) return false;
  std::uint64_t next = 0;
  for (Elf64_Relr& each : std::span(first, count)) {
    if ((each & 1) == 0) {
      if (!rebase_word(image, each, distance)) return false;
      next = each + sizeof(std::uint64_t);
      each += distance;
      continue;
    }
    for (std::uint64_t bit = 0; bit < words_of_bitmap; ++bit)
      if ((each >> (bit + 1) & 1) != 0 && !rebase_word(image, next + bit * sizeof(std::uint64_t), distance))
        return false;
    next += bytes_of_bitmap;
  }
  return true;
}

bool rebase_symbols(const ElfImage& image, const ElfTables& tables, std::uint64_t distance) noexcept {
  const std::uint64_t count = count_symbols(image, tables);
  if (count == 0) return true;
  auto* const first = image.at<Elf64_Sym>(tables.symbols, count);
  if (!first) return false;
  for (Elf64_Sym& each : std::span(first, count))
    // One that is not defined may still have an address, of the code that leads to it.
    if (each.st_value != 0 && each.st_shndx != SHN_ABS && ELF64_ST_TYPE(each.st_info) != STT_TLS)
      each.st_value += distance;
  return true;
}

bool rebase_dynamic(const ElfImage& image, std::uint64_t distance) noexcept {
  for (const Elf64_Phdr& segment : image.segments()) {
    if (segment.p_type != PT_DYNAMIC) continue;
    const std::uint64_t count = segment.p_filesz / sizeof(Elf64_Dyn);
    auto* const first = image.at<Elf64_Dyn>(segment.p_vaddr, count);
    if (!first) return false;
    for (std::uint64_t i = 0; i < count && first[i].d_tag != DT_NULL; ++i)
      if (std::ranges::find(addresses, first[i].d_tag) != addresses.end()) first[i].d_un.d_ptr += distance;
  }
  return true;
}

}  // namespace

std::uint64_t ElfImage::lowest() const noexcept {
  std::uint64_t lowest = ~std::uint64_t{0};
  for (const Elf64_Phdr& segment : segments())
    if (segment.p_type == PT_LOAD) lowest = std::min(lowest, segment.p_vaddr);
  return lowest / elf_page * elf_page;
}

std::uint64_t count_symbols(const ElfImage& image, const ElfTables& tables) noexcept {
  if (tables.hash != 0)
    if (const auto* const head = image.at<std::uint32_t>(tables.hash, 2))
      return std::max<std::uint64_t>(head[1], tables.symbol_count);
  const std::uint64_t hashed = tables.gnu_hash != 0 ? count_by_gnu_hash(image, tables.gnu_hash) : 0;
  return std::max(hashed, tables.symbol_count);
}

// The headers go last: by them, the tables are found.
bool rebase(const ElfImage& image, const ElfTables& tables, std::uint64_t distance) noexcept {
  if (!rebase_relocations(image, tables.relocations, distance) ||
      !rebase_relocations(image, tables.jumps, distance) || !rebase_packed(image, tables.packed, distance) ||
      !rebase_symbols(image, tables, distance) || !rebase_dynamic(image, distance))
    return false;
  for (Elf64_Phdr& segment : image.segments())
    if (segment.p_type != PT_GNU_STACK) {
      segment.p_vaddr += distance;
      segment.p_paddr += distance;
    }
  if (image.header().e_entry != 0) image.header().e_entry += distance;
  return true;
}

}  // namespace isthmus::vrank
