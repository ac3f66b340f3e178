#include "stepper.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "gpu/gpu_stepper.hpp"
#include "halo.hpp"

namespace jacobi {
namespace {

template <bool measure>
double sweep_block(const Field& now, Field& older, const Field& source, double weight) {
  const auto [sx, sy, sz] = now.size();
  const std::ptrdiff_t dy = now.stride_y();
  const std::ptrdiff_t dz = now.stride_z();
  double largest = 0;
  double sum = 0;  // a NaN is lost by comparisons, never by a sum
  for (int z = 1; z <= sz; ++z) {
    for (int y = 1; y <= sy; ++y) {
      const std::ptrdiff_t row = now.index(0, y, z);
      const double* const in = now.data() + row;
      const double* const f = source.data() + row;
      double* const __restrict out = older.data() + row;
      for (int x = 1; x <= sx; ++x) {
        const double around = in[x - 1] + in[x + 1] + in[x - dy] + in[x + dy] + in[x - dz] + in[x + dz];
        const double step = (around + f[x]) * (1.0 / 6);
        out[x] += weight * (step - out[x]);
        if constexpr (measure) {
          const double change = std::abs(step - in[x]);
          largest = std::max(largest, change);
          sum += change;
        }
      }
    }
  }
  return std::isfinite(sum) ? largest : std::numeric_limits<double>::infinity();
}

class HostStepper final : public Stepper {
 public:
  HostStepper(const Options& options, const Block& block, const Field& initial, const Field& source,
              MPI_Comm comm)
      : halo_(make_halo(options.halo, block, comm)), source_(source), now_(initial), older_(initial) {}

  void exchange() override { halo_->exchange(now_.data()); }
  double sweep(double weight, bool measure) override {
    return jacobi::sweep(now_, older_, source_, weight, measure);
  }
  void swap() override { std::swap(now_, older_); }
  const Field& values() override { return now_; }

 private:
  std::unique_ptr<Halo> halo_;
  const Field& source_;
  Field now_;
  Field older_;
};

}  // namespace

double sweep(const Field& now, Field& older, const Field& source, double weight, bool measure) {
  return measure ? sweep_block<true>(now, older, source, weight)
                 : sweep_block<false>(now, older, source, weight);
}

std::unique_ptr<Stepper> make_stepper(const Options& options, apps::gpu::Form form, const Block& block,
                                      const Field& initial, const Field& source, MPI_Comm comm) {
  if (options.how.on_gpu()) return make_gpu_stepper(options, form, block, initial, source, comm);
  return std::make_unique<HostStepper>(options, block, initial, source, comm);
}

}  // namespace jacobi
