#include "wire/ring.hpp"

#include <string>

#include "wire/gpu.hpp"

namespace isthmus::wire {

Result<> check(const CellHeader& header, const RingGeometry& geometry) {
  const auto malformed = [&](const char* what) {
    return fail(ErrorClass::intern, std::string("malformed cell: ") + what + " (kind " +
                                        std::to_string(static_cast<int>(header.kind)) + ", size " +
                                        std::to_string(header.size) + ")");
  };
  if (header.flag != CellFlag::none && header.flag != CellFlag::synchronous) return malformed("unknown flag");
  switch (header.kind) {
    case CellKind::eager_inline:
      if (header.size > inline_capacity) return malformed("inline payload too long");
      break;
    case CellKind::eager_placed:
    case CellKind::placed_more:
      if (header.size > place_bytes(geometry)) return malformed("piece longer than the place");
      break;
    case CellKind::eager:
    case CellKind::eager_over:
    case CellKind::eager_more:
    case CellKind::fragment:
    case CellKind::fragment_over:
      if (header.size > maximum_piece(geometry)) return malformed("piece too long");
      return header.source < 0 ? malformed("negative source") : Result<>{};
    case CellKind::gpu_offer:
      if (header.size != 0 && !has_export(header.size) && !has_shape(header.size))
        return malformed("offer of the wrong size");
      break;
    case CellKind::gpu_target:
      if (header.size != sizeof(GpuExport) && header.size != 0) return malformed("target of the wrong size");
      return {};
    case CellKind::gpu_window:
      if (header.size != sizeof(GpuExport)) return malformed("window of the wrong size");
      return {};
    case CellKind::ready_to_send:
      break;
    case CellKind::clear_to_send:
    case CellKind::acknowledge:
    case CellKind::share_done:
    case CellKind::split_start:
    case CellKind::gpu_end:
    case CellKind::gpu_freed:
    case CellKind::stage:
    case CellKind::staged:
    case CellKind::gpu_loop:
    case CellKind::memory_told:
    case CellKind::memory_freed:
    case CellKind::memory_missed:
      return {};
    default:
      return malformed("unknown kind");
  }
  if (header.source < 0) return malformed("negative source");
  return {};
}

}  // namespace isthmus::wire
