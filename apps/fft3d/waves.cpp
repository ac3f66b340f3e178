#include "waves.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numbers>
#include <random>

namespace fft {
namespace {

using Complex = std::complex<double>;

constexpr int wave_count = 8;
constexpr double infinity = std::numeric_limits<double>::infinity();

// exp(2 pi i mode x / n) for the x of a share.
std::vector<Complex> factors(int mode, int n, const Share& share) {
  std::vector<Complex> result;
  for (int x = share.begin; x < share.end(); ++x) {
    const auto turned = static_cast<double>(static_cast<std::int64_t>(mode) * x % n);
    result.push_back(std::polar(1.0, 2 * std::numbers::pi * turned / n));
  }
  return result;
}

// Calls visit(x, y, z, index) for all points of the pencils along x.
template <class Visit>
void for_points(const Pencils& pencils, Visit visit) {
  std::size_t index = 0;
  for (int z = pencils.z.begin; z < pencils.z.end(); ++z) {
    for (int y = pencils.y_of_x.begin; y < pencils.y_of_x.end(); ++y) {
      for (int x = 0; x < pencils.points[0]; ++x)
        visit(x, y, z, index++);
    }
  }
}

// Where a mode lies in the pencils along z, if it lies there.
std::optional<std::size_t> index_of(const Pencils& pencils, const Triple& mode) {
  const auto [a, b, c] = mode;
  if (!pencils.x.holds(a) || !pencils.y_of_z.holds(b)) return {};
  const std::ptrdiff_t pencil =
      static_cast<std::ptrdiff_t>(a - pencils.x.begin) * pencils.y_of_z.size + b - pencils.y_of_z.begin;
  return static_cast<std::size_t>(pencil * pencils.points[2] + c);
}

}  // namespace

Waves::Waves(const Triple& points) : points_(points) {
  waves_.push_back({{0, 0, 0}, 1});
  waves_.push_back({{points[0] / 2, points[1] / 2, points[2] / 2}, 1});
  std::mt19937 random(1);  // NOLINT(bugprone-random-generator-seed): all processes need the same waves
  while (waves_.size() < wave_count) {
    Triple mode{};
    for (std::size_t axis = 0; axis < 3; ++axis)
      mode[axis] = static_cast<int>(random() % static_cast<unsigned>(points[axis]));
    const double phase = 2 * std::numbers::pi * static_cast<double>(random()) / 4294967296.0;
    waves_.push_back({mode, std::polar(1.0, phase)});
  }
}

void Waves::fill(const Pencils& pencils, double* points) const {
  const auto [nx, ny, nz] = points_;
  for_points(pencils, [&](int, int, int, std::size_t index) { points[index] = 0; });
  for (const Wave& wave : waves_) {
    const std::vector<Complex> along_x = factors(wave.mode[0], nx, {0, nx});
    const std::vector<Complex> along_y = factors(wave.mode[1], ny, pencils.y_of_x);
    const std::vector<Complex> along_z = factors(wave.mode[2], nz, pencils.z);
    double* row = points;
    for (const Complex& z : along_z) {
      for (const Complex& y : along_y) {
        const Complex here = wave.amplitude * z * y;
        for (std::size_t x = 0; x < along_x.size(); ++x)
          row[x] += here.real() * along_x[x].real() - here.imag() * along_x[x].imag();
        row += along_x.size();
      }
    }
  }
}

double Waves::error(const Pencils& pencils, Complex* modes) const {
  const double half = pencils.points_in_all() / 2;
  double amplitudes = 0;
  for (const Wave& wave : waves_) {
    amplitudes += std::abs(wave.amplitude);
    Triple opposite{};
    for (std::size_t axis = 0; axis < 3; ++axis)
      opposite[axis] = (points_[axis] - wave.mode[axis]) % points_[axis];
    if (const auto index = index_of(pencils, wave.mode)) modes[*index] -= half * wave.amplitude;
    if (const auto index = index_of(pencils, opposite)) modes[*index] -= half * std::conj(wave.amplitude);
  }
  double largest = 0;
  double sum = 0;  // a NaN is lost by comparisons, never by a sum
  const auto count = static_cast<std::size_t>(pencils.sizes()[3]);
  for (std::size_t i = 0; i < count; ++i) {
    const double size = std::norm(modes[i]);
    largest = std::max(largest, size);
    sum += size;
  }
  return std::isfinite(sum) ? std::sqrt(largest) / (2 * half * amplitudes) : infinity;
}

double noise(const Triple& points, const Triple& at) {
  // SplitMix64's finalizer (Steele, Lea, Flood 2014) of the point's number.
  std::uint64_t bits = (static_cast<std::uint64_t>(at[2]) * static_cast<std::uint64_t>(points[1]) +
                        static_cast<std::uint64_t>(at[1])) *
                           static_cast<std::uint64_t>(points[0]) +
                       static_cast<std::uint64_t>(at[0]) + 0x9e3779b97f4a7c15;
  bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9;
  bits = (bits ^ bits >> 27) * 0x94d049bb133111eb;
  bits ^= bits >> 31;
  return static_cast<double>(static_cast<std::int64_t>(bits)) * 0x1p-63;
}

void fill_with_noise(const Pencils& pencils, double* points) {
  for_points(pencils, [&](int x, int y, int z, std::size_t index) {
    points[index] = noise(pencils.points, {x, y, z});
  });
}

double distance_from_noise(const Pencils& pencils, const double* points) {
  double largest = 0;
  double sum = 0;
  for_points(pencils, [&](int x, int y, int z, std::size_t index) {
    const double distance = std::abs(points[index] - noise(pencils.points, {x, y, z}));
    largest = std::max(largest, distance);
    sum += distance;
  });
  return std::isfinite(sum) ? largest : infinity;
}

}  // namespace fft
