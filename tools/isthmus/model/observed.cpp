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

/// Whether the next line begins so; what stands behind.
bool take_reason(std::string_view& text, std::string_view name, std::string& reason) {
  const std::string line = take_line(text);
  if (!line.starts_with(name)) return false;
  reason = line.substr(name.size());
  return true;
}

bool is_time(double seconds) {
  return std::isfinite(seconds) && seconds >= 0;
}

}  // namespace

std::expected<Observed, std::string> read_observed(std::string_view text) {
  Observed result;
  if (take_line(text) != "isthmus-observed 2")
    return std::unexpected("it is no file of an observed process of this version");
  if (std::sscanf(take_line(text).c_str(), "rank %d %d", &result.rank, &result.size) != 2 ||
      result.rank < 0 || result.rank >= result.size)
    return std::unexpected("it does not say whose it is");
  bool is_whole = std::sscanf(take_line(text).c_str(), "seconds %lf", &result.seconds) == 1;
  const std::array<std::pair<const char*, Observed::Sum*>, 8> sums{
      {{"launch %lf %lf", &result.launch},
       {"gpu_wait %lf %lf", &result.gpu_wait},
       {"send %lf %lf", &result.send},
       {"wait %lf %lf", &result.wait},
       {"collective %lf %lf", &result.collective},
       {"a %lf %lf", &result.a},
       {"b %lf %lf", &result.b},
       {"c %lf %lf", &result.c}}};
  for (const auto& [format, sum] : sums)
    is_whole = std::sscanf(take_line(text).c_str(), format, &sum->count, &sum->seconds) == 2 &&
               is_time(sum->seconds) && is_whole;
  is_whole = std::sscanf(take_line(text).c_str(), "exchanges %lf %lf %lf", &result.exchanges,
                         &result.messages, &result.bytes) == 3 &&
             is_whole;
  is_whole = std::sscanf(take_line(text).c_str(), "gpu %lf", &result.gpu_count) == 1 && is_whole;
  is_whole = std::sscanf(take_line(text).c_str(), "stream %lf %lf %lf", &result.stream_exchanges,
                         &result.stream_seconds, &result.enqueue_seconds) == 3 &&
             is_whole;
  is_whole = std::sscanf(take_line(text).c_str(), "graph %lf %lf", &result.graph_seconds,
                         &result.bare_seconds) == 2 &&
             is_whole;
  is_whole = std::sscanf(take_line(text).c_str(), "pieces %lf %lf %lf %lf %lf %lf", &result.piece_alone,
                         &result.piece_in_stream.in_a_row, &result.piece_in_stream.behind_wait,
                         &result.piece_in_graph.in_a_row, &result.piece_in_graph.behind_wait,
                         &result.graph_enqueue) == 6 &&
             is_whole;
  is_whole = std::sscanf(take_line(text).c_str(), "meeting %lf", &result.meeting) == 1 && is_whole;
  is_whole = take_reason(text, "why_not ", result.why_not) && is_whole;
  is_whole = take_reason(text, "why_no_meeting ", result.why_no_meeting) && is_whole;
  if (!is_whole || !is_time(result.seconds))
    return std::unexpected("it is not whole: has the process ended without MPI_Finalize?");
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
  parts.piece_alone = host.piece_alone;
  parts.piece_in_stream = host.piece_in_stream;
  parts.piece_in_graph = host.piece_in_graph;
  parts.graph_enqueue = host.graph_enqueue;
  parts.meeting = host.meeting;
  // The two runs may have done unequally much, as where one stops when the answer is good enough.
  const double same = kernels.gpu_count > 0 ? host.launch.count / kernels.gpu_count : 0;
  const auto scaled = [same](const Observed::Sum& sum) {
    return Stage{sum.seconds * same, sum.count * same};
  };
  parts.a = scaled(kernels.a);
  parts.b = scaled(kernels.b);
  parts.c = scaled(kernels.c);
  if (host.stream_exchanges > 0) {
    parts.stream_exchange = host.stream_seconds / host.stream_exchanges * host.exchanges;
    parts.graph_exchange = host.graph_seconds / host.stream_exchanges * host.exchanges;
    parts.bare_exchange = host.bare_seconds / host.stream_exchanges * host.exchanges;
    parts.stream_enqueue = host.enqueue_seconds / host.stream_exchanges * host.exchanges;
  }
  return parts;
}

}  // namespace isthmus::tool::model
