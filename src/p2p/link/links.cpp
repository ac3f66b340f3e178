#include "p2p/link/links.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/log.hpp"
#include "channel/shm/placement.hpp"
#include "place/cpu_set.hpp"

namespace isthmus {
namespace {

/// Largest eager message. Above it, one copy by the kernel is faster than two through the ring.
constexpr std::uint32_t default_eager_limit = 16 * 1024;

/// `wanted`, 0 for `otherwise`, within what the ring can carry.
std::uint32_t choose_eager_limit(std::uint64_t wanted, std::uint32_t otherwise,
                                 const wire::RingGeometry& geometry) {
  if (wanted == 0) wanted = otherwise;
  // What fits into the cell of its envelope needs no further one.
  return static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(wanted, wire::inline_capacity, wire::maximum_piece(geometry)));
}

}  // namespace

Links::Links(const launch::Job& job, const Settings& settings)
    : job_(job),
      settings_(settings),
      region_(job.region),
      rank_(job.rank),
      slot_(job.slot),
      size_(job.size),
      sleeps_(job.region.header().idle == wire::IdlePolicy::sleep),
      naps_(job.region.header().idle == wire::IdlePolicy::nap),
      eager_limit_(choose_eager_limit(settings.eager_limit, default_eager_limit, job.region.geometry())),
      bandwidth_eager_limit_(
          choose_eager_limit(settings.bandwidth_eager_limit, eager_limit_, job.region.geometry())),
      peers_(job.size) {
  if (!naps_) return;
  std::size_t here = 0;
  for (std::uint32_t slot = 0; slot < job.members.size(); ++slot)
    here += same_machine(slot) ? 1 : 0;
  const auto cpus = CpuSet::affinity();
  shares_cores_ = cpus && cpus->size() < here;
}

Peer& Links::make_peer(PeerId id) {
  peers_[id] = std::make_unique<Peer>(id);
  Peer& peer = *peers_[id];
  const auto slot = job_.slot_of(id);
  if (slot) {
    peer.slot = *slot;
    if (job_.turns && id != rank_ && job_.turns->is_here(id)) {
      peer.beside = peer.probed = true;
      peer.pull = peer.push = Reach{};
    }
  } else {
    peer.pull = peer.push = std::unexpected(Reason{job_.why_apart(id)});
  }
  plan_again(peer);
  return peer;
}

bool Links::renew(Peer& peer) const noexcept {
  if (!peer.is_local() || peer.id == rank_ || !job_.turns || peer.lost) return false;
  const bool was_known = peer.probed;
  peer.beside = peer.probed = job_.turns->is_here(peer.id);
  peer.pid = 0;
  peer.pid_checked = 0;
  if (peer.beside) peer.pull = peer.push = Reach{};
  plan_again(peer);
  return was_known && !peer.beside;
}

bool Links::relate(Peer& peer) const {
  if (peer.id == rank_ || peer.lost) return false;
  const auto slot = job_.slot_of(peer.id);
  if (slot && peer.is_local()) return renew(peer);
  peer.slot = slot.value_or(Peer::no_slot);
  peer.beside = peer.probed = slot && job_.turns->is_here(peer.id);
  peer.pid = 0;
  peer.pid_checked = 0;
  if (peer.beside)
    peer.pull = peer.push = Reach{};
  else
    peer.pull = peer.push = std::unexpected(Reason{slot ? "not tried yet" : job_.why_apart(peer.id)});
  plan_again(peer);
  return slot && !peer.beside;
}

PairFacts Links::facts_of(const Peer& peer, SendersMemory memory) const noexcept {
  const std::uint32_t local_limit =
      peer.workload.workload() == Workload::bandwidth ? bandwidth_eager_limit_ : eager_limit_;
  return {.same_process = peer.id == rank_,
          .beside = peer.beside,
          .remote = !peer.is_local(),
          .memory = memory,
          .pull = peer.pull.has_value(),
          .push = peer.push.has_value(),
          .eager_limit = peer.is_local() ? local_limit : peer.network_limit,
          .split_from = settings_.split_from != 0 ? settings_.split_from : default_split_from};
}

void Links::plan_again(Peer& peer) const noexcept {
  using enum SendersMemory;
  for (const SendersMemory memory : {any, allocated, managed}) {
    const PairFacts facts = facts_of(peer, memory);
    peer.plans[static_cast<std::size_t>(memory)] = probes_.plan(facts);
    peer.eager_limit = static_cast<std::uint32_t>(facts.eager_limit);
  }
}

/// Rings are handed out by number, as they are needed. Where ranks come and go each pair of slots has its
/// own.
std::uint32_t Links::next_ring(const Peer& peer) const noexcept {
  if (!job_.lines()) return region_.header().rings_used.fetch_add(1, std::memory_order_relaxed);
  return slot_ * (region_.slots() - 1) + peer.slot - (peer.slot > slot_ ? 1 : 0);
}

void Links::clear_rings(const Peer& peer) const noexcept {
  const auto clear = [this](std::uint32_t from, std::uint32_t to) {
    const std::uint32_t entry = region_.directory(to)[from].exchange(0, std::memory_order_acq_rel);
    if (entry == 0 || entry > region_.ring_capacity()) return;
    std::memset(region_.ring(entry - 1).data(), 0,
                sizeof(wire::RingHeader) + region_.geometry().cells * sizeof(wire::Cell));
  };
  clear(slot_, peer.slot);
  clear(peer.slot, slot_);
}

