#include "coll/entry/stand_ins.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "coll/call/local.hpp"

namespace isthmus::coll {
namespace {

using Address = std::uintptr_t;

/// A GPU copies to and from pinned memory at 55 GB/s, else at 12 (H200); but what has been pinned stays so.
constexpr std::size_t most_pinned = std::size_t{16} << 20U;

/// The addresses that a payload touches.
std::pair<Address, Address> range_of(const Payload& payload) {
  const auto data = reinterpret_cast<Address>(payload.data);
  if (!payload.type) return {data, data + payload.bytes};
  const std::int64_t reach = (payload.count - 1) * payload.type->extent();
  const std::int64_t begin = payload.type->true_lb() + std::min<std::int64_t>(reach, 0);
  const std::int64_t end =
      payload.type->true_lb() + payload.type->true_extent() + std::max<std::int64_t>(reach, 0);
  return {data + static_cast<Address>(begin), data + static_cast<Address>(end)};
}

}  // namespace

void* StandIns::replace(const void* buffer, const std::vector<Payload>& blocks, Use use) {
  auto* const same = const_cast<void*>(buffer);
  const auto first = std::ranges::find_if(blocks, [](const Payload& block) { return block.bytes != 0; });
  if (first == blocks.end()) return same;
  auto found = gpu_.copies().look(*first);
  if (found && !found->is_on_gpu() && found->kind != MemoryKind::managed) return same;
  Address begin = std::numeric_limits<Address>::max();
  Address end = 0;
  for (const Payload& block : blocks) {
    if (block.bytes == 0) continue;
    const auto [low, high] = range_of(block);
    begin = std::min(begin, low);
    end = std::max(end, high);
  }
  // Aligned as the original is, because the program's own operations may rely on it.
  constexpr Address alignment = 64;
  StandIn made{.use = use, .near = found ? *found : Buffer{}, .pinned = {}, .plain = {}, .blocks = {}};
  const std::size_t room = end - begin + alignment;
  if (found && found->is_on_gpu() && room <= most_pinned)
    if (auto pinned = gpu_.copies().pinned_pool(found->device).take(room); pinned && pinned->size() >= room)
      made.pinned = std::move(*pinned);
  if (!made.pinned.data()) made.plain = std::make_unique<std::byte[]>(room);
  const auto memory = reinterpret_cast<Address>(made.pinned.data() ? made.pinned.data() : made.plain.get());
  const auto shift =
      static_cast<std::int64_t>(memory + (begin - memory) % alignment) - static_cast<std::int64_t>(begin);
  for (const Payload& block : blocks) {
    if (block.bytes == 0) continue;
    Payload host = block;
    host.data = static_cast<std::byte*>(moved(block.data, shift));
    made.blocks.push_back({block, host});
  }
  if (!found && trouble_) trouble_ = std::unexpected(std::move(found).error());
  stand_ins_.push_back(std::move(made));
  return moved(buffer, shift);
}

template <class Argument>
Argument StandIns::of_argument(Argument argument, int blocks, Use use) {
  if (argument.buffer == in_place) return argument;
  std::vector<Payload> payloads;
  payloads.reserve(static_cast<std::size_t>(blocks));
  for (int i = 0; i < blocks; ++i)
    payloads.push_back(block(argument, i));
  argument.buffer = replace(argument.buffer, payloads, use);
  return argument;
}

In StandIns::of(const In& in, int blocks, Use use) {
  return of_argument(in, blocks, use);
}
Out StandIns::of(const Out& out, int blocks, Use use) {
  return of_argument(out, blocks, use);
}
InV StandIns::of(const InV& in, int blocks, Use use) {
  return of_argument(in, blocks, use);
}
OutV StandIns::of(const OutV& out, int blocks, Use use) {
  return of_argument(out, blocks, use);
}
InW StandIns::of(const InW& in, int blocks, Use use) {
  return of_argument(in, blocks, use);
}
OutW StandIns::of(const OutW& out, int blocks, Use use) {
  return of_argument(out, blocks, use);
}

Result<> StandIns::copy(const StandIn& stand_in, const Payload& from, const Payload& to) {
  if (stand_in.near.is_on_gpu()) return gpu_.copies().copy(stand_in.near, from, to);
  coll::copy(from, to);
  return {};
}

void StandIns::fetch() {
  if (!stand_ins_.empty()) ++gpu_.collectives.by_host;
  for (const StandIn& each : stand_ins_)
    for (const Block& block : each.blocks)
      if (each.use != Use::write && trouble_) trouble_ = copy(each, block.original, block.host);
}

Result<> StandIns::finish(Result<> done) {
  ISTHMUS_TRY(std::exchange(trouble_, {}));
  if (!done) return done;
  for (const StandIn& each : stand_ins_)
    for (const Block& block : each.blocks)
      if (each.use != Use::read) ISTHMUS_TRY(copy(each, block.host, block.original));
  return {};
}

}  // namespace isthmus::coll
