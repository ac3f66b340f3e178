#include "chare/runtime.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <utility>

#include "coll/agree/agree.hpp"
#include "coll/call/coll.hpp"
#include "coll/nodes/domains.hpp"

namespace isthmus::chare {
namespace {

/// Messages between two looks at what has come, and between two times that what was gathered is sent: an
/// entry of 100 ns pays 2 ns for looking, and nobody waits for longer than 64 entries.
constexpr std::uint64_t turns_between_looks = 16;
constexpr std::uint64_t turns_between_flushes = 64;

}  // namespace

Result<std::unique_ptr<Runtime>> Runtime::make(Communicator& comm, std::span<Item* const> items, Fail fail) {
  Result<Items> numbered = Items::make(items);
  if (!numbered) return std::unexpected(std::move(numbered).error());
  ISTHMUS_TRY(compare(comm, *numbered));
  Result<Ref<Communicator>> own = coll::duplicate(comm);
  if (!own) return std::unexpected(std::move(own).error());
  Result<Tags> tags =
      Tags::make(comm.engine().settings().chare_tag_bits, static_cast<std::uint32_t>(comm.size()));
  if (!tags) return std::unexpected(std::move(tags).error());
  std::unique_ptr<Runtime> made(new Runtime(*own, std::move(*numbered), *tags, fail));
  ISTHMUS_TRY(made->find_nodes(comm));
  return made;
}

Result<> Runtime::compare(Communicator& comm, const Items& items) {
  std::string list = items.list();
  const Datatype& bytes = coll::byte_type();
  std::uint64_t length = list.size();
  ISTHMUS_TRY(coll::bcast(&length, sizeof length, bytes, 0, comm));
  std::string theirs = comm.rank() == 0 ? list : std::string(length, '\0');
  ISTHMUS_TRY(coll::bcast(theirs.data(), static_cast<std::int64_t>(length), bytes, 0, comm));
  if (theirs == list) return {};
  return isthmus::fail(
      ErrorClass::other,
      fmt::format("this process and rank 0 run programs with other chares: {}", items.difference(theirs)));
}

Runtime::Runtime(const Ref<Communicator>& comm, Items items, const Tags& tags, Fail fail)
    : comm_(comm),
      items_(std::move(items)),
      fail_(fail),
      transport_(comm, *this, pool_, fail),
      data_(comm, tags, *this),
      used_(transport_.size()),
      roots_(transport_.size()),
      sent_in_turn_(transport_.size()),
      quiescence_(transport_.size()) {}

Runtime::~Runtime() {
  // Before the chares end, whose memory data goes to.
  data_.cancel();
  forget_all();
}

/// All chares, and all that is under way among them. No data may be.
void Runtime::forget_all() {
  for (const auto& incoming : incoming_)
    if (!incoming->is_queued) end_message(incoming->message);
  for (Message* const message : postponed_)
    end_message(message);
  while (Message* const message = queue_.pop())
    end_message(message);
  for (auto& [id, collection] : collections_) {
    collection->for_each([&](Element& element) {
      self_ = &element;
      collection->type()->destroy(std::exchange(element.object, nullptr));
    });
    for (auto* reductions : {&collection->reductions, &collection->results})
      for (auto& [number, each] : *reductions)
        if (each.value) each.reducer->destroy(each.value);
    for (auto& [index, messages] : collection->kept)
      for (Message* message : messages)
        end_message(message);
    for (auto& [number, message] : collection->early_broadcasts)
      end_message(message);
  }
  for (auto& [id, messages] : early_)
    for (Message* message : messages)
      end_message(message);
  self_ = nullptr;
  collections_.clear();
  recent_.fill(nullptr);
  early_.clear();
  censuses_.clear();
  checkpoint_.reset();
  incoming_.clear();
  unsent_.clear();
  postponed_.clear();
  partials_.clear();
  syncs_.clear();
}

void Runtime::fail(std::string_view reason, const char* entry) {
  const std::string at_work = describe(entry);
  fail_(at_work.empty() ? std::string(reason) : fmt::format("{}: {}", at_work, reason));
  std::abort();  // `fail_` does not return
}

/// Whose and which entry is at work, and who has invoked it, as far as there is one.
std::string Runtime::describe(const char* entry) {
  std::string text;
  if (self_)
    text = fmt::format("chare {}", self_->collection->name(self_->index));
  else if (const Collection* const named = current_ ? find_collection(current_->collection) : nullptr)
    text = is_of_one_chare(current_->kind) ? fmt::format("chare {}", named->name(current_->index))
                                           : fmt::format("chares of {}", readable(named->type()->name));
  const auto add = [&](std::string_view what) {
    if (!text.empty()) text += ", ";
    text += what;
  };
  if (balancing_) {
    add(fmt::format("balancer {}", readable(balancing_->name)));
  } else if (making_) {
    add("its constructor");
  } else if (packs_) {
    add("its serialize");
  } else if (entry) {
    add(fmt::format("coroutine {}", readable(entry)));
  } else if (current_ && current_->kind == RecordKind::insert) {
    add("its insertion");
  } else if (current_ && current_->item) {
    add(fmt::format("{} {}", kind_name(current_->item->kind), readable(current_->item->name)));
  } else if (current_) {
    add(fmt::format("a record of kind {}", static_cast<int>(current_->kind)));
  }
  if (current_ && !entry) add(fmt::format("invoked by rank {}", current_->origin));
  return text;
}

int Runtime::run(void (*start)(void*), void* context) {
  if (rank() == 0) {
    ++turn_;
    start(context);
  }
  return work();
}

int Runtime::work() {
  while (!ends_) {
    Message* const message = queue_.pop();
    if (message) {
      do_one(message);
    } else if (is_broken()) {
      recover();
    } else if (!rest(true)) {
      if (processes() == 1 && data_.is_idle())
        fail("nothing is left to do, and nobody has called exit" + stuck());
      transport_.wait_or([this] { return data_.has_news(); });
    }
  }
  return finish();
}

void Runtime::do_one(Message* message) {
  ++turn_;
  ++executed_;
  execute(message);
  if (turn_ % turns_between_looks == 0) {
    transport_.poll();
    data_.poll(processes() == 1);
    if (is_broken()) [[unlikely]]
      return recover();
  }
  if (turn_ % turns_between_flushes == 0) transport_.flush();
}

int Runtime::work_some(std::uint32_t turns, bool is_idle) {
  for (std::uint32_t i = 0; i < turns && !ends_; ++i) {
    if (Message* const message = queue_.pop())
      do_one(message);
    else if (is_broken())
      recover();
    else if (!rest(is_idle))
      break;
  }
  if (ends_) return ISTHMUS_CHARE_ENDED;
  return queue_.empty() ? ISTHMUS_CHARE_IDLE : ISTHMUS_CHARE_MORE;
}

int Runtime::finish() {
  while (!transport_.finish())
    recover();
  return exit_code_;
}

/// What is done when no message waits. Returns after each thing that may have brought one; false if nothing
/// has. A question about quiescence is answered only by a process with nothing else to do (`is_idle`).
bool Runtime::rest(bool is_idle) {
  ++turn_;
  const bool has_partials = send_partials();
  const bool has_syncs = send_syncs();
  if ((has_partials || has_syncs) && !queue_.empty()) return true;
  transport_.flush();
  const bool has_news = transport_.poll();
  const bool has_data = data_.poll(processes() == 1);
  return has_news || has_data || retry_postponed() || (is_idle && answer_wave());
}

void* Runtime::keep() noexcept {
  const bool is_alone =
      current_ && (current_->kind == RecordKind::invoke || current_->kind == RecordKind::call);
  if (!is_alone || !current_->packed || current_->list != MessagePool::none) return nullptr;
  current_->kept = true;
  return current_;
}

void Runtime::exit(int code) {
  const Record record{.kind = RecordKind::exit, .index = {static_cast<std::uint32_t>(code), 0}};
  if (rank() != 0) return send_record(0, record, {});
  if (ends_) return;
  ends_ = true;
  exit_code_ = code;
  for (std::uint32_t to = 1; to < processes(); ++to)
    send_record(to, record, {});
}

void Runtime::end_message(Message* message) {
  if (!message->packed && message->item) message->item->destroy(message->data());
  if (Element* const element = message->element)
    if (--element->pending == 0 && !element->object) element->collection->recycle(*element);
  if (!message->kept) pool_.give_back(message);
}

void Runtime::execute(Message* message) {
  switch (message->kind) {
    case RecordKind::invoke:
      return execute_invocation(message);
    case RecordKind::invoke_with:
      return execute_with(message);
    case RecordKind::broadcast:
      return broadcast(message);
    case RecordKind::passed:
      return execute_passed(message);
    case RecordKind::copy:
      return take_copy(message);
    default:
      break;
  }
  current_ = message;
  if (message->kind == RecordKind::call)
    call_item(nullptr, *message);
  else if (!execute_record(*message))
    return void(current_ = nullptr);  // it waits for its collection
  current_ = nullptr;
  ++count_.done;
  end_message(message);
}

void Runtime::execute_invocation(Message* message) {
  Element* element = message->element;
  if (!element || !element->object) [[unlikely]] {
    element = route(message);
    if (!element) return;
  }
  current_ = message;
  call_entry(*element, *message);
  current_ = nullptr;
  ++count_.done;
  end_message(message);
}

void Runtime::call_entry(Element& element, Message& message) {
  if (message.item->type != element.collection->type()) [[unlikely]]
    fail(fmt::format("{} has no such entry", element.collection->name(element.index)));
  call_item(&element, message);
  if (element.ends || element.moves_to != stays) [[unlikely]]
    finish_entry(element);
}

void Runtime::call_item(Element* element, Message& message) {
  turn_to(element);
  message.item->invoke(element ? element->object : nullptr, message.data(), message.bytes,
                       message.packed ? 1 : 0);
  turn_to(nullptr);
}

/// What is at work from now on; the time until now is the load of what was. Returns that.
Element* Runtime::turn_to(Element* next) {
  const auto is_measured = [](const Element* element) {
    return element && element->collection->is_measured && !element->has_own_load;
  };
  if (is_measured(next) || is_measured(self_)) {
    const auto now = std::chrono::steady_clock::now();
    if (is_measured(self_)) self_->load += std::chrono::duration<double>(now - turned_).count();
    turned_ = now;
  }
  return std::exchange(self_, next);
}

void Runtime::post(Element* element, const Item* item, void* arguments, std::int32_t priority) {
  Message* const message = Message::of(arguments);
  message->element = element;
  message->item = item;
  message->priority = priority;
  message->origin = rank();
  message->packed = false;
  if (element) {
    ++element->pending;
    if (item->buffers != 0 && (needs_buffers(*item) || item->sources(arguments, nullptr) != 0))
      message->kind = RecordKind::invoke_with;
  } else {
    message->kind = RecordKind::call;
  }
  ++count_.sent;
  enqueue(message);
}

std::byte* Runtime::begin(const Target& target, const Item* item, std::size_t bytes, std::int32_t priority) {
  Record record{.item = static_cast<std::uint16_t>(item->number), .priority = priority};
  if (needs_buffers(*item)) fail("an entry with buffers is invoked without them");
  const std::uint32_t to = destination(target, record);
  return begin_record(to, record, bytes);
}

/// The process that the record goes to first; sets what the record says of the target.
std::uint32_t Runtime::destination(const Target& target, Record& record) {
  std::uint32_t to = rank();
  switch (target.kind) {
    case ISTHMUS_CHARE_TO_FUNCTION:
      record.kind = RecordKind::call;
      to = target.rank;
      if (to >= size()) fail(fmt::format("there is no rank {} to call a function of", to));
      break;
    case ISTHMUS_CHARE_TO_ALL:
      record.kind = RecordKind::ask_broadcast;
      record.collection = target.collection;
      to = Collection::maker_of(target.collection) < roots_ ? Collection::root_of(target.collection, size())
                                                            : size();
      break;
    default:
      record.collection = target.collection;
      record.index = target.index;
      if (Collection* const collection = find_collection(target.collection)) {
        if (!collection->may_have(target.index))
          fail(fmt::format("there is no chare {}", collection->name(target.index)));
        to = whereabouts(*collection, target.index);
      }
      break;
  }
  if (to >= size()) fail("a proxy that names no collection was used");
  return to;
}

void Runtime::send() {
  finish_record();
  if (!unsent_.empty()) send_buffers();
}

void Runtime::call(const Callback& callback, std::span<const std::byte> value) {
  const Item* item = items_.find(callback.item, ISTHMUS_CHARE_ENTRY);
  if (!item) item = items_.find(callback.item, ISTHMUS_CHARE_FUNCTION);
  if (!item) fail(fmt::format("a callback names item {}, which is no entry and no function", callback.item));
  const std::size_t front = callback.has_prefix != 0 ? sizeof callback.prefix : 0;
  std::byte* const to = begin(callback.target, item, front + value.size(), 0);
  if (front != 0) std::memcpy(to, &callback.prefix, front);
  if (!value.empty()) std::memcpy(to + front, value.data(), value.size());
  send();
}

}  // namespace isthmus::chare
