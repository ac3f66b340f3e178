#include "coll/lanes/in_lanes.hpp"

#include <algorithm>

#include "coll/call/combine.hpp"
#include "coll/call/operands.hpp"
#include "coll/call/part_reduction.hpp"

namespace isthmus::coll {
namespace {

Flow barrier_in_lane(Place place) {
  Round round(std::move(place), Collective::barrier, 0, 0, 0);
  co_await round.vacant();
  if (round.is_over()) co_return;
  round.publish();
  co_await round.hear_all();
}

Flow bcast_in_lane(Place place, Payload data, int root) {
  Round round(std::move(place), Collective::bcast, root, data.bytes, data.bytes);
  co_await round.vacant();
  if (round.is_over()) co_return;
  if (round.team().rank() == root) {
    round.put(data);
    round.publish();
    co_return;
  }
  round.publish_quietly();  // so that two who wait for each other notice
  co_await round.hear(root);
  if (round.is_over()) co_return;
  co_await round.hand_over(data.bytes);
  unpack(round.heard(root, data.bytes), data);
  if (round.team().size() == 2) round.hand_back(root, data.bytes);
}

Flow bcast_direct_in_lane(Place place, Payload data, int root) {
  const bool at_root = place.team().rank() == root;
  const PackedOut packed(data, at_root);
  Round round(std::move(place), Collective::bcast, root, data.bytes, 0);
  co_await round.vacant();
  if (round.is_over()) co_return;
  round.put_address(packed.data());
  if (at_root) {
    round.publish();
    co_await round.reach_all(last_phase);
    co_await round.leave();
    co_return;
  }
  round.publish_quietly();
  co_await round.hear(root);
  if (!round.is_over()) {
    co_await round.hand_over(data.bytes);
    co_await pull(round, root, 0, packed.data(), data.bytes);
    packed.finish();
  }
  round.advance(last_phase);
}

/// What is copied at a time of a broadcast between two, of which either side takes what it comes to.
std::uint64_t chunk_of(std::uint64_t bytes) {
  constexpr std::uint64_t most = 128 * 1024;
  const std::uint64_t half = (bytes + 1) / 2;
  return std::min((half + wire::cache_line - 1) / wire::cache_line * wire::cache_line, most);
}

/// The counters of such a broadcast, in the root's line behind the address: chunks that have been taken, and
/// that have been copied.
class ChunkCounters {
 public:
  ChunkCounters(const Round& round, int root) : taken_(round.word(root, 1)), copied_(round.word(root, 2)) {}

  static void clear(const Round& round) {
    round.put_word(1, 0);
    round.put_word(2, 0);
  }
  std::uint64_t take() { return taken_.fetch_add(1, std::memory_order_relaxed); }
  void copied(bool good) { copied_.fetch_add(good ? 1 : failure + 1, std::memory_order_acq_rel); }
  [[nodiscard]] std::uint64_t copied() const { return copied_.load(std::memory_order_acquire) % failure; }
  [[nodiscard]] bool has_failed() const { return copied_.load(std::memory_order_acquire) >= failure; }

 private:
  static constexpr std::uint64_t failure = std::uint64_t{1} << 40;
  std::atomic_ref<std::uint64_t> taken_, copied_;
};

class AllCopied final : public Awaited {
 public:
  AllCopied(const Round& round, const ChunkCounters& counters, std::uint64_t chunks)
      : Awaited(true), round_(round), counters_(counters), chunks_(chunks) {}
  [[nodiscard]] bool begin() const { return is_complete(); }
  [[nodiscard]] Driver* driver() const noexcept { return round_.driver(); }
  [[nodiscard]] bool is_complete() const noexcept override {
    return counters_.copied() >= chunks_ || round_.team().is_broken();
  }
  [[nodiscard]] Result<> end() const {
    if (counters_.copied() < chunks_) return round_.team().loss();
    if (!counters_.has_failed()) return {};
    return fail(ErrorClass::other, "a part of the data could not be copied between the two ranks' memories");
  }

