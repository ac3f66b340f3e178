// The report behind `isthmus explain --json`: one object for the job, in it one for each rank, in it one for
// each peer that the rank knows.
#include <fmt/format.h>

#include <string>
#include <string_view>

#include "base/chosen_gpu.hpp"
#include "p2p/explain/reports.hpp"

namespace isthmus {
namespace {

/// `text` as a JSON string. What is no UTF-8 has no business in names and reasons: it becomes '?'.
std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      result += fmt::format("\\{}", c);
    else if (byte < 0x20)
      result += fmt::format("\\u{:04x}", byte);
    else
      result += byte < 0x7f ? c : '?';
  }
  return result + "\"";
}

/// The values of `all`, each printed by `print`, as a JSON array.
template <class All, class Print>
std::string array(const All& all, const Print& print) {
  std::string result = "[";
  for (const auto& each : all) {
    const std::string text = print(each);
    if (text.empty()) continue;
    if (result.size() > 1) result += ',';
    result += text;
  }
  return result + "]";
}

std::string refusal(const Reach& reach) {
  return reach ? "null" : quoted(reach.error().text);
}

std::string step_json(const Step& step) {
  const bool ends = step.up_to != UINT64_MAX;
  return fmt::format(R"({{"up_to":{},"channel":{},"protocol":{}}})",
                     ends ? std::to_string(step.up_to) : "null", quoted(name_of(step.channel)),
                     quoted(name_of(step.protocol)));
}

/// `nanoseconds`: of a tick. What was under way for how long is not known of all ways.
std::string traffic_json(const Traffic& traffic, double nanoseconds) {
  std::string result = "[";
  for (std::size_t i = 0; i < protocol_count; ++i) {
    const auto& sent = traffic.sent[i];
    const auto& received = traffic.received[i];
    if (sent.messages + received.messages == 0) continue;
    const double microseconds = nanoseconds * static_cast<double>(traffic.ticks[i]) / 1000;
    result += fmt::format(
        R"({}{{"protocol":{},"sent":{{"messages":{},"bytes":{}}},"received":{{"messages":{},"bytes":{},"under_way_us":{}}}}})",
        result.size() > 1 ? "," : "", quoted(name_of(static_cast<Protocol>(i))), sent.messages, sent.bytes,
        received.messages, received.bytes,
        traffic.ticks[i] > 0 ? fmt::format("{:.4g}", microseconds) : "null");
  }
  return result + "]";
}

std::string workload_json(const Peer& peer) {
  const WorkloadTrace& trace = peer.workload;
  return fmt::format(R"({{"kind":{},"nonblocking_per_cent":{},"since_message":{},"eager_limit":{}}})",
                     quoted(name_of(trace.workload())), trace.nonblocking(), trace.since(), peer.eager_limit);
}

/// How messages come from memory of a peer that goes another way than the rest of it.
std::string memories_json(const PeerMemories& memories, const Peer& peer) {
  for (const PeerMemory* way : memories.ways())
    if (const auto report = way->report(peer))
      return fmt::format(
          R"(,"mapped":{{"steps":{},"refused":{}}})",
          report->is_in_reach ? array(peer.plan(SendersMemory::allocated).steps(), step_json) : "[]",
          report->is_in_reach ? "null" : quoted(report->why_not));
  return {};
}

/// Why other ranks cannot have what MPI_Alloc_mem has given here; null where they can.
std::string not_shared_json(const PeerMemories& memories) {
  for (const PeerMemory* way : memories.ways())
    if (const std::string why_not = way->why_not_allocated(); !why_not.empty()) return quoted(why_not);
  return "null";
}

/// Who has found the way that a lesson is of.
std::string_view origin_of(bool told, bool tuned) {
  return tuned ? "tuned" : told ? "told" : "live";
}

std::string lesson_json(const LivePlans::Report& lesson, bool by_work) {
  std::string ways;
  for (std::size_t i = 0; i < long_way_count; ++i)
    if (const auto [predicted, measured] = lesson.times[i]; predicted > 0)
      ways += fmt::format(R"({}{{"protocol":{},"predicted_us":{:.4g},"measured_us":{}}})",
                          ways.empty() ? "" : ",", quoted(name_of(protocol_of(static_cast<LongWay>(i)))),
                          predicted, measured > 0 ? fmt::format("{:.4g}", measured) : "null");
  return fmt::format(
      R"({{"from":{},"same_socket":{},"any_way":{},"several":{},"mixed":{},"told":{},"origin":{},"by_work":{},"protocol":{},"assumed":{},"messages":{},"ticks_per_byte":{:.6g},"ways":[{}]}})",
      lesson.from, lesson.nearness == LivePlans::Nearness::near, lesson.has_all_ways, lesson.many,
      lesson.mixed, lesson.told, quoted(origin_of(lesson.told, lesson.tuned)), by_work,
      quoted(name_of(protocol_of(lesson.way))), quoted(name_of(protocol_of(lesson.assumed))), lesson.messages,
      lesson.ticks_per_byte, ways);
}

