#include "model/observed.hpp"

#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

namespace isthmus::tool::model {
namespace {

/// Takes a line off `text`.
std::string take_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  std::string line(text.substr(0, end));
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

bool is_time(double seconds) {
  return std::isfinite(seconds) && seconds >= 0;
}

}  // namespace

std::expected<Observed, std::string> read_observed(std::string_view text) {
  Observed result;
  if (take_line(text) != "isthmus-observed 1")
    return std::unexpected("it is no file of an observed process of this version");
  if (std::sscanf(take_line(text).c_str(), "rank %d %d", &result.rank, &result.size) != 2 ||
      result.rank < 0 || result.rank >= result.size)
    return std::unexpected("it does not say whose it is");
  bool is_whole = std::sscanf(take_line(text).c_str(), "seconds %lf", &result.seconds) == 1;
  const std::array<std::pair<const char*, Observed::Sum*>, 5> sums{
      {{"launch %lf %lf", &result.launch},
       {"gpu_wait %lf %lf", &result.gpu_wait},
       {"send %lf %lf", &result.send},
       {"wait %lf %lf", &result.wait},
       {"collective %lf %lf", &result.collective}}};
  for (const auto& [format, sum] : sums)
    is_whole = std::sscanf(take_line(text).c_str(), format, &sum->count, &sum->seconds) == 2 &&
               is_time(sum->seconds) && is_whole;
  is_whole = std::sscanf(take_line(text).c_str(), "exchanges %lf %lf %lf", &result.exchanges,
                         &result.messages, &result.bytes) == 3 &&
             is_whole;
  is_whole = std::sscanf(take_line(text).c_str(), "gpu %lf %lf %lf %lf", &result.gpu_count, &result.a,
                         &result.b, &result.c) == 4 &&
             is_whole;
  is_whole = std::sscanf(take_line(text).c_str(), "stream %lf %lf %lf", &result.stream_exchanges,
                         &result.stream_seconds, &result.enqueue_seconds) == 3 &&
             is_whole;
  is_whole =
      std::sscanf(take_line(text).c_str(), "graph %lf %lf", &result.graph_seconds, &result.saving) == 2 &&
      is_whole;
  const std::string why = take_line(text);
  if (!is_whole || !why.starts_with("why_not ") || !is_time(result.seconds))
    return std::unexpected("it is not whole: has the process ended without MPI_Finalize?");
  result.why_not = why.substr(sizeof "why_not " - 1);
  return result;
}

Parts parts_of(const Observed& host, const Observed& kernels) {
  Parts parts;
  parts.total = host.seconds;
  parts.launch = host.launch.seconds;
  parts.gpu_wait = host.gpu_wait.seconds;
  parts.send = host.send.seconds;
  parts.wait = host.wait.seconds;
  parts.collective = host.collective.seconds;
  parts.launches = host.launch.count;
  parts.gpu_waits = host.gpu_wait.count;
  parts.exchanges = host.exchanges;
  parts.messages = host.messages;
  parts.graph_saving = host.saving * host.launch.count;
  // The two runs may have done unequally much, as where one stops when the answer is good enough.
  const double same = kernels.gpu_count > 0 ? host.launch.count / kernels.gpu_count : 0;
  parts.a = kernels.a * same;
  parts.b = kernels.b * same;
  parts.c = kernels.c * same;
  if (host.stream_exchanges > 0) {
    parts.stream_exchange = host.stream_seconds / host.stream_exchanges * host.exchanges;
    parts.graph_exchange = host.graph_seconds / host.stream_exchanges * host.exchanges;
    parts.stream_enqueue = host.enqueue_seconds / host.stream_exchanges * host.exchanges;
  }
  return parts;
}

}  // namespace isthmus::tool::model
