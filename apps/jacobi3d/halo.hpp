// The exchange of a block's six faces with its neighbours.
#pragma once

#include <mpi.h>

#include <memory>

#include "decomposition.hpp"
#include "field.hpp"

namespace jacobi {

enum class HaloKind {
  datatype,  // strided faces described to MPI by derived types
  pack,      // faces copied to and from contiguous buffers here
  // On a GPU, where a kernel copies faces to and from contiguous buffers:
  aware,   // MPI is given the GPU's memory
  staged,  // they go by way of buffers on the host
};

class Halo {
 public:
  Halo(const Halo&) = delete;
  Halo& operator=(const Halo&) = delete;
  virtual ~Halo() = default;

  // Sends the block's outermost points to the six neighbours, and fills the layer around it with theirs.
  // Layers at the cube's boundary stay as they are. Collective over the neighbours.
  virtual void exchange(Field& field) = 0;

 protected:
  Halo() = default;
};

// For all fields of the block's size. The communicator is borrowed.
[[nodiscard]] std::unique_ptr<Halo> make_halo(HaloKind kind, const Block& block, MPI_Comm comm);

}  // namespace jacobi
