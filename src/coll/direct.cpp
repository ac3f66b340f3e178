#include "coll/direct.hpp"

#include <algorithm>
#include <cstring>

#include "coll/local.hpp"
#include "coll/operands.hpp"
#include "coll/step.hpp"

namespace isthmus::coll {
namespace {

/// Keeps the first error of several operations that must all be tried: who gives up in the middle of a step
/// would leave the others waiting.
void keep_first(Result<>& result, Result<> next) {
  if (result && !next) result = std::move(next);
}

Result<> pull(const Step& step, int from, std::uint64_t offset, std::byte* to, std::uint64_t bytes) {
  if (bytes == 0) return {};
  Team& team = step.team();
  return team.engine().pull(team.peer(from), step.heard_address(from) + offset, to, bytes);
}

/// Names `data` to all others; afterwards `hear` says when a member has named its own.
Result<> name_buffer(const Step& step, const void* data) {
  step.put_address(data);
  if (step.team().size() > flat_ranks) return step.exchange();
  step.publish();
  return {};
}

/// Runs `work(i)` for all other ranks, beginning behind the own one: not all at the same rank at once.
template <class Work>
Result<> for_others(const Team& team, Work work) {
  Result<> result;
  for (int k = 1; k < team.size(); ++k)
    keep_first(result, work((team.rank() + k) % team.size()));
  return result;
}

template <class Receive>
Result<> allgather(Team& team, const In& send, const Receive& receive, std::uint64_t agreed) {
  const bool here = send.buffer == in_place;
  const Payload mine = here ? block(receive, team.rank()) : whole(send);
  const PackedIn packed(mine);
  Step step(team, Collective::allgather, 0, agreed);
  Result<> result = name_buffer(step, packed.data());
  if (!here) copy(mine, block(receive, team.rank()));
  keep_first(result, for_others(team, [&](int i) -> Result<> {
               ISTHMUS_TRY(step.hear(i));
               const PackedOut place(block(receive, i));
               ISTHMUS_TRY(pull(step, i, 0, place.data(), block(receive, i).bytes));
               place.finish();
               return {};
             }));
  step.finish_together();
  return result;
}

}  // namespace

Result<> bcast_direct(Team& team, const Payload& data, int root) {
  const bool at_root = team.rank() == root;
  const PackedOut packed(data, at_root);
  Step step(team, Collective::bcast, root, data.bytes);
  step.put_address(packed.data());
  if (at_root) {
    step.publish();
    step.finish_last();
    return {};
  }
  step.publish_quietly();
  ISTHMUS_TRY(step.hear(root));
  ISTHMUS_TRY(pull(step, root, 0, packed.data(), data.bytes));
  packed.finish();
  return {};
}

Result<> bcast_direct_both(Team& team, const Payload& data, int root) {
  const bool at_root = team.rank() == root;
  const int other = 1 - team.rank();
  const PackedOut packed(data, at_root);
  Step step(team, Collective::bcast, root, data.bytes);
  step.put_address(packed.data());
  step.publish();
  Result<> result = step.hear(other);
  if (result) {
    const std::uint64_t middle = data.bytes / 2 / wire::cache_line * wire::cache_line;
    result = at_root ? team.engine().push(team.peer(other), step.heard_address(other) + middle,
                                          packed.data() + middle, data.bytes - middle)
                     : pull(step, root, 0, packed.data(), middle);
  }
  step.finish_together();
  if (!at_root) packed.finish();
  return result;
}

Result<> allgather_direct(Team& team, const In& send, const Out& receive) {
  return allgather(team, send, receive, block(receive, 0).bytes);
}

Result<> allgather_direct(Team& team, const In& send, const OutV& receive) {
  std::uint64_t total = 0;
  for (int i = 0; i < team.size(); ++i)
    total += block(receive, i).bytes;
  return allgather(team, send, receive, total);
}

Result<> alltoall_direct(Team& team, const In& send, const Out& receive) {
  const int n = team.size();
  const int rank = team.rank();
  const bool here = send.buffer == in_place;
  const In source = here ? In{receive.buffer, receive.count, receive.type} : send;
  const Payload all = Payload::of(source.buffer, source.count * n, *source.type);
  const std::uint64_t bytes = all.bytes / static_cast<unsigned>(n);
  // In place, blocks are overwritten while others still want them.
  Bytes leaving(here ? all.bytes : 0);
  if (here) pack(all, leaving.data());
  const PackedIn packed(here ? Payload::of(leaving.data(), all.bytes) : all);

  Step step(team, Collective::alltoall, 0, bytes);
  Result<> result = name_buffer(step, packed.data());
  if (!here) copy(block(source, rank), block(receive, rank));
  keep_first(result, for_others(team, [&](int i) -> Result<> {
               ISTHMUS_TRY(step.hear(i));
               const PackedOut place(block(receive, i));
               ISTHMUS_TRY(pull(step, i, bytes * static_cast<unsigned>(rank), place.data(), bytes));
               place.finish();
               return {};
             }));
  step.finish_together();
  return result;
}

namespace {

/// What is fetched, reduced and delivered at a time: large enough that the system calls are a small part,
/// small enough for the second-level cache; at least two of them in what is longer than the least. Measured
/// with two ranks, 1 MiB allreduce: 16 KiB 93 us, 32 KiB 75, 64 KiB 69, 128 KiB 66; 256 KiB with one chunk of
/// 128 KiB 23.5, with two of 64 KiB 18.
constexpr std::uint64_t least_chunk = 64 * 1024;
constexpr std::uint64_t most_chunk = 128 * 1024;

/// Reduces the same part of all members' operands, from the last rank down, chunk by chunk.
class PartReduction {
 public:
  PartReduction(const Step& step, const void* mine, const Reduction& what)
      : step_(step), mine_(static_cast<const std::byte*>(mine)), what_(what) {}

