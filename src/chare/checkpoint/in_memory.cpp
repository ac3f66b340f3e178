// Checkpoints in memory: each process writes its chares to memory, and sends a copy to its buddy, which tells
// process 0. When all copies are there, process 0 tells all that the checkpoint is whole.
#include <fmt/format.h>

#include <cstring>
#include <new>
#include <utility>

#include "chare/checkpoint/orders.hpp"
#include "chare/runtime.hpp"

namespace isthmus::chare {
namespace {

/// Beside the mark of the data.
struct CopyHead {
  std::uint64_t generation;
  std::uint32_t writer;
  std::uint32_t unused = 0;
};

}  // namespace

void Runtime::checkpoint_in_memory(const Callback& written, const Callback& restarted) {
  if (restarted.has_prefix != 0)
    fail("a checkpoint is to go on with a future, which is not there after a process has died");
  send_record(
      0, {.kind = RecordKind::ask_checkpoint},
      packed(Wish{
          .written = written, .restarted = restarted, .pause = Pause::memory, .processes = 0, .path = {}}));
}

/// Why not; empty: it is written, and on its way to the buddy.
std::string Runtime::save_in_memory(std::uint64_t generation) {
  memory_.begin(generation);
  std::uint64_t bytes = 0;
  const auto for_each = [&](auto&& visit) {
    packs_ = true;
    for (auto& [id, collection] : collections_)
      collection->for_each([&](Element& element) {
        self_ = &element;
        visit(*collection, element);
      });
    self_ = nullptr;
    packs_ = false;
  };
  MemoryPart part;
  try {
    std::vector<std::uint64_t> sizes;
    for_each([&](const Collection& collection, const Element& element) {
      sizes.push_back(collection.type()->measure(element.object));
      bytes += MemoryPartWriter::size_of(sizes.back());
    });
    MemoryPartWriter writer(memory_.take(rank(), bytes));
    std::size_t number = 0;
    for_each([&](const Collection& collection, const Element& element) {
      const SavedChare chare{.checksum = 0,
                             .bytes = sizes[number++],
                             .collection = collection.id(),
                             .index = element.index,
                             .load = element.load,
                             .has_own_load = element.has_own_load ? 1U : 0U};
      collection.type()->write(element.object, writer.add(chare));
    });
    part = std::move(writer).finish();
  } catch (const std::bad_alloc&) {
    self_ = nullptr;
    packs_ = false;
    return fmt::format("there is no memory for {} bytes of chares", bytes);
  }
  if (!memory_.keep(generation, part)) return "this process has written its chares before";
  send_copy(generation, part);
  return {};
}

/// From the memory where it stays to memory of the buddy.
void Runtime::send_copy(std::uint64_t generation, const MemoryPart& part) {
  const CopyHead head{.generation = generation, .writer = part.writer};
  using Owner = std::shared_ptr<std::byte[]>;
  const Buffer buffer{.address = part.data.get(),
                      .bytes = part.bytes,
                      .owner = new Owner(part.data),
                      .release = [](void* owner) { delete static_cast<Owner*>(owner); },
                      .sent = nullptr};
  const Record record{.kind = RecordKind::copy};
  std::byte* const at = begin_marked(buddy_of(rank(), node_keys_), record, sizeof head, {&buffer, 1}, false);
  std::memcpy(at, &head, sizeof head);
  send();
}

/// Called twice: when the record is there, and when the data is.
void Runtime::take_copy(Message* message) {
  current_ = message;
  BufferMark mark;
  CopyHead head;
  if (message->bytes != sizeof mark + sizeof head) fail("it does not say which part of a checkpoint comes");
  std::memcpy(&mark, message->data(), sizeof mark);
  std::memcpy(&head, message->data() + sizeof mark, sizeof head);
  if (!message->incoming) {
    if (head.writer != message->origin || buddy_of(head.writer, node_keys_) != rank())
      fail(fmt::format("it sends the part of writer {}, whose buddy this process is not", head.writer));
    // Kept from now on, and whole when process 0 is told so.
    MemoryPart part = memory_.take(head.writer, mark.bytes);
    Incoming& incoming = await_data(message, nullptr);
    incoming.buffers.push_back({.address = part.data.get(), .bytes = mark.bytes});
    if (!memory_.keep(head.generation, std::move(part)))
      fail(fmt::format("it sends a part of checkpoint {}, which is not being written", head.generation));
    data_.receive(*data_.tags().parts(mark.tag), incoming, 0);
    if (incoming.missing != 0) return void(current_ = nullptr);
  }
  end_incoming(message);
  send_record(0, {.kind = RecordKind::copied}, std::as_bytes(std::span(&head.generation, 1)));
  current_ = nullptr;
  ++count_.done;
  end_message(message);
}

void Runtime::do_copied(Message& message) {
  std::uint64_t generation = 0;
  if (message.bytes == sizeof generation) std::memcpy(&generation, message.data(), sizeof generation);
  if (!checkpoint_ || checkpoint_->wish.pause != Pause::memory || generation != checkpoint_->head.generation)
    fail("it has got a copy of a checkpoint that is not being written");
  --checkpoint_->copies;
  if (checkpoint_->missing == 0 && checkpoint_->copies == 0) end_checkpoint();
}

/// Process 0: tells all how it has ended. Who has asked for it is told when all have heard of a new one: then
/// one of them lives whoever dies.
void Runtime::end_memory_checkpoint() {
  const std::uint64_t generation = checkpoint_->head.generation;
  if (!checkpoint_->error.empty()) {
    for (std::uint32_t to = 0; to < processes(); ++to)
      send_record(to, {.kind = RecordKind::drop}, std::as_bytes(std::span(&generation, 1)));
    return tell_checkpoint();
  }
  MemoryHead head{
      .head = checkpoint_->head, .quiet = checkpoint_->quiet, .ranks = {}, .buddies = {}, .nodes = {}};
  const auto members = comm_->group()->members();
  for (std::uint32_t writer = 0; writer < size(); ++writer) {
    head.ranks.push_back(members[writer]);
    head.nodes.push_back(nodes_.of(writer));
    head.buddies.push_back(members[buddy_of(writer, node_keys_)]);
  }
  const auto text = packed(head);
  checkpoint_->unheard = processes();
  for (std::uint32_t to = 0; to < processes(); ++to)
    send_record(to, {.kind = RecordKind::commit}, text);
}

void Runtime::commit(Message& message) {
  MemoryHead head;
  if (message.origin != 0 || !unpack(message.payload(), head)) fail("it is no end of a checkpoint");
  const std::uint64_t generation = head.head.generation;
  if (rank() >= size())  // it has written nothing, and perhaps keeps nothing
    memory_.settle_on(generation, std::move(head));
  else if (!memory_.commit(generation, std::move(head)))
    fail(fmt::format("it ends checkpoint {}, which is not being written", generation));
  send_record(0, {.kind = RecordKind::committed}, {});
}

void Runtime::do_committed(Message&) {
  if (!checkpoint_ || checkpoint_->unheard == 0)
    fail("it has heard of a checkpoint that is not being written");
  if (--checkpoint_->unheard == 0) tell_checkpoint();
}

void Runtime::drop(Message& message) {
  std::uint64_t generation = 0;
  if (message.origin != 0 || message.bytes != sizeof generation) fail("it is no end of a checkpoint");
  std::memcpy(&generation, message.data(), sizeof generation);
  memory_.drop(generation);
}

}  // namespace isthmus::chare
