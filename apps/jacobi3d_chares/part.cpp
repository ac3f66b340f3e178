#include "part.hpp"

#include <mpi.h>

#include <array>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "field.hpp"
#include "gpu/gpu_block.hpp"
#include "gpu/work.hpp"
#include "method.hpp"
#include "stepper.hpp"

namespace jacobi {
namespace {

namespace chare = isthmus::chare;

// By the processor. Faces are packed as the GPU's threads do it.
class HostCells final : public Cells {
 public:
  HostCells(const Block& block, const Field& initial, Field source)
      : shape_{block.size[0], block.size[1], block.size[2]},
        now_(initial),
        older_(initial),
        source_(std::move(source)) {
    for (int face = 0; face < gpu::face_count; ++face)
      if (block.neighbour(face / 2, face % 2 == 0 ? -1 : 1) >= 0)
        for (auto* sets : {&outgoing_, &incoming_})
          for (auto& set : *sets)
            set[static_cast<std::size_t>(face)].resize(
                static_cast<std::size_t>(gpu::points_of_face(shape_, face)));
  }

  void pack(int set) override { for_each_point(outgoing_[static_cast<std::size_t>(set)], gpu::pack_point); }
  void unpack(int set) override {
    for_each_point(incoming_[static_cast<std::size_t>(set)], gpu::unpack_point);
  }
  double* outgoing(int face, int set) override {
    return outgoing_[static_cast<std::size_t>(set)][static_cast<std::size_t>(face)].data();
  }
  double* incoming(int face, int set) override {
    return incoming_[static_cast<std::size_t>(set)][static_cast<std::size_t>(face)].data();
  }
  double sweep(double weight, bool measure) override {
    return jacobi::sweep(now_, older_, source_, weight, measure);
  }
  void swap() override { std::swap(now_, older_); }
  const Field& values() override { return now_; }

 private:
  using Set = std::array<std::vector<double>, gpu::face_count>;

  template <class Do>
  void for_each_point(Set& set, Do act) {
    gpu::FacesWork work{shape_, now_.data(), {}};
    for (std::size_t face = 0; face < set.size(); ++face) {
      work.buffers[face] = set[face].data();
      for (std::size_t i = 0; i < set[face].size(); ++i)
        act(work, static_cast<int>(face), static_cast<int>(i));
    }
  }

  gpu::Shape shape_;
  Field now_, older_;
  const Field source_;
  std::array<Set, 2> outgoing_, incoming_;
};

class GpuCells final : public Cells {
 public:
  GpuCells(const apps::gpu::Device& device, const Block& block, const Field& initial, const Field& source,
           bool staged)
      : block_(device, block, initial, source, 2, staged) {}

  void pack(int set) override { block_.pack(set); }
  void unpack(int set) override { block_.unpack(set); }
  double* outgoing(int face, int set) override { return block_.face(face, set).sent(); }
  double* incoming(int face, int set) override { return block_.face(face, set).received(); }
  double sweep(double weight, bool measure) override { return block_.sweep(weight, measure); }
  void swap() override { block_.swap(); }
  const Field& values() override { return block_.values(); }

