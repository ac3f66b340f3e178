// What those who live do when a process has died: they agree on who they are and on a checkpoint, forget all
// that has been since, and make the chares anew: each its own, and those of the dead, whose state a buddy has
// kept, in turn on all. What one process alone keeps then, another gets a copy of. A death meanwhile begins
// it again.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <new>
#include <optional>
#include <utility>

#include "base/log.hpp"
#include "chare/checkpoint/orders.hpp"
#include "chare/runtime.hpp"
#include "coll/agree/agree.hpp"
#include "coll/agree/survivors.hpp"
#include "coll/call/coll.hpp"
#include "coll/flow/ranks.hpp"
#include "coll/nodes/domains.hpp"

namespace isthmus::chare {
namespace {

/// What each who lives tells the others.
struct Survivor {
  std::uint32_t rank = 0;  ///< in MPI_COMM_WORLD
  std::uint32_t node = 0;
  Holdings holdings;
  std::uint8_t ends = 0;  ///< 1: it has heard that the program ends
  std::int32_t exit_code = 0;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(rank, node, holdings, ends, exit_code);
  }
};

/// The lowest rank in MPI_COMM_WORLD that shares this process's memory.
std::uint32_t node_of(const Communicator& comm) {
  std::uint32_t lowest = comm.engine().rank();
  for (const PeerId member : comm.group()->members())
    if (member < lowest && comm.engine().is_local(member)) lowest = member;
  return lowest;
}

/// The bytes of each.
Result<std::vector<std::vector<std::byte>>> gather_all(Communicator& comm, std::span<const std::byte> mine) {
  const auto count = static_cast<std::size_t>(comm.size());
  const Datatype& bytes = coll::byte_type();
  const auto length = static_cast<std::int64_t>(mine.size());
  std::vector<std::int64_t> lengths(count);
  ISTHMUS_TRY(
      coll::allgather({&length, sizeof length, &bytes}, {lengths.data(), sizeof length, &bytes}, comm));
  std::vector<std::int64_t> places(count);
  std::int64_t total = 0;
  for (std::size_t i = 0; i < count; ++i) {
    places[i] = total;
    total += lengths[i];
  }
  std::vector<std::byte> text(static_cast<std::size_t>(total));
  ISTHMUS_TRY(coll::allgatherv({mine.data(), length, &bytes},
                               {text.data(), lengths.data(), places.data(), &bytes}, comm));
  std::vector<std::vector<std::byte>> all(count);
  for (std::size_t i = 0; i < count; ++i)
    all[i].assign(text.begin() + places[i], text.begin() + places[i] + lengths[i]);
  return all;
}

std::string names_of(const std::vector<PeerId>& ranks) {
  std::string text;
  for (const PeerId each : ranks)
    text += fmt::format("{}{}", text.empty() ? "" : ", ", each);
  return ranks.empty() ? "another rank" : fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", text);
}

}  // namespace

/// What those who live have found out together.
struct Runtime::Meeting {
  Ref<Communicator> comm;  ///< in the order in which they go on
  std::vector<Survivor> survivors;
  Choice choice;
  MemoryHead head;  ///< where `choice` is one
};

Result<> Runtime::find_nodes(Communicator& comm) {
  const std::uint32_t own = node_of(comm);
  const Datatype& bytes = coll::byte_type();
  node_keys_.resize(static_cast<std::size_t>(comm.size()));
  ISTHMUS_TRY(coll::allgather({&own, sizeof own, &bytes}, {node_keys_.data(), sizeof own, &bytes}, comm));
  nodes_ = Nodes(node_keys_, used_);
  return {};
}

