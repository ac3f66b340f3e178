#include <fmt/format.h>

#include <utility>
#include <vector>

#include "abi/core/call.hpp"
#include "abi/core/entry.hpp"

namespace isthmus::abi {
namespace {

static_assert(static_cast<int>(Comparison::identical) == MPI_IDENT &&
              static_cast<int>(Comparison::congruent) == MPI_CONGRUENT &&
              static_cast<int>(Comparison::similar) == MPI_SIMILAR &&
              static_cast<int>(Comparison::unequal) == MPI_UNEQUAL && undefined == MPI_UNDEFINED);

/// Empty groups are MPI_GROUP_EMPTY itself, as the standard says of set operations.
Result<> give_group(Runtime& runtime, Ref<Group> made, MPI_Group* newgroup) {
  *newgroup = made->size() == 0 ? MPI_GROUP_EMPTY : runtime.groups.add(std::move(made));
  return {};
}
Result<> give_group(Runtime& runtime, Result<Ref<Group>> made, MPI_Group* newgroup) {
  if (!made) return std::unexpected(std::move(made).error());
  return give_group(runtime, *std::move(made), newgroup);
}

/// For functions on a group. `body`: `Result<>(Runtime&, const Group&)`.
template <class Body>
int call_with_group(const char* function, MPI_Group group, Body&& body) noexcept {
  return call(function, [&](Runtime& runtime) -> Result<> {
    Result<Group*> found = find_group(group);
    if (!found) return std::unexpected(std::move(found).error());
    return body(runtime, **found);
  });
}

/// For functions on two groups. `body`: `Result<>(Runtime&, const Group&, const Group&)`.
template <class Body>
int call_with_groups(const char* function, MPI_Group group1, MPI_Group group2, Body&& body) noexcept {
  return call(function, [&](Runtime& runtime) -> Result<> {
    Result<Group*> first = find_group(group1, "group1");
    if (!first) return std::unexpected(std::move(first).error());
    Result<Group*> second = find_group(group2, "group2");
    if (!second) return std::unexpected(std::move(second).error());
    return body(runtime, **first, **second);
  });
}

/// The parameters `n` and `array`, which may be null where there is nothing in it.
Result<> check_array(int n, const void* array, const char* argument) {
  if (n < 0) return fail(ErrorClass::arg, fmt::format("n is {}", n));
  return n == 0 ? Result<>() : check_pointer(array, argument);
}

Result<std::vector<int>> expand(const Group& group, int n, const int (*ranges)[3]) {
  ISTHMUS_TRY(check_array(n, ranges, "ranges"));
  std::vector<RankRange> copy;
  copy.reserve(static_cast<std::size_t>(n));
  for (int i = 0; i < n; ++i)
    copy.push_back({ranges[i][0], ranges[i][1], ranges[i][2]});
  return isthmus::expand(group, copy);
}

}  // namespace

ISTHMUS_ENTRY(int, Group_size)(MPI_Group group, int* size) {
  return call_with_group("MPI_Group_size", group, [&](Runtime&, const Group& g) -> Result<> {
    ISTHMUS_TRY(check_pointer(size, "size"));
    *size = static_cast<int>(g.size());
    return {};
  });
}

ISTHMUS_ENTRY(int, Group_rank)(MPI_Group group, int* rank) {
  return call_with_group("MPI_Group_rank", group, [&](Runtime& runtime, const Group& g) -> Result<> {
    ISTHMUS_TRY(check_pointer(rank, "rank"));
    const auto mine = g.rank_of(runtime.engine->rank());
    *rank = mine ? static_cast<int>(*mine) : MPI_UNDEFINED;
    return {};
  });
}

ISTHMUS_ENTRY(int, Group_translate_ranks)
(MPI_Group group1, int n, const int ranks1[], MPI_Group group2, int ranks2[]) {
  return call_with_groups("MPI_Group_translate_ranks", group1, group2,
                          [&](Runtime&, const Group& first, const Group& second) -> Result<> {
                            ISTHMUS_TRY(check_array(n, ranks1, "ranks1"));
                            ISTHMUS_TRY(check_array(n, ranks2, "ranks2"));
                            const auto count = static_cast<std::size_t>(n);
                            return translate(first, {ranks1, count}, second, {ranks2, count});
                          });
}

ISTHMUS_ENTRY(int, Group_compare)(MPI_Group group1, MPI_Group group2, int* result) {
  return call_with_groups("MPI_Group_compare", group1, group2,
                          [&](Runtime&, const Group& first, const Group& second) -> Result<> {
                            ISTHMUS_TRY(check_pointer(result, "result"));
                            *result = static_cast<int>(compare(first, second));
                            return {};
                          });
}

ISTHMUS_ENTRY(int, Group_union)(MPI_Group group1, MPI_Group group2, MPI_Group* newgroup) {
  return call_with_groups("MPI_Group_union", group1, group2,
                          [&](Runtime& runtime, const Group& first, const Group& second) -> Result<> {
                            ISTHMUS_TRY(check_pointer(newgroup, "newgroup"));
                            return give_group(runtime, unite(first, second), newgroup);
                          });
}

ISTHMUS_ENTRY(int, Group_intersection)(MPI_Group group1, MPI_Group group2, MPI_Group* newgroup) {
  return call_with_groups("MPI_Group_intersection", group1, group2,
                          [&](Runtime& runtime, const Group& first, const Group& second) -> Result<> {
                            ISTHMUS_TRY(check_pointer(newgroup, "newgroup"));
                            return give_group(runtime, intersect(first, second), newgroup);
                          });
}

ISTHMUS_ENTRY(int, Group_difference)(MPI_Group group1, MPI_Group group2, MPI_Group* newgroup) {
  return call_with_groups("MPI_Group_difference", group1, group2,
                          [&](Runtime& runtime, const Group& first, const Group& second) -> Result<> {
                            ISTHMUS_TRY(check_pointer(newgroup, "newgroup"));
                            return give_group(runtime, subtract(first, second), newgroup);
                          });
}

ISTHMUS_ENTRY(int, Group_incl)(MPI_Group group, int n, const int ranks[], MPI_Group* newgroup) {
  return call_with_group("MPI_Group_incl", group, [&](Runtime& runtime, const Group& g) -> Result<> {
    ISTHMUS_TRY(check_array(n, ranks, "ranks"));
    ISTHMUS_TRY(check_pointer(newgroup, "newgroup"));
    return give_group(runtime, include(g, {ranks, static_cast<std::size_t>(n)}), newgroup);
  });
}

ISTHMUS_ENTRY(int, Group_excl)(MPI_Group group, int n, const int ranks[], MPI_Group* newgroup) {
  return call_with_group("MPI_Group_excl", group, [&](Runtime& runtime, const Group& g) -> Result<> {
    ISTHMUS_TRY(check_array(n, ranks, "ranks"));
    ISTHMUS_TRY(check_pointer(newgroup, "newgroup"));
    return give_group(runtime, exclude(g, {ranks, static_cast<std::size_t>(n)}), newgroup);
  });
}

ISTHMUS_ENTRY(int, Group_range_incl)(MPI_Group group, int n, int ranges[][3], MPI_Group* newgroup) {
  return call_with_group("MPI_Group_range_incl", group, [&](Runtime& runtime, const Group& g) -> Result<> {
    ISTHMUS_TRY(check_pointer(newgroup, "newgroup"));
    Result<std::vector<int>> ranks = expand(g, n, ranges);
    if (!ranks) return std::unexpected(std::move(ranks).error());
    return give_group(runtime, include(g, *ranks), newgroup);
  });
}

ISTHMUS_ENTRY(int, Group_range_excl)(MPI_Group group, int n, int ranges[][3], MPI_Group* newgroup) {
  return call_with_group("MPI_Group_range_excl", group, [&](Runtime& runtime, const Group& g) -> Result<> {
    ISTHMUS_TRY(check_pointer(newgroup, "newgroup"));
    Result<std::vector<int>> ranks = expand(g, n, ranges);
    if (!ranks) return std::unexpected(std::move(ranks).error());
    return give_group(runtime, exclude(g, *ranks), newgroup);
  });
}

ISTHMUS_ENTRY(int, Group_free)(MPI_Group* group) {
  return call("MPI_Group_free", [&](Runtime& runtime) -> Result<> {
    ISTHMUS_TRY(check_pointer(group, "group"));
    if (Result<Group*> found = find_group(*group); !found) return std::unexpected(std::move(found).error());
    // MPI_GROUP_EMPTY stays: programs free what set operations gave them.
    runtime.groups.remove(*group);
    *group = MPI_GROUP_NULL;
    return {};
  });
}

ISTHMUS_ENTRY(int, Group_toint)(MPI_Group group) {
  return GroupTable::to_int(group);
}
ISTHMUS_ENTRY(MPI_Group, Group_fromint)(int group) {
  Runtime& runtime = Runtime::get();
  const CallGuard guard(runtime);
  return runtime.groups.from_int(group);
}

}  // namespace isthmus::abi
