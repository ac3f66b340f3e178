// Another number of processes that have chares: fewer than there are, or more again. When nothing moves any
// more, as with a checkpoint, all processes are told the number, and from then on home and root of a chare
// follow from that. When all have heard it, chares move to where they may be: as few as are enough for each
// process to have as many as the others. What broadcasts and reductions there have been is forgotten.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "chare/checkpoint/orders.hpp"
#include "chare/runtime.hpp"
#include "coll/call/coll.hpp"
#include "coll/nodes/domains.hpp"

namespace isthmus::chare {

/// Collective, before anything is done.
Result<> Runtime::begin_in(std::uint32_t processes) {
  std::uint32_t first = processes;
  ISTHMUS_TRY(coll::bcast(&first, sizeof first, coll::byte_type(), 0, *comm_));
  if (processes != first)
    return isthmus::fail(
        ErrorClass::arg,
        fmt::format("chares are to begin in {} processes, and rank 0 says in {}", processes, first));
  if (processes == 0 || processes > this->processes())
    return isthmus::fail(ErrorClass::arg, fmt::format("chares are to begin in {} of {} processes", processes,
                                                      this->processes()));
  used_ = processes;
  nodes_ = Nodes(node_keys_, used_);
  return {};
}

void Runtime::resize(std::uint32_t processes, const Callback& done) {
  if (processes == 0 || processes > this->processes())
    fail(fmt::format("chares are to be in {} of {} processes", processes, this->processes()));
  send_record(
      0, {.kind = RecordKind::ask_checkpoint},
      packed(Wish{
          .written = done, .restarted = {}, .pause = Pause::resize, .processes = processes, .path = {}}));
}

/// Process 0: all who have chares have said whether they can move.
void Runtime::begin_resize() {
  if (!checkpoint_->error.empty()) return tell_checkpoint();
  const auto text =
      packed(Resizing{.from = size(), .to = checkpoint_->wish.processes, .head = checkpoint_->head});
  checkpoint_->unheard = processes();
  for (std::uint32_t to = 0; to < processes(); ++to)
    send_record(to, {.kind = RecordKind::resize}, text);
}

void Runtime::resize_here(Message& message) {
  Resizing order;
  if (message.origin != 0 || !unpack(message.payload(), order) || order.to == 0 || order.to > processes() ||
      order.from != size())
    fail("it is no new number of processes");
  used_ = order.to;
  nodes_ = Nodes(node_keys_, used_);
  roots_ = std::max(roots_, order.head.roots);
  next_collection_ = std::max(next_collection_, order.head.next_collection);
  for (const SavedCollection& saved : order.head.collections) {
    Collection* const found = find_collection(saved.id);
    if (!found) {
      if (rank() < size()) restore_collection(saved);
      continue;
    }
    Collection& collection = *found;
    Shape shape = collection.shape();
    if (collection.is_group()) shape.count = shape.extent[0] = count_of(shape);
    if (collection.is_group() && rank() >= size())
      collection.for_each([&](Element& element) { end_quietly(element); });
    collection.rehome(shape, size(), rank());
    if (collection.is_group())
      collection.count(shape.count);
    else if (!collection.is_sparse() || collection.is_closed)
      collection.count(saved.population);
  }
  send_record(0, {.kind = RecordKind::resized}, std::as_bytes(std::span(&order.from, 1)));
}

void Runtime::do_resized(Message& message) {
  std::uint32_t from = 0;
  if (!checkpoint_ || checkpoint_->wish.pause != Pause::resize || checkpoint_->unheard == 0 ||
      message.bytes != sizeof from)
    fail("it has heard of a number of processes that nobody has told");
  if (--checkpoint_->unheard != 0) return;
  std::memcpy(&from, message.data(), sizeof from);
  checkpoint_->is_moving = true;
  for (std::uint32_t to = 0; to < from; ++to)
    send_record(to, {.kind = RecordKind::spread}, std::as_bytes(std::span(&from, 1)));
  quiescence_.ask_for_own();
  begin_wave();
}

/// Those of a collection that this process gives to others: all, if it has chares no more, and else, where
/// there are new processes, the share of those.
std::vector<Element*> Runtime::leaving(Collection& collection, std::uint32_t from) const {
  std::vector<Element*> all;
  std::uint64_t count = 0;
  collection.for_each([&](Element& element) {
    ++count;
    // The first stays: of a collection of one, nothing moves.
    const auto staying = [&](std::uint64_t of) { return (of * from + size() - 1) / size(); };
    if (rank() >= size() || staying(count) == staying(count - 1)) all.push_back(&element);
  });
  return all;
}

/// Chares that stay tell their homes, which may be others now.
void Runtime::spread(Message& message) {
  std::uint32_t from = 0;
  if (message.origin != 0 || message.bytes != sizeof from) fail("it is not for it to move chares");
  std::memcpy(&from, message.data(), sizeof from);
  const std::uint32_t first = size() > from ? from : 0;  // of those that get some
  const std::uint32_t takers = size() - first;
  // Not all begin with the same.
  std::uint32_t next = rank();
  for (auto& [id, collection] : collections_) {
    if (collection->is_group()) {
      // Nodes that come have higher numbers, as processes have: those that lead others still do.
      const std::uint64_t before = collection->is_of_nodes() ? Nodes(node_keys_, from).size() : from;
      collection->for_each([&](Element& element) {
        for (std::uint64_t to = before; to < collection->shape().count; ++to)
          if (to % before == element.index.low) copy_to(element, collection->home({to, 0}), {to, 0});
      });
      continue;
    }
    for (Element* const element : leaving(*collection, from))
      give_away(*element, first + next++ % takers);
    collection->for_each(
        [&](const Element& element) { tell_home(*collection, element.index, {.rank = rank(), .moves = 1}); });
  }
  if (rank() < size()) return;
  recent_.fill(nullptr);
  collections_.clear();
}

/// What the chare writes, to be made anew there.
void Runtime::copy_to(Element& element, std::uint32_t to, Index index) {
  const Collection& collection = *element.collection;
  const Item& type = *collection.type();
  self_ = &element;
  packs_ = true;
  const SavedChare chare{.checksum = 0,
                         .bytes = type.measure(element.object),
                         .collection = collection.id(),
                         .index = index,
                         .load = element.load,
                         .has_own_load = element.has_own_load ? 1U : 0U};
  const Record record{.kind = RecordKind::restore,
                      .item = static_cast<std::uint16_t>(type.number),
                      .collection = collection.id(),
                      .index = index};
  std::byte* const at = begin_record(to, record, sizeof chare + chare.bytes);
  std::memcpy(at, &chare, sizeof chare);
  type.write(element.object, at + sizeof chare);
  packs_ = false;
  self_ = nullptr;
  finish_record();
}

void Runtime::give_away(Element& element, std::uint32_t to) {
  copy_to(element, to, element.index);
  --element.collection->inserts_sent;
  --element.collection->inserts_done;
  end_quietly(element);
}

/// Nobody is told.
void Runtime::end_quietly(Element& element) {
  Collection& collection = *element.collection;
  void* const object = element.object;
  self_ = &element;
  collection.remove(element);
  collection.type()->destroy(object);
  self_ = nullptr;
  if (element.pending == 0) collection.recycle(element);
}

}  // namespace isthmus::chare
