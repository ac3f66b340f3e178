#include "model/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace isthmus::tool::model {
namespace {

const Parts& slowest(const Findings& findings) {
  return *std::ranges::max_element(findings.parts, {}, &Parts::total);
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') result += '\\';
    result += static_cast<unsigned char>(letter) < ' ' ? ' ' : letter;
  }
  return result + "\"";
}

std::string condition(const char* name, const char* left, const char* right, const Condition& condition,
                      const char* holds, const char* fails) {
  return fmt::format("  {}  {} {:.1f} us, {} {:.1f} us: {}\n", name, left, 1e6 * condition.left, right,
                     1e6 * condition.right, condition.holds() ? holds : fails);
}

std::string json_of(const Condition& condition) {
  return fmt::format(R"({{"left":{:.9g},"right":{:.9g},"holds":{}}})", condition.left, condition.right,
                     condition.holds());
}

}  // namespace

std::string to_text(const Findings& findings) {
  const Parts& parts = slowest(findings);
  const Prediction& forms = findings.prediction;
  const double each = parts.exchanges > 0 ? 1 / parts.exchanges : 0;
  std::string text;
  const auto out = std::back_inserter(text);
  fmt::format_to(out,
                 "isthmus model: {} processes, observed for {:.1f} ms: {:.0f} exchanges of {:.1f} messages "
                 "and {:.0f} bytes\n\n",
                 findings.parts.size(), 1e3 * parts.total, parts.exchanges, parts.messages * each,
                 findings.bytes * each);
  fmt::format_to(out, "{:<50}{:>12}{:>12}\n", "The slowest process, synchronous", "us each", "of its time");
  const auto line = [&](const char* name, double seconds) {
    fmt::format_to(out, "  {:<48}{:>12.2f}{:>10.1f} %\n", name, 1e6 * seconds * each,
                   100 * seconds / parts.total);
  };
  line("L   the host launches kernels and copies", parts.launch);
  line("T_H the host waits for the GPU", parts.gpu_wait);
  line("S   the host posts messages", parts.send);
  line("W   the host waits for messages", parts.wait);
  line("    collective calls", parts.collective);
  line("A   the GPU, before messages", parts.a.seconds);
  line("B   the GPU, while they are under way", parts.b.seconds);
  line("C   the GPU, behind them", parts.c.seconds);
  line("    the GPU is idle", forms.idle);
  if (!findings.why_no_stream.empty()) {
    fmt::format_to(out,
                   "\nThe messages were not measured in the order of a stream, so nothing is predicted: {}\n",
                   findings.why_no_stream);
    return text;
  }
  const double pieces = parts.a.pieces + parts.b.pieces + parts.c.pieces;
  line(fmt::format("    of A, B and C: {:.1f} launches of {:.2f} us", pieces * each, 1e6 * parts.piece_alone)
           .c_str(),
       pieces * parts.piece_alone);
  line("S+W in a stream, measured by itself", parts.stream_exchange);
  line("S+W in a graph", parts.graph_exchange);
  line("    the same, with 8 bytes each", parts.bare_exchange);
  line("L_S+L_W to enqueue that", parts.stream_enqueue);
  fmt::format_to(out, "\n{:<50}{:>12}\n", "A piece of work, beside the work itself", "us each");
  const auto piece = [&](const char* name, double seconds) {
    fmt::format_to(out, "  {:<48}{:>12.2f}\n", name, 1e6 * seconds);
  };
  piece("timed by itself, as A, B and C were", parts.piece_alone);
  piece("in a row in a stream", parts.piece_in_stream.in_a_row);
  piece("    right behind a wait", parts.piece_in_stream.behind_wait);
  piece("in a row in a graph", parts.piece_in_graph.in_a_row);
  piece("    right behind a wait", parts.piece_in_graph.behind_wait);
  piece("    the host launches a graph, for each piece", parts.graph_enqueue);
  if (findings.why_no_kernel.empty()) piece("as a phase of a kernel, at most: a meeting", parts.meeting);
  fmt::format_to(out, "\n{:<50}{:>12}{:>12}\n", "Each exchange and what belongs to it, predicted", "us",
                 "gain");
  const auto form = [&](const char* name, double seconds) {
    fmt::format_to(out, "  {:<48}{:>12.2f}{:>+10.1f} %\n", name, 1e6 * seconds * each, forms.gain(seconds));
  };
  form("sync    as measured", forms.sync);
  form("stream  enqueued", forms.stream);
  form("graph   enqueued once, and launched", forms.graph);
  if (findings.why_no_kernel.empty()) {
    form("kernel  by kernels, with nothing at the same time", forms.kernel_worst);
    form("kernel  by kernels, as much as can at the same time", forms.kernel_best);
  } else {
    fmt::format_to(out, "  kernel  by kernels: nothing is predicted: {}\n", findings.why_no_kernel);
  }
  text += '\n';
  text += condition("C1", "enqueueing takes", "the GPU has with it", forms.c1,
                    "the stream form goes at the GPU's pace",
                    "the stream form goes at the host's pace; a graph, or more work for each launch, helps");
  text += condition("C2", "exchanging in a stream takes", "the GPU is idle for", forms.c2,
                    "there is something to gain", "there is nothing to gain");
  fmt::format_to(out, "  C3  {:.1f} launches between two waits: {}\n", forms.fragments,
                 forms.c3() ? "the host can run ahead" : "the host has nothing to run ahead with");
  return text;
}

