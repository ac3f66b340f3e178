#include "vrank/process/kept_memory.hpp"

#include <link.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>

#include "vrank/rank_copy.hpp"
#include "vrank/rank_space.hpp"

namespace isthmus::vrank {
namespace {

bool has(const dl_phdr_info& object, const void* address) {
  const auto at = reinterpret_cast<std::uint64_t>(address) - object.dlpi_addr;
  return std::ranges::any_of(std::span(object.dlpi_phdr, object.dlpi_phnum), [&](const ElfW(Phdr) & each) {
    return each.p_type == PT_LOAD && at - each.p_vaddr < each.p_memsz;
  });
}

bool is_known(const dl_phdr_info& object) {
  const std::string_view name = object.dlpi_name;
  // The first has no name: it is the program that holds the ranks.
  if (name.empty() || name.starts_with(RankCopy::names_begin)) return true;
  // The unwinder knows where code lies, which stays.
  if (name.contains("/ld-linux") || name.contains("/libgcc_s.")) return true;
  return has(object, reinterpret_cast<const void*>(&::dl_iterate_phdr)) ||
         has(object, reinterpret_cast<const void*>(&keeper_of_ranks));
}

/// Where nothing is, a word is no address, but a number that looks like one.
bool is_mapped(std::uint64_t address) {
  constexpr std::uint64_t page = 4096;
  unsigned char resident = 0;
  return ::mincore(reinterpret_cast<void*>(address / page * page), page, &resident) == 0;  // NOLINT
}

/// Others may write to these words meanwhile.
bool names_a_rank(std::span<const volatile std::uint64_t> words) {
  return std::ranges::any_of(words, [](std::uint64_t word) {
    return word - RankSpace::begin < RankSpace::bytes_of_all && is_mapped(word);
  });
}

bool keeps_ranks(const dl_phdr_info& object) {
  constexpr std::uint64_t word = sizeof(std::uint64_t);
  for (const ElfW(Phdr) & each : std::span(object.dlpi_phdr, object.dlpi_phnum)) {
    if (each.p_type != PT_LOAD || (each.p_flags & PF_W) == 0) continue;
    const std::uint64_t begin = (object.dlpi_addr + each.p_vaddr + word - 1) / word * word;
    const std::uint64_t end = object.dlpi_addr + each.p_vaddr + each.p_memsz;
    if (end <= begin) continue;
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    if (names_a_rank({reinterpret_cast<const volatile std::uint64_t*>(begin), (end - begin) / word}))
      return true;
  }
  return false;
}

}  // namespace

std::string keeper_of_ranks() {
  std::string found;
  const auto look = [](dl_phdr_info* object, std::size_t /*bytes*/, void* to) {
    if (is_known(*object) || !keeps_ranks(*object)) return 0;
    *static_cast<std::string*>(to) = object->dlpi_name;
    return 1;
  };
  ::dl_iterate_phdr(look, &found);
  return found.empty() ? found : "a library keeps memory of ranks of its process (" + found + ")";
}

}  // namespace isthmus::vrank
