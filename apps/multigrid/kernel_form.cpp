#include "kernel_form.hpp"

#include <algorithm>
#include <stdexcept>

#if __has_include(<isthmus/device.hpp>)
#include <isthmus/device.hpp>

#include "fused.hpp"

namespace multigrid {

using apps::gpu::Buffer;
using apps::gpu::Engine;

namespace {

constexpr long points_of_task = 512;
constexpr unsigned most_tasks = 128;
constexpr unsigned threads = 128;
constexpr unsigned most_blocks = 128;  // no more than a GPU of today runs at a time
constexpr long points_of_part = 1024;
constexpr std::uint32_t most_levels = 12;
constexpr std::uint32_t signals_of_level = FusedWork::turn_count * face_count * FusedWork::most_parts;

unsigned tasks_for(long points, long each, unsigned most) {
  return std::clamp(static_cast<unsigned>((points + each - 1) / each), 1U, most);
}

}  // namespace

struct KernelForm::Ways {
  Ways(const Engine& on, MPI_Comm comm, int most_steps)
      : engine(on),
        port(comm, most_levels * signals_of_level),
        state(engine, isthmus::device::fusion_bytes(static_cast<unsigned>(most_steps), role_count)),
        kernel(engine.device().kernel(FusedWork::kernel)) {}

  void launch(std::size_t depth, int steps, Then then, const Level* other) {
    FusedWork work = levels[depth];
    work.port = isthmus::device::DevicePort(port.view());
    work.then = then;
    work.first_turn = turns[depth];
    if (other) work.other = *other;
    turns[depth] = (turns[depth] + static_cast<unsigned>(steps)) % FusedWork::turn_count;
    work.fusion.steps = static_cast<unsigned>(steps);
    const Level& level = work.level;
    const long computed = then == Then::smooth              ? SmoothWork{level, 0}.points()
                          : then == Then::restrict_residual ? RestrictWork{level, work.other}.points()
                                                            : InterpolateWork{work.other, level}.points();
    work.fusion.tasks[computes] = tasks_for(computed, points_of_task, most_tasks);
    const auto most = static_cast<unsigned>(work.fusion.tasks_of_step());
    engine.device().launch(kernel, {std::min(most, most_blocks), 1, 1}, {threads, 1, 1}, work);
  }

  const Engine& engine;
  isthmus::device::Port port;
  Buffer<char> state;
  apps::gpu::Kernel kernel;
  std::vector<FusedWork> levels;
  std::vector<unsigned> turns;
  std::vector<std::unique_ptr<Buffer<char>>> memories;
};

KernelForm::KernelForm(const Engine& engine, MPI_Comm comm, int most_steps)
    : ways_(std::make_unique<Ways>(engine, comm, most_steps)) {}

KernelForm::~KernelForm() {
  ways_->engine.wait();
}

void KernelForm::add(const Level& level, const Division& division) {
  if (ways_->levels.size() == most_levels)
    throw std::runtime_error("the form 'kernel' has at most 12 levels");
  FusedWork work{};
  work.level = level;
  long longest = 0;
  unsigned faces = 0;
  for (int face = 0; face < face_count; ++face) {
    work.neighbours[face] = division.neighbour(face);
    faces += work.neighbours[face] >= 0 ? 1 : 0;
    longest = std::max(longest, points_of_face(level, face));
  }
  constexpr unsigned long long alignment = 256;
  const unsigned long long bytes = static_cast<unsigned long long>(longest) * sizeof(double);
  work.face_bytes = (bytes + alignment - 1) / alignment * alignment;
  work.parts = tasks_for(longest, points_of_part, FusedWork::most_parts);
  work.first_signal = static_cast<unsigned>(ways_->levels.size()) * signals_of_level;
  ways_->memories.push_back(std::make_unique<Buffer<char>>(
      ways_->engine, (1 + FusedWork::turn_count) * face_count * work.face_bytes));
  work.memory = ways_->memories.back()->data();
  work.share = ways_->port.share(work.memory, ways_->memories.back()->bytes());
  work.fusion.state = reinterpret_cast<isthmus::device::FusionState*>(ways_->state.data());
  work.fusion.roles = role_count;
  work.fusion.tasks[sends] = work.fusion.tasks[arrivals] = faces * work.parts;
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
  ways_->port.check();
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
