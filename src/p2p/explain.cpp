// The report behind `isthmus explain`: for every pair of ranks, which way messages take, why other ways were
// refused, and what went which way.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <string_view>

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

/// "1, 3-7" for sorted ids.
std::string ranges(const std::vector<PeerId>& ids) {
  std::string text;
  for (std::size_t i = 0; i < ids.size();) {
    std::size_t last = i;
    while (last + 1 < ids.size() && ids[last + 1] == ids[last] + 1)
      ++last;
    if (!text.empty()) text += ", ";
    text += last > i ? fmt::format("{}-{}", ids[i], ids[last]) : fmt::format("{}", ids[i]);
    i = last + 1;
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
  for (PeerId id = 0; id < size_; ++id) {
    Peer& found = peer(id);
    if (!found.probed) probe_reach(found);
    const bool remote = !found.is_local();
    const bool far = !remote && id != rank_ && !same_machine(found.slot);
    std::string plan =
        plan_text(found, id == rank_, remote ? remote_->describe(id) : "", far ? job_.device : "");
    if (gpu_ && id != rank_) plan += gpu_text(*gpu_, found);
    plans[std::move(plan)].push_back(id);
    if (const std::string text = traffic_text(found); !text.empty())
      traffic += fmt::format("    traffic with rank {}\n{}", id, text);
  }
  const wire::PlaceRecord& place = region_.block(slot_).place;
  std::string text = fmt::format("rank {} (pid {}{})\n", rank_, place.pid,
                                 place.core >= 0 ? fmt::format(", core {}", place.core) : std::string());
  for (const auto& [plan, ids] : plans)
    text += fmt::format("    from rank {}\n{}", ranges(ids), plan);
  if (gpu_) {
    const auto& [between_gpus, across_hosts, by_host] = gpu_->collectives;
    if (between_gpus + across_hosts + by_host > 0)
      traffic += fmt::format(
          "    collectives with data in GPU memory: {} between GPUs, {} by way of the hosts' memory{}\n",
          between_gpus, by_host,
          across_hosts == 0 ? ""
                            : fmt::format(", {} across hosts and between the GPUs of each", across_hosts));
  }
  if (gpu_) traffic += gpu_->explain_short();
  return text + traffic;
}

/// What the plans of all ranks follow from, with the origin of each value.
std::string Engine::report_head() const {
  std::string text = fmt::format("isthmus explain: {} ranks on {} ({} cores), idle policy: {}\n", size_,
                                 job_.host, region_.header().cores,
                                 naps_     ? "spin, then nap (ranks in several virtual machines)"
                                 : sleeps_ ? "yield, then sleep (more ranks than cores)"
                                           : "spin (every rank has a core)");
  for (const SettingDescription& setting : describe(settings_))
    if (setting.origin != Origin::standard)
      text +=
          fmt::format("    setting {} = {} ({})\n", setting.variable, setting.value, name_of(setting.origin));
  return text + "    all other settings: default (isthmus info --settings lists them)\n";
}

/// Every rank tells rank 0, which prints, over messages as any others.
void Engine::report() {
  MatchContext& context = open_context(internal_context, size_);
  const bool json = settings_.explain == ExplainSetting::json;
  const std::string mine = json ? explain_json() : explain();
  if (rank_ != 0) {
    send({.peer = 0, .context = internal_context, .source = static_cast<int>(rank_), .tag = 0},
         Payload::of(mine.data(), mine.size()));
    return;
  }
  std::string whole = json ? report_head_json() : report_head();
  whole += mine;
  for (PeerId id = 1; id < size_; ++id) {
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