void Runtime::recover() {
  self_ = nullptr;
  current_ = nullptr;
  if (!ends_ && memory_.is_empty() && rank() < size())
    fail(fmt::format("this process has lost {}, and chares have no checkpoint in memory",
                     names_of(coll::failed_members(*comm_))));
  Meeting meeting;
  {
    const std::lock_guard guard(comm_->engine().lock());
    comm_->revoke(ErrorClass::revoked);
    transport_.abandon();
    data_.cancel();
    meet_survivors(meeting);
  }
  std::vector<PeerId> dead;
  for (const PeerId member : comm_->group()->members())
    if (!meeting.comm->group()->contains(member)) dead.push_back(member);
  go_on_among(meeting);
  used_ = std::min(used_, processes());
  const auto ended = std::ranges::find(meeting.survivors, 1, &Survivor::ends);
  if (ended != meeting.survivors.end()) {
    ends_ = true;
    exit_code_ = ended->exit_code;
    return;
  }
  if (meeting.choice.generation == 0)
    fail_together(fmt::format("{} died before a checkpoint in memory was whole", names_of(dead)));
  if (rank() == 0 && comm_->engine().settings().warn)
    warn(fmt::format("chares have lost {}, and go back to checkpoint {} in memory, in {} processes",
                     names_of(dead), meeting.choice.generation,
                     std::min<std::size_t>(meeting.head.head.parts.size(), processes())));
  go_back(meeting);
  const std::lock_guard guard(comm_->engine().lock());
  // Another has died: those who wait come out, and all begin again.
  if (const Result<> copied = copy_again(meeting); !copied) comm_->revoke(ErrorClass::revoked);
}

/// Sends what one process alone keeps to another. With the engine's lock held. All keep their copies when all
/// have got theirs. An error where another has died.
Result<> Runtime::copy_again(const Meeting& meeting) {
  std::vector<Holdings> holdings;
  holdings.reserve(meeting.survivors.size());
  for (const Survivor& each : meeting.survivors)
    holdings.push_back(each.holdings);
  const auto missing = find_missing_copies(meeting.head, meeting.choice.generation, holdings, node_keys_);
  if (missing.empty()) return {};
  std::vector<std::uint64_t> sizes;
  sizes.reserve(missing.size());
  for (const MissingCopy& each : missing)
    sizes.push_back(each.from == rank() ? kept_part(each.writer).bytes : 0);
  const auto said = gather_all(*comm_, std::as_bytes(std::span(sizes)));
  if (!said) return std::unexpected(Error(said.error().error_class(), said.error().text()));
  const bool is_whole = std::ranges::all_of(*said, [&](const std::vector<std::byte>& each) {
    return each.size() == sizes.size() * sizeof sizes[0];
  });
  if (!is_whole) fail("those who live do not agree on what is to be copied");
  for (std::size_t i = 0; i < missing.size(); ++i)
    std::memcpy(&sizes[i], (*said)[missing[i].from].data() + i * sizeof sizes[i], sizeof sizes[i]);

  std::vector<MemoryPart> copies(missing.size());
  bool has_room = true;
  try {
    for (std::size_t i = 0; i < missing.size(); ++i)
      if (missing[i].to == rank()) copies[i] = memory_.take(missing[i].writer, sizes[i]);
  } catch (const std::bad_alloc&) {
    has_room = false;
  }
  const auto rooms = gather_all(*comm_, std::as_bytes(std::span(&has_room, 1)));
  if (!rooms) return std::unexpected(Error(rooms.error().error_class(), rooms.error().text()));
  const auto without = std::ranges::find_if(
      *rooms, [](const std::vector<std::byte>& each) { return each[0] == std::byte{0}; });
  if (without != rooms->end()) {
    if (rank() == 0 && comm_->engine().settings().warn)
      warn(
          fmt::format("process {} has no memory for a second copy of what the dead have kept: until the next "
                      "checkpoint, another death may end the job",
                      without - rooms->begin()));
    return {};
  }
  ISTHMUS_TRY(exchange_copies(missing, copies));
  ISTHMUS_TRY(coll::barrier(*comm_));
  for (std::size_t i = 0; i < missing.size(); ++i) {
    memory_.note_keeper(missing[i].writer, comm_->group()->members()[missing[i].to]);
    if (missing[i].to == rank()) memory_.keep_copy(std::move(copies[i]));
  }
  return {};
}

/// Of the committed checkpoint, and here.
const MemoryPart& Runtime::kept_part(std::uint32_t writer) const {
  return *std::ranges::find(memory_.parts(), writer, &MemoryPart::writer);
}

/// All are under way together. Those of one process to another come in the order of `missing`.
Result<> Runtime::exchange_copies(std::span<const MissingCopy> missing,
                                  std::span<const MemoryPart> copies) const {
  coll::Batch batch({*comm_, coll::Tag::alltoall});
  for (std::size_t i = 0; i < missing.size(); ++i) {
    const MissingCopy& each = missing[i];
    if (each.to == rank())
      batch.receive(static_cast<int>(each.from), Payload::of(copies[i].data.get(), copies[i].bytes));
    if (each.from == rank()) {
      const MemoryPart& part = kept_part(each.writer);
      batch.send(static_cast<int>(each.to), Payload::of(part.data.get(), part.bytes));
    }
  }
  return batch.wait();
}

