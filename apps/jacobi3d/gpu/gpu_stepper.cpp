#include "gpu/gpu_stepper.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "common/gpu/device.hpp"
#include "gpu/work.hpp"

namespace jacobi {
namespace {

using apps::gpu::Device;
using apps::gpu::DeviceDoubles;
using apps::gpu::PinnedDoubles;
using gpu::face_count;

// This process's number on its host.
int number_on_host(MPI_Comm comm) {
  MPI_Comm host = MPI_COMM_NULL;
  int number = 0;
  MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
  MPI_Comm_rank(host, &number);
  MPI_Comm_free(&host);
  return number;
}

unsigned blocks_for(int points, int threads) {
  return static_cast<unsigned>((points + threads - 1) / threads);
}

// One face's way to its neighbour and back.
class FaceBuffers {
 public:
  FaceBuffers(const Device& device, std::size_t points, bool staged)
      : outgoing(device, points), incoming(device, points) {
    if (!staged) return;
    outgoing_on_host.emplace(device, points);
    incoming_on_host.emplace(device, points);
  }
  // What MPI is given.
  [[nodiscard]] double* sent() const { return outgoing_on_host ? outgoing_on_host->data() : outgoing.data(); }
  [[nodiscard]] double* received() const {
    return incoming_on_host ? incoming_on_host->data() : incoming.data();
  }

  DeviceDoubles outgoing, incoming;
  std::optional<PinnedDoubles> outgoing_on_host, incoming_on_host;
};

class GpuStepper final : public Stepper {
 public:
  GpuStepper(HaloKind halo, const Block& block, const Field& initial, const Field& source, MPI_Comm comm)
      : comm_(comm),
        staged_(halo == HaloKind::staged),
        device_(number_on_host(comm)),
        shape_{block.size[0], block.size[1], block.size[2]},
        points_(initial.count()),
        on_host_(initial),
        now_(std::make_unique<DeviceDoubles>(device_, points_)),
        older_(std::make_unique<DeviceDoubles>(device_, points_)),
        source_(device_, points_),
        largest_(device_, 1),
        largest_on_host_(device_, 1),
        sweep_(device_.kernel("jacobi_sweep")),
        pack_(device_.kernel("jacobi_pack")),
        unpack_(device_.kernel("jacobi_unpack")) {
    device_.copy(now_->data(), initial.data(), now_->bytes());
    device_.copy(older_->data(), initial.data(), older_->bytes());
    device_.copy(source_.data(), source.data(), source_.bytes());
    device_.wait();
    if (halo == HaloKind::datatype) {
      in_place_ = make_halo(halo, block, comm);
      return;
    }
    for (int face = 0; face < face_count; ++face) {
      neighbours_[face] = block.neighbour(face / 2, face % 2 == 0 ? -1 : 1);
      if (neighbours_[face] >= 0)
        faces_[face].emplace(device_, static_cast<std::size_t>(points_of_face(shape_, face)), staged_);
    }
  }

  void exchange() override {
    if (in_place_) return in_place_->exchange(now_->data());
    launch(pack_, &FaceBuffers::outgoing);
    if (staged_) {
      for (const auto& face : faces_)
        if (face) device_.copy(face->outgoing_on_host->data(), face->outgoing.data(), face->outgoing.bytes());
    }
    device_.wait();  // MPI may read now
    std::array<MPI_Request, 2 * face_count> requests{};
    int count = 0;
    for (int face = 0; face < face_count; ++face)
      if (faces_[face])
        MPI_Irecv(faces_[face]->received(), length(face), MPI_DOUBLE, neighbours_[face], face ^ 1, comm_,
                  &requests[static_cast<std::size_t>(count++)]);
    for (int face = 0; face < face_count; ++face)
      if (faces_[face])
        MPI_Isend(faces_[face]->sent(), length(face), MPI_DOUBLE, neighbours_[face], face, comm_,
                  &requests[static_cast<std::size_t>(count++)]);
    MPI_Waitall(count, requests.data(), MPI_STATUSES_IGNORE);
    if (staged_) {
      for (const auto& face : faces_)
        if (face) device_.copy(face->incoming.data(), face->incoming_on_host->data(), face->incoming.bytes());
    }
    launch(unpack_, &FaceBuffers::incoming);
    device_.wait();  // so that what comes next is not taken for communication
  }

  double sweep(double weight, bool measure) override {
    gpu::SweepWork work{shape_, now_->data(), older_->data(), source_.data(), weight, nullptr};
    if (measure) {
      work.largest = reinterpret_cast<unsigned long long*>(largest_.data());
      device_.clear(largest_.data(), largest_.bytes());
    }
    device_.launch(sweep_, {blocks_for(shape_.x, 32), blocks_for(shape_.y, 4), blocks_for(shape_.z, 4)},
                   {32, 4, 4}, work);
    if (measure) device_.copy(largest_on_host_.data(), largest_.data(), largest_.bytes());
    device_.wait();
    if (!measure) return 0;
    const double largest = *largest_on_host_.data();
    return std::isfinite(largest) ? largest : std::numeric_limits<double>::infinity();
  }

  void swap() override { std::swap(now_, older_); }

  const Field& values() override {
    device_.copy(on_host_.data(), now_->data(), now_->bytes());
    device_.wait();
    return on_host_;
  }

 private:
  [[nodiscard]] int length(int face) const { return points_of_face(shape_, face); }
  void launch(apps::gpu::Kernel kernel, DeviceDoubles FaceBuffers::* side) const {
    gpu::FacesWork work{shape_, now_->data(), {}};
    int longest = 0;
    for (int face = 0; face < face_count; ++face) {
      if (!faces_[face]) continue;
      work.buffers[face] = ((*faces_[face]).*side).data();
      longest = std::max(longest, length(face));
    }
    if (longest > 0)
      device_.launch(kernel, {std::min(blocks_for(longest, 256), 256U), face_count, 1}, {256, 1, 1}, work);
  }

  MPI_Comm comm_;
  const bool staged_;
  const Device device_;
  const gpu::Shape shape_;
  const std::size_t points_;  // of a field, with the layer around it
  Field on_host_;
  std::unique_ptr<DeviceDoubles> now_, older_;
  const DeviceDoubles source_, largest_;
  const PinnedDoubles largest_on_host_;
  apps::gpu::Kernel sweep_, pack_, unpack_;
  std::unique_ptr<Halo> in_place_;  // null where a kernel packs the faces
  std::array<int, face_count> neighbours_{};
  std::array<std::optional<FaceBuffers>, face_count> faces_;
};

}  // namespace

std::unique_ptr<Stepper> make_gpu_stepper(HaloKind halo, const Block& block, const Field& initial,
                                          const Field& source, MPI_Comm comm) {
  return std::make_unique<GpuStepper>(halo, block, initial, source, comm);
}

}  // namespace jacobi
