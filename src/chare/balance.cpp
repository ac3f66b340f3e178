// Balancing: the loads of a collection's chares go to its root, where a function of the program or of the
// library says who is to move; the moves are migrations. Either the chares come to it by themselves and wait
// (`at_sync`), or somebody asks, and all but those that cannot move are taken where they are (`balance_now`).
//
// A chare at sync does not leave its process before it is told to, so what the root knows of it stays true.
// With the other way it may have left or ended meanwhile: then it is passed over.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "chare/runtime.hpp"
#include "chare/strategies.hpp"

namespace isthmus::chare {
namespace {

struct Move {
  Index index;
  std::uint64_t to;
};

template <class T>
std::vector<T> read_all(std::span<const std::byte> payload) {
  std::vector<T> all(payload.size() / sizeof(T));
  if (!all.empty()) std::memcpy(all.data(), payload.data(), all.size() * sizeof(T));
  return all;
}

Balancing& balancing_of(Collection& collection) {
  if (!collection.balancing) collection.balancing = std::make_unique<Balancing>();
  return *collection.balancing;
}

/// Its load, which begins anew.
Load take_load(Element& element, std::uint32_t rank) {
  const Load load{.index = element.index,
                  .seconds = element.load,
                  .rank = rank,
                  .to = rank,
                  .is_fixed = element.is_busy() || element.is_at_sync ? 1U : 0U,
                  .unused = 0};
  if (!element.has_own_load) element.load = 0;
  return load;
}

}  // namespace

void Runtime::set_load(Element& element, double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) fail(fmt::format("its load is said to be {} seconds", seconds));
  element.load = seconds;
  element.has_own_load = true;
}

// --- chares that come by themselves

void Runtime::at_sync(Element& element, const Item* next, const Item* balancer) {
  Collection& collection = *element.collection;
  const auto name = [&] { return collection.name(element.index); };
  need_movable(element);
  if (element.is_at_sync) fail(fmt::format("{} waits to be balanced already", name()));
  if (next->type != collection.type() || balancer->type != collection.type())
    fail(fmt::format("{} is to be balanced as a chare of another class", name()));
  turn_to(self_);
  Balancing& balancing = balancing_of(collection);
  if (balancing.waiting.empty()) {
    balancing.next = next;
    balancing.balancer = balancer;
  }
  need_same_sync(collection, balancing.next, balancing.balancer, next, balancer);
  balancing.loads.push_back(take_load(element, rank()));
  balancing.waiting.push_back(element.index);
  element.is_at_sync = true;
  if (balancing.waiting.size() == collection.size()) return send_loads(collection);
  if (!std::exchange(balancing.is_listed, true)) syncs_.push_back(&collection);
}

void Runtime::need_same_sync(const Collection& collection, const Item* next, const Item* balancer,
                             const Item* other_next, const Item* other_balancer) {
  if (next != other_next)
    fail(fmt::format("chares of {} that are balanced together go on with {} and with {}",
                     readable(collection.type()->name), readable(next->name), readable(other_next->name)));
  if (balancer != other_balancer)
    fail(fmt::format("chares of {} are to be balanced together by {} and by {}",
                     readable(collection.type()->name), readable(balancer->name),
                     readable(other_balancer->name)));
}

void Runtime::send_loads(Collection& collection) {
  Balancing& balancing = *collection.balancing;
  if (balancing.loads.empty()) return;
  const Record record{.kind = RecordKind::loads,
                      .item = static_cast<std::uint16_t>(balancing.balancer->number),
                      .collection = collection.id(),
                      .index = {std::uint64_t{1} + balancing.next->number, 0}};
  send_record(collection.root(), record, std::as_bytes(std::span(balancing.loads)));
  balancing.loads.clear();
}

/// Those of chares that are not all at sync yet. Whether there were any.
bool Runtime::send_syncs() {
  if (syncs_.empty()) return false;
  for (Collection* const collection : std::exchange(syncs_, {})) {
    collection->balancing->is_listed = false;
    send_loads(*collection);
  }
  return true;
}

// --- the root

