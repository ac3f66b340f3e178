// Invocations whose arguments have buffers: the record says what comes, the post entry where to, and the
// entry is called when it is there.
#include <fmt/format.h>

#include <array>
#include <cstring>
#include <mutex>
#include <utility>

#include "chare/runtime.hpp"

namespace isthmus::chare {
namespace {

/// The marks in front of the arguments.
struct Marks {
  std::size_t count = 0;
  std::array<BufferMark, ISTHMUS_CHARE_BUFFERS> all;  ///< no more of them than there are is set

  [[nodiscard]] const BufferMark* begin() const noexcept { return all.data(); }
  [[nodiscard]] const BufferMark* end() const noexcept { return all.data() + count; }
};
/// In front of the marks where the entry takes any number of buffers: how many there are.
using MarkCount = std::uint64_t;
bool says_count(const Message& message) {
  return message.kind == RecordKind::invoke_with && has_any_buffers(*message.item);
}
/// How many are in front of what the message carries, which has been checked (`need_marks`).
std::size_t count_of_marks(Message& message) {
  if (message.kind == RecordKind::copy) return 1;
  if (message.kind != RecordKind::invoke_with) return 0;
  if (!says_count(message)) return message.item->buffers;
  MarkCount count = 0;
  std::memcpy(&count, message.data(), sizeof count);
  return count;
}
/// Bytes in front of the arguments.
std::size_t front_of(bool says_count, std::size_t marks) {
  return (says_count ? sizeof(MarkCount) : 0) + marks * sizeof(BufferMark);
}
Marks marks_of(Message& message) {
  Marks marks;
  marks.count = count_of_marks(message);
  std::memcpy(marks.all.data(), message.data() + front_of(says_count(message), 0),
              marks.count * sizeof(BufferMark));
  return marks;
}
/// What a value that is not packed sends.
std::vector<Buffer> sources_of(Message& message) {
  std::vector<Buffer> from(message.item->sources(message.data(), nullptr));
  message.item->sources(message.data(), from.data());
  return from;
}

}  // namespace

/// What a peer has sent: as many marks as the entry has buffers, each with a tag of that peer.
void Runtime::need_marks(Message& message, std::uint32_t source) {
  if (message.kind != RecordKind::copy && message.kind != RecordKind::invoke_with) return;
  Message* const around = std::exchange(current_, &message);
  if (says_count(message) && message.bytes < sizeof(MarkCount))
    fail(fmt::format("an invocation with buffers has {} bytes", message.bytes));
  const std::size_t count = count_of_marks(message);
  if (count == 0 || count > ISTHMUS_CHARE_BUFFERS)
    fail(fmt::format("an invocation is said to have {} buffers", count));
  if (message.bytes < front_of(says_count(message), count))
    fail(fmt::format("an invocation with {} buffers has {} bytes", count, message.bytes));
  for (const BufferMark& mark : marks_of(message)) {
    const Result<TagParts> tag = data_.tags().parts(mark.tag);
    if (!tag) fail(tag.error().text());
    if (tag->type != TagType::buffer) fail("its data has the tag of a mailbox");
    if (tag->source != source)
      fail(fmt::format("rank {} says that its data comes from rank {}", source, tag->source));
    if (mark.bytes > largest_buffer) fail(fmt::format("its data is said to have {} bytes", mark.bytes));
  }
  current_ = around;
}

std::byte* Runtime::begin_with(const Target& target, const Item* item, std::size_t bytes,
                               std::int32_t priority, std::span<const Buffer> buffers) {
  Record record{.kind = RecordKind::invoke_with,
                .item = static_cast<std::uint16_t>(item->number),
                .priority = priority};
  if (target.kind != ISTHMUS_CHARE_TO_ELEMENT) fail("buffers are sent to one chare alone");
  const std::uint32_t to = destination(target, record);
  return begin_marked(to, record, bytes, buffers, has_any_buffers(*item));
}

/// Of a record of invoke_with: writes the marks, and returns where the arguments go, before `send`.
std::byte* Runtime::begin_marked(std::uint32_t to, const Record& record, std::size_t bytes,
                                 std::span<const Buffer> buffers, bool says_count) {
  std::byte* at = begin_record(to, record, front_of(says_count, buffers.size()) + bytes);
  unsent_to_ = to;
  if (says_count) {
    const MarkCount count = buffers.size();
    std::memcpy(at, &count, sizeof count);
    at += sizeof count;
  }
  for (const Buffer& each : buffers) {
    const BufferMark mark{.tag = data_.next_tag(), .bytes = each.bytes};
    std::memcpy(at, &mark, sizeof mark);
    at += sizeof mark;
    unsent_.push_back({mark.tag, each, each.sent ? *each.sent : Callback{}});
  }
  return at;
}

/// The data of the record that has been sent.
void Runtime::send_buffers() {
  for (Unsent& each : unsent_) {
    if (each.buffer.sent) {
      each.buffer.sent = &each.sent;
      ++count_.sent;  // its callback
    }
    data_.send(unsent_to_, each.tag, each.buffer);
  }
  unsent_.clear();
}

void Runtime::execute_with(Message* message) {
  if (message->incoming) return finish_with(message);
  Element* element = message->element;
  if (!element || !element->object) element = route(message);
  if (!element) return;
  // One that is about to leave takes no more: its memory stays here.
  if (element->is_at_sync || element->ends || element->moves_to != stays)
    return postponed_.push_back(message);
  current_ = message;
  if (message->item->type != element->collection->type())
    fail(fmt::format("{} has no such entry", element->collection->name(element->index)));
  Incoming& incoming = await_data(message, element);
  if (message->packed)
    take_packed(*message, incoming);
  else
    take_local(*message, incoming);
  current_ = nullptr;
  ++element->receiving;
  if (incoming.missing == 0) finish_with(message);
}

/// Calls the post entry, which says where the buffers of `incoming` go; `sizes` are what comes.
void Runtime::ask_where(Message& message, Incoming& incoming, std::span<const std::uint64_t> sizes) {
  turn_to(incoming.element);
  message.item->post(incoming.element->object, message.data(), message.bytes, message.packed ? 1 : 0,
                     incoming.buffers.data(), static_cast<std::uint32_t>(incoming.buffers.size()));
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    Buffer& to = incoming.buffers[i];
    if (to.bytes < sizes[i] || (!to.address && sizes[i] != 0))
      fail(to.address ? fmt::format("its post entry names {} bytes for buffer {}, which has {}", to.bytes,
                                    i + 1, sizes[i])
                      : fmt::format("its post entry names no memory for buffer {}, which has {} bytes", i + 1,
                                    sizes[i]));
    to.bytes = sizes[i];
  }
  turn_to(nullptr);
}