namespace {

std::string json_of(const Stage& stage) {
  return fmt::format(R"({{"seconds":{:.9g},"pieces":{:.9g}}})", stage.seconds, stage.pieces);
}

std::string json_of(const Piece& piece) {
  return fmt::format(R"({{"in_a_row":{:.9g},"behind_wait":{:.9g}}})", piece.in_a_row, piece.behind_wait);
}

std::string json_of(const Parts& parts) {
  return fmt::format(
      R"({{"total":{:.9g},"launch":{:.9g},"gpu_wait":{:.9g},"send":{:.9g},"wait":{:.9g},"collective":{:.9g},"a":{},"b":{},"c":{},"stream_exchange":{:.9g},"stream_enqueue":{:.9g},"graph_exchange":{:.9g},"bare_exchange":{:.9g},"piece_alone":{:.9g},"piece_in_stream":{},"piece_in_graph":{},"graph_enqueue":{:.9g},"meeting":{:.9g},"launches":{},"gpu_waits":{},"exchanges":{},"messages":{}}})",
      parts.total, parts.launch, parts.gpu_wait, parts.send, parts.wait, parts.collective, json_of(parts.a),
      json_of(parts.b), json_of(parts.c), parts.stream_exchange, parts.stream_enqueue, parts.graph_exchange,
      parts.bare_exchange, parts.piece_alone, json_of(parts.piece_in_stream), json_of(parts.piece_in_graph),
      parts.graph_enqueue, parts.meeting, parts.launches, parts.gpu_waits, parts.exchanges, parts.messages);
}

/// A form's time, null where there is none.
std::string json_of(double seconds, bool is_there) {
  return is_there ? fmt::format("{:.9g}", seconds) : "null";
}

std::string json_of(const Prediction& forms, bool has_kernels) {
  return fmt::format(
      R"({{"sync":{:.9g},"stream":{:.9g},"graph":{:.9g},"kernel_worst":{},"kernel_best":{},"kernel_exchange":{},"idle":{:.9g},"stream_gpu":{:.9g},"stream_cpu":{:.9g},"graph_gpu":{:.9g},"graph_cpu":{:.9g},"c1":{},"c2":{},"c3":{{"fragments":{:.9g},"holds":{}}}}})",
      forms.sync, forms.stream, forms.graph, json_of(forms.kernel_worst, has_kernels),
      json_of(forms.kernel_best, has_kernels), json_of(forms.kernel_exchange, has_kernels), forms.idle,
      forms.stream_gpu, forms.stream_cpu, forms.graph_gpu, forms.graph_cpu, json_of(forms.c1),
      json_of(forms.c2), forms.fragments, forms.c3());
}

}  // namespace

std::string to_json(const Findings& findings) {
  std::string ranks;
  for (const Parts& parts : findings.parts)
    ranks += (ranks.empty() ? "" : ",") + json_of(parts);
  const bool predicts = findings.why_no_stream.empty(), has_kernels = findings.why_no_kernel.empty();
  return fmt::format(
      R"({{"processes":{},"bytes":{},"why_no_prediction":{},"why_no_kernel":{},"seconds":{},"parts":[{}]}})",
      findings.parts.size(), findings.bytes, predicts ? "null" : quoted(findings.why_no_stream),
      has_kernels ? "null" : quoted(findings.why_no_kernel),
      predicts ? json_of(findings.prediction, has_kernels) : "null", ranks);
}

}  // namespace isthmus::tool::model
