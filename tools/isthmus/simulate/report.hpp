#pragma once

#include <string>
#include <vector>

#include "base/error.hpp"
#include "simulate/costs.hpp"
#include "simulate/jacobi.hpp"

namespace isthmus::simulate {

/// A measured iteration beside what the simulator says of it.
struct Checked {
  Measured measured;
  double predicted = 0;
  [[nodiscard]] double ratio() const noexcept { return predicted / measured.iteration; }
};

struct CurvePoint {
  int gpus;
  Iteration iteration;
};
/// Of one way.
struct Scaling {
  std::string way;
  std::vector<CurvePoint> points;
};

struct Report {
  std::vector<Checked> checked;
  std::vector<Scaling> weak;    ///< a block of the same size for each GPU
  std::vector<Scaling> strong;  ///< one cube for all
  std::string cut_off;          ///< why the curves end where they end; empty: at the GPUs that were asked for
};

/// All of it, for 1, 2, 4, ... and `gpus` GPUs. Fails where a measured point cannot be computed.
Result<Report> simulate(const Costs& costs, int gpus);
/// For people.
[[nodiscard]] std::string text_of(const Costs& costs, const Report& report);
/// For programs, and for drawing.
[[nodiscard]] std::string json_of(const Costs& costs, const Report& report);
/// The largest distance of a ratio from 1; 0 where nothing was measured.
[[nodiscard]] double worst(const Report& report);

}  // namespace isthmus::simulate
