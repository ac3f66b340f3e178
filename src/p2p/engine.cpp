#include "p2p/engine.hpp"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/random.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/futex.hpp"
#include "base/log.hpp"
#include "channel/shm/placement.hpp"
#include "p2p/pack.hpp"
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

Result<std::unique_ptr<Engine>> Engine::make(const launch::Job& job, const Settings& settings) {
  std::unique_ptr<Engine> engine(new Engine(job, settings));
  if (::getrandom(&engine->probe_.nonce, sizeof engine->probe_.nonce, 0) != sizeof engine->probe_.nonce)
    return fail(ErrorClass::other, "no random numbers from the kernel");
  // Lets peers read this process's memory where Yama would refuse siblings (ptrace_scope 1); without Yama it
  // fails, which is as good.
  ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
  wire::PlaceRecord& place = engine->region_.block(engine->slot_).place;
  place.probe_nonce = engine->probe_.nonce;
  std::atomic_ref(place.probe_address)
      .store(reinterpret_cast<std::uint64_t>(&engine->probe_), std::memory_order_release);
  if (engine->naps_) {
    std::size_t here = 0;
    for (std::uint32_t slot = 0; slot < job.members.size(); ++slot)
      here += engine->same_machine(slot) ? 1 : 0;
    const auto cpus = CpuSet::affinity();
    engine->shares_cores_ = cpus && cpus->size() < here;
  }
  const bool loops = settings.gpu_path == GpuPathSetting::network && job.size > 1 && !job.in_process;
  if (!job.on_one_host() || loops) {
    auto remote = Remote::open(*engine);
    if (!remote) return std::unexpected(std::move(remote).error());
    engine->remote_ = std::move(*remote);
  }
  return engine;
}

Engine::Engine(const launch::Job& job, const Settings& settings)
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
  matcher_.set_default_sources(size_);
}

Engine::~Engine() = default;

Peer& Engine::make_peer(PeerId id) {
  peers_[id] = std::make_unique<Peer>(id);
  Peer& peer = *peers_[id];
  const auto slot = job_.slot_of(id);
  if (slot) {
    peer.slot = *slot;
    peer.eager_limit = eager_limit_;
    peer.plan = Plan({.same_process = id == rank_, .eager_limit = eager_limit_});
  } else {
    peer.pull = peer.push = std::unexpected(Reason{job_.why_apart(id)});
    peer.plan = Plan({.remote = true});
  }
  return peer;
}

void Engine::connect(Peer& peer) {
  const std::uint32_t number = region_.header().rings_used.fetch_add(1, std::memory_order_relaxed);
  if (number >= region_.ring_capacity()) {
    malformed(peer, "ring counter beyond the number of pairs");
    return;
  }
  // Its reader looks at it more often than its writer.
  const std::int32_t node = region_.block(peer.slot).place.numa;
  if (node != region_.block(slot_).place.numa) prefer_node(region_.ring(number), node);
  peer.out = RingWriter(region_.ring(number), region_.geometry());
  region_.directory(peer.slot)[slot_].store(number + 1, std::memory_order_release);
  region_.block(peer.slot).connections.fetch_add(1, std::memory_order_release);
}

void Engine::discover() {
  connections_seen_ = region_.block(slot_).connections.load(std::memory_order_acquire);
  const auto directory = region_.directory(slot_);
  for (std::uint32_t slot = 0; slot < job_.members.size(); ++slot) {
    const std::uint32_t entry = directory[slot].load(std::memory_order_acquire);
    if (entry == 0 || slot == slot_) continue;  // messages to oneself take no ring
    Peer& found = peer(job_.members[slot]);
    if (found.in.open()) continue;
    if (entry > region_.ring_capacity()) {
      malformed(found, "ring number beyond the number of pairs");
      continue;
    }
    found.in = RingReader(region_.ring(entry - 1), region_.geometry());
    inbound_.push_back(&found);
  }
}

unsigned Engine::listen() {
  if (sleeps_) return drain_doorbells();
  unsigned happened = 0;
  for (Peer* peer : inbound_)
    happened += drain(*peer);
  return happened;
}

unsigned Engine::progress() {
  if (region_.block(slot_).connections.load(std::memory_order_relaxed) != connections_seen_) [[unlikely]]
    discover();
  unsigned happened = listen();
  if (gpu_) [[unlikely]]
    happened += gpu_->poll();
  if (staging_) [[unlikely]]
    happened += staging_->poll();
  if (!outbound_.empty() || !shares_.empty() || !deferred_.empty()) [[unlikely]]
    happened += advance();
  if (remote_) [[unlikely]]
    happened += remote_->poll();
  return happened;
}

void Engine::progress_for_test() {
  if (progress() != 0) {
    fruitless_tests_ = 0;
    return;
  }
  // A program that polls MPI_Test on a shared core would use up its time slice while the peer waits for the
  // core.
  if (sleeps_ || ++fruitless_tests_ % 256 == 0) {
    EngineLock::Released released(lock_);
    ::sched_yield();
  }
}