/// Process 0 says it for all; they say it themselves where it is no more.
void Runtime::fail_together(std::string_view reason) {
  if (rank() != 0) {
    const std::lock_guard guard(comm_->engine().lock());
    // An error: process 0 is no more.
    if (const Result<> met = coll::barrier(*comm_); !met) fail(reason);
  }
  fail(reason);
}

/// With the engine's lock held. `meeting`: of those who live, as far as all of them know.
void Runtime::meet_survivors(Meeting& meeting) {
  Ref<Communicator> living = comm_;
  for (;;) {
    Result<Ref<Communicator>> shrunk = coll::shrink(*living);
    if (!shrunk) fail(fmt::format("chares cannot go on after a loss: {}", shrunk.error().text()));
    living = std::move(*shrunk);
    meeting.comm = living;
    const bool is_well = meet(meeting).has_value();
    // Others may be waiting in it.
    if (!is_well) living->revoke(ErrorClass::revoked);
    if (coll::agree(*living, is_well)) return;
  }
}

/// Brings those who live into the order in which they go on.
Result<> Runtime::put_in_order(Meeting& meeting) {
  std::vector<std::uint32_t> ranks;
  ranks.reserve(meeting.survivors.size());
  for (const Survivor& each : meeting.survivors)
    ranks.push_back(each.rank);
  const std::vector<std::uint32_t> order = order_survivors(meeting.head, ranks);
  if (std::ranges::is_sorted(order)) return {};
  const auto own = static_cast<std::uint32_t>(meeting.comm->rank());
  const auto place = std::ranges::find(order, own) - order.begin();
  Result<Ref<Communicator>> ordered = coll::split(*meeting.comm, 0, static_cast<int>(place));
  if (!ordered) return std::unexpected(std::move(ordered).error());
  meeting.comm = std::move(*ordered);
  std::vector<Survivor> survivors;
  survivors.reserve(order.size());
  for (const std::uint32_t each : order)
    survivors.push_back(std::move(meeting.survivors[each]));
  meeting.survivors = std::move(survivors);
  return {};
}

/// An error where another has died.
Result<> Runtime::meet(Meeting& meeting) {
  Communicator& comm = *meeting.comm;
  const Survivor mine{.rank = comm.engine().rank(),
                      .node = node_of(comm),
                      .holdings = memory_.holdings(),
                      .ends = ends_ ? std::uint8_t{1} : std::uint8_t{0},
                      .exit_code = exit_code_};
  const auto all = gather_all(comm, packed(mine));
  if (!all) return std::unexpected(Error(all.error().error_class(), all.error().text()));
  meeting.survivors.assign(all->size(), {});
  std::vector<Holdings> holdings;
  for (std::size_t i = 0; i < all->size(); ++i) {
    if (!unpack((*all)[i], meeting.survivors[i]))
      fail(fmt::format("process {} of those who live does not say what it keeps", i));
    holdings.push_back(meeting.survivors[i].holdings);
  }
  meeting.choice = choose_checkpoint(holdings);
  if (meeting.choice.generation == 0) return {};
  const auto root = static_cast<int>(meeting.choice.knows_head);
  const Datatype& bytes = coll::byte_type();
  std::vector<std::byte> text;
  if (comm.rank() == root) text = packed(memory_.head());
  std::uint64_t length = text.size();
  ISTHMUS_TRY(coll::bcast(&length, sizeof length, bytes, root, comm));
  text.resize(length);
  ISTHMUS_TRY(coll::bcast(text.data(), static_cast<std::int64_t>(length), bytes, root, comm));
  if (!unpack(text, meeting.head)) fail(fmt::format("process {} has no head of its checkpoint", root));
  return put_in_order(meeting);
}

void Runtime::go_on_among(const Meeting& meeting) {
  comm_ = meeting.comm;
  node_keys_.clear();
  for (const Survivor& each : meeting.survivors)
    node_keys_.push_back(each.node);
  transport_.open(comm_);
  const Result<Tags> tags = Tags::make(comm_->engine().settings().chare_tag_bits, processes());
  if (!tags) fail(tags.error().text());
  data_.open(comm_, *tags);
  sent_in_turn_.assign(processes(), 0);
}