std::string eager_json(const EagerPlans::Report& lesson) {
  const auto known = [](double microseconds) {
    return microseconds > 0 ? fmt::format("{:.4g}", microseconds) : std::string("null");
  };
  std::string ways;
  for (const EagerWay way : {EagerWay::eager, EagerWay::rendezvous}) {
    const auto& times = lesson.times[static_cast<std::size_t>(way)];
    ways += fmt::format(R"({}{{"way":{},"predicted_us":{},"measured_us":{}}})", ways.empty() ? "" : ",",
                        quoted(name_of(way)), known(times.predicted), known(times.measured));
  }
  return fmt::format(
      R"({{"from":{},"same_socket":{},"nonblocking":{},"several":{},"told":{},"origin":{},"way":{},"assumed":{},"messages":{},"ticks_per_byte":{:.6g},"ways":[{}]}})",
      lesson.from, lesson.nearness == LivePlans::Nearness::near, lesson.start == Start::nonblocking,
      lesson.several, lesson.told, quoted(origin_of(lesson.told, lesson.tuned)), quoted(name_of(lesson.way)),
      quoted(name_of(lesson.assumed)), lesson.messages, lesson.ticks_per_byte, ways);
}

std::string gpu_lesson_json(const LiveGpuPlans::Report& lesson) {
  std::string ways;
  for (std::size_t i = 0; i < gpu_way_count; ++i)
    if (const auto [predicted, measured] = lesson.times[i]; predicted > 0)
      ways += fmt::format(R"({}{{"way":{},"predicted_us":{:.4g},"measured_us":{}}})", ways.empty() ? "" : ",",
                          quoted(name_of(static_cast<GpuWay>(i))), predicted,
                          measured > 0 ? fmt::format("{:.4g}", measured) : "null");
  return fmt::format(
      R"({{"route":{},"gaps":{},"from":{},"several":{},"told":{},"origin":{},"way":{},"assumed":{},"messages":{},"ticks_per_byte":{:.6g},"ways":[{}]}})",
      quoted(name_of(lesson.kind.route)), lesson.kind.has_gaps, lesson.from, lesson.many, lesson.told,
      quoted(origin_of(lesson.told, lesson.tuned)), quoted(name_of(lesson.way)),
      quoted(name_of(lesson.assumed)), lesson.messages, lesson.ticks_per_byte, ways);
}

std::string call_json(const CallReport& report) {
  const auto known = [](double microseconds) {
    return microseconds > 0 ? fmt::format("{:.4g}", microseconds) : std::string("null");
  };
  return fmt::format(
      R"({{"collective":{},"form":{},"members":{},"same_socket":{},"up_to":{},"told":{},"origin":{},"way":{},"assumed":{},"nonblocking_way":{},"calls":{},"ticks_per_byte":{:.6g},"ways":{}}})",
      quoted(report.collective), quoted(name_of(report.form)), report.members, !report.spread, report.up_to,
      report.told, quoted(origin_of(report.told, report.tuned)), quoted(report.way), quoted(report.assumed),
      report.in_lanes.empty() ? "null" : quoted(report.in_lanes), report.calls, report.ticks_per_byte,
      array(report.ways, [&](const CallReport::Way& way) {
        return fmt::format(R"({{"way":{},"predicted_us":{},"measured_us":{}}})", quoted(way.name),
                           known(way.predicted), known(way.measured));
      }));
}

/// What has been learned of collectives that block, or that do not.
std::vector<CallReport> calls_of(const ExplainParts& parts, bool blocking) {
  std::vector<CallReport> reports = parts.calls.all(parts.plans.nanoseconds());
  std::erase_if(
      reports, [&](const CallReport& each) { return (each.form == CallReport::Form::blocking) != blocking; });
  return reports;
}

std::string kinds_json(const std::vector<MemoryKind>& kinds) {
  return array(kinds, [](MemoryKind kind) { return quoted(name_of(kind)); });
}

std::string gpu_step_json(const Step& step) {
  return fmt::format(R"({{"up_to":{},"way":{}}})",
                     step.up_to != UINT64_MAX ? std::to_string(step.up_to) : "null",
                     quoted(name_of(step.protocol)));
}

