#include "p2p/agreement.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

namespace isthmus {
namespace {

/// Communicators whose last rounds are remembered; a process that is late by more finds no answer.
constexpr std::size_t most_spaces = 4096;
/// Rounds of one communicator that are kept: nobody can be further behind than by one, because a round ends
/// with all who live in it.
constexpr std::uint32_t rounds_kept = 2;
/// Revoked contexts that are not open here; a peer may name any.
constexpr std::size_t most_revoked = 65536;

}  // namespace

template <class Visit>
void Agreements::for_living(const Space& space, Visit visit) const {
  for (const PeerId member : space.members)
    if (member != around_.links.rank() && !around_.links.has_lost(member)) visit(member);
}

PeerId Agreements::coordinator(const Space& space) const {
  PeerId least = around_.links.rank();
  for_living(space, [&](PeerId member) { least = std::min(least, member); });
  return least;
}

void Agreements::join(ContextId context, std::span<const PeerId> members, Kind kind, Value mine,
                      std::function<void(const Value&)> done) {
  Space& space = space_of(context);
  space.members.assign(members.begin(), members.end());
  space.pending.push_back({kind, std::move(mine), std::move(done)});
  try {
    begin_pending(context, space);
  } catch (const std::bad_alloc&) {
    around_.losses.settle();  // it has been joined: what is left to do is done when there is memory
  }
}

void Agreements::begin_pending(ContextId context, Space& space) {
  if (space.pending.empty() || (space.begun > 0 && !space.rounds[space.begun - 1].is_committed)) return;
  const std::uint32_t number = space.begun;
  std::erase_if(space.rounds, [&](const auto& each) { return each.first + rounds_kept <= number; });
  Round& round = space.rounds[number];
  Pending next = std::move(space.pending.front());
  space.pending.pop_front();
  ++space.begun;
  round.is_joined = true;
  round.kind = next.kind;
  round.mine = std::move(next.mine);
  round.done = std::move(next.done);
  advance(context, space, number, round);
}

void Agreements::advance(ContextId context, Space& space, std::uint32_t number, Round& round) {
  if (!round.is_joined || round.is_committed) return;
  PeerId first = coordinator(space);
  // Who asks has seen all before it die, perhaps sooner than this process.
  if (round.asker != nobody && round.asker > first && first != around_.links.rank()) first = round.asker;
  if (first == around_.links.rank()) return coordinate(context, space, number, round);
  if (round.told != first) tell_state(first, context, number, round);
}

void Agreements::coordinate(ContextId context, Space& space, std::uint32_t number, Round& round) {
  const auto tell = [&](Says says, const Value& value) {
    for_living(space, [&](PeerId member) {
      send(member,
           {.context = context,
            .round = number,
            .says = says,
            .marks = 0,
            .index = 0,
            .flag = 0,
            .origin = around_.links.rank(),
            .word = 0},
           value);
    });
  };
  round.coordinates = true;
  if (!round.has_asked) {
    // The first coordinator is told without asking.
    if (std::ranges::min(space.members) != around_.links.rank())
      for_living(space, [&](PeerId member) {
        send(member, {.context = context,
                      .round = number,
                      .says = Says::asks,
                      .marks = last_mark,
                      .index = 0,
                      .flag = 0,
                      .origin = around_.links.rank(),
                      .word = 0});
      });
    round.has_asked = true;
  }
  if (!round.has_proposed) {
    bool all = true;
    for_living(space, [&](PeerId member) { all = all && round.states.contains(member); });
    if (!all) return;
    round.held = decide(space, round);
    round.origin = around_.links.rank();
    round.has_proposed = true;
  }
  if (!round.has_told) {
    tell(Says::proposes, *round.held);
    round.has_told = true;
  }
  bool all = true;
  for_living(space, [&](PeerId member) { all = all && round.accepted.contains(member); });
  if (!all) return;
  Value outcome = *round.held;
  tell(Says::committed, outcome);
  commit(context, space, round, std::move(outcome));
}

Agreements::Value Agreements::decide(const Space& space, const Round& round) const {
  const State* latest = nullptr;
  for (const auto& [member, state] : round.states) {
    if (state.says == Says::committed) return state.value;
    if (state.says == Says::holds && (!latest || state.origin > latest->origin)) latest = &state;
  }
  if (round.held && (!latest || round.origin >= latest->origin)) return *round.held;
  if (latest) return latest->value;

  Value made = round.mine;
  for (const auto& [member, state] : round.states) {
    made.flag &= state.value.flag;
    for (std::size_t i = 0; i < made.words.size(); ++i) {
      const std::uint64_t theirs = i < state.value.words.size() ? state.value.words[i] : 0;
      if (round.kind == Kind::agree)
        made.words[i] &= theirs;
      else if (i < words_for(space.members.size()))
        made.words[i] |= theirs;
    }
  }
  for (std::uint32_t i = 0; i < space.members.size(); ++i) {
    if (!around_.links.has_lost(space.members[i])) continue;
    if (round.kind == Kind::shrink)
      set(made.words, i);
    else if (!has(made.words, i))
      made.failed = true;
  }
  return made;
}

void Agreements::commit(ContextId context, Space& space, Round& round, Value value) {
  if (round.is_committed) return;
  round.held = std::move(value);
  if (round.done) round.done(*round.held);  // where that throws, it is called again
  round.is_committed = true;
  // A thread of this process may sleep until then.
  around_.completion.wake_threads();
  try {
    begin_pending(context, space);
  } catch (const std::bad_alloc&) {
    around_.losses.settle();
  }
}

void Agreements::settle() {
  for (auto& [context, space] : spaces_) {
    begin_pending(context, space);
    // Only the last can be open. It may end here, and another begin.
    if (space.begun > 0) advance(context, space, space.begun - 1, space.rounds.at(space.begun - 1));
  }
  for (auto& [id, revoked] : revoked_) {
    if (revoked.is_told) continue;
    tell_revoked(id, revoked.why);
    revoked.is_told = true;
  }
}

void Agreements::tell_state(PeerId to, ContextId context, std::uint32_t number, Round& round) {
  Says says = Says::joined;
  if (round.is_committed)
    says = Says::committed;
  else if (round.held)
    says = Says::holds;
  else if (!round.is_joined)
    return;
  send(to,
       {.context = context,
        .round = number,
        .says = says,
        .marks = 0,
        .index = 0,
        .flag = 0,
        .origin = round.origin,
        .word = 0},
       round.held ? *round.held : round.mine);
  round.told = to;
}

void Agreements::send(PeerId to, Notice notice, const Value& value) {
  notice.flag = value.flag;
  const std::uint8_t marks = value.failed ? failed_mark : 0;
  const std::size_t last = std::max<std::size_t>(value.words.size(), 1) - 1;
  for (std::size_t i = 0; i <= last; ++i) {
    notice.index = static_cast<std::uint16_t>(i);
    notice.word = i < value.words.size() ? value.words[i] : 0;
    notice.marks = static_cast<std::uint8_t>(marks | (i == last ? last_mark : 0));
    send(to, notice);
  }
}

void Agreements::send(PeerId to, const Notice& notice) {
  auto owned = std::make_unique_for_overwrite<std::byte[]>(sizeof notice);
  std::memcpy(owned.get(), &notice, sizeof notice);
  const Target target{to, ContextIds::failure, static_cast<int>(around_.links.rank()), 0};
  Request* sent = around_.sends.start_cpu_send(target, Payload::of(owned.get(), sizeof notice),
                                               SendMode::standard, Start::nonblocking);
  if (!sent) return;
  if (!sent->complete) sent->staging = std::move(owned);
  around_.completion.free(sent);
}

void Agreements::came(MatchContext& context, UnexpectedMessage& message) {
  Notice notice{};
  // Who has been found dead is not heard any more: what others agree on may rest on its silence.
  const bool fits = message.content() == UnexpectedMessage::Content::bytes &&
                    message.bytes == sizeof notice && message.arrived == message.bytes && message.peer &&
                    !message.peer->lost;
  if (fits) std::memcpy(&notice, message.data, sizeof notice);
  try {
    if (fits) hear(message.peer->id, notice);
  } catch (...) {
    // It is not kept: who brings it brings it again when there is memory, and it is heard from the beginning.
    context.remove(&message);
    throw;
  }
  around_.unexpected.consume(context, message);
}

void Agreements::hear(PeerId from, const Notice& notice) {
  if (notice.says == Says::revokes) {
    const auto why = static_cast<ErrorClass>(notice.flag);
    return hear_revoked(notice.context,
                        why == ErrorClass::proc_aborted ? ErrorClass::proc_aborted : ErrorClass::revoked);
  }
  Value& value = incoming_[from];
  if (notice.index == 0) value = {};
  // A word more than there are members for is the most that a round carries. One that is there has been heard
  // before, in vain.
  if (notice.index > value.words.size() || notice.index > words_for(around_.links.size())) return;
  value.flag = notice.flag;
  value.failed = (notice.marks & failed_mark) != 0;
  value.words.resize(notice.index);
  value.words.push_back(notice.word);
  if ((notice.marks & last_mark) == 0) return;
  hear(from, notice, value);
  incoming_.erase(from);
}

Agreements::Space& Agreements::space_of(ContextId context) {
  const auto known = spaces_.find(context);
  if (known != spaces_.end()) return known->second;
  opened_.push_back(context);
  try {
    return spaces_[context];
  } catch (...) {
    opened_.pop_back();
    throw;
  }
}

Agreements::Round* Agreements::round_of(const Notice& notice) {
  const auto known = spaces_.find(notice.context);
  if (known == spaces_.end()) {
    if (opened_.size() >= most_spaces) {
      spaces_.erase(opened_.front());
      opened_.pop_front();
    }
    return &space_of(notice.context).rounds[notice.round];
  }
  Space& space = known->second;
  // The round that this process joins next, or one of those that are kept.
  if (notice.round > space.begun + 1 || notice.round + rounds_kept < space.begun) return nullptr;
  return &space.rounds[notice.round];
}

void Agreements::hear(PeerId from, const Notice& notice, Value value) {
  Round* const round = round_of(notice);
  if (!round) return;
  Space& space = spaces_[notice.context];
  switch (notice.says) {
    case Says::joined:
    case Says::holds:
      round->states[from] = {notice.says, notice.says == Says::holds ? notice.origin : 0, std::move(value)};
      break;
    case Says::committed:
      if (round->coordinates && !round->is_committed) {
        // The others may know of it through this process alone.
        round->states[from] = {notice.says, 0, std::move(value)};
        break;
      }
      commit(notice.context, space, *round, std::move(value));
      return;
    case Says::proposes:
      if (round->is_committed) return tell_state(from, notice.context, notice.round, *round);
      if (!round->held || round->origin == nobody || notice.origin >= round->origin) {
        round->held = std::move(value);
        round->origin = notice.origin;
      }
      send(from, {.context = notice.context,
                  .round = notice.round,
                  .says = Says::accepts,
                  .marks = last_mark,
                  .index = 0,
                  .flag = 0,
                  .origin = from,
                  .word = 0});
      return;
    case Says::accepts:
      if (notice.origin != around_.links.rank()) return;
      round->accepted.insert(from);
      break;
    case Says::asks:
      if (round->asker == nobody || from > round->asker) round->asker = from;
      return tell_state(from, notice.context, notice.round, *round);
    case Says::revokes:
      return;
  }
  advance(notice.context, space, notice.round, *round);
}

void Agreements::opened(ContextId id) noexcept {
  const auto found = revoked_.find(id);
  if (found == revoked_.end()) return;
  // What it has that needs memory is done with the rest.
  found->second.is_told = false;
  around_.losses.settle();
}

void Agreements::closed(ContextId id) noexcept try {
  if (!around_.losses.lost().empty() && revoked_.size() < most_revoked)
    revoked_.emplace(first_of(id), Revoked{.why = ErrorClass::revoked, .is_told = true});
} catch (const std::bad_alloc&) {
  // What others still send there is kept as what comes before its communicator is made.
  return;
}

void Agreements::hear_revoked(ContextId id, ErrorClass why) {
  if (revoked_.contains(id)) return;
  if (revoked_.size() >= most_revoked) {
    tell_revoked(id, why);
    return around_.losses.settle();
  }
  revoked_.emplace(id, Revoked{.why = why, .is_told = false});
  around_.losses.settle();
}

void Agreements::tell_revoked(ContextId id, ErrorClass why) {
  const std::span<const PeerId> members = around_.losses.break_off(id, why);
  // Everybody who hears of it tells all: then all who live hear of it, whoever dies meanwhile.
  for (const PeerId member : members)
    if (member != around_.links.rank() && !around_.links.has_lost(member))
      send(member, {.context = id,
                    .round = 0,
                    .says = Says::revokes,
                    .marks = last_mark,
                    .index = 0,
                    .flag = static_cast<std::int32_t>(why),
                    .origin = 0,
                    .word = 0});
  around_.completion.wake_threads();
}

}  // namespace isthmus
