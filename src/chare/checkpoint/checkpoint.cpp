// Checkpoints: when nothing moves any more, each process writes its chares, and process 0 a head that names
// what they have written. A restart makes the collections from the head; each process takes some of the parts
// and sends their chares to where they live now.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "chare/checkpoint/orders.hpp"
#include "chare/runtime.hpp"

namespace isthmus::chare {

void Runtime::DeleteCheckpoint::operator()(Checkpoint* checkpoint) const noexcept {
  delete checkpoint;
}

void Runtime::checkpoint(const std::string& path, const Callback& written, const Callback& restarted) {
  if (restarted.has_prefix != 0)
    fail("a checkpoint is to go on with a future, which is not there after a restart");
  send_record(
      0, {.kind = RecordKind::ask_checkpoint},
      packed(Wish{
          .written = written, .restarted = restarted, .pause = Pause::file, .processes = 0, .path = path}));
}

void Runtime::ask_checkpoint(Message& message) {
  Wish wish;
  if (rank() != 0 || !unpack(message.payload(), wish)) fail("it asks the wrong process, or for nothing");
  if (checkpoint_) return call(wish.written, packed(std::string("another checkpoint is being written")));
  if (wish.pause == Pause::memory && processes() == 1)
    return call(wish.written, packed(std::string("there is no other process to keep a copy")));
  if (wish.pause == Pause::resize && wish.processes == size())
    return call(wish.written, packed(std::string()));
  checkpoint_.reset(new Checkpoint{});
  checkpoint_->wish = std::move(wish);
  quiescence_.ask_for_own();
  begin_wave();
}

/// Nothing moves any more; `quiet` have asked for that too.
void Runtime::go_on_quiet(const std::vector<Callback>& quiet) {
  checkpoint_->quiet.insert(checkpoint_->quiet.end(), quiet.begin(), quiet.end());
  if (checkpoint_->is_moving)
    tell_checkpoint();
  else
    begin_checkpoint();
}

void Runtime::begin_checkpoint() {
  checkpoint_->missing = size();
  checkpoint_->head.parts.resize(size());
  const Wish& wish = checkpoint_->wish;
  if (wish.pause == Pause::memory) {
    checkpoint_->head.generation = ++memory_generation_;
  } else {
    checkpoint_->head.generation = static_cast<std::uint64_t>(
        std::chrono::system_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
    checkpoint_->head.generation += static_cast<std::uint64_t>(::getpid()) << 48;
  }
  const auto order = packed(Order{.generation = checkpoint_->head.generation,
                                  .pause = wish.pause,
                                  .processes = wish.processes,
                                  .path = wish.path});
  for (std::uint32_t to = 0; to < size(); ++to)
    send_record(to, {.kind = RecordKind::save}, order);
}

/// Why the chares of a collection cannot be written now, or, without `is_written`, be left alone. Empty: they
/// can.
std::string Runtime::why_not_saved(Collection& collection, bool is_written) {
  const std::string name = readable(collection.type()->name);
  if (is_written && collection.size() != 0 && !collection.type()->write)
    return fmt::format(
        "chares of {} cannot be written: the class needs `serialize` and a constructor without arguments",
        name);
  if (!collection.results.empty() || !collection.reductions.empty())
    return fmt::format(
        "reduction {} of {} is under way",
        (collection.results.empty() ? collection.reductions : collection.results).begin()->first, name);
  if (collection.balancing && (!collection.balancing->waiting.empty() || collection.balancing->is_asked))
    return fmt::format("chares of {} wait to be balanced", name);
  std::string why;
  collection.for_each([&](const Element& element) {
    if (element.held != 0 && why.empty())
      why = fmt::format("{} coroutines of {} wait", element.held, collection.name(element.index));
  });
  return why;
}

Result<SavedPart> Runtime::save_chares(const std::string& name) {
  Result<PartWriter> part = PartWriter::open(name);
  if (!part) return std::unexpected(std::move(part).error());
  Result<> written;
  for (auto& [id, collection] : collections_) {
    const Item& type = *collection->type();
    collection->for_each([&](Element& element) {
      if (!written) return;
      self_ = &element;
      packs_ = true;
      const SavedChare chare{.checksum = 0,
                             .bytes = 0,
                             .collection = collection->id(),
                             .index = element.index,
                             .load = element.load,
                             .has_own_load = element.has_own_load ? 1U : 0U};
      written = part->add(chare, type.measure(element.object),
                          [&](std::byte* to) { type.write(element.object, to); });
      packs_ = false;
      self_ = nullptr;
    });
  }
  if (!written) return std::unexpected(std::move(written).error());
  return part->finish();
}

void Runtime::save(Message& message) {
  Order order;
  if (message.origin != 0 || !unpack(message.payload(), order)) fail("it is no order to write a checkpoint");
  Answer answer;
  answer.next_collection = next_collection_;
  answer.error = data_.under_way();
  for (auto& [id, collection] : collections_) {
    // Of a group, chares of new processes are made of others'; those of processes that leave end.
    const bool is_written =
        order.pause != Pause::resize || !collection->is_group() || order.processes > size();
    if (answer.error.empty()) answer.error = why_not_saved(*collection, is_written);
    answer.collections.insert(answer.collections.end(), {id, collection->size()});
  }
  if (answer.error.empty() && order.pause == Pause::memory) {
    answer.error = save_in_memory(order.generation);
  } else if (answer.error.empty() && order.pause == Pause::file) {
    Result<SavedPart> part = save_chares(part_name(order.path, order.generation, rank()));
    if (part)
      answer.part = *part;
    else
      answer.error = part.error().text();
  }
  send_record(0, {.kind = RecordKind::saved}, packed(answer));
}

void Runtime::do_saved(Message& message) {
  Answer answer;
  if (!checkpoint_ || checkpoint_->missing == 0 || !unpack(message.payload(), answer) ||
      answer.collections.size() % 2 != 0)
    fail("nobody has asked for this, or it is no answer");
  CheckpointHead& head = checkpoint_->head;
  head.parts[message.origin] = answer.part;
  head.next_collection = std::max(head.next_collection, answer.next_collection);
  for (std::size_t i = 0; i < answer.collections.size(); i += 2) {
    const Collection* const collection = find_collection(answer.collections[i]);
    if (!collection) fail("it has a collection that is not here");
    const auto known = std::ranges::find(head.collections, collection->id(), &SavedCollection::id);
    SavedCollection& saved = known == head.collections.end() ? head.collections.emplace_back() : *known;
    saved.id = collection->id();
    saved.shape = collection->shape();
    saved.type = collection->type()->name;
    saved.population += answer.collections[i + 1];
    saved.is_closed = collection->is_closed ? 1 : 0;
  }
  if (checkpoint_->error.empty() && !answer.error.empty())
    checkpoint_->error = fmt::format("rank {}: {}", message.origin, answer.error);
  if (answer.error.empty() && checkpoint_->wish.pause == Pause::memory) ++checkpoint_->copies;
  if (--checkpoint_->missing == 0 && checkpoint_->copies == 0) end_checkpoint();
}

/// What the checkpoint that is being written goes on with.
const Item& Runtime::restarted_item() {
  const std::uint32_t number = checkpoint_->wish.restarted.item;
  const Item* item = items_.find(number, ISTHMUS_CHARE_ENTRY);
  if (!item) item = items_.find(number, ISTHMUS_CHARE_FUNCTION);
  if (!item)
    fail(fmt::format("a checkpoint is to go on with item {}, which is no entry and no function", number));
  return *item;
}

void Runtime::end_checkpoint() {
  checkpoint_->head.roots = roots_;
  if (checkpoint_->wish.pause == Pause::resize) return begin_resize();
  checkpoint_->head.restarted = checkpoint_->wish.restarted;
  checkpoint_->head.restarted_item = restarted_item().name;
  if (checkpoint_->wish.pause == Pause::memory) return end_memory_checkpoint();
  const CheckpointHead& head = checkpoint_->head;
  const std::string& path = checkpoint_->wish.path;
  if (!checkpoint_->error.empty())
    remove_parts(path, head.generation, size());
  else if (const Result<> written = commit_checkpoint(path, head); !written)
    checkpoint_->error = written.error().text();
  tell_checkpoint();
}

/// Who has asked for it, and then those who have asked for quiescence.
void Runtime::tell_checkpoint() {
  const std::unique_ptr<Checkpoint, DeleteCheckpoint> done = std::exchange(checkpoint_, nullptr);
  call(done->wish.written, packed(done->error));
  for (const Callback& callback : done->quiet)
    call(callback, {});
}

// --- restart

int Runtime::restart(const std::string& path) {
  const Result<CheckpointHead> head = read_head(path);
  if (!head) fail(fmt::format("no restart: {}", head.error().text()));
  roots_ = std::max(roots_, head->roots);
  next_collection_ = head->next_collection;
  for (const SavedCollection& saved : head->collections)
    restore_collection(saved);
  const auto writers = static_cast<std::uint32_t>(head->parts.size());
  for (std::uint32_t part = rank(); part < writers; part += size()) {
    const std::string name = part_name(path, head->generation, part);
    const Result<> read = read_part(name, head->parts[part], [&](const SavedChare& chare, auto data) {
      const auto saved = std::ranges::find(head->collections, chare.collection, &SavedCollection::id);
      const bool is_known = saved != head->collections.end() && saved->shape.count != 0;
      return send_saved(chare, data, part, writers, is_known ? saved->shape.count : 1);
    });
    if (!read) fail(fmt::format("no restart: {}", read.error().text()));
  }
  if (rank() == 0) {
    const Item* const item = items_.find(head->restarted_item);
    if (!item || (item->kind != ISTHMUS_CHARE_ENTRY && item->kind != ISTHMUS_CHARE_FUNCTION))
      fail(fmt::format("no restart: the checkpoint goes on with {}, which this program does not have",
                       readable(head->restarted_item)));
    Callback restarted = head->restarted;
    restarted.item = item->number;
    if (restarted.target.kind == ISTHMUS_CHARE_TO_FUNCTION && restarted.target.rank >= size())
      fail(
          fmt::format("no restart: the checkpoint goes on in rank {}, of {}", restarted.target.rank, size()));
    quiescence(restarted);
  }
  return work();
}

void Runtime::restore_collection(const SavedCollection& saved) {
  const Item* const type = items_.find(saved.type);
  if (!type || type->kind != ISTHMUS_CHARE_TYPE)
    fail(fmt::format("no restart: the checkpoint has chares of {}, which this program does not have",
                     readable(saved.type)));
  Shape shape = saved.shape;
  if (is_group(shape)) shape.count = shape.extent[0] = count_of(shape);
  if (const Result<> fits = check(shape, size(), nodes_.size()); !fits)
    fail(fmt::format("no restart: {}", fits.error().text()));
  if (find_collection(saved.id) || static_cast<std::uint32_t>(saved.id) == 0 || (saved.id >> 32) >= roots_)
    fail("no restart: the checkpoint has a collection twice, or of nobody");
  Collection& collection =
      *collections_.emplace(saved.id, std::make_unique<Collection>(saved.id, shape, type, size(), &nodes_))
           .first->second;
  collection.is_measured = items_.has_balancer(*type);
  collection.is_closed = saved.is_closed != 0;
  collection.have_own_block(rank());
  if (!is_group(shape) && (!collection.is_sparse() || collection.is_closed))
    collection.count(saved.population);
}

/// How many chares a group has now.
std::uint32_t Runtime::count_of(const Shape& group) const noexcept {
  return group.kind == ISTHMUS_CHARE_NODE_GROUP ? nodes_.size() : size();
}

/// To where it lives now: with as many processes as before to where it was, else to its home. Of a group of
/// `before`, new processes (or nodes) get what the one of their number modulo that has been.
Result<> Runtime::send_saved(const SavedChare& chare, std::span<const std::byte> data, std::uint32_t part,
                             std::uint32_t writers, std::uint64_t before) {
  const Collection* const collection = find_collection(chare.collection);
  if (!collection) return isthmus::fail(ErrorClass::file, "a part has a chare of no collection of its head");
  const bool is_group = collection->is_group();
  if (!is_group && !collection->may_have(chare.index))
    return isthmus::fail(ErrorClass::file, fmt::format("a part has chare {}", collection->name(chare.index)));
  const std::uint32_t type = collection->type()->number;
  if (!is_group)
    send_restored(writers == size() ? part : collection->home(chare.index), type, chare.index, chare, data);
  else
    for (std::uint64_t to = chare.index.low; to < collection->shape().count; to += before)
      send_restored(collection->home({to, 0}), type, {to, 0}, chare, data);
  return {};
}

void Runtime::send_restored(std::uint32_t to, std::uint32_t type, Index index, const SavedChare& chare,
                            std::span<const std::byte> data) {
  const Record record{.kind = RecordKind::restore,
                      .item = static_cast<std::uint16_t>(type),
                      .collection = chare.collection,
                      .index = index};
  std::byte* const at = begin_record(to, record, sizeof chare + data.size());
  std::memcpy(at, &chare, sizeof chare);
  if (!data.empty()) std::memcpy(at + sizeof chare, data.data(), data.size());
  finish_record();
}

void Runtime::restore(Collection& collection, Message& message) {
  SavedChare chare;
  if (message.item != collection.type() || message.bytes < sizeof chare)
    fail("it restores a chare that is none of the collection");
  std::memcpy(&chare, message.data(), sizeof chare);
  restore_element(collection, message.index, chare, message.payload().subspan(sizeof chare));
}

void Runtime::restore_element(Collection& collection, Index index, const SavedChare& chare,
                              std::span<const std::byte> data) {
  if (!collection.may_have(index)) fail(fmt::format("chare {} is restored, of none", collection.name(index)));
  if (collection.find(index)) fail("a chare is restored a second time");
  Element& element = *collection.add(index);
  element.moves = 1;
  element.load = chare.load;
  element.has_own_load = chare.has_own_load != 0;
  self_ = &element;
  making_ = collection.type();
  element.object = collection.type()->make(data.data(), data.size());
  making_ = nullptr;
  self_ = nullptr;
  ++collection.inserts_sent;
  ++collection.inserts_done;
  tell_home(collection, index, {.rank = rank(), .moves = 1});
}

}  // namespace isthmus::chare
