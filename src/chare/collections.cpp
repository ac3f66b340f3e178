// Arrays and groups: how they and their chares begin and end, and what goes to all of a collection.
#include <fmt/format.h>

#include <cstring>
#include <limits>
#include <utility>

#include "chare/runtime.hpp"

namespace isthmus::chare {
namespace {

/// What is told of a new collection, before the arguments of its chares.
struct Creation {
  Shape shape;
  std::uint32_t type;
  std::uint32_t constructor;
};
constexpr std::uint32_t no_constructor = ~0U;

/// What hands on an invocation of all chares of a collection, as the broadcast `number`.
Record broadcast_of(const Message& message, Index number) {
  return {.kind = RecordKind::broadcast,
          .item = static_cast<std::uint16_t>(message.item->number),
          .priority = message.priority,
          .origin = message.origin + 1,
          .collection = message.collection,
          .index = number};
}

}  // namespace

std::uint64_t Runtime::create(const Shape& shape, const Item* type, const Item* constructor,
                              std::span<const std::byte> arguments) {
  if (const Result<> fits = check(shape, size(), nodes_.size()); !fits) fail(fits.error().text());
  const std::uint64_t id = Collection::id_of(rank(), next_collection_++);
  const Creation creation{.shape = shape,
                          .type = type->number,
                          .constructor = constructor ? constructor->number : no_constructor};
  std::vector<std::byte> text(sizeof creation + arguments.size());
  std::memcpy(text.data(), &creation, sizeof creation);
  if (!arguments.empty()) std::memcpy(text.data() + sizeof creation, arguments.data(), arguments.size());
  const Record record{.kind = RecordKind::create, .collection = id};
  send_down(rank(), record, text);
  found(id, text);
  return id;
}

void Runtime::make_collection(Message& message) {
  if (find_collection(message.collection)) fail("it makes a collection a second time");
  if (static_cast<std::uint32_t>(message.collection) == 0) fail("it makes a collection without a number");
  send_down(Collection::root_of(message.collection, size()),
            {.kind = RecordKind::create, .collection = message.collection}, message.payload());
  found(message.collection, message.payload());
}

void Runtime::found(std::uint64_t id, std::span<const std::byte> text) {
  Creation creation;
  if (text.size() < sizeof creation) fail(fmt::format("a collection is made with {} bytes", text.size()));
  std::memcpy(&creation, text.data(), sizeof creation);
  if (const Result<> fits = check(creation.shape, size(), nodes_.size()); !fits) fail(fits.error().text());
  const Item& type = item_of(creation.type, ISTHMUS_CHARE_TYPE);
  Collection& collection =
      *collections_.emplace(id, std::make_unique<Collection>(id, creation.shape, &type, size(), &nodes_))
           .first->second;
  collection.is_measured = items_.has_balancer(type);
  if (creation.shape.kind != ISTHMUS_CHARE_SPARSE) {
    const Item& constructor = item_of(creation.constructor, ISTHMUS_CHARE_CONSTRUCTOR);
    collection.have_own_block(rank());
    const std::uint64_t first = collection.first();
    for (std::uint64_t i = 0; i < collection.block_size(); ++i)
      make_element(collection, {first + i, 0}, constructor, text.subspan(sizeof creation));
  }
  const auto early = early_.find(id);
  if (early == early_.end()) return;
  for (Message* const message : early->second) {
    --count_.kept;
    enqueue(message);
  }
  early_.erase(early);
}

Element& Runtime::make_element(Collection& collection, Index index, const Item& constructor,
                               std::span<const std::byte> arguments) {
  if (constructor.type != collection.type())
    fail(fmt::format("{} is no constructor of {}", readable(constructor.name), collection.name(index)));
  Element* const element = collection.add(index);
  element->broadcasts = element->covered = collection.broadcasts;
  Element* const around = std::exchange(self_, element);
  const Item* const made = std::exchange(making_, &constructor);
  void* const object = constructor.make(arguments.data(), arguments.size());
  self_ = around;
  making_ = made;
  element->object = object;
  finish_entry(*element);
  return *element;
}

void Runtime::insert(std::uint64_t id, Index index, std::uint32_t to, const Item* constructor,
                     std::span<const std::byte> arguments) {
  Collection* const collection = find_collection(id);
  if (!collection) fail("a chare is inserted into a collection that this process does not know yet");
  if (!collection->is_sparse())
    fail(fmt::format("{} is inserted into an array that is full", collection->name(index)));
  if (collection->is_closed)
    fail(fmt::format("{} is inserted after done_inserting", collection->name(index)));
  if (to == ISTHMUS_CHARE_HOME) to = collection->home(index);
  if (to >= size()) fail(fmt::format("{} is inserted in rank {}", collection->name(index), to));
  ++collection->inserts_sent;
  const Record record{.kind = RecordKind::insert,
                      .item = static_cast<std::uint16_t>(constructor->number),
                      .collection = id,
                      .index = index};
  send_record(to, record, arguments);
}

/// Whether there is one, as far as is known here.
bool Runtime::is_there(const Collection& collection, Index index) {
  const auto known = collection.located.find(index);
  return collection.find(index) || (known != collection.located.end() && known->second.rank != nowhere);
}

void Runtime::do_insert(Collection& collection, Message& message) {
  if (!collection.is_sparse()) fail("it inserts into an array that is full");
  if (is_there(collection, message.index)) fail("it is there already");
  ++collection.inserts_done;
  tell_home(collection, message.index, {.rank = rank(), .moves = 0, .is_new = 1});
  make_element(collection, message.index, *message.item, message.payload());
  release_kept(collection, message.index);
}

void Runtime::do_located(Collection& collection, Message& message) {
  Location where;
  if (message.bytes != sizeof where) fail("it does not say where the chare is");
  std::memcpy(&where, message.data(), sizeof where);
  if (where.rank >= size() && where.rank != nowhere)
    fail(fmt::format("it says that the chare is in rank {}", where.rank));
  if (where.is_new != 0 && collection.home(message.index) == rank()) {
    if (is_there(collection, message.index))
      fail(fmt::format("it has been inserted in rank {} and elsewhere", where.rank));
    collection.located.erase(message.index);
  }
  learn(collection, message.index, where);
  release_kept(collection, message.index);
}

void Runtime::release_kept(Collection& collection, Index index) {
  const auto kept = collection.kept.find(index);
  if (kept == collection.kept.end()) return;
  for (Message* const message : kept->second) {
    --count_.kept;
    enqueue(message);
  }
  collection.kept.erase(kept);
}

void Runtime::destroy(Element& element) {
  element.ends = true;
  // One that is not at work has nothing to end.
  if (self_ != &element) fail(fmt::format("{} is ended by another", element.collection->name(element.index)));
}

void Runtime::end_element(Element& element) {
  Collection& collection = *element.collection;
  if (element.held != 0)
    fail(
        fmt::format("{} ends while {} of its coroutines wait", collection.name(element.index), element.held));
  Element* const around = std::exchange(self_, &element);
  void* const object = element.object;
  const Record less{
      .kind = RecordKind::less, .collection = collection.id(), .index = {element.reductions, 0}};
  collection.held_broadcasts.erase(element.index);
  collection.remove(element);
  collection.type()->destroy(object);
  self_ = around;
  send_record(collection.root(), less, {});
  tell_home(collection, element.index, {.rank = nowhere, .moves = element.moves + 1});
  // Those that still wait here for it may now be all.
  if (element.pending == 0) collection.recycle(element);
}

void Runtime::hold(Element& element, int change) {
  if (change > 0 && element.held == std::numeric_limits<std::uint16_t>::max())
    fail(fmt::format("{} has {} suspended coroutines, and cannot have more",
                     element.collection->name(element.index), element.held));
  element.held = static_cast<std::uint16_t>(element.held + change);
}

void Runtime::resume(Element* element, void (*step)(void*), void* context) {
  Element* const around = turn_to(element);
  step(context);
  turn_to(around);
  if (element && element != around) finish_entry(*element);
}

// --- to all of a collection

void Runtime::ask_broadcast(Collection& collection, Message& message) {
  need_root(collection);
  if (message.item->type != collection.type()) fail("its collection has no such entry");
  send_record(rank(), broadcast_of(message, {++collection.broadcasts_made, 0}), message.payload());
}

/// In the order in which the root has numbered them, so that all chares get all in one order.
void Runtime::broadcast(Message* message) {
  current_ = message;
  Collection* const collection = collection_or_wait(*message);
  current_ = nullptr;
  if (!collection) return;
  const auto number = static_cast<std::uint32_t>(message->index.low);
  if (number != collection->broadcasts + 1) {
    if (!collection->early_broadcasts.emplace(number, message).second || number <= collection->broadcasts) {
      current_ = message;
      fail(fmt::format("a broadcast comes a second time: number {} of {}", number, collection->broadcasts));
    }
    return;
  }
  for (;;) {
    deliver_broadcast(*collection, *message);
    ++count_.done;
    end_message(message);
    const auto next = collection->early_broadcasts.begin();
    if (ends_ || next == collection->early_broadcasts.end() || next->first != collection->broadcasts + 1)
      return;
    message = next->second;
    collection->early_broadcasts.erase(next);
  }
}

void Runtime::deliver_broadcast(Collection& collection, Message& message) {
  current_ = &message;
  if (message.item->type != collection.type()) fail("its collection has no such entry");
  const Record record = broadcast_of(message, message.index);
  if (collection.is_of_nodes())
    for (const std::uint32_t to : nodes_.below(rank(), collection.root()))
      send_record(to, record, message.payload());
  else
    send_down(collection.root(), record, message.payload());
  transport_.flush();
  const std::uint32_t number = ++collection.broadcasts;
  log_broadcast(collection, number, message, message.payload());
  collection.for_each([&](Element& element) {
    if (element.covered >= number) return;
    element.covered = number;
    if (element.broadcasts + 1 == number) [[likely]] {
      element.broadcasts = number;
      call_entry(element, message);
    } else {
      hold_broadcast(element, number, message);
    }
  });
  current_ = nullptr;
}

}  // namespace isthmus::chare