void Runtime::take_packed(Message& message, Incoming& incoming) {
  const Marks marks = marks_of(message);
  const std::size_t front = front_of(says_count(message), marks.count);
  message.skip += static_cast<std::uint32_t>(front);
  message.bytes -= front;
  std::array<std::uint64_t, ISTHMUS_CHARE_BUFFERS> sizes;
  for (std::size_t i = 0; i < marks.count; ++i) {
    sizes[i] = marks.all[i].bytes;
    incoming.buffers.push_back({.bytes = sizes[i]});
  }
  ask_where(message, incoming, {sizes.data(), marks.count});
  for (std::size_t i = 0; i < marks.count; ++i)
    data_.receive(*data_.tags().parts(marks.all[i].tag), incoming, i);
}

/// From memory of this process: what is given away stays where it is, and what has to be copied is a message
/// to itself.
void Runtime::take_local(Message& message, Incoming& incoming) {
  std::vector<Buffer> from = sources_of(message);
  // The callbacks lie in the arguments, which the post entry gets.
  std::vector<Callback> sent(from.size());
  std::vector<std::uint64_t> sizes;
  bool is_given = true;
  for (std::size_t i = 0; i < from.size(); ++i) {
    Buffer& each = from[i];
    if (each.sent) each.sent = &(sent[i] = *each.sent);
    sizes.push_back(each.bytes);
    incoming.buffers.push_back({.bytes = each.bytes});
    is_given = is_given && each.owner;
  }
  if (!is_given) ask_where(message, incoming, sizes);
  for (std::size_t i = 0; i < from.size(); ++i) {
    Buffer& to = incoming.buffers[i];
    if (from[i].sent) ++count_.sent;
    if (from[i].owner || from[i].address == to.address) {
      let_go(to);
      to = from[i];
      to.sent = nullptr;
      if (from[i].sent) invoke(*from[i].sent, nullptr);
      continue;
    }
    const std::uint64_t tag = data_.next_tag();
    data_.receive(*data_.tags().parts(tag), incoming, i);
    data_.send(rank(), tag, from[i]);
  }
}

Incoming& Runtime::await_data(Message* message, Element* element) {
  std::unique_ptr<Incoming> made;
  if (spare_.empty()) {
    made = std::make_unique<Incoming>();
  } else {
    made = std::move(spare_.back());
    spare_.pop_back();
  }
  made->message = message;
  made->element = element;
  made->missing = 0;
  made->is_queued = false;
  made->place = incoming_.size();
  message->incoming = made.get();
  incoming_.push_back(std::move(made));
  return *message->incoming;
}

/// The data of a message is there. It is not under way any more.
std::unique_ptr<Incoming> Runtime::end_incoming(Message* message) {
  const std::size_t place = message->incoming->place;
  std::swap(incoming_[place], incoming_.back());
  incoming_[place]->place = place;
  std::unique_ptr<Incoming> incoming = std::move(incoming_.back());
  incoming_.pop_back();
  return incoming;
}

