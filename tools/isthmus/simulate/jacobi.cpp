#include "simulate/jacobi.hpp"

#include <array>
#include <deque>
#include <limits>

#include "simulate/events.hpp"

namespace isthmus::simulate {
namespace {

constexpr int faces = 6;
constexpr int bytes_of_a_point = 8;

double points_of(const jacobi::Block& block) {
  return static_cast<double>(block.size[0]) * block.size[1] * block.size[2];
}
double points_of_face(const jacobi::Block& block, int axis) {
  return points_of(block) / block.size[axis];
}

}  // namespace

/// A run of it.
class Jacobi::Job {
 public:
  Job(const Costs& costs, const Way& way, const std::vector<jacobi::Block>& blocks, int iterations)
      : costs_(costs),
        way_(way),
        blocks_(blocks),
        iterations_(iterations),
        gpus_(blocks.size()),
        adapters_((blocks.size() / static_cast<std::size_t>(costs.gpus_per_host) + 1) *
                  static_cast<std::size_t>(costs.adapters_per_host)) {}

  Iteration run() {
    for (int gpu = 0; gpu < count(); ++gpu)
      begin(gpu);
    events_.run();
    Iteration slowest;
    for (int gpu = 0; gpu < count(); ++gpu) {
      const Gpu& each = gpus_[static_cast<std::size_t>(gpu)];
      const double time = (each.ended - each.warm) / iterations_;
      if (time > slowest.time) slowest = {time, time - work(gpu)};
    }
    return slowest;
  }

 private:
  struct Port {
    Link out, in;
  };
  struct Gpu {
    Port port;
    int iteration = 0;
    /// Faces that have come, of this iteration and of the next: no neighbour is further ahead.
    std::array<int, 2> came{};
    int leaving = 0;  ///< messages of this iteration that have not left, and 1 for the start of them
    bool is_sweeping = false;
    double warm = 0;  ///< when the first counted iteration began
    double ended = 0;
  };

  static constexpr int warm_up = 2;

  [[nodiscard]] int count() const { return static_cast<int>(blocks_.size()); }
  Gpu& gpu_of(int number) { return gpus_[static_cast<std::size_t>(number)]; }
  [[nodiscard]] const jacobi::Block& block_of(int number) const {
    return blocks_[static_cast<std::size_t>(number)];
  }
  [[nodiscard]] int neighbours(int gpu) const {
    int found = 0;
    for (int face = 0; face < faces; ++face)
      found += block_of(gpu).neighbour(face / 2, face % 2 == 0 ? -1 : 1) >= 0 ? 1 : 0;
    return found;
  }
  /// Of packing and unpacking together.
  [[nodiscard]] double packing(int gpu) const {
    double points = 0;
    for (int face = 0; face < faces; ++face)
      if (block_of(gpu).neighbour(face / 2, face % 2 == 0 ? -1 : 1) >= 0)
        points += points_of_face(block_of(gpu), face / 2);
    return points > 0 ? way_.faces.at(points) : 0;
  }
  [[nodiscard]] double sweep(int gpu) const { return costs_.sweep.at(points_of(block_of(gpu))); }
  [[nodiscard]] double work(int gpu) const { return sweep(gpu) + packing(gpu) + costs_.overhead; }
  Port& adapter_of(int gpu) {
    const int host = gpu / costs_.gpus_per_host;
    const int place = gpu % costs_.gpus_per_host * costs_.adapters_per_host / costs_.gpus_per_host;
    return adapters_[static_cast<std::size_t>(host) * static_cast<std::size_t>(costs_.adapters_per_host) +
                     static_cast<std::size_t>(place)];
  }

  void begin(int gpu) {
    Gpu& self = gpu_of(gpu);
    if (self.iteration == warm_up) self.warm = events_.now();
    double ready = events_.now() + packing(gpu) / 2;
    self.leaving = 1;
    for (int face = 0; face < faces; ++face) {
      const int to = block_of(gpu).neighbour(face / 2, face % 2 == 0 ? -1 : 1);
      if (to < 0) continue;
      ready += costs_.post;
      ++self.leaving;
      const double bytes = points_of_face(block_of(gpu), face / 2) * bytes_of_a_point;
      events_.at(ready, [this, gpu, to, bytes] { send(gpu, to, bytes); });
    }
    events_.at(ready, [this, gpu] { left(gpu); });
  }

