// What molecular prints.
#pragma once

#include <vector>

#include "common/gpu/form.hpp"
#include "common/member.hpp"
#include "crystal.hpp"
#include "options.hpp"
#include "simulation.hpp"

namespace molecular {

// One form's result, the same on all processes.
struct Outcome {
  apps::gpu::Form form = apps::gpu::Form::sync;
  double step_seconds = 0;  // the slowest process's, median of the repeats
  Totals begin, end;
  double rest_error = 0;  // of the energy of the crystal at rest, relative
  bool same_bits = true;  // all atoms as in the synchronous form

  // Of the energy, of what is kinetic at the beginning.
  [[nodiscard]] double drift() const;
  // Of the sum of momenta, in units of an atom's mean one.
  [[nodiscard]] double push() const;
  [[nodiscard]] bool is_at_rest() const;  // at the beginning: the lattice's energy, and no forces
  [[nodiscard]] bool keeps() const;       // energy, momentum, atoms
  [[nodiscard]] bool correct() const { return is_at_rest() && keeps() && same_bits; }
};

constexpr double allowed_rest_error = 1e-11;
constexpr double allowed_force = 1e-10;  // eV / angstrom
constexpr double allowed_drift = 2e-3;
constexpr double allowed_push = 1e-8;

void print_setting(const Options& options, const Crystal& crystal, const apps::Member& member);
void print_outcomes(const Options& options, const Crystal& crystal, const std::vector<Outcome>& outcomes,
                    const apps::Member& member);

}  // namespace molecular