 private:
  const Round& round_;
  const ChunkCounters& counters_;
  std::uint64_t chunks_;
};

/// Between two: who is in MPI copies, both where both are.
Flow bcast_both_in_lane(Place place, Payload data, int root) {
  const bool at_root = place.team().rank() == root;
  const int other = 1 - place.team().rank();
  const PackedOut packed(data, at_root);
  const std::uint64_t at_once = chunk_of(data.bytes);
  const std::uint64_t chunks = at_once == 0 ? 0 : (data.bytes + at_once - 1) / at_once;
  Round round(std::move(place), Collective::bcast, root, data.bytes, 0);
  co_await round.vacant();
  if (round.is_over()) co_return;
  round.put_address(packed.data());
  if (at_root) ChunkCounters::clear(round);
  round.publish();
  co_await round.hear(other);
  if (round.is_over()) {
    co_await round.leave();
    co_return;
  }
  co_await round.hand_over(data.bytes);
  ChunkCounters counters(round, root);
  Engine& engine = round.team().engine();
  for (std::uint64_t i = counters.take(); i < chunks; i = counters.take()) {
    const std::uint64_t offset = i * at_once;
    const std::uint64_t bytes = std::min(at_once, data.bytes - offset);
    const PeerId peer = round.team().peer(other);
    const std::uint64_t theirs = round.heard_address(other) + offset;
    Result<> copied = at_root ? engine.push(peer, theirs, packed.data() + offset, bytes)
                              : engine.pull(peer, theirs, packed.data() + offset, bytes);
    counters.copied(copied.has_value());
    co_await std::move(copied);
  }
  round.team().notify_all();
  co_await AllCopied(round, counters, chunks);
  co_await round.leave();
  if (!at_root) packed.finish();
}

Flow reduce_in_lane(Place place, const void* send, void* receive, Reduction what, int root) {
  const Payload mine = elements(send, what);
  Round round(std::move(place), Collective::reduce, root, mine.bytes, mine.bytes);
  co_await round.vacant();
  if (round.is_over()) co_return;
  round.put(mine);
  if (round.team().rank() != root) {
    round.publish_to(root);
    co_return;
  }
  round.publish_quietly();
  co_await round.hear_all();
  if (round.is_over()) co_return;
  co_await round.hand_over(mine.bytes);
  co_await combine(round, 0, round.team().size() - 1, mine.bytes, receive, what);
}

Flow allreduce_in_lane(Place place, const void* send, void* receive, Reduction what) {
  const Payload mine = elements(send, what);
  Round round(std::move(place), Collective::allreduce, 0, mine.bytes, mine.bytes);
  co_await round.vacant();
  if (round.is_over()) co_return;
  round.put(mine);
  round.publish();
  co_await round.hear_all();
  if (round.is_over()) co_return;
  co_await round.hand_over(mine.bytes);
  co_await combine(round, 0, round.team().size() - 1, mine.bytes, receive, what);
}

// The same for more members than `flat_ranks`: neighbours say it to one of them, who says it for all of them.

/// What neighbours have contributed, combined in the room of who speaks for them; after they were heard.
Result<> combine_neighbors(const Round& round, const Neighbors& neighbors, const Payload& mine,
                           const Reduction& what) {
  if (neighbors.first == neighbors.last) {
    round.put(mine);
    return {};
  }
  std::byte* const sum = round.room(mine.bytes);
  ISTHMUS_TRY(combine(round, neighbors.first + 1, neighbors.last, mine.bytes, sum, what));
  return what.op->reduce(mine.data, sum, what.count, *what.type);
}

Flow barrier_by_neighbors(Place place) {
  const Neighbors neighbors(place.team().rank(), place.team().size());
  Round round(std::move(place), Collective::barrier, 0, 0, 0);
  co_await round.vacant();
  if (round.is_over()) co_return;
  if (round.team().rank() == neighbors.first) {
    co_await round.hear_neighbors(neighbors);
    if (round.is_over()) {
      round.pass_on_difference();
      co_return;
    }
    round.publish();
  } else {
    round.publish_to(neighbors.first);
  }
  co_await round.hear_speakers(neighbors);
}

/// `root`: who wants the result, or `everybody_in_lane`.
constexpr int everybody_in_lane = -1;
Flow reduce_by_neighbors(Place place, const void* send, void* receive, Reduction what, int root) {
  const bool to_all = root == everybody_in_lane;
  const bool is_mine = to_all || place.team().rank() == root;
  const Neighbors neighbors(place.team().rank(), place.team().size());
  const Payload mine = elements(send, what);
  Round round(std::move(place), to_all ? Collective::allreduce : Collective::reduce, to_all ? 0 : root,
              mine.bytes, mine.bytes);
  co_await round.vacant();
  if (round.is_over()) co_return;
  if (round.team().rank() == neighbors.first) {
    co_await round.hear_neighbors(neighbors);
    if (round.is_over()) {
      round.pass_on_difference();
      co_return;
    }
    co_await combine_neighbors(round, neighbors, mine, what);
    if (to_all)
      round.publish();
    else
      round.publish_to(root);
  } else {
    round.put(mine);
    round.publish_to(neighbors.first);
  }
  if (!is_mine) co_return;
  co_await round.hear_speakers(neighbors);
  if (!round.is_over())
    co_await combine(round, 0, neighbors.last_speaker, mine.bytes, receive, what, 0, flat_ranks);
}

Flow allreduce_direct_all_in_lane(Place place, const void* send, void* receive, Reduction what) {
  const Payload mine = elements(send, what);
  const FetchedOperand operand(mine, send == receive);
  ReductionSpace space(what.count, what);
  Round round(std::move(place), Collective::allreduce, 0, mine.bytes, 0);
  co_await round.vacant();
  if (round.is_over()) co_return;
  round.put_address(operand.data());
  round.publish();
  co_await round.hear_all();
  if (!round.is_over()) {
    co_await round.hand_over(mine.bytes);
    co_await PartReduction(round, operand.data(), what, space).run(0, what.count, receive);
  }
  round.advance(last_phase);
  co_await round.reach_all(last_phase);
  co_await round.leave();
}

/// An owner is the only one who reads its share of the operands, so that it may overwrite that in the others'
/// memory as soon as it has it. `root`: who wants the result, or `everybody_in_lane`.
Flow reduce_direct_in_lane(Place place, const void* send, void* receive, Reduction what, int root) {
  const bool to_all = root == everybody_in_lane;
  const Shares shares(what.count, place.team().size());
  const int rank = place.team().rank();
  const bool is_mine = to_all || rank == root;
  Elements apart(is_mine ? 0 : shares.size(rank), *what.type);
  void* const share = is_mine ? element(receive, shares.begin(rank), *what.type) : apart.buffer();
  ReductionSpace space(shares.size(rank), what);
  Round round(std::move(place), to_all ? Collective::allreduce : Collective::reduce, to_all ? 0 : root,
              elements(send, what).bytes, 0);
  co_await round.vacant();
  if (round.is_over()) co_return;
  round.put_address(send);
  round.put_address(receive, result_index);
  round.publish();
  co_await round.hear_all();
  if (!round.is_over()) {
    co_await round.hand_over(elements(send, what).bytes);
    co_await PartReduction(round, send, what, space)
        .run(shares.begin(rank), shares.size(rank), share,
             [&](std::uint64_t offset, const std::byte* chunk, std::uint64_t bytes) -> Result<> {
               if (to_all)
                 return for_others(round.team(), [&](int i) { return push(round, i, offset, chunk, bytes); });
               return rank == root ? Result<>() : push(round, root, offset, chunk, bytes);
             });
  }
  round.advance(last_phase);
  co_await round.reach_all(last_phase);
  co_await round.leave();
}

}  // namespace

LaneWay::State LaneWay::learn(const Lane& lane, const std::optional<LaneQuestion>& asked) {
  if (!asked || !team_->has_stripe(lane)) return State::none;
  const LaneChoice& choice = team_->choose(*asked, lane.kind);
  if (choice.is_none()) return State::none;
  if (!team_->is_ready() || !(choice.is_one() || team_->direct())) return State::unknown;
  const std::optional<Algorithm>& found = choice.is_one() ? choice.direct : choice.of(*team_->direct());
  // How long ones go may change from one start to the next.
  if (!found || is_live(choice, *asked)) return State::none;
  algorithm_ = *found;
  return State::known;
}

Flow in_lane(Algorithm, Place&& place, const call::Barrier&) {
  if (place.team().size() > flat_ranks) return barrier_by_neighbors(std::move(place));
  return barrier_in_lane(std::move(place));
}

Flow in_lane(Algorithm algorithm, Place&& place, const call::Bcast& c) {
  const Payload data = Payload::of(c.buffer, c.count, *c.type);
  if (algorithm == Algorithm::direct) return bcast_direct_in_lane(std::move(place), data, c.root);
  if (algorithm == Algorithm::direct_both) return bcast_both_in_lane(std::move(place), data, c.root);
  return bcast_in_lane(std::move(place), data, c.root);
}

Flow in_lane(Algorithm algorithm, Place&& place, const call::Reduce& c) {
  const void* const mine = operand(c.send, c.receive);
  if (algorithm == Algorithm::direct)
    return reduce_direct_in_lane(std::move(place), mine, c.receive, c.what, c.root);
  if (place.team().size() > flat_ranks)
    return reduce_by_neighbors(std::move(place), mine, c.receive, c.what, c.root);
  return reduce_in_lane(std::move(place), mine, c.receive, c.what, c.root);
}

Flow in_lane(Algorithm algorithm, Place&& place, const call::Allreduce& c) {
  const void* const mine = operand(c.send, c.receive);
  if (algorithm == Algorithm::direct)
    return reduce_direct_in_lane(std::move(place), mine, c.receive, c.what, everybody_in_lane);
  if (algorithm == Algorithm::direct_all)
    return allreduce_direct_all_in_lane(std::move(place), mine, c.receive, c.what);
  if (place.team().size() > flat_ranks)
    return reduce_by_neighbors(std::move(place), mine, c.receive, c.what, everybody_in_lane);
  return allreduce_in_lane(std::move(place), mine, c.receive, c.what);
}

}  // namespace isthmus::coll