/// How messages in GPU memory come from a peer.
std::string gpu_json(GpuMessages& gpu, Peer& peer) {
  const auto pairs_json = [](const GpuPairs& pairs) {
    return fmt::format(
        R"({{"from":{},"to":{},"steps":{},"refused":{}}})", kinds_json(pairs.from), kinds_json(pairs.to),
        array(pairs.steps, gpu_step_json), array(pairs.refusals, [](const GpuPairs::Refusal& refusal) {
          return fmt::format(R"({{"way":{},"why":{}}})", quoted(name_of(refusal.way)), quoted(refusal.why));
        }));
  };
  const GpuLocality locality = peer.is_local() ? gpu.plans().locality(peer) : GpuLocality::other_host;
  return fmt::format(R"(,"gpu_locality":{},"managed_on_host":{},"gpu_plans":{})", quoted(name_of(locality)),
                     peer.is_local() ? array(peer.plan(SendersMemory::managed).steps(), step_json) : "[]",
                     array(gpu.plans().pairs(peer), pairs_json));
}

/// Where a rank lives: its host, the kernel it runs on, and the namespaces that make its container.
std::string place_json(const std::string& host, const wire::PlaceRecord& place) {
  std::string boot;
  for (const std::uint8_t byte : place.boot)
    boot += fmt::format("{:02x}", byte);
  const auto [ipc, mnt, net, pid, user, uts] = place.namespaces;
  return fmt::format(
      R"({{"host":{},"boot":"{}","socket":{},"numa":{},"namespaces":{{"ipc":{},"mnt":{},"net":{},"pid":{},"user":{},"uts":{}}}}})",
      quoted(host), boot, place.package, place.numa, ipc, mnt, net, pid, user, uts);
}

}  // namespace

std::string json_report(const ExplainParts& parts) {
  Links& links = parts.links;
  std::string peers = "[";
  for (PeerId id = 0; id < links.size(); ++id) {
    Peer& found = links.peer(id);
    parts.access.probe(found);
    peers += fmt::format(R"({}{{"rank":{},"steps":{})", id > 0 ? "," : "", id,
                         array(found.plan().steps(), step_json));
    if (!found.is_local())
      peers += fmt::format(R"(,"transport":{},"no_shared_memory":{})", quoted(parts.network->describe(id)),
                           refusal(found.pull));
    else if (id != links.rank())
      peers += fmt::format(R"(,"pull_refused":{},"push_refused":{},"workload":{})", refusal(found.pull),
                           refusal(found.push), workload_json(found));
    peers += memories_json(parts.memories, found);
    if (parts.gpu && id != links.rank()) peers += gpu_json(*parts.gpu, found);
    peers += fmt::format(R"(,"traffic":{}}})", traffic_json(found.traffic, parts.plans.nanoseconds()));
  }
  const wire::PlaceRecord& place = links.region().block(links.slot()).place;
  const std::string gpu = links.job().singleton ? "" : chosen_gpu();
  const GpuMessages::Collectives counts = parts.gpu ? parts.gpu->collectives : GpuMessages::Collectives();
  return fmt::format(
      R"({{"rank":{},"pid":{},"core":{},"gpu":{},"place":{},"gpu_collectives":{{"between_gpus":{},"by_window":{},"across_hosts":{},"by_host":{}}},"live":{},"live_eager":{},"live_gpu":{},"live_collectives":{},"live_nonblocking":{},"not_shared":{},"peers":{}]}})",
      links.rank(), place.pid, place.core, gpu.empty() ? "null" : quoted(gpu),
      place_json(links.job().host, place), counts.between_gpus, counts.by_window, counts.across_hosts,
      counts.by_host,
      array(parts.plans.report(),
            [&](const auto& lesson) { return lesson_json(lesson, parts.plans.by_work()); }),
      array(parts.eager.report(parts.plans.nanoseconds()), eager_json),
      array(parts.gpu ? parts.gpu->lives().report() : std::vector<LiveGpuPlans::Report>(), gpu_lesson_json),
      array(calls_of(parts, true), call_json), array(calls_of(parts, false), call_json),
      not_shared_json(parts.memories), peers);
}

std::string report_tail_json(const std::vector<WayEstimate>& estimates) {
  return fmt::format(R"(],"estimates":{}}})", array(estimates, [](const WayEstimate& each) {
                       return fmt::format(R"({{"way":{},"us":{:.4g},"us_per_byte":{:.4g}}})",
                                          quoted(each.way), each.microseconds, each.per_byte);
                     }));
}

std::string report_head_json(const Links& links) {
  const auto setting_json = [](const SettingDescription& setting) {
    return fmt::format(R"({{"variable":{},"value":{},"origin":{}}})", quoted(setting.variable),
                       quoted(setting.value), quoted(name_of(setting.origin)));
  };
  return fmt::format(
      R"({{"isthmus_explain":1,"host":{},"size":{},"cores":{},"idle":{},"settings":{},"ranks":[)",
      quoted(links.job().host), links.size(), links.region().header().cores,
      links.peers_nap()     ? R"("nap")"
      : links.peers_sleep() ? R"("sleep")"
                            : R"("spin")",
      array(describe(links.settings()), setting_json));
}

}  // namespace isthmus
