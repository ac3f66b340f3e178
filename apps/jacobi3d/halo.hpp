// The exchange of a block's six faces with its neighbours.
#pragma once

#include <mpi.h>

#include <memory>

#include "decomposition.hpp"

namespace jacobi {

enum class HaloKind {
  datatype,  // strided faces described to MPI by derived types
  pack,      // faces copied to and from contiguous buffers here, on a GPU by a kernel
  staged,    // of a GPU: these buffers are copied to and from the host, whose memory alone MPI sees
};

class Halo {
 public:
  Halo(const Halo&) = delete;
  Halo& operator=(const Halo&) = delete;
  virtual ~Halo() = default;

  // Sends the block's outermost points to the six neighbours, and fills the layer around it with theirs.
  // Layers at the cube's boundary stay as they are. Collective over the neighbours. `values` are laid out as
  // a Field's; of the kind `datatype`, in any memory that MPI takes.
  virtual void exchange(double* values) = 0;

 protected:
  Halo() = default;
};

// For all fields of the block's size; not of the kind `staged`. The communicator is borrowed.
[[nodiscard]] std::unique_ptr<Halo> make_halo(HaloKind kind, const Block& block, MPI_Comm comm);

}  // namespace jacobi
