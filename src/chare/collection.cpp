#include "chare/collection.hpp"

#include <fmt/format.h>

#include "chare/items.hpp"

namespace isthmus::chare {
namespace {

// Of two numbers of 64 bits, and of 64 and 32.
__extension__ using Wide = unsigned __int128;

}  // namespace

std::uint32_t Collection::home(Index index) const noexcept {
  switch (shape_.kind) {
    case ISTHMUS_CHARE_GROUP:
      return static_cast<std::uint32_t>(index.low);
    case ISTHMUS_CHARE_NODE_GROUP:
      return nodes_->leader(index.low);
    case ISTHMUS_CHARE_DENSE:
      return static_cast<std::uint32_t>(Wide{index.low} * processes_ / shape_.count);
    default:
      return static_cast<std::uint32_t>((Wide{spread(index)} * processes_) >> 64);
  }
}

std::uint64_t Collection::first_of(std::uint32_t process) const noexcept {
  return static_cast<std::uint64_t>((Wide{process} * shape_.count + processes_ - 1) / processes_);
}

std::string Collection::name(Index index) const {
  std::string text = readable(type_->name);
  if (is_group() || shape_.dimensions == 1 || !may_have(index)) return fmt::format("{}[{}]", text, index.low);
  if (shape_.dimensions == 0) return fmt::format("{}[key {:#x}{:016x}]", text, index.high, index.low);
  const std::uint64_t last = shape_.extent[shape_.dimensions - 1];
  const std::uint64_t front = index.low / last;
  if (shape_.dimensions == 2) return fmt::format("{}[{}, {}]", text, front, index.low % last);
  return fmt::format("{}[{}, {}, {}]", text, front / shape_.extent[1], front % shape_.extent[1],
                     index.low % last);
}

/// In the block; null: it is not of the block.
Element** Collection::place_of(Index index) noexcept {
  const std::uint64_t place = index.low - first_;
  return place < block_.size() && index.high == 0 ? &block_[place] : nullptr;
}

Element* Collection::add(Index index) {
  Element* element = nullptr;
  if (unused_.empty()) {
    if (used_ == chunks_.size() * chunk) chunks_.push_back(std::make_unique<Element[]>(chunk));
    element = &chunks_[used_ / chunk][used_ % chunk];
    ++used_;
  } else {
    element = unused_.back();
    unused_.pop_back();
    *element = {};
  }
  element->collection = this;
  element->index = index;
  if (Element** const place = place_of(index))
    *place = element;
  else
    local_.insert(element);
  ++size_;
  return element;
}

void Collection::remove(Element& element) noexcept {
  if (Element** const place = place_of(element.index))
    *place = nullptr;
  else
    local_.erase(element.index);
  --size_;
  element.object = nullptr;
}

void Collection::have_own_block(std::uint32_t rank) {
  if (is_sparse() || rank >= processes_) return have_block(0, 0);
  if (shape_.kind == ISTHMUS_CHARE_GROUP) return have_block(rank, 1);
  if (is_of_nodes()) return nodes_->leads(rank) ? have_block(nodes_->of(rank), 1) : have_block(0, 0);
  const std::uint64_t first = first_of(rank);
  have_block(first, first_of(rank + 1) - first);
}

void Collection::rehome(const Shape& shape, std::uint32_t processes, std::uint32_t rank) {
  shape_ = shape;
  processes_ = processes;
  local_ = {};
  have_own_block(rank);
  for_each([this](Element& element) {
    element.broadcasts = element.covered = element.reductions = 0;
    element.moves = 1;
    if (Element** const place = place_of(element.index))
      *place = &element;
    else
      local_.insert(&element);
  });
  located.clear();
  departures.clear();
  broadcast_log.clear();
  broadcasts_made = broadcasts = 0;
  inserts_sent = inserts_done = size_;
  balancing.reset();
  latest_ = nullptr;
  fewer_.clear();
}

Result<> check(const Shape& shape, std::uint32_t processes, std::uint32_t nodes) {
  switch (shape.kind) {
    case ISTHMUS_CHARE_GROUP:
      if (shape.count != processes)
        return fail(ErrorClass::arg, fmt::format("a group of {} in {} processes", shape.count, processes));
      return {};
    case ISTHMUS_CHARE_NODE_GROUP:
      if (shape.count != nodes)
        return fail(ErrorClass::arg, fmt::format("a node group of {} in {} nodes", shape.count, nodes));
      return {};
    case ISTHMUS_CHARE_SPARSE:
      return {};
    case ISTHMUS_CHARE_DENSE:
      break;
    default:
      return fail(ErrorClass::arg, fmt::format("a collection of kind {}", shape.kind));
  }
  if (shape.dimensions < 1 || shape.dimensions > 3)
    return fail(ErrorClass::arg, fmt::format("an array of {} dimensions", shape.dimensions));
  Wide product = 1;
  for (std::uint32_t i = 0; i < shape.dimensions; ++i) {
    product *= shape.extent[i];
    if (shape.extent[i] == 0 || product > (Wide{1} << 48))
      return fail(ErrorClass::arg, fmt::format("an array whose extent {} is {}", i, shape.extent[i]));
  }
  if (product != shape.count)
    return fail(ErrorClass::arg,
                fmt::format("an array of {} chares, which are not its extents' product", shape.count));
  return {};
}

}  // namespace isthmus::chare