bool Links::connect(Peer& peer) {
  if (peer.lost) return false;
  const std::uint32_t number = next_ring(peer);
  if (number >= region_.ring_capacity()) {
    malformed(peer, "ring counter beyond the number of pairs");
    return false;
  }
  // Its reader looks at it more often than its writer.
  const std::int32_t node = region_.block(peer.slot).place.numa;
  if (node != region_.block(slot_).place.numa) prefer_node(region_.ring(number), node);
  peer.out = RingWriter(region_.ring(number), region_.geometry());
  if (slot_ < peer.slot) peer.place = SharedPlace(region_.ring(number), region_.geometry(), true);
  region_.directory(peer.slot)[slot_].store(number + 1, std::memory_order_release);
  region_.block(peer.slot).connections.fetch_add(1, std::memory_order_release);
  return true;
}

void Links::disconnect(Peer& peer) noexcept {
  if (last_out_ == &peer) last_out_ = nullptr;
  peer.in = {};
  // Closed, so that a send looks why before it writes where nobody reads.
  peer.out = {};
  peer.place = {};
  peer.control.clear();
}

void Links::malformed(Peer& peer, const std::string& what) const {
  if (peer.reported || !settings_.warn) return;
  peer.reported = true;
  warn("rank " + std::to_string(rank_) + " ignores what rank " + std::to_string(peer.id) + " wrote: " + what);
}

void Links::note_gpu_reason(Peer& peer, const Error& why, bool is_setback) const noexcept {
  // What the next message comes with is no reason, and want of memory for a sentence neither.
  if (!peer.gpu_reason.empty() || why.error_class() == ErrorClass::pending || why.text().empty()) return;
  try {
    peer.gpu_reason = why.text();
    if (is_setback && settings_.warn)
      warn("rank " + std::to_string(rank_) + ": " +
           // What a collective has to say of this rank's own memory.
           (peer.id == rank_ ? "collectives with data in GPU memory"
                             : "messages in GPU memory from or to rank " + std::to_string(peer.id)) +
           " go by way of the host's memory: " + why.text());
  } catch (const std::bad_alloc&) {
    peer.gpu_reason.clear();  // it is said the next time
  }
}

void Links::send_control(Peer& peer, wire::CellKind kind, const void* payload, std::size_t bytes,
                         std::int32_t tag) {
  if (!peer.out.open() && !connect(peer)) return;
  const wire::CellHeader header{.context = 0,
                                .source = 0,
                                .tag = tag,
                                .size = 0,
                                .kind = kind,
                                .flag = wire::CellFlag::none,
                                .mark = 0};
  if (peer.control.empty() && peer.out.has_cell()) {
    peer.out.publish(header, payload, bytes);
    after_publish(peer);
    return;
  }
  schedule(peer);
  prepare_answer(peer);
  peer.control.splice(peer.control.end(), peer.spare_control, peer.spare_control.begin());
  ControlCell& cell = peer.control.back();
  cell.header = header;
  std::memcpy(cell.payload.data(), payload, bytes);
}

void Links::prepare_answer(Peer& peer) {
  if (peer.spare_control.empty()) peer.spare_control.emplace_back();
  if (scheduled_.size() == scheduled_.capacity())
    scheduled_.reserve(std::max<std::size_t>(16, 2 * scheduled_.size()));
}

unsigned Links::push_control(Peer& peer) {
  unsigned happened = 0;
  while (!peer.control.empty() && peer.out.has_cell()) {
    const ControlCell& cell = peer.control.front();
    peer.out.publish(cell.header, cell.payload.data(), cell.payload.size());
    // One is kept: the next answer needs no memory then.
    if (peer.spare_control.empty())
      peer.spare_control.splice(peer.spare_control.end(), peer.control, peer.control.begin());
    else
      peer.control.pop_front();
    ++happened;
  }
  return happened;
}

void Links::schedule(Peer& peer) {
  if (peer.listed) return;
  scheduled_.push_back(&peer);
  peer.listed = true;
}

void Links::ring_doorbell(const Peer& peer) noexcept {
  // A locked operation, so also the fence between the cell above and the look at `sleeping` in `wake`.
  region_.doorbells(peer.slot)[slot_ / 64].fetch_or(std::uint64_t{1} << (slot_ % 64),
                                                    std::memory_order_seq_cst);
  // A process in which this rank is at work does not sleep.
  if (!peer.beside) wake(peer.slot);
}

void Links::wake(std::uint32_t slot) const noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  region_.wake(slot);
}

void Links::ring_again(std::uint32_t slot) noexcept {
  region_.doorbells(slot_)[slot / 64].fetch_or(std::uint64_t{1} << (slot % 64), std::memory_order_relaxed);
}

bool Links::has_doorbell() const noexcept {
  return std::ranges::any_of(region_.doorbells(slot_),
                             [](const auto& word) { return word.load(std::memory_order_seq_cst) != 0; });
}

}  // namespace isthmus