unsigned Engine::drain_doorbells() {
  unsigned happened = 0;
  const auto doorbells = region_.doorbells(slot_);
  for (std::size_t word = 0; word < doorbells.size(); ++word) {
    if (doorbells[word].load(std::memory_order_relaxed) == 0) continue;
    std::uint64_t bits = doorbells[word].exchange(0, std::memory_order_acq_rel);
    // A ring may have been announced after `connections` was looked at: the bit was set later than the
    // announcement.
    if (region_.block(slot_).connections.load(std::memory_order_acquire) != connections_seen_) discover();
    while (bits != 0) {
      const std::size_t slot = word * 64 + static_cast<std::size_t>(std::countr_zero(bits));
      bits &= bits - 1;
      if (slot >= job_.members.size()) continue;
      if (Peer* sender = peers_[job_.members[slot]].get(); sender && sender->in.open())
        happened += drain(*sender);
    }
  }
  return happened;
}

unsigned Engine::drain(Peer& peer) {
  unsigned happened = 0;
  const wire::RingGeometry& geometry = region_.geometry();
  // One round of the ring at most: a sender that never stops must not keep this rank from all else.
  while (happened < geometry.cells) {
    const wire::Cell* cell = peer.in.front();
    if (!cell) return happened;
    const auto header = wire::copy_out<wire::CellHeader>(&cell->header);
    ++happened;
    if (header.kind == wire::CellKind::eager_inline && header.size <= wire::inline_capacity &&
        header.source >= 0) [[likely]] {
      receive_inline(peer, header, cell->payload.data());
      if (peer.in.pop()) notify(peer.id);
      continue;
    }
    if (auto checked = wire::check(header, geometry); !checked) [[unlikely]] {
      malformed(peer, checked.error().text());
      peer.in.pop();
      continue;
    }
    const bool has_piece = wire::has_piece(header.kind);
    const std::byte* piece = has_piece ? peer.in.piece(header.size) : nullptr;
    if (header.kind == wire::CellKind::eager) {
      const auto eager = wire::copy_out<wire::EagerHeader>(cell->payload.data());
      receive_eager(peer, header, eager, piece);
    } else if (header.kind == wire::CellKind::eager_more) {
      receive_more(peer, piece, header.size);
    } else {
      receive_control(peer, header, *cell, piece);
    }
    const bool room_made = has_piece ? peer.in.pop_piece(header.size) : peer.in.pop();
    if (room_made) notify(peer.id);
  }
  // There may be more, and its doorbell has been taken.
  if (sleeps_)
    region_.doorbells(slot_)[peer.slot / 64].fetch_or(std::uint64_t{1} << (peer.slot % 64),
                                                      std::memory_order_relaxed);
  return happened;
}

void Engine::list(Peer& peer) {
  if (peer.listed) return;
  peer.listed = true;
  outbound_.push_back(&peer);
}

unsigned Engine::advance() {
  unsigned happened = advance_shares();
  for (std::size_t i = 0; i < outbound_.size();) {
    Peer& peer = *outbound_[i];
    happened += push_out(peer);
    if (peer.has_work()) {
      ++i;
    } else {
      peer.listed = false;
      outbound_[i] = outbound_.back();
      outbound_.pop_back();
    }
  }
  return happened;
}

unsigned Engine::push_out(Peer& peer) {
  unsigned happened = 0;
  while (!peer.control.empty() && peer.out.has_cell()) {
    const ControlCell& cell = peer.control.front();
    peer.out.publish(cell.header, cell.payload.data(), cell.payload.size());
    peer.control.pop_front();
    ++happened;
  }
  while (Request* send = peer.waiting.front()) {
    // A send that is not synchronous is complete once its bytes have left, so it must be out of the queue
    // before.
    peer.waiting.remove(send);
    if (!emit(peer, *send)) {
      peer.waiting.push_front(send);
      break;
    }
    ++happened;
  }
  happened += stream(peer);
  if (happened != 0) after_publish(peer);
  return happened;
}

void Engine::ring_doorbell(std::uint32_t slot) noexcept {
  // A locked operation, so also the fence between the cell above and the look at `sleeping` in `wake`.
  region_.doorbells(slot)[slot_ / 64].fetch_or(std::uint64_t{1} << (slot_ % 64), std::memory_order_seq_cst);
  wake(slot);
}

void Engine::wake(std::uint32_t slot) noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  std::atomic<std::uint32_t>& sleeping = region_.block(slot).sleeping;
  if (sleeping.load(std::memory_order_seq_cst) != 0 && sleeping.exchange(0, std::memory_order_seq_cst) != 0)
    futex_wake(sleeping);
}

bool Engine::has_doorbell() const noexcept {
  return std::ranges::any_of(region_.doorbells(slot_),
                             [](const auto& word) { return word.load(std::memory_order_seq_cst) != 0; });
}

void Engine::malformed(Peer& peer, const std::string& what) const {
  if (peer.reported || !settings_.warn) return;
  peer.reported = true;
  warn("rank " + std::to_string(rank_) + " ignores what rank " + std::to_string(peer.id) + " wrote: " + what);
}

