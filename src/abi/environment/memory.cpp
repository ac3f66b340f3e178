// MPI 5.0, section 9.2: memory from the library.

#include <mpi.h>

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>

#include "abi/core/call.hpp"
#include "abi/core/entry.hpp"
#include "base/whole_number.hpp"
#include "comm/memory_kinds.hpp"

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

/// Where the info key mpi_memory_alloc_kinds wants it. A program that asks for memory of a GPU can do nothing
/// with any other, so that what is not known is no hint to be ignored.
Result<AllocationKind> kind_for(const Info* info) {
  const std::string* wanted = info ? info->find("mpi_memory_alloc_kinds") : nullptr;
  if (!wanted) return AllocationKind::host;
  if (const auto kind = memory_kinds::to_allocate(*wanted)) return *kind;
  return fail(
      ErrorClass::info_value,
      fmt::format("mpi_memory_alloc_kinds \"{}\" does not begin with a kind of memory that can be allocated: "
                  "system, mpi, cuda:device, cuda:host or cuda:managed",
                  *wanted));
}

}  // namespace

ISTHMUS_ENTRY(int, Alloc_mem)(MPI_Aint size, MPI_Info info, void* baseptr) {
  return call("MPI_Alloc_mem", [&](Runtime& runtime) -> Result<> {
    if (size < 0) return fail(ErrorClass::arg, fmt::format("size {} is negative", size));
    ISTHMUS_TRY(check_pointer(baseptr, "baseptr"));
    Result<Info*> hints = find_info(info);
    if (!hints) return std::unexpected(std::move(hints).error());
    Result<AllocationKind> kind = kind_for(*hints);
    if (!kind) return std::unexpected(std::move(kind).error());
    const auto bytes = static_cast<std::size_t>(size);
    std::unique_ptr<Allocation> memory;
    if (*kind == AllocationKind::host) memory = runtime.engine->allocate(bytes, alignment_for(*hints));
    if (!memory) {
      auto made = Allocation::make(runtime.cuda, *kind, bytes, alignment_for(*hints));
      if (!made) return std::unexpected(std::move(made).error());
      memory = std::move(*made);
    }
    void* const address = memory->data();
    runtime.allocations.emplace(address, std::move(memory));
    *static_cast<void**>(baseptr) = address;
    return {};
  });
}

ISTHMUS_ENTRY(int, Free_mem)(void* base) {
  return call("MPI_Free_mem", [&](Runtime& runtime) -> Result<> {
    if (!base) return {};
    if (runtime.allocations.erase(base) == 0)
      return fail(ErrorClass::base,
                  "base is not an address that MPI_Alloc_mem returned, or was freed before");
    return {};
  });
}

}  // namespace isthmus::abi
