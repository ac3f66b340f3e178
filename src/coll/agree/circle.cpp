#include "coll/agree/circle.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace isthmus::coll {
namespace {

Result<> check(const Status& status, std::size_t expected) {
  if (status.error != 0) return std::unexpected(Error::from_code(status.error));
  if (status.bytes == expected) return {};
  return fail(
      ErrorClass::other,
      fmt::format("got {} bytes instead of {} from rank {}: the processes do not call the same function",
                  status.bytes, expected, status.source));
}

Payload payload(std::span<const std::byte> bytes) {
  return Payload::of(bytes.data(), bytes.size());
}
Payload payload(std::span<std::byte> bytes) {
  return Payload::of(bytes.data(), bytes.size());
}

}  // namespace

Circle Circle::of_local_group(Communicator& comm, int root) {
  Circle circle(comm, agree_local_tag);
  const int size = comm.size();
  circle.ranks_.reserve(static_cast<std::size_t>(size));
  for (int i = 0; i < size; ++i)
    circle.ranks_.push_back((root + i) % size);
  circle.position_ = static_cast<std::uint32_t>((comm.rank() - root + size) % size);
  return circle;
}

Circle Circle::of(Communicator& comm, const Group& group, int tag, std::uint32_t root) {
  Circle circle(comm, tag);
  const std::uint32_t size = group.size();
  circle.ranks_.reserve(size);
  for (std::uint32_t i = 0; i < size; ++i)
    circle.ranks_.push_back(
        static_cast<int>(comm.group()->rank_of(group.process((root + i) % size)).value()));
  circle.position_ = (group.rank_of(comm.engine().rank()).value() + size - root) % size;
  return circle;
}

Target Circle::target(std::uint32_t position) const {
  const auto rank = static_cast<std::uint32_t>(ranks_[position]);
  return {comm_.group()->process(rank), comm_.context_id() + 1, comm_.rank(), tag_};
}

Result<> Circle::broadcast_bytes(std::span<std::byte> bytes) {
  Engine& engine = comm_.engine();
  // A binomial tree: the parent of a position lacks its lowest bit.
  const std::uint32_t lowest = position_ & (~position_ + 1);
  if (position_ != 0) {
    const Status status =
        engine.receive(comm_.collective_context(), ranks_[position_ - lowest], tag_, payload(bytes));
    ISTHMUS_TRY(check(status, bytes.size()));
  }
  std::uint32_t step = position_ != 0 ? lowest : std::bit_ceil(size());
  while ((step >>= 1) != 0) {
    if (position_ + step >= size()) continue;
    const int error = engine.send(target(position_ + step), payload(bytes));
    if (error != 0) return std::unexpected(Error::from_code(error));
  }
  return {};
}

Result<> Circle::gather_all_bytes(std::span<std::byte> blocks, std::size_t block) {
  // Bruck et al., "Efficient algorithms for all-to-all communications", section 4: what is held doubles in
  // each round.
  const std::uint32_t n = size();
  for (std::uint32_t held = 1; held < n;) {
    const std::uint32_t count = std::min(held, n - held);
    const std::uint32_t to = (position_ + n - held) % n;
    const std::uint32_t from = (position_ + held) % n;
    const std::size_t bytes = count * block;
    const Status status =
        comm_.engine().send_receive(target(to), payload(blocks.first(bytes)), comm_.collective_context(),
                                    ranks_[from], tag_, payload(blocks.subspan(held * block, bytes)));
    ISTHMUS_TRY(check(status, bytes));
    held += count;
  }
  std::ranges::rotate(blocks, blocks.begin() + static_cast<std::ptrdiff_t>((n - position_) % n * block));
  return {};
}

Result<> swap(Communicator& comm, int rank, int tag, std::span<const std::byte> mine,
              std::span<std::byte> theirs) {
  const Status status = comm.engine().send_receive(comm.collective_target(rank, tag), payload(mine),
                                                   comm.collective_context(), rank, tag, payload(theirs));
  return check(status, theirs.size());
}

}  // namespace isthmus::coll
