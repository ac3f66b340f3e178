// Reductions: parts are combined in each process and sent up a tree to the collection's root, which knows how
// many chares there are. Right whatever goes up in how many pieces: the root counts parts.
#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "chare/runtime.hpp"

namespace isthmus::chare {
namespace {

struct PartialHead {
  std::uint64_t parts;
  Callback callback;
};

bool is_same(const Callback& a, const Callback& b) noexcept {
  return a.item == b.item && a.has_prefix == b.has_prefix && a.prefix == b.prefix &&
         a.target.kind == b.target.kind && a.target.collection == b.target.collection &&
         a.target.rank == b.target.rank && chare::is_same(a.target.index, b.target.index);
}

struct CensusAnswer {
  std::uint64_t sent;
  std::uint64_t done;
};

}  // namespace

/// Puts `value`, which is its own, to what is there.
void Runtime::merge(Collection& collection, std::uint32_t number, Reduction& into, const Item* reducer,
                    const Callback& callback, void* value) {
  if (!into.reducer) {
    into.reducer = reducer;
    into.callback = callback;
  } else if (into.reducer != reducer) {
    fail(fmt::format("reduction {} of {} is given parts for {} and for {}", number,
                     readable(collection.type()->name), readable(into.reducer->name),
                     readable(reducer->name)));
  } else if (!is_same(into.callback, callback)) {
    fail(fmt::format("reduction {} of {} is given two callbacks", number, readable(collection.type()->name)));
  }
  if (!into.value) {
    into.value = value;
    return;
  }
  reducer->combine(into.value, value);
  reducer->destroy(value);
}

void Runtime::contribute(Element& element, const Item* reducer, const void* value, const Callback& callback) {
  Collection& collection = *element.collection;
  const std::uint32_t number = element.reductions++;
  Reduction& reduction = collection.reduction(number);
  if (reduction.value && reduction.reducer == reducer && is_same(reduction.callback, callback)) [[likely]]
    reducer->combine(reduction.value, value);
  else
    merge(collection, number, reduction, reducer, callback, reducer->copy(value));
  ++reduction.held;
  if (++reduction.given == collection.size()) return send_up(collection, number);
  list_partial(collection, number, reduction);
}

void Runtime::list_partial(Collection& collection, std::uint32_t number, Reduction& reduction) {
  if (!std::exchange(reduction.is_listed, true)) partials_.emplace_back(&collection, number);
}

/// What is held goes up, and is forgotten here.
void Runtime::send_up(Collection& collection, std::uint32_t number) {
  const auto found = collection.reductions.find(number);
  const Reduction reduction = found->second;
  collection.forget(found);
  if (!reduction.value) return;
  if (collection.root() == rank()) {
    arrive(collection, number, reduction);
    return;
  }
  const PartialHead head{.parts = reduction.held, .callback = reduction.callback};
  const Record record{.kind = RecordKind::partial,
                      .item = static_cast<std::uint16_t>(reduction.reducer->number),
                      .collection = collection.id(),
                      .index = {number, 0}};
  const std::uint32_t place = (rank() + size() - collection.root()) % size();
  const std::uint32_t parent = ((place - 1) / 2 + collection.root()) % size();
  std::byte* const at =
      begin_record(parent, record, sizeof head + reduction.reducer->measure(reduction.value));
  std::memcpy(at, &head, sizeof head);
  reduction.reducer->write(reduction.value, at + sizeof head);
  finish_record();
  reduction.reducer->destroy(reduction.value);
}

bool Runtime::send_partials() {
  if (partials_.empty()) return false;
  for (const auto& [collection, number] : std::exchange(partials_, {}))
    if (collection->reductions.contains(number)) send_up(*collection, number);
  return true;
}

void Runtime::do_partial(Collection& collection, Message& message) {
  PartialHead head;
  if (message.bytes < sizeof head) fail(fmt::format("a part of a reduction has {} bytes", message.bytes));
  std::memcpy(&head, message.data(), sizeof head);
  void* const value = message.item->make(message.data() + sizeof head, message.bytes - sizeof head);
  const auto number = static_cast<std::uint32_t>(message.index.low);
  if (collection.root() == rank()) {
    arrive(collection, number,
           {.reducer = message.item, .value = value, .callback = head.callback, .held = head.parts});
    return;
  }
  Reduction& reduction = collection.reduction(number);
  merge(collection, number, reduction, message.item, head.callback, value);
  reduction.held += head.parts;
  list_partial(collection, number, reduction);
}

void Runtime::arrive(Collection& collection, std::uint32_t number, const Reduction& part) {
  Reduction& result = collection.results[number];
  merge(collection, number, result, part.reducer, part.callback, part.value);
  result.held += part.held;
  look_at_results(collection);
}

void Runtime::look_at_results(Collection& collection) {
  if (!collection.is_counted()) return;
  for (auto each = collection.results.begin(); each != collection.results.end();) {
    const std::uint64_t population = collection.population(each->first);
    if (each->second.held > population)
      fail(fmt::format("reduction {} of {} has got {} parts of {} chares", each->first,
                       readable(collection.type()->name), each->second.held, population));
    if (each->second.held < population) return;
    const Reduction result = each->second;
    each = collection.results.erase(each);
    std::vector<std::byte> value(result.reducer->measure(result.value));
    result.reducer->write(result.value, value.data());
    result.reducer->destroy(result.value);
    call(result.callback, value);
  }
}

// --- how many there are in a sparse collection

void Runtime::done_inserting(std::uint64_t id) {
  if (Collection::maker_of(id) >= roots_) fail("a proxy that names no collection was used");
  send_record(Collection::root_of(id, size()), {.kind = RecordKind::done_inserting, .collection = id}, {});
}

/// As with quiescence, nothing is on its way if all that has been sent by the second wave had been done in
/// the first.
void Runtime::begin_census(Collection& collection) {
  need_root(collection);
  if (!collection.is_sparse()) fail("all of an array have been there from the beginning");
  if (collection.is_closed) fail("done_inserting has been called before");
  Census& census = censuses_[collection.id()];
  if (census.missing != 0) fail("done_inserting has been called before");
  census.missing = size();
  census.sent = census.done = 0;
  for (std::uint32_t to = 0; to < size(); ++to)
    send_record(to, {.kind = RecordKind::census, .collection = collection.id()}, {});
}

void Runtime::answer_census(Collection& collection, Message& message) {
  if (message.index.low == 1) {
    collection.is_closed = true;
    return;
  }
  const CensusAnswer answer{.sent = collection.inserts_sent, .done = collection.inserts_done};
  send_record(collection.root(), {.kind = RecordKind::census_answer, .collection = collection.id()},
              std::as_bytes(std::span(&answer, 1)));
}

void Runtime::add_census(Collection& collection, Message& message) {
  need_root(collection);
  CensusAnswer answer;
  Census& census = censuses_[collection.id()];
  if (message.bytes != sizeof answer || census.missing == 0) fail("nobody has asked, or it is no answer");
  std::memcpy(&answer, message.data(), sizeof answer);
  census.sent += answer.sent;
  census.done += answer.done;
  if (--census.missing != 0) return;
  const bool is_final = std::exchange(census.done_before, census.done) == census.sent;
  if (!is_final) return begin_census(collection);
  collection.count(census.sent);
  censuses_.erase(collection.id());
  for (std::uint32_t to = 0; to < size(); ++to)
    send_record(to, {.kind = RecordKind::census, .collection = collection.id(), .index = {1, 0}}, {});
  look_at_results(collection);
  look_at_sync(collection);
}

}  // namespace isthmus::chare
