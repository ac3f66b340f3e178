// What comes from other processes and goes to them.
#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "chare/runtime.hpp"

namespace isthmus::chare {

Collection* Runtime::find_collection(std::uint64_t id) noexcept {
  Collection*& recent = recent_[id % recent_.size()];
  if (recent && recent->id() == id) [[likely]]
    return recent;
  const auto found = collections_.find(id);
  if (found == collections_.end()) return nullptr;
  return recent = found->second.get();
}

const Item& Runtime::item_of(std::uint32_t number, std::uint32_t kind) {
  const Item* const item = items_.find(number, kind);
  if (!item)
    fail(fmt::format("there is no {} {} among the program's {} items", kind_name(kind), number,
                     items_.size()));
  return *item;
}

std::uint32_t Runtime::whereabouts(Collection& collection, Index index) const {
  if (collection.find(index)) return rank();
  if (!collection.located.empty())
    if (const auto known = collection.located.find(index);
        known != collection.located.end() && known->second.rank != nowhere)
      return known->second.rank;
  return collection.home(index);
}

// --- to others

std::byte* Runtime::begin_record(std::uint32_t to, const Record& record, std::uint64_t bytes) {
  if (is_work(record.kind)) ++count_.sent;
  if (to != rank()) {
    begun_now_ = queue_.empty() && sent_in_turn_[to] != turn_;
    sent_in_turn_[to] = turn_;
    return transport_.begin(to, record, bytes);
  }
  begun_here_ = make_message(rank(), record, bytes);
  return begun_here_->data();
}

void Runtime::finish_record() {
  if (Message* const message = std::exchange(begun_here_, nullptr))
    enqueue(message);
  else
    transport_.end(begun_now_);
}

void Runtime::send_record(std::uint32_t to, const Record& record, std::span<const std::byte> payload) {
  std::byte* const at = begin_record(to, record, payload.size());
  if (!payload.empty()) std::memcpy(at, payload.data(), payload.size());
  finish_record();
}

void Runtime::send_down(std::uint32_t root, const Record& record, std::span<const std::byte> payload) {
  const std::uint32_t place = (rank() + size() - root) % size();
  for (std::uint32_t child = 2 * place + 1; child <= 2 * place + 2 && child < size(); ++child)
    send_record((child + root) % size(), record, payload);
}

// --- from others

Message* Runtime::make_message(std::uint32_t source, const Record& record, std::uint64_t bytes) {
  Message* const message = pool_.take(bytes);
  fill(*message, source, record);
  message->bytes = bytes;
  return message;
}

/// Everything but the payload; the item is looked up, and must be of the kind that the record needs.
void Runtime::fill(Message& message, std::uint32_t source, const Record& record) {
  message.kind = record.kind;
  message.collection = record.collection;
  message.index = record.index;
  message.priority = record.priority;
  message.origin = record.origin != 0 ? record.origin - 1 : source;
  message.bytes = record.payload.size();
  Message* const around = std::exchange(current_, &message);
  switch (record.kind) {
    case RecordKind::invoke_with:
      message.item = &item_of(record.item, ISTHMUS_CHARE_ENTRY);
      if (message.item->buffers == 0) fail("an entry without buffers is invoked with some");
      break;
    case RecordKind::invoke:
    case RecordKind::passed:
    case RecordKind::ask_broadcast:
    case RecordKind::broadcast:
      message.item = &item_of(record.item, ISTHMUS_CHARE_ENTRY);
      if (needs_buffers(*message.item)) fail("an entry with buffers is invoked without them");
      break;
    case RecordKind::call:
      message.item = &item_of(record.item, ISTHMUS_CHARE_FUNCTION);
      break;
    case RecordKind::insert:
      message.item = &item_of(record.item, ISTHMUS_CHARE_CONSTRUCTOR);
      break;
    case RecordKind::migrate:
    case RecordKind::restore:
      message.item = &item_of(record.item, ISTHMUS_CHARE_TYPE);
      break;
    case RecordKind::partial:
      message.item = &item_of(record.item, ISTHMUS_CHARE_REDUCER);
      break;
    case RecordKind::ask_balance:
    case RecordKind::ask_loads:
    case RecordKind::loads:
      message.item = &item_of(record.item, ISTHMUS_CHARE_BALANCER);
      break;
    default:
      break;
  }
  if (message.origin >= processes()) fail(fmt::format("its sender is said to be rank {}", message.origin));
  if (Collection::maker_of(record.collection) >= roots_)
    fail(fmt::format("its collection is said to be of rank {}", Collection::maker_of(record.collection)));
  current_ = around;
}

void Runtime::came(std::uint32_t source, const Record& record) {
  if (ends_) return;
  if (!is_work(record.kind)) return take_control(source, record);
  Message* const message = make_message(source, record, record.payload.size());
  if (!record.payload.empty()) std::memcpy(message->data(), record.payload.data(), record.payload.size());
  need_marks(*message, source);
  enqueue(message);
}

void Runtime::came(std::uint32_t source, const Record& record, Message* message) {
  if (ends_) return pool_.give_back(message);
  if (!is_work(record.kind)) {
    take_control(source, record);
    return pool_.give_back(message);
  }
  fill(*message, source, record);
  need_marks(*message, source);
  enqueue(message);
}

void Runtime::take_control(std::uint32_t source, const Record& record) {
  const auto refuse = [&](std::string_view why) {
    fail_(fmt::format("rank {} has sent a record of kind {} that is not its to send: {}", source,
                      static_cast<int>(record.kind), why));
  };
  switch (record.kind) {
    case RecordKind::wave:
      if (source != 0) refuse("only rank 0 asks");
      wave_wanted_ = true;
      return;
    case RecordKind::wave_answer:
      if (rank() != 0) refuse("only rank 0 asks");
      return add_answer(record);
    case RecordKind::exit:
      if (rank() == 0) return exit(static_cast<int>(record.index.low));
      if (source != 0) refuse("only rank 0 says so");
      ends_ = true;
      exit_code_ = static_cast<int>(record.index.low);
      return;
    default:
      return refuse("it is none that anybody sends");
  }
}

Collection* Runtime::collection_or_wait(Message& message) {
  if (Collection* const collection = find_collection(message.collection)) return collection;
  if (static_cast<std::uint32_t>(message.collection) == 0) fail("it names no collection");
  early_[message.collection].push_back(&message);
  ++count_.kept;
  return nullptr;
}

/// False where it waits: then the message is not to be ended.
bool Runtime::execute_record(Message& message) {
  if (message.kind == RecordKind::create) return make_collection(message), true;
  if (message.kind == RecordKind::ask_quiet) return ask_quiet(message), true;
  if (message.kind == RecordKind::ask_checkpoint) return ask_checkpoint(message), true;
  if (message.kind == RecordKind::save) return save(message), true;
  if (message.kind == RecordKind::saved) return do_saved(message), true;
  if (message.kind == RecordKind::copied) return do_copied(message), true;
  if (message.kind == RecordKind::commit) return commit(message), true;
  if (message.kind == RecordKind::committed) return do_committed(message), true;
  if (message.kind == RecordKind::resize) return resize_here(message), true;
  if (message.kind == RecordKind::resized) return do_resized(message), true;
  if (message.kind == RecordKind::spread) return spread(message), true;
  if (message.kind == RecordKind::drop) return drop(message), true;
  Collection* const collection = collection_or_wait(message);
  if (!collection) return false;
  switch (message.kind) {
    case RecordKind::ask_broadcast:
      ask_broadcast(*collection, message);
      break;
    case RecordKind::insert:
      do_insert(*collection, message);
      break;
    case RecordKind::partial:
      do_partial(*collection, message);
      break;
    case RecordKind::done_inserting:
      begin_census(*collection);
      break;
    case RecordKind::less:
      need_root(*collection);
      collection->lose(static_cast<std::uint32_t>(message.index.low));
      look_at_results(*collection);
      look_at_sync(*collection);
      break;
    case RecordKind::located:
      do_located(*collection, message);
      break;
    case RecordKind::migrate:
      do_migrate(*collection, message);
      break;
    case RecordKind::arrived:
      do_arrived(*collection, message);
      break;
    case RecordKind::restore:
      restore(*collection, message);
      break;
    case RecordKind::ask_balance:
      ask_balance(*collection, message);
      break;
    case RecordKind::ask_loads:
      answer_loads(*collection, message);
      break;
    case RecordKind::loads:
      do_loads(*collection, message);
      break;
    case RecordKind::moves:
      do_moves(*collection, message);
      break;
    case RecordKind::moved:
      do_moved(*collection, message);
      break;
    case RecordKind::census:
      answer_census(*collection, message);
      break;
    case RecordKind::census_answer:
      add_census(*collection, message);
      break;
    default:
      fail("nobody sends such a record");
  }
  return true;
}

void Runtime::need_root(const Collection& collection) {
  if (collection.root() != rank()) fail("it is for another process");
}

/// The chare that an invocation is for. Null: the message has gone elsewhere, or waits.
Element* Runtime::route(Message* message) {
  Element* const was = message->element;
  Collection* const collection = was ? was->collection : (current_ = message, collection_or_wait(*message));
  current_ = nullptr;
  if (!collection) return nullptr;
  const Index index = was ? was->index : message->index;
  if (Element* const element = collection->find(index); element && element->object) return element;
  current_ = message;
  message->collection = collection->id();
  message->index = index;
  if (!collection->may_have(index)) fail("there is no such chare");
  const std::uint32_t to = whereabouts(*collection, index);
  if (to != rank()) {
    pass_on(message, to);
  } else {
    if (!collection->is_sparse() || collection->is_closed)
      fail("there is no such chare: it has ended, or has never been");
    collection->kept[index].push_back(message);
    ++count_.kept;
  }
  current_ = nullptr;
  return nullptr;
}

/// What hands it on.
Record Runtime::record_of(const Message& message) {
  return {.kind = message.kind,
          .item = static_cast<std::uint16_t>(message.item->number),
          .priority = message.priority,
          .origin = message.origin + 1,
          .collection = message.collection,
          .index = message.index};
}

void Runtime::pass_on(Message* message, std::uint32_t to) {
  // Who has sent it here may know better the next time.
  Collection& collection = *find_collection(message->collection);
  if (const auto known = collection.located.find(message->index);
      known != collection.located.end() && message->origin != rank() && message->origin != to) {
    const Location hint{.rank = known->second.rank, .moves = known->second.moves};
    const Record located{
        .kind = RecordKind::located, .collection = message->collection, .index = message->index};
    send_record(message->origin, located, std::as_bytes(std::span(&hint, 1)));
  }
  if (message->kind == RecordKind::invoke_with) return pass_data_on(message, to);
  if (message->packed) {
    send_record(to, record_of(*message), message->payload());
  } else {
    std::byte* const at = begin_record(to, record_of(*message), message->item->measure(message->data()));
    message->item->write(message->data(), at);
    finish_record();
  }
  ++count_.done;
  end_message(message);
}

std::string Runtime::stuck() const {
  std::string text;
  const auto add = [&](std::string_view whom, const Message& message) {
    if (text.empty())
      text = fmt::format("; {} invoked by rank {} waits for {}, which is not there",
                         message.item ? readable(message.item->name) : "a record", message.origin, whom);
  };
  for (const auto& [id, collection] : collections_)
    for (const auto& [index, messages] : collection->kept)
      if (!messages.empty()) add("chare " + collection->name(index), *messages.front());
  for (const auto& [id, messages] : early_)
    if (!messages.empty())
      add(fmt::format("collection {} of rank {}", static_cast<std::uint32_t>(id), Collection::maker_of(id)),
          *messages.front());
  if (!text.empty()) return text;
  for (const auto& [id, collection] : collections_)
    if (collection->balancing && !collection->balancing->waiting.empty())
      return fmt::format("; {} of the {} chares of {} here wait to be balanced",
                         collection->balancing->waiting.size(), collection->size(),
                         readable(collection->type()->name));
  return text;
}

}  // namespace isthmus::chare
