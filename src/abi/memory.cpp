// MPI 5.0, section 9.2: memory from the library.

#include <mpi.h>

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "abi/call.hpp"
#include "abi/entry.hpp"
#include "base/whole_number.hpp"

namespace isthmus::abi {
namespace {

/// Pages, or more where the info key mpi_minimum_memory_alignment asks for it. Values that are no alignment
/// are ignored, as are all other keys.
std::size_t alignment_for(const Info* info) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::string* wanted = info ? info->find("mpi_minimum_memory_alignment") : nullptr;
  if (!wanted) return page;
  const auto alignment = whole_number<std::size_t>(*wanted);
  return alignment && std::has_single_bit(*alignment) ? std::max(*alignment, page) : page;
}

}  // namespace

ISTHMUS_ENTRY(int, Alloc_mem)(MPI_Aint size, MPI_Info info, void* baseptr) {
  return call("MPI_Alloc_mem", [&](Runtime& runtime) -> Result<> {
    if (size < 0) return fail(ErrorClass::arg, fmt::format("size {} is negative", size));
    ISTHMUS_TRY(check_pointer(baseptr, "baseptr"));
    Result<Info*> hints = find_info(info);
    if (!hints) return std::unexpected(std::move(hints).error());
    void* memory = nullptr;
    const auto bytes = static_cast<std::size_t>(size);
    if (::posix_memalign(&memory, alignment_for(*hints), std::max<std::size_t>(bytes, 1)) != 0)
      return fail(ErrorClass::no_mem, fmt::format("no {} bytes of memory are left", size));
    runtime.allocations.emplace(memory, bytes);
    *static_cast<void**>(baseptr) = memory;
    return {};
  });
}

ISTHMUS_ENTRY(int, Free_mem)(void* base) {
  return call("MPI_Free_mem", [&](Runtime& runtime) -> Result<> {
    if (!base) return {};
    if (runtime.allocations.erase(base) == 0)
      return fail(ErrorClass::base,
                  "base is not an address that MPI_Alloc_mem returned, or was freed before");
    std::free(base);
    return {};
  });
}

}  // namespace isthmus::abi
