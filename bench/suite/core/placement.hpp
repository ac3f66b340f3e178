// Where a side's buffers lie.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace isthmus::bench {

enum class Placement : std::uint8_t {
  host,            // H: pages of the process
  allocated,       // A: MPI_Alloc_mem
  pinned,          // pinned: cuMemHostAlloc
  device,          // D: cuMemAlloc, what cudaMalloc gives
  vmm,             // VMM: cuMemCreate, mapped
  pool,            // POOL: what cudaMallocAsync gives
  managed_host,    // MH: managed memory that the CPU uses before and after the message
  managed_device,  // MD: managed memory that a kernel uses before and after the message
};

constexpr std::string_view name_of(Placement placement) {
  switch (placement) {
    case Placement::host:
      return "H";
    case Placement::allocated:
      return "A";
    case Placement::pinned:
      return "pinned";
    case Placement::device:
      return "D";
    case Placement::vmm:
      return "VMM";
    case Placement::pool:
      return "POOL";
    case Placement::managed_host:
      return "MH";
    case Placement::managed_device:
      return "MD";
  }
  return "?";
}

constexpr std::optional<Placement> placement_named(std::string_view name) {
  for (const Placement placement :
       {Placement::host, Placement::allocated, Placement::pinned, Placement::device, Placement::vmm,
        Placement::pool, Placement::managed_host, Placement::managed_device})
    if (name_of(placement) == name) return placement;
  if (name == "M") return Placement::managed_host;  // as the OSU suite has it
  return std::nullopt;
}

constexpr bool needs_gpu(Placement placement) {
  return placement != Placement::host && placement != Placement::allocated;
}

constexpr bool is_managed(Placement placement) {
  return placement == Placement::managed_host || placement == Placement::managed_device;
}

}  // namespace isthmus::bench
