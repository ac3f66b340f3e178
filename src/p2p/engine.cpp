#include "p2p/engine.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <new>

#include "base/log.hpp"
#include "base/system/processor.hpp"
#include "channel/shm/placement.hpp"
#include "route/shared_call_lessons.hpp"

namespace isthmus {
namespace {

constexpr ContextId meeting_context = Engine::internal_context + 1;

/// Who has set by hand which way long messages go wants them to go it. Virtual machines have clocks of their
/// own, and take naps: what is measured there is only for who asks for it.
bool measures_plans(const launch::Job& job, const Settings& settings) {
  const bool is_quiet = job.region.header().idle != wire::IdlePolicy::nap ||
                        settings.origin("ISTHMUS_PLANS") == Origin::environment;
  return settings.plans == PlansSetting::live && is_quiet && settings.cma != CmaSetting::off &&
         settings.origin("ISTHMUS_SPLIT_FROM") != Origin::environment;
}

/// Who has set by hand how long messages go with their envelope wants them to.
bool says_how_long_eagerly(const Settings& settings) {
  return settings.origin("ISTHMUS_EAGER_LIMIT") == Origin::environment ||
         settings.origin("ISTHMUS_BANDWIDTH_EAGER_LIMIT") == Origin::environment;
}

/// In the region that the launcher has made, because it is who looks: its slots are those of its own ranks.
wire::WaitBoard& own_wait_board(const launch::Job& job) {
  if (!job.inherited) return job.region.wait_board(job.slot);
  const wire::RegionView& region = *job.inherited;
  for (std::uint32_t slot = 0; slot < region.slots(); ++slot)
    if (region.block(slot).place.rank == job.rank) return region.wait_board(slot);
  return job.region.wait_board(job.slot);
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::make(const launch::Job& job, const Settings& settings) {
  std::unique_ptr<Engine> engine(new Engine(job, settings));
  engine->agreements_.open(engine->open_context(failure_context, engine->size()));
  ISTHMUS_TRY(engine->access_.publish());
  if (job.size > ContextIds::most_ranks)
    return fail(ErrorClass::other, "a job has at most " + std::to_string(ContextIds::most_ranks) + " ranks");
  const bool loops = settings.gpu_path == GpuPathSetting::network && job.size > 1 && !job.in_process;
  if (!job.on_one_host() || loops) {
    auto network = NetworkPeers::open({engine->links_, engine->completion_, engine->matcher_,
                                       engine->unexpected_, engine->gpu_, engine->access_, engine->losses_});
    if (!network) return std::unexpected(std::move(network).error());
    engine->network_ = std::move(*network);
    engine->polled_.add(*engine->network_);
    engine->unexpected_.set_network(engine->network_.get());
    engine->gpu_.set_network(engine->network_.get());
    engine->losses_.set_network(engine->network_.get());
    engine->loss_watch_.watch_other_hosts();
    engine->waiting_.has_network = true;
  }
  if (!settings.trace.empty()) engine->begin_trace();
  if (job.turns) engine->take_turns(*job.turns);
  return engine;
}

/// The ranks of a worker sleep on one word: worker 0's is that of the first rank of this process, worker 1's
/// that of the second, and so on.
void Engine::take_turns(RankTurns& turns) {
  const auto& region = links_.region();
  std::uint32_t first = links_.slot();
  if (turns.host_workers().empty())
    while (first > 0 && turns.is_here(links_.job().members[first - 1]))
      --first;
  else
    first = turns.process();
  // The region stays mapped when the engine is gone.
  turns.joined({.doorbells = region.doorbells(links_.slot()),
                .sleep_with = [region, slot = links_.slot(), first](std::uint32_t worker) {
                  region.block(slot).sleeps_with.store(first + worker + 1, std::memory_order_seq_cst);
                  return &region.block(first + worker).process_wakes;
                }});
}

void Engine::meet_at_rest() noexcept {
  RankTurns& turns = *links_.job().turns;
  std::atomic<std::uint32_t>& meetings = region().header().meetings;
  const std::uint32_t all = ++meetings_ * region().slots();
  meetings.fetch_add(1, std::memory_order_seq_cst);
  for (bool had_news = true; static_cast<std::int32_t>(meetings.load(std::memory_order_acquire) - all) < 0;
       had_news = false)
    turns.give_way(had_news, false);
}

Result<> Engine::arrive() {
  RankTurns& turns = *links_.job().turns;
  wire::RankBlock& block = region().block(links_.slot());
  block.place.pid = ::getpid();
  const wire::PlaceRecord& there = region().block(turns.process()).place;
  block.place.rank = rank();
  block.place.uid = there.uid;
  block.place.boot = there.boot;
  block.place.namespaces = there.namespaces;
  block.place.package = there.package;
  block.place.numa = there.numa;
  block.place.core = there.core;
  take_turns(turns);
  return access_.publish();
}

void Engine::renew_peers() {
  for (PeerId id = 0; id < links_.size(); ++id) {
    Peer* const peer = links_.find(id);
    if (!peer || !links_.renew(*peer)) continue;
    access_.probe(*peer);
  }
}

/// A trace that cannot be written is no reason to end the job.
void Engine::begin_trace() {
  auto writer = trace::Writer::make(settings().trace, settings().trace_limit, {rank(), size()});
  if (!writer) {
    if (settings().warn)
      warn("rank " + std::to_string(rank()) + " is not traced: " + writer.error().text() +
           " (ISTHMUS_TRACE)");
    return;
  }
  trace_ = std::make_unique<MessageTrace>(std::move(*writer), rank());
  completion_.set_trace(trace_.get());
  lock_.attend();
}

Engine::Engine(const launch::Job& job, const Settings& settings)
    : links_(job, settings),
      loss_watch_(links_, losses_),
      access_(links_, loss_watch_, memories_),
      completion_(links_, lock_),
      context_ids_(job.rank),
      losses_({links_, loss_watch_, completion_, matcher_, unexpected_, memories_, splits_, gpu_offers_,
               plans_, polled_, *this}),
      agreements_({links_, completion_, unexpected_, *this, losses_}),
      claims_(job.region, job.slot),
      unexpected_(links_, completion_, matcher_, claims_, agreements_),
      witness_(matcher_, completion_),
      telling_(own_wait_board(job), witness_),
      waiting_{links_, lock_, polled_, loss_watch_, telling_, false, job.turns},
      mapped_(links_, polled_, memories_, handlers_),
      plans_(measures_plans(job, settings), SharedLessons(job.region.header().lessons), ticks,
             job.region.header().idle == wire::IdlePolicy::sleep ? LivePlans::Counted::work
                                                                 : LivePlans::Counted::time),
      reports_(plans_),
      eager_plans_(plans_.on() && !plans_.by_work() && !says_how_long_eagerly(settings),
                   wire::maximum_piece(job.region.geometry()),
                   SharedEagerLessons(job.region.header().eager_lessons)),
      gpu_({links_, completion_, access_, *this, plans_}, polled_),
      gpu_offers_(links_, completion_, matcher_, unexpected_, gpu_, polled_, handlers_),
      eager_(links_, completion_, matcher_, unexpected_, reports_, handlers_),
      self_(links_, completion_, matcher_, unexpected_),
      splits_({links_, completion_, access_, polled_, plans_, reports_}, handlers_),
      streams_(links_, completion_, plans_, reports_, handlers_),
      rendezvous_({links_, completion_, matcher_, unexpected_, memories_, access_, splits_, streams_,
                   gpu_offers_, plans_, reports_},
                  handlers_) {
  plans_.take(settings.taught_ways);
  eager_plans_.take(settings.taught_eager);
  if (plans_.on()) SharedCallLessons(job.region.header().call_lessons).take(settings.taught_calls);
  if (settings.explain != ExplainSetting::off) {
    times_.emplace(links_, plans_);
    completion_.set_times(&*times_);
    lock_.attend();
  }
  gpu_.set_fetcher(&gpu_offers_);
  inbound_.reserve(job.members.size());
}

Engine::~Engine() = default;

void Engine::map_rings(PeerId id, std::uint64_t bytes) noexcept {
  const Peer* const peer = links_.find(id);
  if (!peer || !peer->is_local() || peer->slot == links_.slot()) return;
  map_ring(links_.region(), links_.slot(), peer->slot, bytes);
  map_ring(links_.region(), peer->slot, links_.slot(), bytes);
}

void Engine::discover() {
  const std::uint32_t seen = links_.region().block(links_.slot()).connections.load(std::memory_order_acquire);
  const auto directory = links_.region().directory(links_.slot());
  for (std::uint32_t slot = 0; slot < links_.job().members.size(); ++slot) {
    if (directory[slot].load(std::memory_order_acquire) == 0) continue;
    Peer& found = links_.peer(links_.job().members[slot]);
    if (!found.lost) accept(found);
  }
  connections_seen_ = seen;
  loss_watch_.look_if_told();
}

void Engine::accept(Peer& peer) {
  if (peer.in.open() || peer.slot == links_.slot()) return;  // messages to oneself take no ring
  const std::uint32_t entry =
      links_.region().directory(links_.slot())[peer.slot].load(std::memory_order_acquire);
  if (entry == 0) return;
  if (entry > links_.region().ring_capacity())
    return links_.malformed(peer, "ring number beyond the number of pairs");
  inbound_.push_back(&peer);  // the constructor has reserved it
  peer.in = RingReader(links_.region().ring(entry - 1), links_.region().geometry(), 0,
                       hands_back_lines(links_.settings().lines));
  if (peer.slot < links_.slot())
    peer.place = SharedPlace(links_.region().ring(entry - 1), links_.region().geometry(), false);
  peer.round = links_.region().geometry().cells;
}

unsigned Engine::put_off() noexcept {
  // Nobody wakes it when there is memory.
  if (links_.peers_sleep()) links_.ring_again(links_.slot());
  return 0;
}

unsigned Engine::listen() {
  try {
    return read_all();
  } catch (const std::bad_alloc&) {
    return put_off();
  }
}

unsigned Engine::read_all() {
  if (links_.peers_sleep()) return drain_doorbells();
  unsigned happened = 0;
  for (Peer* peer : inbound_)
    happened += drain(*peer);
  return happened;
}

unsigned Engine::progress() {
  try {
    return poll_all();
  } catch (const std::bad_alloc&) {
    return put_off();
  }
}

unsigned Engine::poll_all() {
  plans_.come();
  if (links_.region().block(links_.slot()).connections.load(std::memory_order_relaxed) != connections_seen_)
      [[unlikely]]
    discover();
  unsigned happened = read_all();
  if (!polled_.empty()) [[unlikely]]
    happened += polled_.poll();
  if (!links_.scheduled().empty()) [[unlikely]]
    happened += links_.push_scheduled([this](Peer& peer) { return push_out(peer); });
  return happened;
}

unsigned Engine::progress_in_passing() {
  const unsigned happened = progress();
  plans_.leave();
  return happened;
}

void Engine::progress_for_test() {
  const unsigned happened = progress_in_passing();
  if (happened != 0) {
    fruitless_tests_ = 0;
    return;
  }
  plans_.quiet();
  if (++fruitless_tests_ % 16 == 0) look_after_peers();
  if (waiting_.turns) [[unlikely]] {
    EngineLock::Released released(lock_);
    waiting_.turns->give_way(false, false);
    return;
  }
  // A program that polls MPI_Test on a shared core would use up its time slice while the peer waits for the
  // core.
  if (links_.peers_sleep() || fruitless_tests_ % 256 == 0) {
    EngineLock::Released released(lock_);
    ::sched_yield();
  }
}

unsigned Engine::drain_doorbells() {
  unsigned happened = 0;
  const auto doorbells = links_.region().doorbells(links_.slot());
  for (std::size_t word = 0; word < doorbells.size(); ++word) {
    if (doorbells[word].load(std::memory_order_relaxed) == 0) continue;
    std::uint64_t bits = doorbells[word].exchange(0, std::memory_order_acq_rel);
    // A ring may have been announced after `connections` was looked at: the bit was set later than the
    // announcement.
    if (links_.region().block(links_.slot()).connections.load(std::memory_order_acquire) !=
        connections_seen_) {
      try {
        discover();
      } catch (...) {
        doorbells[word].fetch_or(bits, std::memory_order_relaxed);
        throw;
      }
    }
    while (bits != 0) {
      const std::size_t slot = word * 64 + static_cast<std::size_t>(std::countr_zero(bits));
      bits &= bits - 1;
      if (slot >= links_.job().members.size()) continue;
      if (Peer* sender = links_.find(links_.job().members[slot]); sender && sender->in.open())
        happened += drain(*sender);
    }
  }
  return happened;
}

unsigned Engine::drain(Peer& peer) {
  try {
    return drain_cells(peer);
  } catch (const std::bad_alloc&) {
    // The cell is still the ring's first, and is looked at again. Its handler has changed nothing before it
    // had all the memory that it needs.
    if (links_.peers_sleep()) links_.ring_again(peer.slot);
    return 0;
  }
}

unsigned Engine::drain_cells(Peer& peer) {
  unsigned happened = 0;
  const wire::RingGeometry& geometry = links_.region().geometry();
  // One round of the ring at most: a sender that never stops must not keep this rank from all else. Which a
  // cell may end, whose peer has sent too many that nobody receives.
  while (happened < peer.round) {
    const wire::Cell* cell = peer.in.front();
    if (!cell) return happened;
    if (happened == 0) peer.in.look(peer.out.cells_written());
    const auto header = wire::copy_out<wire::CellHeader>(&cell->header);
    ++happened;
    if (header.kind == wire::CellKind::eager_inline && header.size <= wire::inline_capacity &&
        header.source >= 0) [[likely]] {
      receive_inline(peer, header, cell->payload.data());
      if (peer.in.pop()) notify(peer.id);
      continue;
    }
    if (auto checked = wire::check(header, geometry); !checked) [[unlikely]] {
      links_.malformed(peer, checked.error().text());
      peer.in.pop();
      continue;
    }
    const bool has_piece = wire::has_piece(header.kind);
    if (wire::starts_over(header.kind)) peer.in.start_over();
    const std::byte* piece = has_piece ? peer.in.piece(header.size) : nullptr;
    if (!handlers_.handle({peer, header, *cell, piece}))
      links_.malformed(peer, "cell of a kind that nobody handles");
    const bool room_made = has_piece ? peer.in.pop_piece(header.size) : peer.in.pop();
    if (room_made) notify(peer.id);
  }
  if (links_.peers_sleep() && !peer.held) links_.ring_again(peer.slot);
  return happened;
}

unsigned Engine::push_out(Peer& peer) {
  unsigned happened = 0;
  if (peer.held && unexpected_.lets_go_on(peer)) [[unlikely]]
    happened += drain(peer);
  happened += links_.push_control(peer);
  while (Request* send = peer.waiting.front()) {
    // A send that is not synchronous is complete once its bytes have left, so it must be out of the queue
    // before.
    peer.waiting.remove(send);
    bool has_left = false;
    try {
      has_left = emit(peer, *send);
    } catch (...) {
      peer.waiting.push_front(send);
      throw;
    }
    if (!has_left) {
      peer.waiting.push_front(send);
      break;
    }
    ++happened;
  }
  happened += streams_.push(peer);
  if (happened != 0) links_.after_publish(peer);
  return happened;
}

bool Engine::read_rest(Peer& peer) {
  // What it has written before its end has been sent, also where it has connected since this rank looked.
  if (peer.is_local()) accept(peer);
  while (peer.in.open() && drain(peer) != 0) {
  }
  return !peer.in.open() || peer.held || !peer.in.front();
}

MatchContext& Engine::open_context(ContextId id, std::uint32_t sources) {
  return matcher_.open(id, sources, [this](UnexpectedMessage* message) { discard_misfit(message); });
}

Matcher::Two Engine::open_contexts(ContextId id, std::uint32_t sources, std::uint32_t sources_of_next) {
  return matcher_.open_two({id, id + 1}, {sources, sources_of_next},
                           [this](UnexpectedMessage* message) { discard_misfit(message); });
}

void Engine::discard_misfit(UnexpectedMessage* message) noexcept {
  try {
    links_.malformed(*message->peer, "source beyond its group");
    unexpected_.discard(message);
  } catch (const std::bad_alloc&) {
    if (message->peer->incoming_message == message) message->peer->incoming_message = nullptr;
    matcher_.reject(message);  // its sender hears of it later
    losses_.settle();
  }
}

Result<> Engine::check(const ContextProposal& proposal) const {
  const auto& [context, maker] = proposal;
  const auto refuse = [&](ErrorClass error_class, const std::string& why) {
    return fail(error_class, "process " + std::to_string(maker) + why);
  };
  if (context == ContextIds::none) return refuse(ErrorClass::other, " has no ids for communicators left");
  if (maker == rank() ? !context_ids_.has_given(context) : !ContextIds::is_of(context, maker))
    return refuse(ErrorClass::intern, " was said to have proposed an id that is not its own");
  if (matcher_.is_open(context) || matcher_.is_open(context + 1))
    return refuse(ErrorClass::intern, " was said to have proposed the id of a communicator that there is");
  return {};
}

void Engine::close_context(MatchContext& context) {
  while (UnexpectedMessage* message = context.first_unexpected()) {
    if (message->peer->incoming_message == message) message->peer->incoming_message = nullptr;
    // Else its sender waits for a program that will not come.
    const bool is_heard_of = (message->peer->is_local() && !losses_.lost().empty()) ||
                             message->content() == UnexpectedMessage::Content::remote_offer ||
                             message->content() == UnexpectedMessage::Content::remote_chunks;
    if (is_heard_of) {
      matcher_.reject(context, message);
    } else {
      context.remove(message);
      unexpected_.release(message);
    }
  }
  if (matcher_.first_rejected()) losses_.settle();
  if (unexpected_.probed.context == &context) unexpected_.probed = {};
  agreements_.closed(context.id());
  matcher_.close(context.id());
}

void Engine::settle() {
  // Receives that were freed unmatched stay unmatched; sends must leave, because peers may wait for them.
  wait_for([this] {
    return completion_.pending_sends() == 0 && splits_.empty() &&
           std::ranges::none_of(links_.scheduled(), &Peer::has_to_send);
  });
  if (network_) wait_for([this] { return network_->idle(); });
}

void Engine::leave() {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::seconds patience{2};
  settle();
  if (!network_) return;
  network_->leave();
  const Clock::time_point end = Clock::now() + patience;
  wait_for([&] { return (network_->is_seen_off() && network_->idle()) || Clock::now() >= end; });
}

void Engine::finalize() {
  unexpected_.end();
  if (links_.settings().explain != ExplainSetting::off) report();
  settle();
  if (network_) meet_all();
  std::atomic<std::uint32_t>& count = links_.region().header().finalize_count;
  const std::size_t members = links_.job().ranks_here();
  links_.region().block(links_.slot()).leaving.store(1, std::memory_order_release);
  if (count.fetch_add(1, std::memory_order_acq_rel) + 1 == members || !losses_.lost().empty())
    for (const PeerId id : links_.job().members)
      if (!has_lost(id) && is_local(id)) notify(id);
  wait_for([&] { return count.load(std::memory_order_acquire) >= members || all_leave(); });
  // The last pieces of messages whose receives were freed: nobody writes any more, one look empties a ring.
  progress();
  if (network_) network_->close();
  memories_.close();
  // While the program still has its GPUs.
  gpu_offers_.close();
  gpu_.close();
  links_.region().roster(links_.rank()).store(wire::RosterState::finalized, std::memory_order_release);
}

void Engine::meet_all() {
  meet_once();
  // Who comes out of the second one knows that all have come out of the first, and nobody wonders where it is
  // gone.
  network_->expect_departures();
  meet_once();
  wait_for([this] { return network_->idle(); });
}

void Engine::meet_once() {
  MatchContext& context = open_context(meeting_context, size());
  for (PeerId distance = 1; distance < size(); distance *= 2) {
    const PeerId to = (rank() + distance) % size();
    const PeerId from = (rank() + size() - distance) % size();
    const Target target{to, meeting_context, static_cast<int>(rank()), 0};
    // A context that is opened after the loss of a rank does not know of it.
    if (links_.peer(from).lost)
      send(target, {});
    else
      send_receive(target, {}, context, static_cast<int>(from), 0, {});
  }
}

/// Whether all who live have come to `finalize`, where some do not.
bool Engine::all_leave() const noexcept {
  if (losses_.lost().empty()) return false;
  for (std::uint32_t slot = 0; slot < links_.job().members.size(); ++slot)
    if (!has_lost(links_.job().members[slot]) && links_.job().slot_of(links_.job().members[slot]) &&
        links_.region().block(slot).leaving.load(std::memory_order_acquire) == 0)
      return false;
  return true;
}

const UnexpectedMessage* Engine::find_unexpected(MatchContext& context, int source, int tag) {
  return unexpected_.find(context, source, tag);
}

const UnexpectedMessage* Engine::probe(MatchContext& context, int source, int tag) {
  const UnexpectedMessage* message = unexpected_.find(context, source, tag);
  if (message == nullptr) {
    unexpected_.probed = {.context = &context, .source = source};
    progress_for_test();
    message = unexpected_.find(context, source, tag);
  }
  if (message != nullptr) unexpected_.probed = {};
  return message;
}

UnexpectedMessage* Engine::matched_probe(MatchContext& context, int source, int tag) {
  if (!probe(context, source, tag)) return nullptr;
  UnexpectedMessage* const message = unexpected_.take(context, source, tag);
  if (trace_ && message) trace_->takes(*message);
  return message;
}

namespace {

struct Wanted {
  const MatchContext& context;
  int source;
  int tag;
};

void say_probe(const void* what, WaitItems& items) noexcept {
  const auto& [context, source, tag] = *static_cast<const Wanted*>(what);
  items.add({.kind = wire::WaitItem::Kind::probe,
             .peer = source == any_source ? wire::wait_any_peer : context.process_of(source),
             .tag = tag,
             .flags = wire::WaitItem::awaited,
             .context = context.id(),
             .bytes = wire::wait_unknown_bytes});
}

}  // namespace

const UnexpectedMessage* Engine::wait_for_message(MatchContext& context, int source, int tag) {
  const UnexpectedMessage* message = nullptr;
  const Wanted wanted{context, source, tag};
  unexpected_.probed = {};
  wait_for(
      [&] {
        const bool failed = unexpected_.probed.failed;
        message = unexpected_.find(context, source, tag);
        unexpected_.probed = {.context = message ? nullptr : &context, .source = source};
        return message != nullptr || failed || context.is_broken(source, tag);
      },
      WaitSubject{&say_probe, &wanted});
  unexpected_.probed = {};
  return message;
}

}  // namespace isthmus
