#include "gpu/gpu_stepper.hpp"

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "common/gpu/engine.hpp"
#include "common/gpu/exchange.hpp"
#include "gpu/gpu_block.hpp"
#include "gpu/kernel_form.hpp"

namespace jacobi {
namespace {

using gpu::face_count;

// Faces have buffers of the block's where MPI is called for them one by one.
bool has_buffers(HaloKind halo, apps::gpu::Form form) {
  return halo != HaloKind::datatype && form == apps::gpu::Form::sync;
}

class GpuStepper final : public Stepper {
 public:
  GpuStepper(const Options& options, apps::gpu::Form form, const Block& block, const Field& initial,
             const Field& source, MPI_Comm comm)
      : comm_(comm),
        engine_(apps::gpu::Place::gpu, comm),
        block_(engine_.device(), block, initial, source, has_buffers(options.halo, form) ? 1 : 0,
               options.halo == HaloKind::staged) {
    if (options.halo == HaloKind::datatype)
      in_place_ = make_halo(options.halo, block, comm);
    else if (form == apps::gpu::Form::stream)
      enqueue(options.how.way, comm);
    else if (form == apps::gpu::Form::kernel)
      by_kernels_ = gpu::make_kernel_form(engine_, comm, block_);
  }

  void exchange() override {
    if (in_place_) return in_place_->exchange(block_.data());
    if (by_kernels_) return;  // begins the sweep
    if (messages_) return exchange_on_stream();
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

  double sweep(double weight, bool measure) override {
    if (by_kernels_) return sweep_by_kernels(weight, measure);
    const double largest = block_.sweep(weight, measure, messages_ != nullptr);
    if (measure && messages_) communication_->check();
    return largest;
  }
  void leave_exchange_out() override {
    if (by_kernels_) by_kernels_->leave_exchange_out();
  }
  void swap() override { block_.swap(); }
  const Field& values() override {
    if (by_kernels_) by_kernels_->flush(nullptr);
    return block_.values();
  }

 private:
  void enqueue(apps::gpu::StreamWay way, MPI_Comm comm) {
    communication_.emplace(engine_, apps::gpu::Form::stream, way, comm);
    std::vector<apps::gpu::Route> routes;
    for (int face = 0; face < face_count; ++face) {
      const int neighbour = block_.neighbour(face);
      if (neighbour < 0) continue;
      const std::size_t bytes = static_cast<std::size_t>(block_.length(face)) * sizeof(double);
      routes.push_back({neighbour, face, face ^ 1, bytes, bytes});
      faces_of_routes_.push_back(static_cast<std::size_t>(face));
    }
    messages_ = communication_->exchange(std::move(routes));
  }
  // In the order of the stream.
  void exchange_on_stream() const {
    gpu::GpuBlock::Buffers buffers{};
    for (std::size_t route = 0; route < faces_of_routes_.size(); ++route)
      buffers[faces_of_routes_[route]] = static_cast<double*>(messages_->outgoing(route));
    block_.enqueue_pack(buffers);
    messages_->post();
    messages_->finish();
    for (std::size_t route = 0; route < faces_of_routes_.size(); ++route)
      buffers[faces_of_routes_[route]] = static_cast<double*>(messages_->incoming(route));
    block_.enqueue_unpack(buffers);
  }

  double sweep_by_kernels(double weight, bool measure) const {
    by_kernels_->add(weight);
    if (!measure) return 0;
    const double largest = block_.measured([&](unsigned long long* to) { by_kernels_->flush(to); });
    by_kernels_->check();
    return largest;
  }

  MPI_Comm comm_;
  const apps::gpu::Engine engine_;
  gpu::GpuBlock block_;
  std::unique_ptr<Halo> in_place_;  // null where a kernel packs the faces
  std::optional<apps::gpu::Communication> communication_;
  std::unique_ptr<apps::gpu::Exchange> messages_;  // null in the synchronous form
  std::vector<std::size_t> faces_of_routes_;
  std::unique_ptr<gpu::KernelForm> by_kernels_;  // null in other forms
};

}  // namespace

std::unique_ptr<Stepper> make_gpu_stepper(const Options& options, apps::gpu::Form form, const Block& block,
                                          const Field& initial, const Field& source, MPI_Comm comm) {
  return std::make_unique<GpuStepper>(options, form, block, initial, source, comm);
}

}  // namespace jacobi
