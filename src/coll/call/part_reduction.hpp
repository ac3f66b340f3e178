#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "coll/call/local.hpp"
#include "coll/call/operands.hpp"
#include "p2p/engine.hpp"

/// What members of a team, or of a `LaneTeam`, do with each other's buffers. `Step` is theirs: a `Step` or a
/// `Round`.
namespace isthmus::coll {

/// Keeps the first error of several operations that must all be tried: who gives up in the middle of a step
/// would leave the others waiting.
inline void keep_first(Result<>& result, Result<> next) {
  if (result && !next) result = std::move(next);
}

/// From the memory that `from` has named in a step.
template <class Step>
Result<> pull(const Step& step, int from, std::uint64_t offset, std::byte* to, std::uint64_t bytes) {
  if (bytes == 0) return {};
  auto& team = step.team();
  return team.engine().pull(team.peer(from), step.heard_address(from) + offset, to, bytes);
}

/// A member's operand of a reduction that others fetch, maybe when the result is already here: a copy where
/// the result takes its place.
class FetchedOperand {
 public:
  FetchedOperand(const Payload& mine, bool is_in_place)
      : kept_(is_in_place ? mine.bytes : 0), data_(is_in_place ? kept_.data() : mine.data) {
    if (is_in_place) pack(mine, kept_.data());
  }
  FetchedOperand(const FetchedOperand&) = delete;
  FetchedOperand& operator=(const FetchedOperand&) = delete;

  [[nodiscard]] const std::byte* data() const noexcept { return data_; }

 private:
  Bytes kept_;
  const std::byte* data_;
};

/// Where the members want the result, after their operands, in what they say in a step.
inline constexpr std::size_t result_index = 1;

template <class Step>
Result<> push(const Step& step, int to, std::uint64_t offset, const std::byte* from, std::uint64_t bytes) {
  auto& team = step.team();
  return team.engine().push(team.peer(to), step.heard_address(to, result_index) + offset, from, bytes);
}

/// Runs `work(i)` for all other ranks, beginning behind the own one: not all at the same rank at once.
template <class Team, class Work>
Result<> for_others(const Team& team, Work work) {
  Result<> result;
  for (int k = 1; k < team.size(); ++k)
    keep_first(result, work((team.rank() + k) % team.size()));
  return result;
}

/// What is fetched, reduced and delivered at a time: large enough that the system calls are a small part,
/// small enough for the second-level cache; at least two of them in what is longer than the least. Measured
/// with two ranks, 1 MiB allreduce: 16 KiB 93 us, 32 KiB 75, 64 KiB 69, 128 KiB 66; 256 KiB with one chunk of
/// 128 KiB 23.5, with two of 64 KiB 18.
inline constexpr std::uint64_t least_chunk = 64 * 1024;
inline constexpr std::uint64_t most_chunk = 128 * 1024;

/// The memory that reducing a part takes. To be made before the step: who has said something in it cannot
/// give up for want of memory without leaving the others with half a result.
class ReductionSpace {
 public:
  /// For parts of up to `count` elements.
  ReductionSpace(std::int64_t count, const Reduction& what)
      : at_once_(chunk(count, what.type->size())),
        value_(bytes(count, what.type->size())),
        operand_(bytes(count, what.type->size())) {}

  /// Elements of a chunk.
  [[nodiscard]] std::int64_t at_once() const noexcept { return at_once_; }
  [[nodiscard]] std::byte* value() noexcept { return value_.data(); }
  [[nodiscard]] std::byte* operand() noexcept { return operand_.data(); }

 private:
  static std::int64_t chunk(std::int64_t count, std::int64_t size) noexcept {
    if (size == 0) return 1;
    const std::uint64_t bytes =
        std::clamp(static_cast<std::uint64_t>(count * size) / 2, least_chunk, most_chunk);
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(bytes) / size);
  }
  static std::uint64_t bytes(std::int64_t count, std::int64_t size) noexcept {
    return static_cast<std::uint64_t>(std::min(chunk(count, size), count) * size);
  }

  const std::int64_t at_once_;
  Bytes value_;
  Bytes operand_;
};

/// Reduces the same part of all members' operands, from the last rank down, chunk by chunk.
template <class Step>
class PartReduction {
 public:
  /// `space`: for as many elements as any `run` has.
  PartReduction(const Step& step, const void* mine, const Reduction& what, ReductionSpace& space)
      : step_(step), mine_(static_cast<const std::byte*>(mine)), what_(what), space_(space) {}

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
    const std::int64_t at_once = space_.at_once();
    for (std::int64_t done = 0; done < count; done += at_once) {
      const std::int64_t chunk = std::min(at_once, count - done);
      std::byte* to = static_cast<std::byte*>(result) + done * size;
      ISTHMUS_TRY(run_chunk(first + done, chunk, to, space_.value(), space_.operand()));
      ISTHMUS_TRY(deliver(static_cast<std::uint64_t>((first + done) * size), to,
                          static_cast<std::uint64_t>(chunk * size)));
    }
    return {};
  }

 private:
  Result<> run_chunk(std::int64_t first, std::int64_t count, std::byte* result, std::byte* value_space,
                     std::byte* operand_space) {
    auto& team = step_.team();
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
  ReductionSpace& space_;
};

}  // namespace isthmus::coll
