// Ranks go on on other hosts (mpiexec --migratable --hosts). Who shares memory with whom changes then, so all
// that has been sent arrives before, and what has only been offered is brought in by its receiver as if it
// had come with its envelope: a message waits for its receive at the receiver alone, wherever the sender
// goes.
#include <algorithm>
#include <chrono>
#include <memory>
#include <new>
#include <utility>
#include <variant>
#include <vector>

#include "p2p/engine.hpp"

namespace isthmus {
namespace {

using Clock = std::chrono::steady_clock;

/// Looks in vain before all are asked whether all is over.
constexpr unsigned looks_before_meeting = 16;
/// Who is still awaited on this host may have stayed on another.
constexpr std::chrono::milliseconds patience_with_host{2};
constexpr unsigned looks_per_clock = 32;
/// Without any news of a message that is under way.
constexpr std::chrono::seconds patience_with_messages{30};

// What each rank says at a meeting before the move: how much it has sent and taken in, how much is not over
// here, and whether it has lost its patience.
constexpr std::size_t sent = 0, received = 1, under_way = 2, gives_up = 3;

}  // namespace

std::vector<MeetingWords> Engine::meet(const MeetingWords& words) {
  RankTurns& turns = *links_.job().turns;
  const std::uint32_t number = ++meetings_;
  wire::RankBlock& own = region().block(links_.slot());
  for (std::size_t i = 0; i < words.size(); ++i)
    own.said[i].store(words[i], std::memory_order_relaxed);
  turns.lines()->came_to_meeting(rank(), number);
  const auto is_over = [&] {
    return static_cast<std::int32_t>(region().header().meetings.load(std::memory_order_acquire) - number) >=
           0;
  };
  Clock::time_point since = Clock::now();
  for (unsigned looks = 1; !is_over(); ++looks) {
    turns.give_way(looks == 1, false);
    if (looks % looks_per_clock != 0 || Clock::now() - since < patience_with_host) continue;
    turns.lines()->waits_at_meeting(number);
    since = Clock::now();
  }
  std::vector<MeetingWords> all(size());
  for (PeerId id = 0; id < size(); ++id)
    for (std::size_t i = 0; i < words.size(); ++i)
      all[id][i] = region().block(id).heard[number % 2][i].load(std::memory_order_relaxed);
  return all;
}

unsigned Engine::bring_in(UnexpectedMessage& message) {
  if (!moving_->is_affected[message.peer->id]) return 0;
  const auto content = message.content();
  const bool is_offer =
      content == UnexpectedMessage::Content::offer || content == UnexpectedMessage::Content::remote_offer;
  const bool is_coming = std::ranges::any_of(
      moving_->bringing, [&](const Moving::Bringing& each) { return each.message == &message; });
  if (is_coming) return 0;
  if (!unexpected_.claim(message)) {
    moving_->taken_back.push_back(&message);
    return 1;
  }
  if (!is_offer) return 0;
  moving_->bringing.reserve(moving_->bringing.size() + 1);
  auto bytes = std::make_unique_for_overwrite<std::byte[]>(message.bytes);
  Request* const receive = completion_.pool().take(Request::Kind::receive);
  receive->source = message.source;
  receive->tag = message.tag;
  receive->payload = Payload::of(bytes.get(), message.bytes);
  moving_->bringing.push_back({&message, receive, std::move(bytes)});
  // From now on it cannot be taken back.
  message.is_awaited = false;
  if (content == UnexpectedMessage::Content::offer)
    rendezvous_.start(*message.peer, *receive, message.source, message.tag,
                      std::get<wire::SendOffer>(message.where), 0);
  else
    network_->fetch(*message.peer, *receive, message.source, message.tag,
                    {message.bytes, std::get<network::OfferId>(message.where), message.sender});
  return 1;
}

unsigned Engine::end_bringing_in() {
  return static_cast<unsigned>(std::erase_if(moving_->bringing, [this](Moving::Bringing& each) {
    if (!each.receive->complete) return false;
    // Of a sender that has ended nothing comes any more: its job ends.
    if (each.receive->status.error == 0) unexpected_.bring_in(*each.message, std::move(each.bytes));
    completion_.pool().give_back(each.receive);
    return true;
  }));
}

/// What carries messages, and nothing that would begin others. What there is no memory for stays where it is,
/// until all lose their patience.
unsigned Engine::progress_at_rest(std::span<UnexpectedMessage* const> taken) try {
  unsigned happened = 0;
  if (region().block(links_.slot()).connections.load(std::memory_order_acquire) != connections_seen_)
    discover();
  happened += read_all();
  happened += network_->poll();
  if (!splits_.empty()) happened += splits_.poll();
  happened += links_.push_scheduled([this](Peer& peer) { return push_out(peer); });
  matcher_.for_each_unexpected([&](UnexpectedMessage& each) { happened += bring_in(each); });
  for (UnexpectedMessage* const each : taken)
    happened += bring_in(*each);
  for (UnexpectedMessage* const each : std::exchange(moving_->taken_back, {})) {
    matcher_.take_out(each);
    unexpected_.discard(each);
  }
  return happened + end_bringing_in();
} catch (const std::bad_alloc&) {
  return put_off();
}

/// Whether anything that this rank has to do with is not over.
bool Engine::has_rest() const noexcept {
  return !moving_->bringing.empty() || !splits_.empty() || !network_->idle() ||
         std::ranges::any_of(links_.scheduled(), &Peer::has_to_send);
}

MeetingWords Engine::at_rest() const noexcept {
  const auto counts = network_->counts();
  MeetingWords words{counts.sent, counts.received, has_rest() ? std::uint64_t{1} : 0, 0};
  for (PeerId id = 0; id < links_.size(); ++id) {
    const Peer* const peer = links_.find(id);
    if (!peer) continue;
    words[sent] += peer->out.cells_written();
    words[received] += peer->in.cells_read();
  }
  return words;
}

Result<> Engine::come_to_rest(std::span<const std::uint32_t> to, std::span<UnexpectedMessage* const> taken) {
  RankTurns& turns = *links_.job().turns;
  const HostLines& lines = *turns.lines();
  moving_.emplace();
  moving_->to.assign(to.begin(), to.end());
  // Other ranks of this process write down where all go, when they know that all have come here.
  const auto leaves = [&](PeerId id) {
    return lines.host_of_process(lines.process_of(id)) != lines.host_of_process(to[id]);
  };
  moving_->leaves = leaves(rank());
  const std::uint32_t host_after = lines.host_of_process(to[rank()]);
  for (PeerId id = 0; id < size(); ++id) {
    const bool shares = lines.is_on_this_host(id) || lines.host_of_process(to[id]) == host_after;
    moving_->is_affected.push_back(id != rank() && shares && (leaves(id) || moving_->leaves));
  }
  unexpected_.come_to_rest(true);
  Clock::time_point last_news = Clock::now();
  for (;;) {
    for (unsigned looks = 0; looks < looks_before_meeting; ++looks) {
      const bool has_news = progress_at_rest(taken) != 0;
      if (has_news) {
        looks = 0;
        last_news = Clock::now();
      }
      turns.give_way(has_news, false);
    }
    MeetingWords words = at_rest();
    words[gives_up] = Clock::now() - last_news > patience_with_messages ? 1 : 0;
    MeetingWords all{};
    for (const MeetingWords& each : meet(words))
      for (std::size_t i = 0; i < all.size(); ++i)
        all[i] += each[i];
    if (all[gives_up] == 0 && (all[sent] != all[received] || all[under_way] != 0)) continue;
    if (all[gives_up] == 0) return {};
    unexpected_.come_to_rest(false);
    moving_.reset();
    return fail(ErrorClass::other, "no rank has moved: messages that are under way have not arrived");
  }
}

void Engine::part() {
  for (PeerId id = 0; id < size(); ++id) {
    Peer* const peer = links_.find(id);
    if (!peer || !moving_->is_affected[id] || !peer->is_local()) continue;
    close(*peer);
    links_.disconnect(*peer);
    // Of two that both leave, both do: neither looks there any more.
    if (moving_->leaves) links_.clear_rings(*peer);
  }
  network_->close_lines();
}

void Engine::leave_region() noexcept {
  claims_.leave();
  splits_.leave();
}

void Engine::enter_region() noexcept {
  // Rings that have been announced to it are looked for again.
  connections_seen_ = region().block(links_.slot()).connections.load(std::memory_order_acquire) - 1;
}

template <class Visit>
void Engine::for_each_moving_send(Visit visit) {
  completion_.pool().for_each([&](Request& request) {
    if (request.kind == Request::Kind::send && !request.complete && request.peer &&
        moving_->is_affected[request.peer->id])
      visit(request);
  });
}

void Engine::go_on() {
  RankTurns& turns = *links_.job().turns;
  // In this process, to which all of its ranks may have come.
  for (PeerId id = 0; id < size(); ++id)
    turns.lines()->set_process(id, moving_->to[id]);
  // Before anybody looks for them.
  for_each_moving_send([this](Request& send) {
    if (links_.job().slot_of(send.peer->id)) claims_.offer(send.cookie());
  });
  const std::vector<MeetingWords> places = meet({turns.process(), 0, 0, 0});
  for (PeerId id = 0; id < size(); ++id)
    turns.lines()->set_process(id, static_cast<std::uint32_t>(places[id][0]));
  for (PeerId id = 0; id < size(); ++id)
    if (Peer* const peer = links_.find(id); peer && links_.relate(*peer)) access_.probe(*peer);
  for_each_moving_send([this](Request& send) {
    if (send.peer->is_local())
      network_->hand_over(send);
    else
      network_->take_over(send);
  });
  matcher_.for_each_unexpected([this](UnexpectedMessage& each) {
    if (each.is_awaited && moving_->is_affected[each.peer->id]) each.is_claimable = each.peer->is_local();
  });
  moving_.reset();
  unexpected_.come_to_rest(false);
}

}  // namespace isthmus
