#include "tune/tuning_questions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "route/switch_point.hpp"

namespace isthmus::tool {
namespace {

constexpr std::uint64_t kib = 1024;

/// Two ways that cross; `usual` sizes go the first way by default.
Question crossing(const std::string& variable, const std::string& what, bool many,
                  std::vector<std::uint64_t> sizes, std::vector<Way> ways, std::size_t usual) {
  return {.variable = variable,
          .curve = {.name = what, .many = many, .sizes = std::move(sizes), .ways = std::move(ways)},
          .usual = usual};
}

Question candidates(const std::string& variable, const std::string& what, bool many,
                    std::vector<std::uint64_t> sizes, std::vector<std::uint64_t> values, std::size_t usual,
                    const std::vector<std::string>& also = {}) {
  Question question{.variable = variable,
                    .curve = {.name = what, .many = many, .sizes = std::move(sizes)},
                    .candidates = std::move(values),
                    .usual = usual};
  for (const std::uint64_t value : question.candidates) {
    std::vector<std::string> variables = also;
    variables.push_back(fmt::format("{}={}", variable, value));
    question.curve.ways.push_back({size_text(value), std::move(variables)});
  }
  return question;
}

tuning::Value answer_crossing(const Question& question) {
  const Curve& curve = question.curve;
  const std::size_t found = tuning::switch_point(curve.times[0], curve.times[1], question.usual);
  const bool held = found < question.usual && !question.only_up.empty();
  const std::size_t point = held ? question.usual : found;
  tuning::Value value{.variable = question.variable, .tuned = point != question.usual};
  const bool end = point == curve.sizes.size();
  if (question.first_above)
    value.value = end ? curve.sizes.back() * 2 : curve.sizes[point];
  else
    value.value = point == 0 ? question.below : curve.sizes[point - 1];
  const std::size_t at =
      value.tuned && point > question.usual ? point - 1 : std::min(found, curve.sizes.size() - 1);
  const std::string_view left = held          ? question.only_up
                                : value.tuned ? std::string_view()
                                              : "; no size beside the default gains 5 % by a move";
  value.why =
      fmt::format("at {}: {:.2f} us ({}), {:.2f} us ({}){}", size_text(curve.sizes[at]), curve.times[0][at],
                  curve.ways[0].label, curve.times[1][at], curve.ways[1].label, left);
  return value;
}

tuning::Value answer_candidates(const Question& question) {
  const Curve& curve = question.curve;
  const std::vector<std::span<const double>> times(curve.times.begin(), curve.times.end());
  const std::size_t best = tuning::best_of(times, question.usual);
  tuning::Value value{
      .variable = question.variable, .value = question.candidates[best], .tuned = best != question.usual};
  const auto gain = [&](std::size_t at) { return times[question.usual][at] / times[best][at]; };
  std::size_t most = 0;
  for (std::size_t at = 1; at < curve.sizes.size(); ++at)
    if (gain(at) > gain(most)) most = at;
  value.why = value.tuned
                  ? fmt::format("at {}: {:.2f} us, with the default {:.2f} us", size_text(curve.sizes[most]),
                                times[best][most], times[question.usual][most])
                  : "no other candidate gains 5 %";
  return value;
}

}  // namespace

std::string size_text(std::uint64_t bytes) {
  return bytes % (kib * kib) == 0 && bytes > 0 ? fmt::format("{} MiB", bytes / kib / kib)
         : bytes % kib == 0 && bytes > 0       ? fmt::format("{} KiB", bytes / kib)
                                               : fmt::format("{} B", bytes);
}

Question split_question() {
  Question question = crossing("ISTHMUS_SPLIT_FROM", "receiver reads, or both sides copy", false,
                               {8 * kib, 16 * kib, 32 * kib, 64 * kib, 128 * kib, 256 * kib},
                               {{"receiver reads", {"ISTHMUS_EAGER_LIMIT=2K", "ISTHMUS_SPLIT_FROM=1G"}},
                                {"both copy", {"ISTHMUS_EAGER_LIMIT=2K", "ISTHMUS_SPLIT_FROM=1"}}},
                               2);
  question.first_above = true;
  return question;
}

std::vector<Question> further_questions(std::uint64_t split_from) {
  const std::string split = fmt::format("ISTHMUS_SPLIT_FROM={}", split_from);
  const std::vector<Way> eager_or_not{
      {"eager", {"ISTHMUS_EAGER_LIMIT=192K", "ISTHMUS_BANDWIDTH_EAGER_LIMIT=192K", split}},
      {"rendezvous", {"ISTHMUS_EAGER_LIMIT=2K", "ISTHMUS_BANDWIDTH_EAGER_LIMIT=2K", split}}};
  const std::vector<std::uint64_t> around_eager{4 * kib, 8 * kib, 16 * kib, 32 * kib, 64 * kib, 128 * kib};
  const std::string only_rings = "ISTHMUS_CMA=off";
  std::vector<Question> all;
  all.push_back(crossing("ISTHMUS_EAGER_LIMIT", "eager limit, one message at a time", false, around_eager,
                         eager_or_not, 3));
  all.push_back(crossing("ISTHMUS_BANDWIDTH_EAGER_LIMIT", "eager limit, 64 messages under way", true,
                         around_eager, eager_or_not, 3));
  all.push_back(candidates("ISTHMUS_FRAGMENT", "fragment through the ring, without direct copies", false,
                           {128 * kib, 1024 * kib}, {4 * kib, 8 * kib, 16 * kib, 32 * kib, 64 * kib}, 2,
                           {only_rings}));
  all.push_back(candidates("ISTHMUS_RING_CELLS", "cells in a ring, 64 messages under way", true, {8, 1 * kib},
                           {128, 256, 512, 1024, 2048}, 2));
  all.push_back(candidates(
      "ISTHMUS_RING_BYTES", "bytes in a ring, 64 messages under way, without direct copies", true,
      {4 * kib, 16 * kib, 256 * kib}, {256 * kib, 512 * kib, 1024 * kib, 2048 * kib}, 1, {only_rings}));
  for (std::size_t i = 0; i < all[3].candidates.size(); ++i)  // a number, not bytes
    all[3].curve.ways[i].label = std::to_string(all[3].candidates[i]);
  return all;
}

Question network_question(const NetworkPair& pair) {
  const std::vector<std::uint64_t> sizes{8 * kib,   16 * kib,  32 * kib, 64 * kib,
                                         128 * kib, 256 * kib, 512 * kib};
  const auto usual = std::ranges::upper_bound(sizes, pair.eager_limit) - sizes.begin();
  Question question = crossing(
      "ISTHMUS_NETWORK_EAGER_LIMIT", "network's eager limit, " + pair.description, false, sizes,
      {{"eager", {"ISTHMUS_NETWORK_EAGER_LIMIT=16M"}}, {"rendezvous", {"ISTHMUS_NETWORK_EAGER_LIMIT=1K"}}},
      static_cast<std::size_t>(usual));
  question.curve.launch = pair.launch;
  if (pair.within_one_machine)
    question.only_up =
        "; not lowered for that: between hosts the question before a rendezvous takes longer (--hosts "
        "measures it)";
  return question;
}

std::vector<Question> gpu_questions(int gpus) {
  constexpr std::uint64_t mib = 1024 * kib;
  std::vector<Question> all;
  if (gpus > 1) {
    Question push = crossing(
        "ISTHMUS_GPU_PUSH_FROM", "GPU to GPU: receiver's GPU reads, or sender's writes", false,
        {8, 64, 1 * kib, 8 * kib, 64 * kib, 512 * kib, 4 * mib, 32 * mib},
        {{"receiver's reads", {"ISTHMUS_GPU_PATH=pull"}}, {"sender's writes", {"ISTHMUS_GPU_PATH=push"}}}, 0);
    push.first_above = true;
    push.curve.memories = {"device", "device"};
    all.push_back(std::move(push));
  }
  Question eager =
      crossing("ISTHMUS_GPU_EAGER_LIMIT", "GPU to GPU: copied to the host and eager, or straight", false,
               {8, 64, 512, 4 * kib, 16 * kib},
               {{"eager", {"ISTHMUS_GPU_EAGER_LIMIT=64K", "ISTHMUS_EAGER_LIMIT=64K"}}, {"straight", {}}}, 0);
  eager.below = 0;
  eager.curve.memories = {"device", "device"};
  all.push_back(std::move(eager));
  Question direct = crossing(
      "ISTHMUS_GPU_DIRECT_LIMIT", "GPU to pageable memory: straight, or through shared memory", false,
      {1 * kib, 4 * kib, 16 * kib, 64 * kib, 256 * kib, 1 * mib, 8 * mib},
      {{"straight", {"ISTHMUS_GPU_DIRECT_LIMIT=1G"}}, {"shared memory", {"ISTHMUS_GPU_DIRECT_LIMIT=1"}}}, 3);
  direct.below = 1;
  direct.curve.memories = {"device", "host"};
  all.push_back(std::move(direct));
  // Else what is measured is what live plans choose among ways, and not what a setting does.
  for (Question& question : all)
    for (Way& way : question.curve.ways)
      way.variables.emplace_back("ISTHMUS_PLANS=fixed");
  return all;
}

Question gpu_chunk_question(const NetworkPair& pair) {
  constexpr std::uint64_t mib = 1024 * kib;
  Question question =
      candidates("ISTHMUS_GPU_CHUNK", "GPU to GPU in chunks over the network, " + pair.description, false,
                 {4 * mib, 32 * mib}, {256 * kib, 512 * kib, 1 * mib, 2 * mib, 4 * mib}, 2);
  question.curve.memories = {"device", "device"};
  question.curve.launch = pair.launch;
  return question;
}

tuning::Value answer(const Question& question) {
  return question.candidates.empty() ? answer_crossing(question) : answer_candidates(question);
}

}  // namespace isthmus::tool