void Runtime::do_loads(Collection& collection, Message& message) {
  need_root(collection);
  Balancing& balancing = balancing_of(collection);
  const bool is_sync = message.index.low != 0;
  if (message.bytes % sizeof(Load) != 0 || message.item->type != collection.type())
    fail("these are no loads of its chares");
  if (!is_sync && balancing.missing == 0) fail("nobody has asked for loads");
  std::vector<Load>& all = is_sync ? balancing.synced : balancing.asked;
  if (is_sync) {
    const Item* const next = &item_of(static_cast<std::uint32_t>(message.index.low - 1), ISTHMUS_CHARE_ENTRY);
    if (all.empty()) {
      balancing.sync_next = next;
      balancing.sync_balancer = message.item;
    }
    need_same_sync(collection, balancing.sync_next, balancing.sync_balancer, next, message.item);
  }
  for (Load load : read_all<Load>(message.payload())) {
    if (!std::isfinite(load.seconds) || load.seconds < 0 || !collection.may_have(load.index))
      fail(
          fmt::format("it says that {} has a load of {} seconds", collection.name(load.index), load.seconds));
    load.rank = load.to = message.origin;
    all.push_back(load);
  }
  if (is_sync) return look_at_sync(collection);
  if (--balancing.missing == 0) balancing.moving = place(collection, balancing.asked, *message.item, 0);
  if (balancing.missing == 0 && balancing.moving == 0) end_balance(collection);
}

/// Whether all have come.
void Runtime::look_at_sync(Collection& collection) {
  if (!collection.balancing || collection.balancing->synced.empty() || !collection.is_counted()) return;
  Balancing& balancing = *collection.balancing;
  const std::uint64_t population = collection.population();
  if (balancing.synced.size() > population)
    fail(fmt::format("{} chares of {} are at sync, of {}", balancing.synced.size(),
                     readable(collection.type()->name), population));
  if (balancing.synced.size() == population)
    place(collection, balancing.synced, *balancing.sync_balancer, 1 + balancing.sync_next->number);
}

/// Lets the balancer say who moves, and tells them: all processes if chares are at sync. How many move.
/// `loads` is empty then.
std::uint64_t Runtime::place(Collection& collection, std::vector<Load>& loads, const Item& balancer,
                             std::uint64_t next) {
  isthmus_chare_balance balance{.loads = loads.data(), .count = loads.size(), .processes = size()};
  const Item* const around = std::exchange(balancing_, &balancer);
  balancer.invoke(&balance, loads.data(), loads.size(), 0);
  std::vector<std::vector<Move>> moves(size());
  std::uint64_t moving = 0;
  for (const Load& load : loads) {
    if (load.rank >= size() || !collection.may_have(load.index))
      fail("it has changed more than where the chares go");
    if (load.to == load.rank) continue;
    if (load.to >= size())
      fail(fmt::format("it moves {} to rank {} of {}", collection.name(load.index), load.to, size()));
    if (load.is_fixed != 0) fail(fmt::format("it moves {}, which cannot move", collection.name(load.index)));
    moves[load.rank].push_back({load.index, load.to});
    ++moving;
  }
  balancing_ = around;
  loads.clear();
  const std::uint32_t round = next != 0 ? ++collection.balancing->rounds_told : 0;
  const Record record{.kind = RecordKind::moves, .collection = collection.id(), .index = {next, round}};
  for (std::uint32_t to = 0; to < size(); ++to)
    if (next != 0 || !moves[to].empty()) send_record(to, record, std::as_bytes(std::span(moves[to])));
  return moving;
}

// --- those who move

void Runtime::do_moves(Collection& collection, Message& message) {
  if (message.origin != collection.root() || message.bytes % sizeof(Move) != 0)
    fail("it tells chares to move, which is not for it to tell");
  if (message.index.low != 0) {
    const Item& next = item_of(static_cast<std::uint32_t>(message.index.low - 1), ISTHMUS_CHARE_ENTRY);
    return move_synced(collection, message, next);
  }
  std::uint64_t staying = 0;
  for (const Move& move : read_all<Move>(message.payload())) {
    Element* const element = collection.find(move.index);
    if (move.to >= size()) fail(fmt::format("a chare is to move to rank {}", move.to));
    if (element && element->object && !element->is_busy() && !element->is_at_sync && move.to != rank())
      move_element(*element, static_cast<std::uint32_t>(move.to), {.tells_root = 1});
    else
      ++staying;
  }
  if (staying != 0) tell_moved(collection, staying);
}

