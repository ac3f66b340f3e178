// What a rank counts for the summary that `isthmus explain` prints, and what stands above all reports.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "gpu/driver/refusal.hpp"
#include "p2p/explain/reports.hpp"
#include "p2p/explain/words.hpp"

namespace isthmus {
namespace {

std::uint64_t bytes_of(std::span<const Traffic::Count> counts,
                       std::initializer_list<Protocol> ways) noexcept {
  std::uint64_t bytes = 0;
  for (const Protocol way : ways)
    bytes += counts[static_cast<std::size_t>(way)].bytes;
  return bytes;
}

std::uint64_t received(const Peer& peer, std::initializer_list<Protocol> ways) noexcept {
  return bytes_of(peer.traffic.received, ways);
}

/// "device -> device: by a courier to 4 KiB, copied by the receiver's GPU to any size".
std::string gpu_line(const GpuPairs& pairs) {
  std::string text;
  for (const Step& step : pairs.steps)
    text += fmt::format("{}{} to {}", text.empty() ? "" : ", ", short_name_of(step.protocol),
                        size_text(step.up_to));
  return fmt::format("GPU memory, {} -> {}: {}\n", kinds_text(pairs.from), kinds_text(pairs.to), text);
}

/// Which ways messages from a peer take, as far as that is the same for many pairs.
std::string pair_plan(const ExplainParts& parts, Peer& peer) {
  if (!peer.is_local() && !peer.connected) return "no connection was needed";
  std::string text = steps_text(peer.plan(), 0);
  if (!peer.is_local()) text += fmt::format("transport: {}\n", parts.network->describe(peer.id));
  if (peer.is_local() && !parts.links.same_machine(peer.slot) && !parts.links.job().device.empty())
    text += fmt::format("shared memory: ivshmem device {}\n", parts.links.job().device);
  for (const PeerMemory* way : parts.memories.ways())
    if (const auto report = way->report(peer); report && report->is_in_reach)
      text += fmt::format("memory of MPI_Alloc_mem: {}\n",
                          name_of(peer.plan(SendersMemory::allocated).steps().back().protocol));
  if (parts.gpu)
    for (const GpuPairs& pairs : parts.gpu->plans().pairs(peer))
      text += gpu_line(pairs);
  return text;
}

/// What came, since a receiver knows which way it took; but who sends to itself counts only that.
void add_ways(RankTally& tally, const Traffic& traffic, double nanoseconds) {
  for (std::size_t i = 0; i < protocol_count; ++i) {
    const auto way = static_cast<Protocol>(i);
    const Traffic::Count& count = way == Protocol::local ? traffic.sent[i] : traffic.received[i];
    if (count.messages > 0)
      tally.add(
          TallyKind::way, full_name_of(way),
          {.messages = count.messages,
           .bytes = count.bytes,
           .nanoseconds = static_cast<std::uint64_t>(nanoseconds * static_cast<double>(traffic.ticks[i]))});
  }
}

void add_cpu_refusals(RankTally& tally, const ExplainParts& parts, const Peer& peer) {
  if (!peer.is_local()) {
    // That another host has memory of its own goes without saying.
    if (parts.links.job().refused_to_share(peer.id))
      tally.add_refusal("sharing memory: " + peer.pull.error().text, peer.pull.error().remedy, peer.id,
                        received(peer, {Protocol::network_eager, Protocol::network_rendezvous}));
    return;
  }
  if (!peer.probed) return;
  const std::uint64_t slower = received(peer, {Protocol::stream});
  if (!peer.pull)
    tally.add_refusal("reading the peer's memory: " + peer.pull.error().text, peer.pull.error().remedy,
                      peer.id, slower);
  else if (!peer.push)
    tally.add_refusal("writing the peer's memory: " + peer.push.error().text, peer.push.error().remedy,
                      peer.id, received(peer, {Protocol::pull}));
  for (const PeerMemory* way : parts.memories.ways())
    if (const auto report = way->report(peer); report && !report->is_in_reach)
      tally.add_refusal("mapping memory of MPI_Alloc_mem: " + report->why_not, "", peer.id, slower);
}

/// Why messages in GPU memory went by way of other memory: what came, as its receiver knows it, and what was
/// sent, where the sender could not hand it on.
void add_gpu_refusals(RankTally& tally, GpuMessages& gpu, const Peer& peer) {
  const std::initializer_list<Protocol> slower_ways{Protocol::gpu_staged, Protocol::gpu_bounce,
                                                    Protocol::gpu_loopback, Protocol::network_chunks};
  const auto add = [&](const char* what, const std::string& why, std::uint64_t bytes) {
    tally.add_refusal(what + why, gpu_refusal::remedy_of(why), peer.id, bytes);
  };
  const std::uint64_t slower = bytes_of(peer.traffic.received, slower_ways);
  if (!peer.gpu_reason.empty()) add("GPU memory by the copy engines: ", peer.gpu_reason, slower);
  if (!peer.is_local()) return;
  if (slower > 0)
    for (const std::string& why : gpu.plans().refusals(peer))
      if (why != peer.gpu_reason) add("copies by GPUs: ", why, slower);
  if (const std::uint64_t sent = bytes_of(peer.traffic.sent, slower_ways); sent > 0)
    for (const auto& [kind, why] : gpu.exports().exporter().last_refusals())
      if (why != peer.gpu_reason) add("handing on GPU memory: ", why, sent);
}

void add_collectives(RankTally& tally, const GpuMessages::Collectives& counts) {
  const std::array<std::pair<std::uint64_t, const char*>, 4> all{{
      {counts.between_gpus, "between GPUs"},
      {counts.by_window, "by way of the library's memory on GPUs"},
      {counts.across_hosts, "across hosts and between the GPUs of each"},
      {counts.by_host, "by way of the hosts' memory"},
  }};
  for (const auto& [count, how] : all)
    if (count > 0) tally.add(TallyKind::collectives, how, {.messages = count});
}

}  // namespace

RankTally tally(const ExplainParts& parts) {
  RankTally tally;
  const double nanoseconds = parts.plans.nanoseconds();
  for (PeerId id = 0; id < parts.links.size(); ++id) {
    Peer& peer = parts.links.peer(id);
    parts.access.probe(peer);
    add_ways(tally, peer.traffic, nanoseconds);
    if (id == parts.links.rank()) continue;
    tally.add_plan(pair_plan(parts, peer), id);
    add_cpu_refusals(tally, parts, peer);
    if (parts.gpu) add_gpu_refusals(tally, *parts.gpu, peer);
  }
  if (parts.gpu) add_collectives(tally, parts.gpu->collectives);
  for (const PeerMemory* way : parts.memories.ways())
    if (const std::string why_not = way->why_not_allocated(); !why_not.empty())
      tally.add(TallyKind::note, "memory of MPI_Alloc_mem: " + why_not, {});
  if (!parts.plans.report().empty())
    tally.add(TallyKind::note,
              "ways of long messages are measured while the job runs: isthmus explain --full", {});
  if (parts.gpu && !parts.gpu->lives().report().empty())
    tally.add(TallyKind::note,
              "ways of messages in GPU memory are measured while the job runs: isthmus explain --full", {});
  if (!parts.calls.all(nanoseconds).empty())
    tally.add(TallyKind::note, "ways of collectives are measured while the job runs: isthmus explain --full",
              {});
  return tally;
}

std::string report_head(const Links& links) {
  std::string text = fmt::format("isthmus explain: {} ranks on {} ({} cores), idle policy: {}\n",
                                 links.size(), links.job().host, links.region().header().cores,
                                 links.peers_nap()     ? "spin, then nap (ranks in several virtual machines)"
                                 : links.peers_sleep() ? "yield, then sleep (more ranks than cores)"
                                                       : "spin (every rank has a core)");
  for (const SettingDescription& setting : describe(links.settings()))
    if (setting.origin != Origin::standard)
      text +=
          fmt::format("    setting {} = {} ({})\n", setting.variable, setting.value, name_of(setting.origin));
  return text + "    all other settings: default (isthmus info --settings lists them)\n";
}

}  // namespace isthmus
