#include "comm/topology.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <memory>
#include <optional>

#include "comm/factors.hpp"

namespace isthmus {

int Grid::size() const noexcept {
  int size = 1;
  for (const Dimension& dimension : dimensions_)
    size *= dimension.size;
  return size;
}

Result<int> Grid::rank_at(std::span<const int> coordinates) const {
  int rank = 0;
  for (std::size_t i = 0; i < dimensions_.size(); ++i) {
    const auto [size, periodic] = dimensions_[i];
    int coordinate = coordinates[i];
    if (periodic) {
      coordinate = (coordinate % size + size) % size;
    } else if (coordinate < 0 || coordinate >= size) {
      return fail(
          ErrorClass::arg,
          fmt::format("coords[{}] is {}, but that dimension has {} places and an end", i, coordinate, size));
    }
    rank = rank * size + coordinate;
  }
  return rank;
}

std::vector<int> Grid::coordinates_of(int rank) const {
  std::vector<int> coordinates(dimensions_.size());
  for (std::size_t i = dimensions_.size(); i-- > 0;) {
    coordinates[i] = rank % dimensions_[i].size;
    rank /= dimensions_[i].size;
  }
  return coordinates;
}

int Grid::neighbor(int rank, int dimension, std::int64_t displacement) const {
  std::vector<int> coordinates = coordinates_of(rank);
  const auto [size, periodic] = dimensions_[static_cast<std::size_t>(dimension)];
  std::int64_t moved = coordinates[static_cast<std::size_t>(dimension)] + displacement;
  if (periodic)
    moved = (moved % size + size) % size;
  else if (moved < 0 || moved >= size)
    return null_process;
  coordinates[static_cast<std::size_t>(dimension)] = static_cast<int>(moved);
  return rank_at(coordinates).value();
}

std::span<const int> Graph::neighbors(int rank) const noexcept {
  const auto r = static_cast<std::size_t>(rank);
  const auto first = static_cast<std::size_t>(r == 0 ? 0 : index[r - 1]);
  return std::span(edges).subspan(first, static_cast<std::size_t>(index[r]) - first);
}

namespace {

/// The key of the attribute, which no program can name. It lies at the same address in all processes of a
/// program's, because communicators that refer to it go from one to another with their rank.
const Ref<Keyval>& topology_keyval() {
  alignas(Keyval) static std::array<std::byte, sizeof(Keyval)> storage;
  static const Ref<Keyval> keyval = Ref<Keyval>::adopt(new (storage.data()) Keyval(
      0, AttributeOwner::communicator,
      [](std::uintptr_t, int, void* value) -> Result<std::optional<void*>> {
        return std::optional<void*>(
            std::make_unique<Topology>(*static_cast<const Topology*>(value)).release());
      },
      [](std::uintptr_t, int, void* value) -> Result<> {
        const std::unique_ptr<Topology> owned(static_cast<Topology*>(value));
        return {};
      }));
  [[maybe_unused]] static const bool stays = (keyval->make_immortal(), true);
  return keyval;
}

}  // namespace

const Topology* topology_of(const Communicator& comm) {
  const std::optional<void*> value = comm.attributes.find(*topology_keyval());
  return value ? static_cast<const Topology*>(*value) : nullptr;
}

void set_topology(Communicator& comm, Topology topology) {
  // From here on the attribute owns it.
  Topology* const value = std::make_unique<Topology>(std::move(topology)).release();
  [[maybe_unused]] const Result<> set = comm.attributes.set(topology_keyval(), value, comm.handle);
  assert(set);  // a communicator gets its topology once, so no delete callback can refuse
}

Result<> balance_dimensions(int nodes, std::span<int> dims) {
  std::int64_t fixed = 1;
  std::size_t free = 0;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 0) return fail(ErrorClass::dims, fmt::format("dims[{}] is {}", i, dims[i]));
    if (dims[i] == 0)
      ++free;
    else if (fixed <= nodes)
      fixed *= dims[i];
  }
  if (nodes % fixed != 0 || (free == 0 && fixed != nodes))
    return fail(
        ErrorClass::dims,
        fmt::format("nnodes is {}, which the given entries of dims do not divide into whole parts", nodes));
  const std::vector<int> factors = closest_factors(static_cast<int>(nodes / fixed), free);
  auto next = factors.begin();
  for (int& dim : dims)
    if (dim == 0) dim = *next++;
  return {};
}

}  // namespace isthmus
