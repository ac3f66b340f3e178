// The report behind `isthmus explain --full`: for every pair of ranks, which way messages take, why other
// ways were refused, and what went which way.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "base/chosen_gpu.hpp"
#include "base/spelling.hpp"
#include "p2p/explain/reports.hpp"
#include "p2p/explain/words.hpp"

namespace isthmus {
namespace {

/// `transport`: of a peer on another host. `device`: the ivshmem device through which the two share memory,
/// empty for none.
std::string plan_text(const Peer& peer, bool self, const std::string& transport, const std::string& device) {
  std::string text = steps_text(peer.plan(), 6);
  if (self) return text;
  if (!peer.is_local())
    return text + fmt::format("      transport: {}\n      no shared memory: {}\n", transport,
                              peer.pull.error().text);
  if (!device.empty()) text += fmt::format("      shared memory: ivshmem device {}\n", device);
  if (!peer.pull)
    text += fmt::format("      refused: reading the peer's memory: {}\n", peer.pull.error().text);
  if (!peer.push)
    text += fmt::format("      refused: writing the peer's memory: {}\n", peer.push.error().text);
  return text;
}

std::string memories_text(const PeerMemories& memories, const Peer& peer) {
  std::string text;
  for (const PeerMemory* way : memories.ways()) {
    const auto report = way->report(peer);
    if (report && report->is_in_reach) {
      const Step& last = peer.plan(SendersMemory::allocated).steps().back();
      text += fmt::format("      memory of MPI_Alloc_mem: {:<9} {}\n", name_of(last.channel),
                          name_of(last.protocol));
    } else if (report) {
      text += fmt::format("      memory of MPI_Alloc_mem is not mapped: {}\n", report->why_not);
    }
  }
  return text;
}

/// `nanoseconds`: of a tick.
std::string traffic_text(const Peer& peer, double nanoseconds) {
  std::string text;
  if (!peer.gpu_reason.empty())
    text += fmt::format("      GPU memory goes by way of the host's: {}\n", peer.gpu_reason);
  if (const std::string workload = peer.workload.text(); !workload.empty())
    text += fmt::format("      workload of the sends: {}; so eager to {}\n", workload,
                        size_text(peer.eager_limit));
  for (std::size_t i = 0; i < protocol_count; ++i) {
    const auto& sent = peer.traffic.sent[i];
    const auto& received = peer.traffic.received[i];
    if (sent.messages + received.messages == 0) continue;
    text += fmt::format("      {:<40} sent {} messages, {} bytes; received {} messages, {} bytes{}\n",
                        name_of(static_cast<Protocol>(i)), sent.messages, sent.bytes, received.messages,
                        received.bytes,
                        peer.traffic.ticks[i] == 0
                            ? std::string()
                            : fmt::format(", under way for {:.1f} us",
                                          nanoseconds * static_cast<double>(peer.traffic.ticks[i]) / 1000));
  }
  return text;
}

/// How messages in GPU memory come from a peer.
std::string gpu_text(GpuMessages& gpu, Peer& peer) {
  std::string text;
  if (peer.is_local()) {
    const Step& last = peer.plan(SendersMemory::managed).steps().back();
    text += fmt::format("      managed memory on the host: {:<9} {}\n", name_of(last.channel),
                        name_of(last.protocol));
  }
  text += fmt::format("      GPU memory ({}):\n",
                      name_of(peer.is_local() ? gpu.plans().locality(peer) : GpuLocality::other_host));
  for (const GpuPairs& pairs : gpu.plans().pairs(peer)) {
    text += fmt::format("        {} -> {}\n", kinds_text(pairs.from), kinds_text(pairs.to));
    for (const Step& step : pairs.steps)
      text += fmt::format("          up to {:<9} {}\n", size_text(step.up_to), short_name_of(step.protocol));
    for (const auto& [way, why] : pairs.refusals)
      text += fmt::format("          not {}: {}\n", short_name_of(way), why);
  }
  return text;
}

std::string_view short_name_of(LongWay way) {
  const std::string_view name = name_of(protocol_of(way));
  return name.substr(name.find(", ") + 2);
}

/// Who has found the way that a lesson is of, where it was not found here.
std::string told_text(bool told, bool tuned, std::string_view who) {
  if (tuned) return ", as isthmus tune --from has found";
  return told ? fmt::format(", as another {} has told", who) : std::string();
}

/// What the chosen way takes, as "from 64 KiB  push: 11.4 us", and what it has taken since then.
std::string chosen_text(std::string_view size, std::string_view way, double predicted, double measured) {
  std::string text = fmt::format("      {} {}: {:.3g} us", size, way, predicted);
  if (measured > 0 && predicted > 0)
    text += fmt::format(" (since then {:.3g}, {:+.0f} %)", measured, 100 * (measured / predicted - 1));
  return text;
}

/// What messages have taught of one size class. `name`: of a way.
template <class Report, class Name>
std::string lesson_text(const Report& lesson, Name name) {
  const auto& chosen = lesson.times[static_cast<std::size_t>(lesson.way)];
  std::string text = chosen_text(fmt::format("from {:<9}", size_text(lesson.from)), name(lesson.way),
                                 chosen.predicted, chosen.measured);
  for (std::size_t i = 0; i < lesson.times.size(); ++i)
    if (const auto way = static_cast<decltype(lesson.way)>(i);
        way != lesson.way && lesson.times[i].predicted > 0)
      text += fmt::format(", {} {:.3g}", name(way), lesson.times[i].predicted);
  return text +
         fmt::format("; {} messages{}\n", lesson.messages, told_text(lesson.told, lesson.tuned, "rank"));
}

/// Which ways long messages to this rank take by what earlier ones have taken.
std::string lessons_text(const LivePlans& plans) {
  std::string text;
  const LivePlans::Report* last = nullptr;
  const std::vector<LivePlans::Report> lessons = plans.report();
  for (const LivePlans::Report& lesson : lessons) {
    if (!last || last->nearness != lesson.nearness || last->has_all_ways != lesson.has_all_ways ||
        last->many != lesson.many || last->mixed != lesson.mixed)
      text += fmt::format("    measured{}, {}{}{}{}:\n", plans.by_work() ? " as work of both sides" : "",
                          lesson.many ? "several at a time" : "one at a time",
                          lesson.mixed ? ", sizes mixed" : "",
                          lesson.has_all_ways ? "" : ", data with gaps or for one side to copy",
                          lesson.nearness == LivePlans::Nearness::far ? ", from ranks of other sockets" : "");
    text += lesson_text(lesson, [](LongWay way) { return short_name_of(way); });
    last = &lesson;
  }
  return text;
}

/// Which ways messages in GPU memory to this rank take by what earlier ones have taken.
std::string gpu_lessons_text(const LiveGpuPlans& plans) {
  std::string text;
  std::optional<LiveGpuPlans::Report> last;
  for (const LiveGpuPlans::Report& lesson : plans.report()) {
    if (!last || last->kind.route != lesson.kind.route || last->kind.has_gaps != lesson.kind.has_gaps ||
        last->many != lesson.many)
      text += fmt::format("    measured, {}{}, {}:\n", name_of(lesson.kind.route),
                          lesson.kind.has_gaps ? ", with gaps" : "",
                          lesson.many ? "several at a time" : "one at a time");
    text += lesson_text(lesson, [](GpuWay way) { return name_of(way); });
    last = lesson;
  }
  return text;
}

/// What this rank has learned of whether messages go with their envelope.
std::string eager_text(const ExplainParts& parts) {
  std::string text;
  const EagerPlans::Report* last = nullptr;
  const std::vector<EagerPlans::Report> lessons = parts.eager.report(parts.plans.nanoseconds());
  for (const EagerPlans::Report& lesson : lessons) {
    if (!last || last->nearness != lesson.nearness || last->start != lesson.start ||
        last->several != lesson.several)
      text += fmt::format("    measured, {} sends{}{}:\n",
                          lesson.start == Start::blocking ? "blocking" : "nonblocking",
                          lesson.several ? ", several at a time" : "",
                          lesson.nearness == LivePlans::Nearness::far ? " to ranks of other sockets" : "");
    text += lesson_text(lesson, [](EagerWay way) { return name_of(way); });
    last = &lesson;
  }
  return text;
}

/// Which ways the collectives take of the communicators whose rank 0 this rank is.
std::string calls_text(const ExplainParts& parts) {
  std::string text;
  const CallReport* last = nullptr;
  const std::vector<CallReport> reports = parts.calls.all(parts.plans.nanoseconds());
  for (const CallReport& report : reports) {
    const bool blocks = report.form == CallReport::Form::blocking;
    if (!last || last->collective != report.collective || last->members != report.members ||
        last->form != report.form)
      text += fmt::format(
          "    {}, {}{} among {} ranks:\n", blocks ? "measured" : "measured, or as others have shown",
          blocks ? "" : fmt::format("{} ", name_of(report.form)), report.collective, report.members);
    if (!blocks) {
      text += fmt::format("      up to {:<8} {}; {} of {} calls, the table has {}", size_text(report.up_to),
                          report.way, report.calls_so, report.calls, report.assumed);
      std::string_view before = "; in their trial ";
      for (const CallReport::Way& way : report.ways)
        if (way.predicted > 0)
          text += fmt::format("{}{} {:.3g}", std::exchange(before, ", "), way.name, way.predicted);
      text += before == ", " ? " us\n" : "\n";
      last = &report;
      continue;
    }
    const auto chosen = std::ranges::find(report.ways, report.way, &CallReport::Way::name);
    text += chosen_text(fmt::format("up to {:<8}", size_text(report.up_to)), report.way, chosen->predicted,
                        chosen->measured);
    for (const CallReport::Way& way : report.ways)
      if (way.name != report.way && way.predicted > 0)
        text += fmt::format(", {} {:.3g}", way.name, way.predicted);
    text += fmt::format("; {} calls{}\n", report.calls, told_text(report.told, report.tuned, "communicator"));
    last = &report;
  }
  return text;
}

}  // namespace

std::string full_report(const ExplainParts& parts) {
  Links& links = parts.links;
  // Peers with the same plan share a paragraph, or 256 ranks would print 65,536.
  std::map<std::string, std::vector<PeerId>> plans;
  std::string traffic;
  for (PeerId id = 0; id < links.size(); ++id) {
    Peer& found = links.peer(id);
    parts.access.probe(found);
    const bool remote = !found.is_local();
    const bool far = !remote && id != links.rank() && !links.same_machine(found.slot);
    std::string plan = plan_text(found, id == links.rank(), remote ? parts.network->describe(id) : "",
                                 far ? links.job().device : "");
    plan += memories_text(parts.memories, found);
    if (parts.gpu && id != links.rank()) plan += gpu_text(*parts.gpu, found);
    plans[std::move(plan)].push_back(id);
    if (const std::string text = traffic_text(found, parts.plans.nanoseconds()); !text.empty())
      traffic += fmt::format("    traffic with rank {}\n{}", id, text);
  }
  const wire::PlaceRecord& place = links.region().block(links.slot()).place;
  const std::string gpu = links.job().singleton ? "" : chosen_gpu();
  std::string text = fmt::format("rank {} (pid {}{}{})\n", links.rank(), place.pid,
                                 place.core >= 0 ? fmt::format(", core {}", place.core) : std::string(),
                                 gpu.empty() ? std::string() : ", GPU " + gpu);
  for (const auto& [plan, ids] : plans)
    text += fmt::format("    from rank {}\n{}", list_of(ids), plan);
  traffic += lessons_text(parts.plans);
  if (parts.gpu) traffic += gpu_lessons_text(parts.gpu->lives());
  traffic += eager_text(parts);
  traffic += calls_text(parts);
  if (parts.gpu) {
    const auto& [between_gpus, by_window, across_hosts, by_host] = parts.gpu->collectives;
    if (between_gpus + across_hosts + by_host > 0)
      traffic += fmt::format(
          "    collectives with data in GPU memory: {} between GPUs, {} by way of the hosts' memory{}{}\n",
          between_gpus, by_host,
          across_hosts == 0 ? ""
                            : fmt::format(", {} across hosts and between the GPUs of each", across_hosts),
          by_window == 0 ? "" : fmt::format(", {} by way of the library's memory on GPUs", by_window));
  }
  if (parts.gpu) traffic += parts.gpu->explain_short();
  if (parts.gpu && links.job().turns)
    traffic +=
        "    no enqueued operations, no ports: the process has several ranks (mpiexec --ranks-per-process)\n";
  for (const PeerMemory* way : parts.memories.ways())
    if (const std::string why_not = way->why_not_allocated(); !why_not.empty())
      traffic += fmt::format("    memory of MPI_Alloc_mem: {}\n", why_not);
  return text + traffic;
}

}  // namespace isthmus
