#include "gpu/kernel_form.hpp"

#include <algorithm>
#include <stdexcept>
#include <vector>

#if __has_include(<isthmus/device.hpp>)
#include "common/gpu/fused_kernel.hpp"
#include "gpu/fused.hpp"

namespace jacobi::gpu {
namespace {

using apps::gpu::FusedKernel;
using apps::gpu::KernelMail;
using apps::gpu::tasks_for;

constexpr long points_of_task = 512;
constexpr unsigned most_tasks = 1024;
// What all of them together read at a time is what long sweeps want, and what waits for each other in short
// ones: 256^3 points, halved, 118 us with 1056 blocks and 150 with 528; 128^3 points 31 and 23 (H200).
constexpr long long_sweep = 4'000'000;  // points
constexpr unsigned most_blocks = 528, most_blocks_of_long = 1056;
constexpr std::size_t part_bytes = 16384;

class Fused final : public KernelForm {
 public:
  Fused(const apps::gpu::Engine& engine, MPI_Comm comm, const GpuBlock& block)
      : block_(block),
        kernel_(engine, comm, FusedWork::kernel, role_count, FusedWork::most_steps, 1, face_count) {
    work_.shape = block.shape();
    work_.source = block.source();
    std::vector<apps::gpu::MailRoute> routes;
    int longest = 0;
    for (int face = 0; face < face_count; ++face) {
      routes.push_back({block.neighbour(face), face ^ 1});
      longest = std::max(longest, block.length(face));
    }
    work_.mail = kernel_.mail(routes, static_cast<std::size_t>(longest) * sizeof(double), part_bytes);
    share_out();
  }

  void add(double weight) override {
    unsigned& steps = work_.fusion.steps;
    if (steps == FusedWork::most_steps) flush(nullptr);
    if (steps == 0) {
      work_.fields[0] = block_.data();
      work_.fields[1] = block_.older();
    }
    work_.weights[steps++] = weight;
  }
  void flush(unsigned long long* largest) override {
    unsigned& steps = work_.fusion.steps;
    if (steps == 0) return;
    work_.largest = largest;
    kernel_.launch(work_, work_.inner_box().points() < long_sweep ? most_blocks : most_blocks_of_long);
    work_.first_turn = (work_.first_turn + steps) % KernelMail::turn_count;
    steps = 0;
  }
  void leave_exchange_out() override {
    std::ranges::fill(work_.mail.peers, -1);
    share_out();
  }
  void check() const override { kernel_.check(); }

 private:
  void share_out() {
    work_.fusion.tasks[sends] = work_.fusion.tasks[arrivals] = work_.mail.tasks();
    work_.fusion.tasks[inner] = tasks_for(work_.inner_box().points(), points_of_task, most_tasks);
    work_.fusion.tasks[rim] = tasks_for(work_.rim_points(), points_of_task, most_tasks);
  }

  const GpuBlock& block_;
  FusedKernel kernel_;
  FusedWork work_{};
};

}  // namespace

std::unique_ptr<KernelForm> make_kernel_form(const apps::gpu::Engine& engine, MPI_Comm comm,
                                             const GpuBlock& block) {
  return std::make_unique<Fused>(engine, comm, block);
}

}  // namespace jacobi::gpu

#else

namespace jacobi::gpu {

std::unique_ptr<KernelForm> make_kernel_form(const apps::gpu::Engine&, MPI_Comm, const GpuBlock&) {
  throw std::runtime_error("the form 'kernel' needs an MPI with <isthmus/device.hpp>, as Isthmus has it");
}

}  // namespace jacobi::gpu

#endif