  /// Elements [first, first + count) into `result`, which may be their place in this member's operand but not
  /// elsewhere in it.
  Result<> run(std::int64_t first, std::int64_t count, void* result) {
    return run(first, count, result,
               [](std::uint64_t, const std::byte*, std::uint64_t) { return Result<>(); });
  }
  /// The same; `deliver(offset, bytes, size)` gets each chunk, with its place in a whole vector, while it is
  /// still in the cache.
  template <class Deliver>
  Result<> run(std::int64_t first, std::int64_t count, void* result, Deliver deliver) {
    const std::int64_t size = what_.type->size();
    if (size == 0) return {};
    const auto bytes = static_cast<std::uint64_t>(count * size);
    const std::uint64_t chunk_bytes = std::clamp(bytes / 2, least_chunk, most_chunk);
    const std::int64_t at_once = std::max<std::int64_t>(1, static_cast<std::int64_t>(chunk_bytes) / size);
    const auto space = static_cast<std::uint64_t>(std::min(at_once, count) * size);
    Bytes value(space);
    Bytes operand(space);
    for (std::int64_t done = 0; done < count; done += at_once) {
      const std::int64_t chunk = std::min(at_once, count - done);
      std::byte* to = static_cast<std::byte*>(result) + done * size;
      ISTHMUS_TRY(run_chunk(first + done, chunk, to, value.data(), operand.data()));
      ISTHMUS_TRY(deliver(static_cast<std::uint64_t>((first + done) * size), to,
                          static_cast<std::uint64_t>(chunk * size)));
    }
    return {};
  }

 private:
  Result<> run_chunk(std::int64_t first, std::int64_t count, std::byte* result, std::byte* value_space,
                     std::byte* operand_space) {
    const Team& team = step_.team();
    const auto offset = static_cast<std::uint64_t>(first * what_.type->size());
    const auto bytes = static_cast<std::uint64_t>(count * what_.type->size());
    const std::byte* own = mine_ + offset;
    const bool apart = own != result;
    // What is fetched goes where the result will be, so that a chunk occupies less cache.
    if (apart) value_space = result;
    if (apart && team.size() == 2 && what_.op->is_predefined()) operand_space = result;

    const auto fetch = [&](int rank, std::byte* space) -> Result<const std::byte*> {
      if (rank == team.rank()) return own;
      if (auto pulled = pull(step_, rank, offset, space, bytes); !pulled)
        return std::unexpected(std::move(pulled).error());
      return space;
    };
    auto value = fetch(team.size() - 1, value_space);
    if (!value) return std::unexpected(std::move(value).error());
    for (int i = team.size() - 2; i >= 0; --i) {
      auto operand = fetch(i, operand_space);
      if (!operand) return std::unexpected(std::move(operand).error());
      std::byte* out = i == 0 ? result : value_space;
      if (out == *operand && !what_.op->is_predefined()) {
        // The program's own operations leave their result in the right operand, here always a fetched one.
        ISTHMUS_TRY(what_.op->reduce(*operand, value_space, count, *what_.type));
        std::memcpy(out, value_space, bytes);
      } else {
        ISTHMUS_TRY(what_.op->reduce(*operand, *value, out, count, *what_.type));
      }
      value = out;
    }
    return {};
  }

