// What is printed before and after the run.
#pragma once

#include "benchmark.hpp"
#include "common/member.hpp"
#include "options.hpp"

namespace fft {

// On the process that speaks; elsewhere nothing.
void print_setting(const Options& options, const apps::Member& member);
void print_outcome(const Options& options, const Outcome& outcome, const apps::Member& member);

}  // namespace fft
