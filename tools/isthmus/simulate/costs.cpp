#include "simulate/costs.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace isthmus::simulate {
namespace {

using Json = nlohmann::json;

/// The file does not say what it must. Caught in `read_costs`.
struct Wrong {
  std::string text;
};

template <class T>
T number(const Json& in, const char* name, T otherwise, double low, double high) {
  const auto found = in.find(name);
  if (found == in.end()) return otherwise;
  if (!found->is_number()) throw Wrong{fmt::format("\"{}\" is no number", name)};
  const double value = found->get<double>();
  const bool fits = value >= low && value <= high;
  if (!fits) throw Wrong{fmt::format("\"{}\" is {}, and not from {} to {}", name, value, low, high)};
  return static_cast<T>(value);
}
std::string text(const Json& in, const char* name) {
  const auto found = in.find(name);
  if (found == in.end() || !found->is_string()) throw Wrong{fmt::format("\"{}\" is no text", name)};
  return found->get<std::string>();
}
Curve curve(const Json& in, const char* name, bool is_needed) {
  const auto found = in.find(name);
  if (found == in.end()) {
    if (is_needed) throw Wrong{fmt::format("\"{}\" is missing", name)};
    return {};
  }
  std::vector<std::pair<double, double>> points;
  if (!found->is_array()) throw Wrong{fmt::format("\"{}\" is no list of points", name)};
  for (const Json& each : *found) {
    if (!each.is_array() || each.size() != 2 || !each[0].is_number() || !each[1].is_number())
      throw Wrong{fmt::format("a point of \"{}\" is not [size, microseconds]", name)};
    points.emplace_back(each[0].get<double>(), each[1].get<double>());
  }
  Result<Curve> made = Curve::make(std::move(points));
  if (!made) throw Wrong{fmt::format("\"{}\": {}", name, made.error().text())};
  return *made;
}
const Json& list(const Json& in, const char* name) {
  static const Json none = Json::array();
  const auto found = in.find(name);
  if (found == in.end()) return none;
  if (!found->is_array()) throw Wrong{fmt::format("\"{}\" is no list", name)};
  for (const Json& each : *found)
    if (!each.is_object()) throw Wrong{fmt::format("something in \"{}\" is no object", name)};
  return *found;
}

constexpr double most_gpus = 1 << 20;
constexpr double most_points = 1 << 20;
constexpr double longest = 1e12;

Costs costs_of(const Json& in) {
  if (!in.is_object()) throw Wrong{"it is no object"};
  Costs costs;
  costs.name = text(in, "name");
  costs.gpus_per_host = number(in, "gpus_per_host", 1, 1, most_gpus);
  costs.adapters_per_host = number(in, "adapters_per_host", costs.gpus_per_host, 1, most_gpus);
  costs.sweep = curve(in, "sweep", true);
  if (in.contains("faces")) throw Wrong{"\"faces\" stands in each of the \"ways\""};
  costs.allreduce = curve(in, "allreduce", false);
  costs.residual_every = number(in, "residual_every", costs.residual_every, 1, longest / 1000);
  costs.post = number(in, "post", 0.0, 0, longest);
  costs.overhead = number(in, "overhead", 0.0, 0, longest);
  costs.weak_edge = number(in, "weak_edge", 0, 1, most_points);
  costs.strong_n = number(in, "strong_n", 0, 1, most_points);
  for (const Json& each : list(in, "ways")) {
    costs.ways.push_back({text(each, "name"), curve(each, "host", true), curve(each, "network", false),
                          curve(each, "faces", false)});
    if (costs.way(costs.ways.back().name) != &costs.ways.back())
      throw Wrong{fmt::format("the way \"{}\" is there twice", costs.ways.back().name)};
  }
  if (costs.ways.empty()) throw Wrong{"there are no \"ways\""};
  for (const Json& each : list(in, "measured")) {
    costs.measured.push_back({text(each, "way"), number(each, "gpus", 0, 1, most_gpus),
                              number(each, "n", 0, 1, most_points),
                              number(each, "iteration", 0.0, 1e-6, longest)});
    const Measured& point = costs.measured.back();
    if (!costs.way(point.way))
      throw Wrong{fmt::format("a point was measured by \"{}\", which is no way", point.way)};
    if (point.gpus == 0 || point.n == 0 || point.iteration == 0)
      throw Wrong{"a point of \"measured\" needs \"gpus\", \"n\" and \"iteration\""};
  }
  return costs;
}

}  // namespace

Result<Curve> Curve::make(std::vector<std::pair<double, double>> points) {
  if (points.empty()) return fail(ErrorClass::arg, "it has no points");
  for (std::size_t i = 0; i < points.size(); ++i) {
    const auto [size, time] = points[i];
    if (!std::isfinite(size) || !std::isfinite(time) || size < 0 || time < 0)
      return fail(ErrorClass::arg, fmt::format("point {} is [{}, {}]", i + 1, size, time));
    if (i > 0 && size <= points[i - 1].first)
      return fail(ErrorClass::arg, fmt::format("its sizes do not grow at point {}", i + 1));
  }
  Curve curve;
  curve.points_ = std::move(points);
  return curve;
}

double Curve::at(double size) const noexcept {
  if (points_.empty()) return 0;
  if (size <= points_.front().first) return points_.front().second;
  const auto above = std::ranges::lower_bound(points_, size, {}, &std::pair<double, double>::first);
  if (above == points_.end()) return points_.back().second + (size - points_.back().first) * slope();
  const auto& [x0, y0] = *(above - 1);
  const auto& [x1, y1] = *above;
  return y0 + (y1 - y0) * (size - x0) / (x1 - x0);
}

double Curve::slope() const noexcept {
  if (points_.size() < 2) return 0;
  const auto& [x0, y0] = points_[points_.size() - 2];
  const auto& [x1, y1] = points_.back();
  return std::max(0.0, (y1 - y0) / (x1 - x0));
}

double Curve::hold(double size) const noexcept {
  return std::min(at(size), size * slope());
}

const Way* Costs::way(std::string_view called) const noexcept {
  const auto found = std::ranges::find(ways, called, &Way::name);
  return found == ways.end() ? nullptr : &*found;
}

Result<Costs> read_costs(std::string_view json) {
  const Json parsed = Json::parse(json, nullptr, false);
  if (parsed.is_discarded()) return fail(ErrorClass::arg, "it is no JSON");
  try {
    return costs_of(parsed);
  } catch (const Wrong& wrong) {
    return fail(ErrorClass::arg, wrong.text);
  }
}

}  // namespace isthmus::simulate