  const Step& step_;
  const std::byte* mine_;
  const Reduction& what_;
};

/// Where the members want the result, after their operands, in what they say in a step.
constexpr std::size_t result_index = 1;

Result<> push(const Step& step, int to, std::uint64_t offset, const std::byte* from, std::uint64_t bytes) {
  Team& team = step.team();
  return team.engine().push(team.peer(to), step.heard_address(to, result_index) + offset, from, bytes);
}

}  // namespace

Result<> allreduce_direct_all(Team& team, const void* send, void* receive, const Reduction& what) {
  const Payload mine = elements(send, what);
  Bytes kept(send == receive ? mine.bytes : 0);
  const std::byte* operand = mine.data;
  if (send == receive) {  // others may fetch it when the result is already here
    pack(mine, kept.data());
    operand = kept.data();
  }
  Step step(team, Collective::allreduce, 0, mine.bytes);
  step.put_address(operand);
  Result<> result = step.exchange();
  if (result) result = PartReduction(step, operand, what).run(0, what.count, receive);
  step.finish_together();
  return result;
}

// An owner is the only one who reads its share of the operands, so that it may overwrite that in the others'
// memory as soon as it has it, even where they reduce in place.

Result<> allreduce_direct(Team& team, const void* send, void* receive, const Reduction& what) {
  const Shares shares(what.count, team.size());
  const int rank = team.rank();
  Step step(team, Collective::allreduce, 0, elements(send, what).bytes);
  step.put_address(send);
  step.put_address(receive, result_index);
  Result<> result = step.exchange();
  if (result)
    result = PartReduction(step, send, what)
                 .run(shares.begin(rank), shares.size(rank), element(receive, shares.begin(rank), *what.type),
                      [&](std::uint64_t offset, const std::byte* chunk, std::uint64_t bytes) {
                        return for_others(team, [&](int i) { return push(step, i, offset, chunk, bytes); });
                      });
  step.finish_together();
  return result;
}

Result<> reduce_direct(Team& team, const void* send, void* receive, const Reduction& what, int root) {
  const Shares shares(what.count, team.size());
  const int rank = team.rank();
  Elements space(rank == root ? 0 : shares.size(rank), *what.type);
  void* share = rank == root ? element(receive, shares.begin(rank), *what.type) : space.buffer();
  Step step(team, Collective::reduce, root, elements(send, what).bytes);
  step.put_address(send);
  step.put_address(receive, result_index);
  Result<> result = step.exchange();
  if (result)
    result = PartReduction(step, send, what)
                 .run(shares.begin(rank), shares.size(rank), share,
                      [&](std::uint64_t offset, const std::byte* chunk, std::uint64_t bytes) {
                        return rank == root ? Result<>() : push(step, root, offset, chunk, bytes);
                      });
  step.finish_together();
  return result;
}

Result<> reduce_scatter_direct(Team& team, const void* send, void* receive, const Integers& counts,
                               const Reduction& what) {
  std::int64_t before = 0;
  std::int64_t total = 0;
  for (int i = 0; i < team.size(); ++i) {
    if (i == team.rank()) before = total;
    total += counts[i];
  }
  const Reduction mine{counts[team.rank()], what.type, what.op};
  // In place, the result would lie in a part of the operand that another rank wants.
  Elements space(send == receive ? mine.count : 0, *what.type);
  void* result_at = send == receive ? space.buffer() : receive;
  Step step(team, Collective::reduce_scatter, 0, elements(send, {total, what.type, what.op}).bytes);
  step.put_address(send);
  Result<> result = step.exchange();
  if (result) result = PartReduction(step, send, what).run(before, mine.count, result_at);
  step.finish_together();
  copy(elements(result_at, mine), elements(receive, mine));
  return result;
}

}  // namespace isthmus::coll
