// Chares that move. Where one is, its home knows, and each process that it has left knows where to; each says
// how many moves its knowledge is old, so that what follows it comes nearer with each step.
//
// Broadcasts are numbered, and a process may be ahead of another. A chare that comes to where more broadcasts
// have been done than it has had gets the missing ones from where it comes from: that process does them
// sooner or later. A chare that is ahead of its new process passes over those that it has had. What comes
// before an earlier one is held. So each chare gets each broadcast once, and all get them in one order.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "chare/runtime.hpp"

namespace isthmus::chare {
namespace {

/// In front of what the chare has written of itself.
struct Baggage {
  std::uint32_t broadcasts;
  std::uint32_t reductions;
  std::uint32_t moves;
  std::uint32_t covered;
  std::uint32_t next;  ///< 1 + the entry that it goes on with; 0: none
  std::uint16_t tells_root;
  std::uint16_t has_own_load;
  double load;
  std::uint64_t round;  ///< of `next`
};
/// What is told of an arrival.
struct Arrival {
  std::uint32_t moves;
  std::uint32_t broadcasts;  ///< done where it is
};

}  // namespace

void Runtime::migrate(Element& element, std::uint32_t to) {
  if (to >= size())
    fail(fmt::format("{} is to move to rank {}", element.collection->name(element.index), to));
  need_movable(element);
  element.moves_to = to;
  if (self_ != &element) finish_entry(element);
}

void Runtime::need_movable(const Element& element) {
  const Collection& collection = *element.collection;
  if (collection.is_group())
    fail(fmt::format("{} is of a group, and does not move", collection.name(element.index)));
  if (!collection.type()->write)
    fail(fmt::format("{} cannot move: its class needs `serialize` and a constructor without arguments",
                     collection.name(element.index)));
}

/// What the entry has asked for.
void Runtime::finish_entry(Element& element) {
  if (element.is_at_sync && (element.ends || element.moves_to != stays))
    fail(fmt::format("{} {} while it waits to be balanced", element.collection->name(element.index),
                     element.ends ? "ends" : "moves by itself"));
  if (element.receiving != 0) return;  // when its data is there
  if (element.ends) return end_element(element);
  const std::uint32_t to = std::exchange(element.moves_to, stays);
  if (to != stays && to != rank()) move_element(element, to, {});
}

void Runtime::move_element(Element& element, std::uint32_t to, OnArrival then) {
  Collection& collection = *element.collection;
  const Index index = element.index;
  if (element.held != 0)
    fail(fmt::format("{} moves while {} of its coroutines wait", collection.name(index), element.held));
  const Baggage baggage{.broadcasts = element.broadcasts,
                        .reductions = element.reductions,
                        .moves = element.moves + 1,
                        .covered = element.covered,
                        .next = then.next,
                        .tells_root = static_cast<std::uint16_t>(then.tells_root),
                        .has_own_load = element.has_own_load ? std::uint16_t{1} : std::uint16_t{0},
                        .load = element.load,
                        .round = then.round};
  const Item& type = *collection.type();
  const Record record{.kind = RecordKind::migrate,
                      .item = static_cast<std::uint16_t>(type.number),
                      .collection = collection.id(),
                      .index = index};
  Element* const around = std::exchange(self_, &element);
  packs_ = true;
  std::byte* const at = begin_record(to, record, sizeof baggage + type.measure(element.object));
  std::memcpy(at, &baggage, sizeof baggage);
  type.write(element.object, at + sizeof baggage);
  packs_ = false;
  finish_record();
  collection.departures.push_back({.index = index, .moves = baggage.moves, .had = element.covered});
  void* const object = element.object;
  collection.remove(element);
  type.destroy(object);
  self_ = around;
  collection.located.insert_or_assign(index, Location{.rank = to, .moves = baggage.moves});
  if (const auto held = collection.held_broadcasts.extract(index))
    for (const auto& [number, broadcast] : held.mapped())
      pass_broadcast_on(collection, index, number, broadcast);
  if (element.pending == 0) collection.recycle(element);
}

void Runtime::do_migrate(Collection& collection, Message& message) {
  Baggage baggage;
  if (message.item != collection.type()) fail("a chare of another class moves into its collection");
  if (message.bytes < sizeof baggage) fail(fmt::format("a chare moves with {} bytes", message.bytes));
  if (collection.find(message.index)) fail("a chare moves to where there is one of its index");
  std::memcpy(&baggage, message.data(), sizeof baggage);
  collection.located.erase(message.index);
  Element& element = *collection.add(message.index);
  element.reductions = baggage.reductions;
  element.moves = baggage.moves;
  element.broadcasts = baggage.broadcasts;
  element.covered = std::max(baggage.covered, collection.broadcasts);
  element.has_own_load = baggage.has_own_load != 0;
  element.load = baggage.load;
  Element* const around = std::exchange(self_, &element);
  const Item* const made = std::exchange(making_, message.item);
  element.object = message.item->make(message.data() + sizeof baggage, message.bytes - sizeof baggage);
  making_ = made;
  self_ = around;
  const Arrival arrival{.moves = baggage.moves, .broadcasts = collection.broadcasts};
  const Record arrived{.kind = RecordKind::arrived, .collection = collection.id(), .index = message.index};
  send_record(message.origin, arrived, std::as_bytes(std::span(&arrival, 1)));
  tell_home(collection, message.index, {.rank = rank(), .moves = baggage.moves});
  if (baggage.tells_root != 0) tell_moved(collection, 1);
  if (baggage.next != 0)
    arrive_synced(element, item_of(baggage.next - 1, ISTHMUS_CHARE_ENTRY),
                  static_cast<std::uint32_t>(baggage.round));
  release_kept(collection, message.index);
}

void Runtime::do_arrived(Collection& collection, Message& message) {
  Arrival arrival;
  if (message.bytes != sizeof arrival) fail("it does not say what has arrived");
  std::memcpy(&arrival, message.data(), sizeof arrival);
  const auto departure = std::ranges::find_if(collection.departures, [&](const Departure& each) {
    return is_same(each.index, message.index) && each.moves == arrival.moves && !each.has_arrived;
  });
  if (departure == collection.departures.end()) fail("no such chare has left here");
  departure->has_arrived = true;
  departure->until = arrival.broadcasts;
  // Those that have been done here since it left; those that will be are passed on when they are.
  const Departure left = *departure;
  if (left.until <= collection.broadcasts) collection.departures.erase(departure);
  for (const auto& [number, broadcast] : collection.broadcast_log)
    if (number > left.had && number <= left.until)
      pass_broadcast_on(collection, left.index, number, broadcast);
  if (std::ranges::all_of(collection.departures, &Departure::has_arrived)) collection.broadcast_log.clear();
}

/// A broadcast is being done here: those who have left may not get it elsewhere.
void Runtime::log_broadcast(Collection& collection, std::uint32_t number, const Message& message,
                            std::span<const std::byte> payload) {
  if (collection.departures.empty()) return;
  const Kept kept{
      .item = message.item, .origin = message.origin, .payload = {payload.begin(), payload.end()}};
  std::vector<Index> missing;
  std::erase_if(collection.departures, [&](const Departure& each) {
    if (!each.has_arrived) return false;
    if (number > each.had && number <= each.until) missing.push_back(each.index);
    return each.until <= number;
  });
  for (const Index index : missing)
    pass_broadcast_on(collection, index, number, kept);
  if (!std::ranges::all_of(collection.departures, &Departure::has_arrived))
    collection.broadcast_log.emplace(number, kept);
}

void Runtime::pass_broadcast_on(Collection& collection, Index index, std::uint32_t number,
                                const Kept& broadcast) {
  const Record record{.kind = RecordKind::passed,
                      .item = static_cast<std::uint16_t>(broadcast.item->number),
                      .origin = broadcast.origin + 1,
                      .collection = collection.id(),
                      .index = index};
  const std::uint64_t prefix = number;  // 8 bytes, so that what follows stays aligned
  std::byte* const at =
      begin_record(whereabouts(collection, index), record, sizeof prefix + broadcast.payload.size());
  std::memcpy(at, &prefix, sizeof prefix);
  if (!broadcast.payload.empty())
    std::memcpy(at + sizeof prefix, broadcast.payload.data(), broadcast.payload.size());
  finish_record();
}

/// It has not had an earlier one.
void Runtime::hold_broadcast(Element& element, std::uint32_t number, Message& message) {
  const auto payload = message.payload();
  Kept kept{.item = message.item, .origin = message.origin, .payload = {payload.begin(), payload.end()}};
  auto& held = element.collection->held_broadcasts[element.index];
  if (number <= element.broadcasts || !held.emplace(number, std::move(kept)).second)
    fail(fmt::format("{} gets broadcast {} a second time", element.collection->name(element.index), number));
}

void Runtime::execute_passed(Message* message) {
  Element* const element = route(message);
  if (!element) return;
  current_ = message;
  std::uint64_t number = 0;
  if (message->bytes < sizeof number) fail("it has no number");
  std::memcpy(&number, message->data(), sizeof number);
  message->skip += sizeof number;
  message->bytes -= sizeof number;
  hold_broadcast(*element, static_cast<std::uint32_t>(number), *message);
  deliver_held(*element->collection, element->index);
  current_ = nullptr;
  ++count_.done;
  end_message(message);
}

/// Those of a chare that come next. An entry of it may end or move it: then it is not found any more, and has
/// taken those that were left.
void Runtime::deliver_held(Collection& collection, Index index) {
  Message* const around = current_;
  for (;;) {
    Element* const element = collection.find(index);
    const auto held = collection.held_broadcasts.find(index);
    if (!element || held == collection.held_broadcasts.end()) break;
    const auto next = held->second.begin();
    if (next->first != element->broadcasts + 1) break;
    element->broadcasts = next->first;
    const Kept kept = std::move(next->second);
    held->second.erase(next);
    if (held->second.empty()) collection.held_broadcasts.erase(held);
    Message* const message = make_message(kept.origin,
                                          {.kind = RecordKind::passed,
                                           .item = static_cast<std::uint16_t>(kept.item->number),
                                           .collection = collection.id(),
                                           .index = index},
                                          kept.payload.size());
    if (!kept.payload.empty()) std::memcpy(message->data(), kept.payload.data(), kept.payload.size());
    current_ = message;
    call_entry(*element, *message);
    pool_.give_back(message);
  }
  current_ = around;
}

void Runtime::tell_home(Collection& collection, Index index, const Location& where) {
  const std::uint32_t home = collection.home(index);
  if (home == rank()) return;
  const Record located{.kind = RecordKind::located, .collection = collection.id(), .index = index};
  send_record(home, located, std::as_bytes(std::span(&where, 1)));
}

/// Only what is newer than what is known here.
void Runtime::learn(Collection& collection, Index index, const Location& where) const {
  const Element* const here = collection.find(index);
  if (where.rank == rank() || (here && here->moves >= where.moves)) return;
  const auto [known, is_new] = collection.located.try_emplace(index, where);
  if (!is_new && known->second.moves < where.moves) known->second = where;
}

}  // namespace isthmus::chare
