// What reports of an application in several forms have in common. An `Outcome` is one form's result, the same
// on all processes: its `form`, the `step_seconds` by which forms are compared, and `correct()`.
#pragma once

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "common/gpu/form.hpp"

namespace apps::gpu {

// Of the synchronous form's time, in percent; nothing for that form, or where it has not run.
template <class Outcome>
[[nodiscard]] std::optional<double> gain_of(const Outcome& outcome, const std::vector<Outcome>& outcomes) {
  const auto sync = std::ranges::find(outcomes, Form::sync, &Outcome::form);
  if (outcome.form == Form::sync || sync == outcomes.end()) return {};
  return 100 * (1 - outcome.step_seconds / sync->step_seconds);
}

// The end of a line that says what a step takes.
template <class Outcome>
void print_gain(const Outcome& outcome, const std::vector<Outcome>& outcomes) {
  if (const auto gain = gain_of(outcome, outcomes)) std::printf(", %+.1f %% gained on sync", *gain);
  std::printf("\n");
}

// A line, of a form that is held against the synchronous one.
template <class Outcome>
void print_same_bits(const Outcome& outcome) {
  if (outcome.form == Form::sync) return;
  std::printf("  %-12s %s\n", "",
              outcome.same_bits ? "the same bits as sync: correct" : "not the same bits as sync: WRONG");
}

// `head`: program and setting. `details(outcome)`: what one form has beside its time and whether it is right.
template <class Outcome, class Details>
void print_json(nlohmann::ordered_json head, const std::vector<Outcome>& outcomes, Details details) {
  head["correct"] = std::ranges::all_of(outcomes, &Outcome::correct);
  auto& forms = head["forms"] = nlohmann::ordered_json::array();
  for (const Outcome& outcome : outcomes) {
    nlohmann::ordered_json form{{"form", name_of(outcome.form)}, {"step_seconds", outcome.step_seconds}};
    form.update(details(outcome));
    form["correct"] = outcome.correct();
    if (const auto gain = gain_of(outcome, outcomes)) form["gain_percent"] = *gain;
    forms.push_back(form);
  }
  std::printf("%s\n", head.dump(2, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  std::fflush(stdout);
}

}  // namespace apps::gpu
