#include "simulate/report.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace isthmus::simulate {
namespace {

/// 1, 2, 4, ... and the last.
std::vector<int> counts(int gpus) {
  std::vector<int> all;
  for (int each = 1; each < gpus; each *= 2)
    all.push_back(each);
  all.push_back(gpus);
  return all;
}

/// A way reaches GPUs of several hosts only where it has a curve for the network.
bool reaches(const Costs& costs, const Way& way, int gpus) {
  return gpus <= costs.gpus_per_host || !way.network.empty();
}

Scaling scale(const Costs& costs, const Way& way, int gpus, bool is_weak) {
  Scaling scaling{.way = way.name, .points = {}};
  for (const int each : counts(gpus)) {
    if (!reaches(costs, way, each)) break;
    auto blocks = is_weak ? equal_blocks(each, costs.weak_edge) : cube(each, costs.strong_n);
    if (blocks.empty()) break;
    scaling.points.push_back({each, Jacobi(costs, way, std::move(blocks)).run()});
  }
  return scaling;
}

std::string table(const char* title, const std::vector<Scaling>& curves, bool is_weak) {
  std::string text = fmt::format("\n{}\n  {:>6}", title, "GPUs");
  for (const Scaling& each : curves)
    text += fmt::format("  {:>12} us  communicating  efficiency", each.way);
  text += '\n';
  std::size_t longest = 0;
  for (const Scaling& each : curves)
    longest = std::max(longest, each.points.size());
  for (std::size_t i = 0; i < longest; ++i) {
    std::string line;
    for (const Scaling& each : curves) {
      if (i >= each.points.size()) {
        line += fmt::format("  {:>15}  {:>13}  {:>10}", "", "", "");
        continue;
      }
      const auto& [gpus, iteration] = each.points[i];
      if (line.empty()) line = fmt::format("  {:>6}", gpus);
      const double ideal = each.points.front().iteration.time / (is_weak ? 1 : gpus);
      line += fmt::format("  {:>15.1f}  {:>11.1f} %  {:>8.1f} %", iteration.time,
                          100 * iteration.communication / iteration.time, 100 * ideal / iteration.time);
    }
    text += line + '\n';
  }
  return text;
}

nlohmann::json json_of(const std::vector<Scaling>& curves) {
  auto all = nlohmann::json::array();
  for (const Scaling& each : curves) {
    auto points = nlohmann::json::array();
    for (const CurvePoint& point : each.points)
      points.push_back({{"gpus", point.gpus},
                        {"iteration", point.iteration.time},
                        {"communication", point.iteration.communication}});
    all.push_back({{"way", each.way}, {"points", std::move(points)}});
  }
  return all;
}

}  // namespace

Result<Report> simulate(const Costs& costs, int gpus) {
  Report report;
  for (const Measured& each : costs.measured) {
    const Way& way = *costs.way(each.way);
    if (!reaches(costs, way, each.gpus))
      return fail(
          ErrorClass::arg,
          fmt::format("{} GPUs were measured by \"{}\", which has no curve for the network, and a host "
                      "has {}",
                      each.gpus, each.way, costs.gpus_per_host));
    auto blocks = cube(each.gpus, each.n);
    if (blocks.empty())
      return fail(ErrorClass::arg,
                  fmt::format("a cube of {}^3 points was measured on {} GPUs, which it cannot be cut for",
                              each.n, each.gpus));
    report.checked.push_back({each, Jacobi(costs, way, std::move(blocks)).run().time});
  }
  for (const Way& way : costs.ways) {
    if (costs.weak_edge > 0) report.weak.push_back(scale(costs, way, gpus, true));
    if (costs.strong_n > 0) report.strong.push_back(scale(costs, way, gpus, false));
    if (!reaches(costs, way, gpus))
      report.cut_off +=
          fmt::format("\"{}\" ends at {} GPUs: it has no curve for the \"network\", and a host has {}\n",
                      way.name, costs.gpus_per_host, costs.gpus_per_host);
  }
  if (costs.strong_n > 0 && cube(gpus, costs.strong_n).empty())
    report.cut_off += fmt::format("a cube of {}^3 points cannot be cut for {} GPUs\n", costs.strong_n, gpus);
  if (costs.weak_edge == 0 && costs.strong_n == 0)
    report.cut_off += "there are no curves: the file says neither \"weak_edge\" nor \"strong_n\"\n";
  return report;
}

double worst(const Report& report) {
  double found = 0;
  for (const Checked& each : report.checked)
    found = std::max(found, std::abs(each.ratio() - 1));
  return found;
}

std::string text_of(const Costs& costs, const Report& report) {
  std::string text = fmt::format("Jacobi3D, simulated from what was measured: {}\n", costs.name);
  if (!report.checked.empty()) {
    text += fmt::format("\n  {:>12}  {:>6}  {:>6}  {:>13}  {:>12}  {:>8}\n", "way", "GPUs", "n",
                        "predicted us", "measured us", "ratio");
    for (const Checked& each : report.checked)
      text += fmt::format("  {:>12}  {:>6}  {:>6}  {:>13.1f}  {:>12.1f}  {:>8.3f}\n", each.measured.way,
                          each.measured.gpus, each.measured.n, each.predicted, each.measured.iteration,
                          each.ratio());
    text += fmt::format("  the worst is {:.1f} % off\n", 100 * worst(report));
  }
  if (!report.weak.empty())
    text += table(fmt::format("weak scaling, {}^3 points a GPU: an iteration", costs.weak_edge).c_str(),
                  report.weak, true);
  if (!report.strong.empty())
    text += table(fmt::format("strong scaling, {}^3 points: an iteration", costs.strong_n).c_str(),
                  report.strong, false);
  return report.cut_off.empty() ? text : text + '\n' + report.cut_off;
}

std::string json_of(const Costs& costs, const Report& report) {
  nlohmann::json checked = nlohmann::json::array();
  for (const Checked& each : report.checked)
    checked.push_back({{"way", each.measured.way},
                       {"gpus", each.measured.gpus},
                       {"n", each.measured.n},
                       {"predicted", each.predicted},
                       {"measured", each.measured.iteration},
                       {"ratio", each.ratio()}});
  return nlohmann::json{{"name", costs.name},           {"weak_edge", costs.weak_edge},
                        {"strong_n", costs.strong_n},   {"checked", std::move(checked)},
                        {"weak", json_of(report.weak)}, {"strong", json_of(report.strong)}}
             .dump() +
         '\n';
}

}  // namespace isthmus::simulate
