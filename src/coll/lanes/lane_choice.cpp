#include "coll/lanes/lane_choice.hpp"

namespace isthmus::coll {
namespace {

std::optional<Algorithm> with_flow(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::counted:  // nobody may wait for the last to come: with so few members all look at all
    case Algorithm::flat:
      return Algorithm::flat;
    case Algorithm::direct:
    case Algorithm::direct_both:
    case Algorithm::direct_all:
      return algorithm;
    default:
      return std::nullopt;
  }
}

}  // namespace

LaneChoice::LaneChoice(const LaneQuestion& asked, int ranks, Lane::Kind kind) {
  Question question = asked.question;
  question.ranks = ranks;
  question.shared = true;
  const auto choose = [&](bool is_direct) {
    question.direct = is_direct;
    std::optional<Algorithm> found = with_flow(select(question));
    if (found == Algorithm::flat && asked.room > most_in_slot(kind)) found.reset();
    return found;
  };
  indirect = choose(false);
  direct = asks_for_direct(question) ? choose(true) : indirect;
}

}  // namespace isthmus::coll