void Runtime::move_synced(Collection& collection, Message& message, const Item& next) {
  Balancing& balancing = balancing_of(collection);
  if (!balancing.loads.empty() || (!balancing.waiting.empty() && balancing.next != &next) ||
      message.index.high != ++balancing.rounds)
    fail("its chares do not wait for this");
  const std::vector<Index> waiting = std::exchange(balancing.waiting, {});
  for (const Move& move : read_all<Move>(message.payload())) {
    Element* const element = collection.find(move.index);
    if (!element || !element->is_at_sync || move.to >= size() || move.to == rank())
      fail(fmt::format("{} is to move to rank {}", collection.name(move.index), move.to));
    element->is_at_sync = false;
    move_element(*element, static_cast<std::uint32_t>(move.to),
                 {.next = 1 + next.number, .round = balancing.rounds});
  }
  for (const std::vector<Index>& staying : {waiting, std::exchange(balancing.ahead, {})})
    for (const Index index : staying)
      if (Element* const element = collection.find(index);
          element && std::exchange(element->is_at_sync, false))
        go_on(*element, next);
}

/// A chare has come that was at sync in `round`.
void Runtime::arrive_synced(Element& element, const Item& next, std::uint32_t round) {
  Balancing& balancing = balancing_of(*element.collection);
  if (round != balancing.rounds && round != balancing.rounds + 1)
    fail(fmt::format("it comes with balancing {}, of {}", round, balancing.rounds));
  if (round == balancing.rounds) return go_on(element, next);
  element.is_at_sync = true;
  balancing.ahead.push_back(element.index);
}

/// Invokes an entry without arguments on a chare of this process.
void Runtime::go_on(const Element& element, const Item& next) {
  if (next.type != element.collection->type()) fail("it is to go on with an entry of another class");
  const Record record{.kind = RecordKind::invoke,
                      .item = static_cast<std::uint16_t>(next.number),
                      .collection = element.collection->id(),
                      .index = element.index};
  ++count_.sent;
  enqueue(make_message(rank(), record, 0));
}

// --- when somebody asks

void Runtime::balance_now(std::uint64_t id, const Item* balancer, const Callback& callback) {
  const Record record{.kind = RecordKind::ask_balance,
                      .item = static_cast<std::uint16_t>(balancer->number),
                      .collection = id};
  if (Collection::maker_of(id) >= roots_) fail("a proxy that names no collection was used");
  send_record(Collection::root_of(id, size()), record, std::as_bytes(std::span(&callback, 1)));
}

void Runtime::ask_balance(Collection& collection, Message& message) {
  need_root(collection);
  const std::string name = readable(collection.type()->name);
  if (message.bytes != sizeof(Callback) || message.item->type != collection.type())
    fail("it asks for nothing that there is");
  if (collection.is_group()) fail(fmt::format("{} is a group, and does not move", name));
  if (!collection.type()->write)
    fail(fmt::format(
        "chares of {} cannot move: the class needs `serialize` and a constructor without arguments", name));
  Balancing& balancing = balancing_of(collection);
  if (std::exchange(balancing.is_asked, true))
    fail(fmt::format("chares of {} are being balanced already", name));
  std::memcpy(&balancing.callback, message.data(), sizeof(Callback));
  balancing.missing = size();
  const Record record{.kind = RecordKind::ask_loads,
                      .item = static_cast<std::uint16_t>(message.item->number),
                      .collection = collection.id()};
  for (std::uint32_t to = 0; to < size(); ++to)
    send_record(to, record, {});
}

void Runtime::answer_loads(Collection& collection, const Message& message) {
  std::vector<Load> loads;
  collection.for_each([&](Element& element) { loads.push_back(take_load(element, rank())); });
  const Record record{.kind = RecordKind::loads,
                      .item = static_cast<std::uint16_t>(message.item->number),
                      .collection = collection.id()};
  send_record(collection.root(), record, std::as_bytes(std::span(loads)));
}

void Runtime::tell_moved(const Collection& collection, std::uint64_t count) {
  send_record(collection.root(), {.kind = RecordKind::moved, .collection = collection.id()},
              std::as_bytes(std::span(&count, 1)));
}

void Runtime::do_moved(Collection& collection, Message& message) {
  need_root(collection);
  std::uint64_t count = 0;
  if (message.bytes != sizeof count) fail("it does not say how many have moved");
  std::memcpy(&count, message.data(), sizeof count);
  if (!collection.balancing || count > collection.balancing->moving || count == 0)
    fail(fmt::format("{} chares have moved that nobody has told to", count));
  collection.balancing->moving -= count;
  if (collection.balancing->moving == 0) end_balance(collection);
}

void Runtime::end_balance(Collection& collection) {
  collection.balancing->is_asked = false;
  call(collection.balancing->callback, {});
}

}  // namespace isthmus::chare