/// Its data is there: the entry.
void Runtime::finish_with(Message* message) {
  std::unique_ptr<Incoming> incoming = end_incoming(message);
  if (!incoming->element) return forward(message, *incoming);
  Element& element = *incoming->element;
  current_ = message;
  turn_to(&element);
  message->item->invoke_with(element.object, message->data(), message->bytes, message->packed ? 1 : 0,
                             incoming->buffers.data(), static_cast<std::uint32_t>(incoming->buffers.size()));
  turn_to(nullptr);
  incoming->buffers.clear();  // the owners are the entry's
  incoming->clear();
  spare_.push_back(std::move(incoming));
  --element.receiving;
  if (element.ends || element.moves_to != stays) finish_entry(element);
  current_ = nullptr;
  ++count_.done;
  end_message(message);
}

// --- following a chare that has moved

namespace {

Buffer given(std::unique_ptr<std::byte[]> memory, std::uint64_t bytes) {
  std::byte* const at = memory.release();
  return {.address = at,
          .bytes = bytes,
          .owner = at,
          .release = [](void* owner) { delete[] static_cast<std::byte*>(owner); },
          .sent = nullptr};
}

}  // namespace

/// The data has been sent to this process: it is received here, in memory of the host, and goes on from
/// there. What has not left the sender's memory is sent to where the chare is.
void Runtime::pass_data_on(Message* message, std::uint32_t to) {
  if (!message->packed) {
    const std::vector<Buffer> from = sources_of(*message);
    const std::size_t bytes = message->item->measure(message->data());
    std::byte* const at = begin_marked(to, record_of(*message), bytes, from, says_count(*message));
    message->item->write(message->data(), at);
    send();
    ++count_.done;
    return end_message(message);
  }
  Incoming& incoming = await_data(message, nullptr);
  const Marks marks = marks_of(*message);
  for (const BufferMark& mark : marks) {
    incoming.memory.push_back(std::make_unique_for_overwrite<std::byte[]>(mark.bytes));
    incoming.buffers.push_back({.address = incoming.memory.back().get(), .bytes = mark.bytes});
  }
  for (std::size_t i = 0; i < marks.count; ++i)
    data_.receive(*data_.tags().parts(marks.all[i].tag), incoming, i);
  if (incoming.missing == 0) finish_with(message);
}

void Runtime::forward(Message* message, Incoming& incoming) {
  current_ = message;
  Collection& collection = *find_collection(message->collection);
  std::vector<Buffer> from;
  from.reserve(incoming.memory.size());
  for (std::size_t i = 0; i < incoming.memory.size(); ++i)
    from.push_back(given(std::move(incoming.memory[i]), incoming.buffers[i].bytes));
  const bool says = says_count(*message);
  const std::span<const std::byte> arguments = message->payload().subspan(front_of(says, from.size()));
  std::byte* const at = begin_marked(whereabouts(collection, message->index), record_of(*message),
                                     arguments.size(), from, says);
  if (!arguments.empty()) std::memcpy(at, arguments.data(), arguments.size());
  send();
  current_ = nullptr;
  ++count_.done;
  end_message(message);
}

// --- what data does

void Runtime::arrived(Incoming& incoming) {
  incoming.is_queued = true;
  enqueue(incoming.message);
}

/// Without a value: a buffer has been sent, which has been counted.
void Runtime::invoke(const Callback& callback, const std::uint64_t* value) {
  if (!value) ++count_.done;
  call(callback, value ? std::as_bytes(std::span(value, 1)) : std::span<const std::byte>{});
}

void Runtime::failed(const Incoming* incoming, std::string_view reason) {
  if (incoming) {
    current_ = incoming->message;
    self_ = incoming->element;
  }
  fail(reason);
}

/// Invocations that have come to chares that were about to leave, if anything has been done since the last
/// look.
bool Runtime::retry_postponed() {
  if (postponed_.empty() || executed_ == postponed_at_) return false;
  postponed_at_ = executed_ + postponed_.size();
  for (Message* const message : std::exchange(postponed_, {}))
    enqueue(message);
  return true;
}

void Runtime::send_to_mailbox(std::uint64_t mailbox, const Buffer& buffer) {
  if (buffer.sent) ++count_.sent;
  data_.send_to(mailbox, buffer);
}

void Runtime::copy(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  Engine& engine = data_.engine();
  const std::lock_guard guard(engine.lock());
  if (GpuMessages* const gpu = engine.gpu()) {
    const Result<bool> copied = gpu->copies().try_copy(Payload::of(from, bytes), Payload::of(to, bytes));
    if (!copied) fail(copied.error().text());
    if (*copied) return;
  }
  std::memcpy(to, from, bytes);
}

}  // namespace isthmus::chare
