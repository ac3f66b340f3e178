// Fields whose answers are known.
#pragma once

#include <complex>
#include <cstdint>
#include <vector>

#include "pencils.hpp"

namespace fft {

// A sum of plane waves amplitude cos(2 pi (a x/nx + b y/ny + c z/nz) + phase): the constant, the shortest
// wave that the box holds, and some at random, the same on all processes. Each makes two coefficients of its
// transform, at (a, b, c) and at -(a, b, c), and no other.
class Waves {
 public:
  explicit Waves(const Triple& points);

  // Puts the sum into pencils along x.
  void fill(const Pencils& pencils, double* points) const;
  // The largest distance of coefficients in pencils along z from the exact ones, divided by the number of
  // points and by the waves' amplitudes together. Infinity if any is not finite. The coefficients are
  // changed.
  [[nodiscard]] double error(const Pencils& pencils, std::complex<double>* modes) const;

 private:
  struct Wave {
    Triple mode;
    std::complex<double> amplitude;  // with the phase
  };

  Triple points_;
  std::vector<Wave> waves_;
};

// Numbers from -1 to 1 that look random: of a point of the box, whoever holds it.
[[nodiscard]] double noise(const Triple& points, const Triple& at);

// Puts noise into pencils along x.
void fill_with_noise(const Pencils& pencils, double* points);
// The largest distance from it; infinity if any is not finite.
[[nodiscard]] double distance_from_noise(const Pencils& pencils, const double* points);

}  // namespace fft
