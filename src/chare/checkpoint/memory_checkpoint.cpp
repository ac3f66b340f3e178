#include "chare/checkpoint/memory_checkpoint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace isthmus::chare {
namespace {

/// Aligned as memory of `malloc` is, so that what is read from it in place is.
constexpr std::uint64_t alignment = 16;

std::vector<std::uint32_t> writers_of(const std::vector<MemoryPart>& parts) {
  std::vector<std::uint32_t> writers;
  writers.reserve(parts.size());
  for (const MemoryPart& part : parts)
    writers.push_back(part.writer);
  return writers;
}

bool has_part(const Holdings& holdings, std::uint64_t generation, std::uint32_t writer) {
  const auto has = [writer](const std::vector<std::uint32_t>& parts) {
    return std::ranges::find(parts, writer) != parts.end();
  };
  return (holdings.committed == generation && has(holdings.committed_parts)) ||
         (holdings.pending == generation && has(holdings.pending_parts));
}

}  // namespace

void MemoryCheckpoints::begin(std::uint64_t generation) {
  if (pending_.generation == generation) return;
  pending_ = {};
  pending_.generation = generation;
}

bool MemoryCheckpoints::keep(std::uint64_t generation, MemoryPart part) {
  // A copy may come before the order to write.
  if (pending_.generation < generation) begin(generation);
  if (pending_.generation != generation) return false;
  if (std::ranges::find(pending_.parts, part.writer, &MemoryPart::writer) != pending_.parts.end())
    return false;
  pending_.parts.push_back(std::move(part));
  return true;
}

void MemoryCheckpoints::drop(std::uint64_t generation) {
  if (pending_.generation == generation) pending_ = {};
}

/// The next one will be as large, mostly. With new memory for each, and its page faults, 64 MB of two
/// processes took 364 ms, and with this 22 to 57 (two busy cores).
void MemoryCheckpoints::put_aside(Checkpoint& checkpoint) {
  spare_ = std::move(checkpoint.parts);
  checkpoint = {};
}

MemoryPart MemoryCheckpoints::take(std::uint32_t writer, std::uint64_t bytes) {
  const auto fits = std::ranges::find_if(spare_, [bytes](const MemoryPart& each) {
    return each.capacity >= bytes && each.capacity / 2 <= bytes && each.data.use_count() == 1;
  });
  if (fits == spare_.end())
    return {.writer = writer,
            .bytes = bytes,
            .capacity = bytes,
            .data = std::make_shared_for_overwrite<std::byte[]>(bytes)};
  MemoryPart part = std::move(*fits);
  spare_.erase(fits);
  part.writer = writer;
  part.bytes = bytes;
  return part;
}

bool MemoryCheckpoints::commit(std::uint64_t generation, MemoryHead head) {
  if (generation == 0 || pending_.generation != generation) return false;
  settle_on(generation, std::move(head));
  return true;
}

void MemoryCheckpoints::settle_on(std::uint64_t generation, MemoryHead head) {
  if (pending_.generation == generation) {
    put_aside(committed_);
    committed_ = std::move(pending_);
  } else if (committed_.generation != generation) {
    committed_ = {};  // nothing of it is here
  }
  committed_.generation = generation;
  pending_ = {};
  committed_.head = std::move(head);
}

void MemoryCheckpoints::note_keeper(std::uint32_t writer, std::uint32_t keeper) {
  if (writer < committed_.head.buddies.size()) committed_.head.buddies[writer] = keeper;
}

Holdings MemoryCheckpoints::holdings() const {
  return {.committed = committed_.generation,
          .pending = pending_.generation,
          .committed_parts = writers_of(committed_.parts),
          .pending_parts = writers_of(pending_.parts)};
}

std::uint64_t MemoryCheckpoints::bytes() const noexcept {
  std::uint64_t bytes = 0;
  for (const Checkpoint* each : {&committed_, &pending_})
    for (const MemoryPart& part : each->parts)
      bytes += part.bytes;
  return bytes;
}

// --- parts

std::uint64_t MemoryPartWriter::size_of(std::uint64_t bytes) noexcept {
  return (sizeof(SavedChare) + bytes + alignment - 1) / alignment * alignment;
}

std::byte* MemoryPartWriter::add(const SavedChare& chare) noexcept {
  const std::uint64_t size = size_of(chare.bytes);
  if (size > part_.bytes - used_) return nullptr;
  std::byte* const at = part_.data.get() + used_;
  std::memcpy(at, &chare, sizeof chare);
  std::memset(at + sizeof chare + chare.bytes, 0, size - sizeof chare - chare.bytes);
  used_ += size;
  return at + sizeof chare;
}

Result<> for_each_chare(const MemoryPart& part,
                        const std::function<Result<>(const SavedChare&, std::span<const std::byte>)>& take) {
  for (std::span<const std::byte> rest = part.text(); !rest.empty();) {
    SavedChare chare;
    if (rest.size() < sizeof chare)
      return fail(ErrorClass::other, fmt::format("a chare of the part of writer {} is cut off", part.writer));
    std::memcpy(&chare, rest.data(), sizeof chare);
    if (chare.bytes > rest.size() - sizeof chare || MemoryPartWriter::size_of(chare.bytes) > rest.size())
      return fail(ErrorClass::other,
                  fmt::format("a chare of {} bytes is in the last {} of the part of writer {}", chare.bytes,
                              rest.size(), part.writer));
    ISTHMUS_TRY(take(chare, rest.subspan(sizeof chare, chare.bytes)));
    rest = rest.subspan(MemoryPartWriter::size_of(chare.bytes));
  }
  return {};
}

