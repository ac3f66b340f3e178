#include "route/plan.hpp"

#include <limits>

namespace isthmus {
namespace {

constexpr std::uint64_t no_limit = std::numeric_limits<std::uint64_t>::max();

}  // namespace

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

Plan::Plan(const PlanInputs& inputs) {
  if (inputs.same_process) {
    add(no_limit, Protocol::local, ChannelId::self);
    return;
  }
  if (inputs.remote) {
    add(inputs.eager_limit, Protocol::network_eager, ChannelId::network);
    add(no_limit, Protocol::network_rendezvous, ChannelId::network);
    return;
  }
  add(wire::inline_capacity, Protocol::eager_inline, ChannelId::shm);
  add(inputs.eager_limit, Protocol::eager, ChannelId::shm);
  if (inputs.beside) {
    add(no_limit, Protocol::beside, ChannelId::process);
  } else if (inputs.mapped) {
    // One processor alone: 1 MiB one way 27 us, by both with process_vm_* 60, through the ring 115; 64
    // KiB 2.3, 6.5 and 8.9 (EPYC of 2 cores, virtual; medians of 57 rounds).
    add(no_limit, Protocol::mapped, ChannelId::mapping);
  } else if (!inputs.pull) {
    add(no_limit, Protocol::stream, ChannelId::shm);
  } else if (!inputs.push) {
    add(no_limit, Protocol::pull, ChannelId::cma);
  } else {
    if (inputs.split_from > 0) add(inputs.split_from - 1, Protocol::pull, ChannelId::cma);
    add(no_limit, Protocol::split, ChannelId::cma);
  }
}

void Plan::add(std::uint64_t up_to, Protocol protocol, ChannelId channel) noexcept {
  if (count_ > 0 && up_to <= steps_[count_ - 1].up_to) return;
  steps_[count_++] = {up_to, protocol, channel};
}

}  // namespace isthmus
