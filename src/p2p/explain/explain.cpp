// The report behind `isthmus explain`: for every pair of ranks, which way messages take, why other ways were
// refused, and what went which way.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "base/chosen_gpu.hpp"
#include "base/spelling.hpp"
#include "p2p/engine.hpp"

namespace isthmus {
namespace {

/// More than a rank with 16,384 different peers has to say.
constexpr std::uint64_t longest_report = 64 << 20;

std::string size_text(std::uint64_t bytes) {
  if (bytes == UINT64_MAX) return "any size";
  if (bytes >= (1U << 20) && bytes % (1U << 20) == 0) return fmt::format("{} MiB", bytes >> 20);
  if (bytes >= (1U << 10) && bytes % (1U << 10) == 0) return fmt::format("{} KiB", bytes >> 10);
  return fmt::format("{} B", bytes);
}

/// `transport`: of a peer on another host. `device`: the ivshmem device through which the two share memory,
/// empty for none.
std::string plan_text(const Peer& peer, bool self, const std::string& transport, const std::string& device) {
  std::string text;
  for (const Step& step : peer.plan.steps())
    text += fmt::format("      up to {:<9} {:<5} {}\n", size_text(step.up_to), name_of(step.channel),
                        name_of(step.protocol));
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
    if (report && report->plan) {
      const Step& last = report->plan->steps().back();
      text += fmt::format("      memory of MPI_Alloc_mem: {:<9} {}\n", name_of(last.channel),
                          name_of(last.protocol));
    } else if (report) {
      text += fmt::format("      memory of MPI_Alloc_mem is not mapped: {}\n", report->why_not);
    }
  }
  return text;
}

std::string traffic_text(const Peer& peer) {
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
    text += fmt::format("      {:<40} sent {} messages, {} bytes; received {} messages, {} bytes\n",
                        name_of(static_cast<Protocol>(i)), sent.messages, sent.bytes, received.messages,
                        received.bytes);
  }
  return text;
}

std::string kinds_text(const std::vector<MemoryKind>& kinds) {
  std::string text;
  for (const MemoryKind kind : kinds)
    text += fmt::format("{}{}", text.empty() ? "" : ", ", name_of(kind));
  return text;
}

/// A way of GPU memory where that is the subject.
std::string_view short_name_of(Protocol way) {
  constexpr std::string_view subject = "GPU memory, ";
  const std::string_view name = name_of(way);
  return name.starts_with(subject) ? name.substr(subject.size()) : name;
}

/// How messages in GPU memory come from a peer.
std::string gpu_text(GpuMessages& gpu, Peer& peer) {
  std::string text = fmt::format("      GPU memory ({}):\n",
                                 name_of(peer.is_local() ? gpu.locality(peer) : GpuLocality::other_host));
  for (const GpuPairs& pairs : gpu.plans(peer)) {
    text += fmt::format("        {} -> {}\n", kinds_text(pairs.from), kinds_text(pairs.to));
    for (const GpuStep& step : pairs.steps)
      text += fmt::format("          up to {:<9} {}\n", size_text(step.up_to), short_name_of(step.way));
    for (const auto& [way, why] : pairs.refusals)
      text += fmt::format("          not {}: {}\n", short_name_of(way), why);
  }
  return text;
}

std::string_view short_name_of(LongWay way) {
  const std::string_view name = name_of(protocol_of(way));
  return name.substr(name.find(", ") + 2);
}

/// What messages have taught of one size class.
std::string lesson_text(const LivePlans::Report& lesson) {
  const auto& chosen = lesson.times[static_cast<std::size_t>(lesson.way)];
  std::string text = fmt::format("      from {:<9} {}: {:.3g} us", size_text(lesson.from),
                                 short_name_of(lesson.way), chosen.predicted);
  if (chosen.measured > 0) text += fmt::format(" (since then {:.3g})", chosen.measured);
  for (std::size_t i = 0; i < long_way_count; ++i)
    if (const auto way = static_cast<LongWay>(i); way != lesson.way && lesson.times[i].predicted > 0)
      text += fmt::format(", {} {:.3g}", short_name_of(way), lesson.times[i].predicted);
  return text + fmt::format("; {} messages\n", lesson.messages);
}

/// Which ways long messages to this rank take by what earlier ones have taken.
std::string lessons_text(const LivePlans& plans) {
  std::string text;
  const LivePlans::Report* last = nullptr;
  const std::vector<LivePlans::Report> lessons = plans.report();
  for (const LivePlans::Report& lesson : lessons) {
    if (!last || last->nearness != lesson.nearness || last->has_all_ways != lesson.has_all_ways)
      text += fmt::format("    measured{}{}:\n",
                          lesson.has_all_ways ? "" : ", data with gaps or for one side to copy",
                          lesson.nearness == LivePlans::Nearness::far ? ", from ranks of other sockets" : "");
    text += lesson_text(lesson);
    last = &lesson;
  }
  return text;
}

