#include "gpu/gpu_stepper.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "common/gpu/device.hpp"
#include "common/gpu/engine.hpp"
#include "common/gpu/exchange.hpp"
#include "gpu/work.hpp"

namespace jacobi {
namespace {

using apps::gpu::Device;
using apps::gpu::DeviceDoubles;
using apps::gpu::PinnedDoubles;
using gpu::face_count;

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
  GpuStepper(const Options& options, const Block& block, const Field& initial, const Field& source,
             MPI_Comm comm)
      : comm_(comm),
        staged_(options.halo == HaloKind::staged),
        engine_(apps::gpu::Place::gpu, comm),
        device_(engine_.device()),
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
    if (options.halo == HaloKind::datatype) {
      in_place_ = make_halo(options.halo, block, comm);
      return;
    }
    if (options.form == apps::gpu::Form::stream) {
      enqueue(options, block, comm);
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
    if (messages_) return exchange_on_stream();
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
    if (!measure && messages_) return 0;
    device_.wait();
    if (!measure) return 0;
    if (messages_) communication_->check();
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
  void enqueue(const Options& options, const Block& block, MPI_Comm comm) {
    communication_.emplace(engine_, options.form, options.way, comm);
    std::vector<apps::gpu::Route> routes;
    for (int face = 0; face < face_count; ++face) {
      const int neighbour = block.neighbour(face / 2, face % 2 == 0 ? -1 : 1);
      if (neighbour < 0) continue;
      const std::size_t bytes = static_cast<std::size_t>(length(face)) * sizeof(double);
      routes.push_back({neighbour, face, face ^ 1, bytes, bytes});
      faces_of_routes_.push_back(face);
    }
    messages_ = communication_->exchange(std::move(routes));
  }
  // In the order of the stream.
  void exchange_on_stream() const {
    gpu::FacesWork work{shape_, now_->data(), {}};
    for (std::size_t route = 0; route < faces_of_routes_.size(); ++route)
      work.buffers[faces_of_routes_[route]] = static_cast<double*>(messages_->outgoing(route));
    launch(pack_, work);
    messages_->post();
    messages_->finish();
    for (std::size_t route = 0; route < faces_of_routes_.size(); ++route)
      work.buffers[faces_of_routes_[route]] = static_cast<double*>(messages_->incoming(route));
    launch(unpack_, work);
  }

  void launch(apps::gpu::Kernel kernel, DeviceDoubles FaceBuffers::* side) const {
    gpu::FacesWork work{shape_, now_->data(), {}};
    for (int face = 0; face < face_count; ++face)
      if (faces_[face]) work.buffers[face] = ((*faces_[face]).*side).data();
    launch(kernel, work);
  }
  void launch(apps::gpu::Kernel kernel, const gpu::FacesWork& work) const {
    int longest = 0;
    for (int face = 0; face < face_count; ++face)
      if (work.buffers[face]) longest = std::max(longest, length(face));
    if (longest > 0)
      device_.launch(kernel, {std::min(blocks_for(longest, 256), 256U), face_count, 1}, {256, 1, 1}, work);
  }

  MPI_Comm comm_;
  const bool staged_;
  const apps::gpu::Engine engine_;
  const Device& device_;
  const gpu::Shape shape_;
  const std::size_t points_;  // of a field, with the layer around it
  Field on_host_;
  std::unique_ptr<DeviceDoubles> now_, older_;
  const DeviceDoubles source_, largest_;
  const PinnedDoubles largest_on_host_;
  apps::gpu::Kernel sweep_, pack_, unpack_;
  std::unique_ptr<Halo> in_place_;  // null where a kernel packs the faces
  std::optional<apps::gpu::Communication> communication_;
  std::unique_ptr<apps::gpu::Exchange> messages_;  // null in the synchronous form
  std::vector<int> faces_of_routes_;
  std::array<int, face_count> neighbours_{};
  std::array<std::optional<FaceBuffers>, face_count> faces_;
};

}  // namespace

std::unique_ptr<Stepper> make_gpu_stepper(const Options& options, const Block& block, const Field& initial,
                                          const Field& source, MPI_Comm comm) {
  return std::make_unique<GpuStepper>(options, block, initial, source, comm);
}

}  // namespace jacobi
