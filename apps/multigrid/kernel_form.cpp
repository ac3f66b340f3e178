#include "kernel_form.hpp"

#include <algorithm>
#include <stdexcept>

#if __has_include(<isthmus/device.hpp>)
#include "common/gpu/fused_kernel.hpp"
#include "fused.hpp"

namespace multigrid {

using apps::gpu::Engine;
using apps::gpu::FusedKernel;
using apps::gpu::KernelMail;
using apps::gpu::tasks_for;

namespace {

constexpr long points_of_task = 512;
constexpr unsigned most_tasks = 128;
constexpr unsigned most_blocks = 128;  // no more than a GPU of today runs at a time
constexpr std::size_t part_bytes = 8192;
constexpr std::uint32_t most_levels = 12;

}  // namespace

struct KernelForm::Ways {
  Ways(const Engine& engine, MPI_Comm comm, int most_steps)
      : fused(engine, comm, FusedWork::kernel, role_count, most_steps, most_levels, face_count) {}

  void launch(std::size_t depth, int steps, Then then, const Level* other) {
    FusedWork work = levels[depth];
    work.then = then;
    work.first_turn = turns[depth];
    if (other) work.other = *other;
    turns[depth] = (turns[depth] + static_cast<unsigned>(steps)) % KernelMail::turn_count;
    work.fusion.steps = static_cast<unsigned>(steps);
    const Level& level = work.level;
    const long computed = then == Then::smooth              ? SmoothWork{level, 0}.points()
                          : then == Then::restrict_residual ? RestrictWork{level, work.other}.points()
                                                            : InterpolateWork{work.other, level}.points();
    work.fusion.tasks[computes] = tasks_for(computed, points_of_task, most_tasks);
    fused.launch(work, most_blocks);
  }

  FusedKernel fused;
  std::vector<FusedWork> levels;
  std::vector<unsigned> turns;
};

KernelForm::KernelForm(const Engine& engine, MPI_Comm comm, int most_steps)
    : ways_(std::make_unique<Ways>(engine, comm, most_steps)) {}

KernelForm::~KernelForm() = default;

void KernelForm::add(const Level& level, const Division& division) {
  if (ways_->levels.size() == most_levels)
    throw std::runtime_error("the form 'kernel' has at most 12 levels");
  FusedWork work{};
  work.level = level;
  long longest = 0;
  std::vector<apps::gpu::MailRoute> routes;
  for (int face = 0; face < face_count; ++face) {
    routes.push_back({division.neighbour(face), face ^ 1});
    longest = std::max(longest, points_of_face(level, face));
  }
  work.mail = ways_->fused.mail(routes, static_cast<std::size_t>(longest) * sizeof(double), part_bytes);
  work.fusion.tasks[sends] = work.fusion.tasks[arrivals] = work.mail.tasks();
  work.fusion.tasks[locals] = tasks_for(LocalWork{level, {}}.points(), points_of_task, most_tasks);
  ways_->levels.push_back(work);
  ways_->turns.push_back(0);
}

void KernelForm::smooth(std::size_t depth, int half_sweeps) {
  ways_->launch(depth, half_sweeps, Then::smooth, nullptr);
}
void KernelForm::restrict_from(std::size_t depth) {
  ways_->launch(depth, 1, Then::restrict_residual, &ways_->levels[depth + 1].level);
}
void KernelForm::interpolate_from(std::size_t depth) {
  ways_->launch(depth, 1, Then::interpolate, &ways_->levels[depth - 1].level);
}
void KernelForm::check() const {
  ways_->fused.check();
}

}  // namespace multigrid

#else

namespace multigrid {

struct KernelForm::Ways {};
KernelForm::KernelForm(const apps::gpu::Engine&, MPI_Comm, int) {
  throw std::runtime_error("the form 'kernel' needs an MPI with <isthmus/device.hpp>, as Isthmus has it");
}
KernelForm::~KernelForm() = default;
void KernelForm::add(const Level&, const Division&) {}
void KernelForm::smooth(std::size_t, int) {}
void KernelForm::restrict_from(std::size_t) {}
void KernelForm::interpolate_from(std::size_t) {}
void KernelForm::check() const {}

}  // namespace multigrid

#endif