GpuMessages* Engine::gpu() {
  if (gpu_ || gpu_failed_ || !uses_cuda()) return gpu_.get();
  auto made = GpuMessages::make(*this, cuda_);
  if (made) {
    gpu_ = std::move(*made);
  } else {
    gpu_failed_ = true;
    if (settings_.warn) warn("GPU memory cannot be used in MPI calls: " + made.error().text());
  }
  return gpu_.get();
}

Result<> Engine::pack(const Payload& payload, std::byte* to) {
  if (payload.bytes == 0) return {};
  if (uses_cuda() && gpu()) [[unlikely]] {
    auto buffer = gpu_->find(payload);
    if (!buffer) return std::unexpected(std::move(buffer).error());
    if (*buffer) return gpu_->copy(payload, Payload::of(to, payload.bytes));
  }
  pack_into(payload, to);
  return {};
}

void Engine::finish(Request& request) {
  if (request.gpu && !gpu_->may_finish(request)) [[unlikely]]
    return;
  if (request.kind == Request::Kind::send) --pending_sends_;
  request.complete = true;
  if (request.orphan) requests_.give_back(&request);
  // Another thread of this rank may sleep until this request is complete.
  if (sleeps_ && lock_.enabled()) wake(slot_);
}

void Engine::complete(Request& request) {
  finish(request);
}

void Engine::free(Request* request) {
  if (request->complete)
    requests_.give_back(request);
  else
    request->orphan = true;
}

void Engine::cancel(Request& request) {
  if (request.complete) return;
  if (request.kind == Request::Kind::receive && !request.matched) {
    request.context->withdraw(&request);
    request.status = {};
    request.status.cancelled = request.cancelled = true;
    finish(request);
  } else if (request.kind == Request::Kind::send && request.unsent) {
    request.peer->waiting.remove(&request);
    request.status.cancelled = request.cancelled = true;
    finish(request);
  }
}

void Engine::close_context(MatchContext& context) {
  while (UnexpectedMessage* message = context.first_unexpected()) {
    context.remove(message);
    if (message->content == UnexpectedMessage::Content::remote_offer)
      remote_->decline(*message->peer, message->offer.address);
    if (message->content == UnexpectedMessage::Content::remote_chunks)
      remote_->decline_chunks(*message->peer, message->offer.sender);
    if (message->peer && message->peer->incoming_message == message)
      message->peer->incoming_message = nullptr;
    matcher_.give_back(message);
  }
  matcher_.close(context.id());
}

void Engine::settle() {
  // Receives that were freed unmatched stay unmatched; sends must leave, because peers may wait for them.
  wait_for([this] { return pending_sends_ == 0 && outbound_.empty() && shares_.empty(); });
  if (remote_) wait_for([this] { return remote_->idle(); });
}

void Engine::finalize() {
  if (settings_.explain != ExplainSetting::off) report();
  settle();
  if (remote_) remote_->meet_all();
  std::atomic<std::uint32_t>& count = region_.header().finalize_count;
  const std::size_t members = job_.members.size();
  if (count.fetch_add(1, std::memory_order_acq_rel) + 1 == members) {
    for (const PeerId id : job_.members)
      notify(id);
  } else {
    wait_for([&count, members] { return count.load(std::memory_order_acquire) >= members; });
  }
  // The last pieces of messages whose receives were freed: nobody writes any more, one look empties a ring.
  progress();
  if (remote_) remote_->close();
  // While the program still has its GPUs.
  staging_.reset();
  gpu_.reset();
  gpu_failed_ = true;
  region_.roster(rank_).store(wire::RosterState::finalized, std::memory_order_release);
}

const UnexpectedMessage* Engine::probe(MatchContext& context, int source, int tag) {
  if (const UnexpectedMessage* message = context.find(source, tag)) return message;
  progress_for_test();
  return context.find(source, tag);
}

UnexpectedMessage* Engine::matched_probe(MatchContext& context, int source, int tag) {
  UnexpectedMessage* message = context.find(source, tag);
  if (!message) {
    progress_for_test();
    message = context.find(source, tag);
  }
  if (message) context.remove(message);
  return message;
}

const Reach& Engine::pull_reach(PeerId id) {
  Peer& found = peer(id);
  if (!found.probed) probe_reach(found);
  return found.pull;
}

const Reach& Engine::push_reach(PeerId id) {
  Peer& found = peer(id);
  if (!found.probed) probe_reach(found);
  return found.push;
}

Result<> Engine::push(PeerId id, std::uint64_t address, const void* from, std::uint64_t bytes) {
  Peer& to = peer(id);
  return after_copy(to, cma::write(to.pid, address, from, bytes));
}

Result<> Engine::pull(PeerId id, std::uint64_t address, void* to, std::uint64_t bytes) {
  Peer& from = peer(id);
  return after_copy(from, cma::read(from.pid, address, to, bytes));
}

}  // namespace isthmus