// --- after a loss

Choice choose_checkpoint(std::span<const Holdings> all) {
  Choice choice;
  for (std::uint32_t i = 0; i < all.size(); ++i)
    if (all[i].committed > choice.generation) choice = {.generation = all[i].committed, .knows_head = i};
  return choice;
}

Result<std::vector<std::uint32_t>> find_holders(const MemoryHead& head, std::uint64_t generation,
                                                std::span<const Holdings> all,
                                                std::span<const std::uint32_t> ranks) {
  const auto writers = static_cast<std::uint32_t>(head.head.parts.size());
  if (head.ranks.size() != writers || head.buddies.size() != writers || head.nodes.size() != writers)
    return fail(ErrorClass::other, "the checkpoint in memory does not say who has written it");
  constexpr std::uint32_t nobody = ~0U;
  std::vector<std::uint32_t> holders(writers, nobody);
  std::string lost;
  for (std::uint32_t writer = 0; writer < writers; ++writer) {
    for (std::uint32_t i = 0; i < all.size(); ++i)
      if (has_part(all[i], generation, writer) &&
          (holders[writer] == nobody || ranks[i] == head.ranks[writer]))
        holders[writer] = i;
    if (holders[writer] != nobody) continue;
    lost += fmt::format("{}those of rank {}, of which rank {} kept the copy", lost.empty() ? "" : ", ",
                        head.ranks[writer], head.buddies[writer]);
  }
  if (lost.empty()) return holders;
  return fail(
      ErrorClass::proc_aborted,
      fmt::format("chares are lost for whom both processes that kept their state are no more: {}", lost));
}

std::vector<MissingCopy> find_missing_copies(const MemoryHead& head, std::uint64_t generation,
                                             std::span<const Holdings> all,
                                             std::span<const std::uint32_t> nodes) {
  std::vector<MissingCopy> missing;
  if (all.size() < 2) return missing;
  for (std::uint32_t writer = 0; writer < head.ranks.size(); ++writer) {
    const auto has = [&](const Holdings& each) { return has_part(each, generation, writer); };
    if (std::ranges::count_if(all, has) != 1) continue;
    const auto from = static_cast<std::uint32_t>(std::ranges::find_if(all, has) - all.begin());
    missing.push_back({.writer = writer, .from = from, .to = buddy_of(from, nodes)});
  }
  return missing;
}

std::vector<std::uint32_t> order_survivors(const MemoryHead& head, std::span<const std::uint32_t> ranks) {
  std::vector<std::uint32_t> others;
  for (std::uint32_t i = 0; i < ranks.size(); ++i)
    if (std::ranges::find(head.ranks, ranks[i]) == head.ranks.end()) others.push_back(i);
  std::vector<std::uint32_t> order;
  auto other = others.begin();
  for (const std::uint32_t writer : head.ranks) {
    const auto found = std::ranges::find(ranks, writer);
    if (found != ranks.end())
      order.push_back(static_cast<std::uint32_t>(found - ranks.begin()));
    else if (other != others.end())
      order.push_back(*other++);
  }
  order.insert(order.end(), other, others.end());
  return order;
}

std::vector<std::uint32_t> nodes_before(const MemoryHead& head, std::span<const std::uint32_t> ranks,
                                        const Nodes& nodes) {
  const std::uint32_t before = head.nodes.empty() ? 1 : 1 + *std::ranges::max_element(head.nodes);
  constexpr std::uint32_t none = ~0U;
  std::vector<std::uint32_t> sources(nodes.size(), none);
  std::vector<bool> lives(before);
  for (std::uint32_t rank = 0; rank < nodes.numbers().size(); ++rank) {
    const auto writer = std::ranges::find(head.ranks, ranks[rank]);
    std::uint32_t& source = sources[nodes.of(rank)];
    if (writer == head.ranks.end() || source != none) continue;
    source = head.nodes[static_cast<std::size_t>(writer - head.ranks.begin())];
    lives[source] = true;
  }
  std::uint32_t lost = 0;
  for (std::uint32_t node = 0; node < sources.size(); ++node) {
    if (sources[node] != none) continue;
    while (lost < before && lives[lost])
      ++lost;
    sources[node] = lost < before ? lost++ : node % before;
  }
  return sources;
}

std::uint32_t buddy_of(std::uint32_t rank, std::span<const std::uint32_t> nodes) {
  const auto size = static_cast<std::uint32_t>(nodes.size());
  // Those of the next node in the order of numbers, and the place of `rank` in its own.
  const std::uint32_t own = nodes[rank];
  const auto number_after = [&](std::uint32_t node) {
    std::uint32_t next = ~0U, first = ~0U;
    for (const std::uint32_t each : nodes) {
      if (each > node) next = std::min(next, each);
      first = std::min(first, each);
    }
    return next != ~0U ? next : first;
  };
  const std::uint32_t other = number_after(own);
  if (other == own) return (rank + 1) % size;
  std::uint32_t place = 0;
  for (std::uint32_t i = 0; i < rank; ++i)
    place += nodes[i] == own ? 1 : 0;
  std::vector<std::uint32_t> there;
  for (std::uint32_t i = 0; i < size; ++i)
    if (nodes[i] == other) there.push_back(i);
  return there[place % there.size()];
}

}  // namespace isthmus::chare