 private:
  gpu::GpuBlock block_;
};

std::unique_ptr<Cells> make_cells(const Block& block) {
  Field source = scaled_source(setting->problem, block);
  Field initial(block.size);
  set_boundary(initial, setting->problem, block);
  if (!setting->device) return std::make_unique<HostCells>(block, initial, std::move(source));
  return std::make_unique<GpuCells>(*setting->device, block, initial, source,
                                    setting->options.halo == HaloKind::staged);
}

}  // namespace

Setting* setting = nullptr;

Part::Part()
    : block_(block_of(static_cast<int>(index()), setting->grid, setting->options.n)),
      cells_(make_cells(block_)) {
  for (int number = 0; number < faces; ++number)
    neighbours_ += neighbour(number) >= 0 ? 1 : 0;
  unknown_ = 2 * neighbours_;
}

int Part::neighbour(int face) const {
  return block_.neighbour(face / 2, face % 2 == 0 ? -1 : 1);
}
std::size_t Part::length(int face) const {
  return static_cast<std::size_t>(
      gpu::points_of_face({block_.size[0], block_.size[1], block_.size[2]}, face));
}

// --- mailboxes

void Part::open(const chare::Array<Part>& all, const chare::Callback<>& ready) {
  ready_ = ready;
  for (int number = 0; number < faces; ++number)
    for (int set = 0; neighbour(number) >= 0 && set < 2; ++set) {
      auto& box = boxes_[static_cast<std::size_t>(number)][static_cast<std::size_t>(set)];
      box = chare::Mailbox<double>::open();
      post_ahead(number, set);
      // What is our lower face is the neighbour's upper one.
      all[static_cast<std::uint64_t>(neighbour(number))].invoke<&Part::know>(number ^ 1, set, box.address());
    }
  look_at_addresses();
}

void Part::know(int face, int set, chare::MailboxAddress<double> address) {
  addresses_[static_cast<std::size_t>(face)][static_cast<std::size_t>(set)] = address;
  --unknown_;
  look_at_addresses();
}

// A neighbour may open before this part does.
void Part::look_at_addresses() {
  if (unknown_ == 0 && ready_) contribute(*std::exchange(ready_, std::nullopt));
}

void Part::post_ahead(int face, int set) {
  const auto all = [this]<std::size_t... slot>(std::index_sequence<slot...>) {
    return std::array{this_proxy<Part>().callback<&Part::came<slot>>()...};
  }(std::make_index_sequence<2 * faces>());
  boxes_[static_cast<std::size_t>(face)][static_cast<std::size_t>(set)].post(
      cells_->incoming(face, set), length(face),
      all[2 * static_cast<std::size_t>(face) + static_cast<std::size_t>(set)]);
}

template <std::size_t slot>
void Part::came(std::uint64_t) {
  come_.put({2 * taken_[slot]++ + static_cast<int>(slot % 2)});
}

// --- entries

void Part::post(chare::Post<&Part::face>, chare::DeviceBuffer<double>& data, int number, int iteration) {
  data.into(cells_->incoming(number, iteration % 2), length(number));
}

void Part::send(const chare::Array<Part>& all, int iteration) {
  for (int number = 0; number < faces; ++number) {
    if (neighbour(number) < 0) continue;
    const chare::DeviceBuffer<double> data(cells_->outgoing(number, iteration % 2), length(number));
    if (setting->carrier == Carrier::mailbox)
      addresses_[static_cast<std::size_t>(number)][static_cast<std::size_t>(iteration % 2)].send(data);
    else
      all[static_cast<std::uint64_t>(neighbour(number))].invoke<&Part::face>(data, number ^ 1, iteration);
  }
}

// The iteration of solver.cpp. A buffer is packed again two iterations later: when the neighbour's next face
// has come, ours was taken.
chare::Task Part::run(chare::Array<Part> all, chare::Callback<> done) {
  const Options& options = setting->options;
  const Problem& problem = setting->problem;
  Solution solution;
  solution.theoretical_rate = theoretical_rate(options.method, problem.spectral_radius());
  const int limit = options.iterations > 0 ? options.iterations
                                           : default_limit(options, problem, solution.theoretical_rate);
  const double to_residual = 6 / (problem.h() * problem.h() * Problem::largest_source());
  Weights weights(options.method, problem.spectral_radius());
  double last = MPI_Wtime();
  for (int iteration = 0;; ++iteration) {
    const int set = iteration % 2;
    cells_->pack(set);
    send(all, iteration);
    for (int i = 0; i < neighbours_; ++i) {
      if (setting->carrier == Carrier::mailbox)
        co_await come_.next([iteration](int of) { return of == iteration; });
      else
        co_await face.next(
            [iteration](const chare::DeviceBuffer<double>&, int, int of) { return of == iteration; });
    }
    cells_->unpack(set);
    if (setting->carrier == Carrier::mailbox)
      for (int number = 0; number < faces; ++number)
        if (neighbour(number) >= 0) post_ahead(number, set);
    const double exchanged = MPI_Wtime();
    const bool measure = iteration % options.residual_every == 0 || iteration == limit;
    const double change = cells_->sweep(weights.next(), measure);
    const double reducing = MPI_Wtime();
    if (measure) {
      contribute<chare::Max>(change, all.broadcast_callback<&Part::largest>());
      const auto [of_all] = co_await largest.next();
      solution.residual = to_residual * of_all;
    }
    const double end = MPI_Wtime();
    solution.timing.iteration.push_back(end - last);
    solution.timing.halo.push_back(exchanged - last);
    solution.timing.residual.push_back(measure ? end - reducing : 0);
    last = end;
    if (measure) {
      solution.iterations = iteration;
      solution.residuals.emplace_back(iteration, solution.residual);
      solution.converged = solution.residual <= options.tolerance;
      if (solution.converged || iteration == limit || !std::isfinite(solution.residual)) break;
    }
    cells_->swap();
  }
  contribute<chare::Max>(largest_error(cells_->values(), problem, block_),
                         all.broadcast_callback<&Part::largest>());
  const auto [error] = co_await largest.next();
  solution.error = error;
  solution.bound = problem.error_bound(solution.residual * Problem::largest_source());
  boxes_ = {};
  // Each process keeps that of one.
  setting->solution = std::move(solution);
  contribute(done);
}

}  // namespace jacobi
