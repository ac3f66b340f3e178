#include "route/plan.hpp"

#include <algorithm>

namespace isthmus {

std::string_view name_of(ChannelId channel) noexcept {
  switch (channel) {
    case ChannelId::self:
      return "self";
    case ChannelId::shm:
      return "shm";
    case ChannelId::cma:
      return "cma";
    case ChannelId::mapping:
      return "mapping";
    case ChannelId::network:
      return "network";
    case ChannelId::process:
      return "process";
    case ChannelId::gpu:
      return "gpu";
  }
  return "unknown";
}

std::string_view name_of(Protocol protocol) noexcept {
  switch (protocol) {
    case Protocol::local:
      return "local copy";
    case Protocol::eager_inline:
      return "eager, in one cache line";
    case Protocol::eager:
      return "eager";
    case Protocol::stream:
      return "rendezvous, pipelined through the ring";
    case Protocol::pull:
      return "rendezvous, receiver reads";
    case Protocol::split:
      return "rendezvous, both sides copy";
    case Protocol::network_eager:
      return "eager";
    case Protocol::network_rendezvous:
      return "rendezvous, receiver fetches";
    case Protocol::network_chunks:
      return "GPU memory to another host, in chunks";
    case Protocol::network_gpu:
      return "GPU memory, taken by the network";
    case Protocol::gpu_push:
      return "GPU memory, copied by the sender's GPU";
    case Protocol::gpu_pull:
      return "GPU memory, copied by the receiver's GPU";
    case Protocol::gpu_courier:
      return "GPU memory, by a courier";
    case Protocol::gpu_staged:
      return "GPU memory, by way of the host's";
    case Protocol::gpu_bounce:
      return "GPU memory, by way of the library's";
    case Protocol::gpu_loopback:
      return "GPU memory, through the adapter";
    case Protocol::mapped:
      return "rendezvous, receiver copies from mapped memory";
    case Protocol::beside:
      return "rendezvous, copied within the process";
  }
  return "unknown";
}

Plan::Plan(std::span<const Way> ways) noexcept {
  way_count_ = std::min(ways.size(), most_ways);
  std::ranges::copy(ways.first(way_count_), ways_.begin());
  std::uint64_t next = 0;
  for (bool is_done = way_count_ == 0; !is_done;) {
    const Serving serving = this->serving(next);
    if (serving.begin() == serving.end()) return;
    const Way& best = *serving.begin();
    // To where it serves, or a better one begins.
    std::uint64_t up_to = best.serves.up_to;
    for (const Way* better = ways_.data(); better != &best; ++better)
      if (better->serves.from > next) up_to = std::min(up_to, better->serves.from - 1);
    Step* const last = step_count_ > 0 ? &steps_[step_count_ - 1] : nullptr;
    if (last && last->protocol == best.protocol)
      last->up_to = up_to;
    else
      steps_[step_count_++] = {up_to, best.protocol, best.channel};
    is_done = up_to == std::numeric_limits<std::uint64_t>::max();
    next = up_to + 1;
  }
}

void Probes::add(const Probe& probe) {
  const auto dearer = std::ranges::find_if(all_, [&](const Probe& each) { return each.cost > probe.cost; });
  all_.insert(dearer, probe);
}

Plan Probes::plan(const PairFacts& facts) const noexcept {
  std::array<Way, Plan::most_ways> ways{};
  std::size_t count = 0;
  for (const Probe& probe : all_)
    if (const Probed probed = probe.ask(facts); probed && count < ways.size())
      ways[count++] = {probe.protocol, probe.channel, *probed};
  return Plan(std::span(ways).first(count));
}

}  // namespace isthmus