  /// A message of this iteration has left.
  void left(int gpu) {
    if (--gpu_of(gpu).leaving == 0) look(gpu);
  }

  /// A message goes through one link after another, and does not wait for its end at any: all of them are
  /// held for as long as it takes at full speed.
  void send(int from, int to, double bytes) {
    const bool is_near = from / costs_.gpus_per_host == to / costs_.gpus_per_host;
    const Curve& curve = is_near ? way_.host : way_.network;
    const Passage passage{.to = to,
                          .parity = gpu_of(from).iteration % 2,
                          .hold = curve.hold(bytes),
                          .time = curve.at(bytes),
                          .links = {is_near ? nullptr : &adapter_of(from).out,
                                    is_near ? nullptr : &adapter_of(to).in, &gpu_of(to).port.in}};
    const double begin = gpu_of(from).port.out.take(events_.now(), passage.hold);
    events_.at(begin + passage.hold, [this, from] { left(from); });
    events_.at(begin, [this, passage] { pass(passage, 0); });
  }
  struct Passage {
    int to;
    int parity;
    double hold;
    double time;
    std::array<Link*, 3> links;
  };
  void pass(const Passage& passage, std::size_t next) {
    while (next < passage.links.size() && !passage.links[next])
      ++next;
    if (next < passage.links.size()) {
      const double begin = passage.links[next]->take(events_.now(), passage.hold);
      return events_.at(begin, [this, passage, next] { pass(passage, next + 1); });
    }
    events_.at(events_.now() + passage.time, [this, to = passage.to, parity = passage.parity] {
      ++gpu_of(to).came[static_cast<std::size_t>(parity)];
      look(to);
    });
  }

  /// All that an iteration waits for is there: the sweep.
  void look(int gpu) {
    Gpu& self = gpu_of(gpu);
    int& came = self.came[static_cast<std::size_t>(self.iteration % 2)];
    if (self.leaving != 0 || self.is_sweeping || came != neighbours(gpu)) return;
    came = 0;
    self.is_sweeping = true;
    events_.at(events_.now() + packing(gpu) / 2 + sweep(gpu) + costs_.overhead, [this, gpu] { end(gpu); });
  }

  void end(int gpu) {
    Gpu& self = gpu_of(gpu);
    const bool reduces =
        self.iteration % costs_.residual_every == 0 && !costs_.allreduce.empty() && count() > 1;
    ++self.iteration;
    self.is_sweeping = false;
    if (!reduces) return go_on(gpu);
    if (++reduced_ < count()) return;
    reduced_ = 0;
    // Nobody goes on before the last has come.
    events_.at(events_.now() + costs_.allreduce.at(count()), [this] {
      for (int each = 0; each < count(); ++each)
        go_on(each);
    });
  }
  void go_on(int gpu) {
    if (gpu_of(gpu).iteration < iterations_ + warm_up) return begin(gpu);
    gpu_of(gpu).ended = events_.now();
  }

  const Costs& costs_;
  const Way& way_;
  const std::vector<jacobi::Block>& blocks_;
  const int iterations_;
  Events events_;
  std::vector<Gpu> gpus_;
  std::vector<Port> adapters_;
  int reduced_ = 0;
};

Iteration Jacobi::run(int iterations) const {
  return Job(costs_, way_, blocks_, iterations).run();
}

std::vector<jacobi::Block> cube(int gpus, int n) {
  std::vector<jacobi::Block> blocks;
  if (const auto grid = jacobi::choose_grid(gpus, n))
    for (int gpu = 0; gpu < gpus; ++gpu)
      blocks.push_back(jacobi::block_of(gpu, *grid, n));
  return blocks;
}

std::vector<jacobi::Block> equal_blocks(int gpus, int edge) {
  const auto grid = jacobi::choose_grid(gpus, std::numeric_limits<int>::max() / 2);
  std::vector<jacobi::Block> blocks;
  for (int gpu = 0; gpu < gpus; ++gpu) {
    jacobi::Block block = jacobi::block_of(gpu, *grid, 1);
    block.size = {edge, edge, edge};
    for (int axis = 0; axis < 3; ++axis)
      block.offset[axis] = block.coords[axis] * edge;
    blocks.push_back(block);
  }
  return blocks;
}

}  // namespace isthmus::simulate