void print(const std::string& text) {
  for (std::size_t written = 0; written < text.size();) {
    const auto n = ::write(STDERR_FILENO, text.data() + written, text.size() - written);
    if (n <= 0) return;
    written += static_cast<std::size_t>(n);
  }
}

}  // namespace

std::string Engine::explain() {
  // Peers with the same plan share a paragraph, or 256 ranks would print 65,536.
  std::map<std::string, std::vector<PeerId>> plans;
  std::string traffic;
  for (PeerId id = 0; id < links_.size(); ++id) {
    Peer& found = links_.peer(id);
    access_.probe(found);
    const bool remote = !found.is_local();
    const bool far = !remote && id != links_.rank() && !links_.same_machine(found.slot);
    std::string plan = plan_text(found, id == links_.rank(), remote ? network_->describe(id) : "",
                                 far ? links_.job().device : "");
    plan += memories_text(memories_, found);
    if (gpu_.made() && id != links_.rank()) plan += gpu_text(*gpu_.made(), found);
    plans[std::move(plan)].push_back(id);
    if (const std::string text = traffic_text(found); !text.empty())
      traffic += fmt::format("    traffic with rank {}\n{}", id, text);
  }
  const wire::PlaceRecord& place = links_.region().block(links_.slot()).place;
  const std::string gpu = links_.job().singleton ? "" : chosen_gpu();
  std::string text = fmt::format("rank {} (pid {}{}{})\n", links_.rank(), place.pid,
                                 place.core >= 0 ? fmt::format(", core {}", place.core) : std::string(),
                                 gpu.empty() ? std::string() : ", GPU " + gpu);
  for (const auto& [plan, ids] : plans)
    text += fmt::format("    from rank {}\n{}", list_of(ids), plan);
  traffic += lessons_text(plans_);
  if (gpu_.made()) {
    const auto& [between_gpus, by_window, across_hosts, by_host] = gpu_.made()->collectives;
    if (between_gpus + across_hosts + by_host > 0)
      traffic += fmt::format(
          "    collectives with data in GPU memory: {} between GPUs, {} by way of the hosts' memory{}{}\n",
          between_gpus, by_host,
          across_hosts == 0 ? ""
                            : fmt::format(", {} across hosts and between the GPUs of each", across_hosts),
          by_window == 0 ? "" : fmt::format(", {} by way of the library's memory on GPUs", by_window));
  }
  if (gpu_.made()) traffic += gpu_.made()->explain_short();
  for (const PeerMemory* way : memories_.ways())
    if (const std::string why_not = way->why_not_allocated(); !why_not.empty())
      traffic += fmt::format("    memory of MPI_Alloc_mem: {}\n", why_not);
  return text + traffic;
}

/// What the plans of all ranks follow from, with the origin of each value.
std::string Engine::report_head() const {
  std::string text = fmt::format("isthmus explain: {} ranks on {} ({} cores), idle policy: {}\n",
                                 links_.size(), links_.job().host, links_.region().header().cores,
                                 links_.peers_nap()     ? "spin, then nap (ranks in several virtual machines)"
                                 : links_.peers_sleep() ? "yield, then sleep (more ranks than cores)"
                                                        : "spin (every rank has a core)");
  for (const SettingDescription& setting : describe(links_.settings()))
    if (setting.origin != Origin::standard)
      text +=
          fmt::format("    setting {} = {} ({})\n", setting.variable, setting.value, name_of(setting.origin));
  return text + "    all other settings: default (isthmus info --settings lists them)\n";
}

/// Every rank tells rank 0, which prints, over messages as any others.
void Engine::report() {
  MatchContext& context = open_context(internal_context, links_.size());
  const bool json = links_.settings().explain == ExplainSetting::json;
  const std::string mine = json ? explain_json() : explain();
  if (links_.rank() != 0) {
    send({.peer = 0, .context = internal_context, .source = static_cast<int>(links_.rank()), .tag = 0},
         Payload::of(mine.data(), mine.size()));
    return;
  }
  std::string whole = json ? report_head_json() : report_head();
  whole += mine;
  for (PeerId id = 1; id < links_.size(); ++id) {
    const UnexpectedMessage* message = nullptr;
    wait_for([&] { return (message = context.find(static_cast<int>(id), 0)) != nullptr; });
    std::string text(std::min(message->bytes, longest_report), '\0');
    receive(context, static_cast<int>(id), 0, Payload::of(text.data(), text.size()));
    if (json) whole += ',';
    whole += text;
  }
  print(json ? whole + "]}\n" : whole);
}

}  // namespace isthmus
