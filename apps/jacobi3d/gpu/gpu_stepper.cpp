#include "gpu/gpu_stepper.hpp"

#include <array>

#include "gpu/gpu_block.hpp"

namespace jacobi {
namespace {

using gpu::face_count;

class GpuStepper final : public Stepper {
 public:
  GpuStepper(HaloKind halo, const Block& block, const Field& initial, const Field& source, MPI_Comm comm)
      : comm_(comm),
        device_(gpu::number_on_host(comm)),
        block_(device_, block, initial, source, halo == HaloKind::datatype ? 0 : 1,
               halo == HaloKind::staged) {
    if (halo == HaloKind::datatype) in_place_ = make_halo(halo, block, comm);
  }

  void exchange() override {
    if (in_place_) return in_place_->exchange(block_.data());
    block_.pack();  // MPI may read then
    std::array<MPI_Request, 2 * face_count> requests{};
    int count = 0;
    for (int face = 0; face < face_count; ++face)
      if (block_.neighbour(face) >= 0)
        MPI_Irecv(block_.face(face).received(), block_.length(face), MPI_DOUBLE, block_.neighbour(face),
                  face ^ 1, comm_, &requests[static_cast<std::size_t>(count++)]);
    for (int face = 0; face < face_count; ++face)
      if (block_.neighbour(face) >= 0)
        MPI_Isend(block_.face(face).sent(), block_.length(face), MPI_DOUBLE, block_.neighbour(face), face,
                  comm_, &requests[static_cast<std::size_t>(count++)]);
    MPI_Waitall(count, requests.data(), MPI_STATUSES_IGNORE);
    block_.unpack();
  }

  double sweep(double weight, bool measure) override { return block_.sweep(weight, measure); }
  void swap() override { block_.swap(); }
  const Field& values() override { return block_.values(); }

 private:
  MPI_Comm comm_;
  const gpu::Device device_;
  gpu::GpuBlock block_;
  std::unique_ptr<Halo> in_place_;  // null where a kernel packs the faces
};

}  // namespace

int gpu::number_on_host(MPI_Comm comm) {
  MPI_Comm host = MPI_COMM_NULL;
  int number = 0;
  MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
  MPI_Comm_rank(host, &number);
  MPI_Comm_free(&host);
  return number;
}

std::unique_ptr<Stepper> make_gpu_stepper(HaloKind halo, const Block& block, const Field& initial,
                                          const Field& source, MPI_Comm comm) {
  return std::make_unique<GpuStepper>(halo, block, initial, source, comm);
}

}  // namespace jacobi