void Runtime::go_back(const Meeting& meeting) {
  const std::uint64_t generation = meeting.choice.generation;
  std::vector<Holdings> holdings;
  std::vector<std::uint32_t> ranks;
  for (const Survivor& each : meeting.survivors) {
    holdings.push_back(each.holdings);
    ranks.push_back(each.rank);
  }
  const auto holders = find_holders(meeting.head, generation, holdings, ranks);
  if (!holders) fail_together(holders.error().text());
  memory_.settle_on(generation, meeting.head);
  memory_generation_ = generation;
  ++rollbacks_;

  if (forget_) forget_();
  forget_all();
  count_ = {};
  quiescence_ = Quiescence(processes());
  wave_wanted_ = false;
  const CheckpointHead& head = meeting.head.head;
  roots_ = std::max(roots_, head.roots);
  next_collection_ = head.next_collection;
  used_ = static_cast<std::uint32_t>(std::min<std::size_t>(head.parts.size(), processes()));
  nodes_ = Nodes(node_keys_, used_);
  const std::vector<std::uint32_t> nodes = nodes_before(meeting.head, ranks, nodes_);
  if (rank() < size())
    for (const SavedCollection& saved : head.collections)
      restore_collection(saved);
  for (const MemoryPart& part : memory_.parts())
    if ((*holders)[part.writer] == rank()) restore_part(part, meeting.head, nodes);
  if (rank() != 0) return;
  quiescence(moved(head.restarted, meeting.head));
  for (const Callback& quiet : meeting.head.quiet)
    // Futures are no part of a checkpoint.
    if (quiet.has_prefix == 0) quiescence(moved(quiet, meeting.head));
}

/// Who goes on in the place of a writer: itself, or a process that had no chares. None: nobody does.
std::optional<std::uint32_t> Runtime::heir_of(std::uint32_t writer, const MemoryHead& head) const {
  const auto members = comm_->group()->members();
  const auto self = std::ranges::find(members, head.ranks[writer]);
  if (self != members.end()) return static_cast<std::uint32_t>(self - members.begin());
  if (writer < size() && std::ranges::find(head.ranks, members[writer]) == head.ranks.end()) return writer;
  return std::nullopt;
}

/// Chares of those who live, and of those whose place another has taken, go there, all of them; others go to
/// all processes in turn, and their groups end. `nodes`: of each node, which one it was.
void Runtime::restore_part(const MemoryPart& part, const MemoryHead& head,
                           std::span<const std::uint32_t> nodes) {
  const std::optional<std::uint32_t> heir = heir_of(part.writer, head);
  std::uint32_t next = rank();
  const Result<> read = for_each_chare(part, [&](const SavedChare& chare, auto data) -> Result<> {
    const auto saved = std::ranges::find(head.head.collections, chare.collection, &SavedCollection::id);
    if (saved == head.head.collections.end())
      return isthmus::fail(ErrorClass::other, "it has a chare of no collection");
    const auto restore_in = [&](std::uint32_t to, Index index) {
      if (to == rank())
        restore_element(*find_collection(chare.collection), index, chare, data);
      else
        send_restored(to, items_.find(saved->type)->number, index, chare, data);
    };
    if (saved->shape.kind == ISTHMUS_CHARE_NODE_GROUP) {
      for (std::uint32_t node = 0; node < nodes.size(); ++node)
        if (nodes[node] == chare.index.low) restore_in(nodes_.leader(node), {node, 0});
    } else if (saved->shape.kind == ISTHMUS_CHARE_GROUP) {
      if (heir) restore_in(*heir, {*heir, 0});
    } else {
      restore_in(heir ? *heir : next++ % size(), chare.index);
    }
    return {};
  });
  if (!read) fail(fmt::format("the checkpoint in memory is damaged: {}", read.error().text()));
}

/// A function of a process is called where that is now, or who has its place; else in process 0.
Callback Runtime::moved(const Callback& callback, const MemoryHead& head) const {
  Callback result = callback;
  if (callback.target.kind != ISTHMUS_CHARE_TO_FUNCTION) return result;
  result.target.rank =
      callback.target.rank < head.ranks.size() ? heir_of(callback.target.rank, head).value_or(0) : 0;
  return result;
}

}  // namespace isthmus::chare
