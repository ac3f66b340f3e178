/* Groups: the constructors, translation and comparison, at any number of ranks. */
#include "../check.h"

static void check_members(MPI_Group group, const int* expected, int count) {
  MPI_Group world;
  int size, *ranks = malloc(sizeof(int) * (size_t)(count + 1)),
            *found = malloc(sizeof(int) * (size_t)(count + 1));
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_size(group, &size);
  CHECK_EQUAL(size, count);
  for (int i = 0; i < count; ++i)
    ranks[i] = i;
  MPI_Group_translate_ranks(group, count, ranks, world, found);
  for (int i = 0; i < count; ++i)
    CHECK_EQUAL(found[i], expected[i]);
  MPI_Group_free(&world);
  CHECK(world == MPI_GROUP_NULL);
  free(ranks);
  free(found);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int size, rank;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  int* list = malloc(sizeof(int) * (size_t)(size + 1));

  MPI_Group world, reversed, even, odd, made;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  int group_rank, result;
  MPI_Group_rank(world, &group_rank);
  CHECK_EQUAL(group_rank, rank);

  int backwards[1][3] = {{size - 1, 0, -1}};
  MPI_Group_range_incl(world, 1, backwards, &reversed);
  for (int i = 0; i < size; ++i)
    list[i] = size - 1 - i;
  check_members(reversed, list, size);
  MPI_Group_rank(reversed, &group_rank);
  CHECK_EQUAL(group_rank, size - 1 - rank);
  MPI_Group_compare(world, reversed, &result);
  CHECK_EQUAL(result, size > 1 ? MPI_SIMILAR : MPI_IDENT);

  int evens[1][3] = {{0, size - 1, 2}};
  MPI_Group_range_incl(world, 1, evens, &even);
  for (int i = 0; 2 * i < size; ++i)
    list[i] = 2 * i;
  check_members(even, list, (size + 1) / 2);
  MPI_Group_range_excl(world, 1, evens, &odd);
  for (int i = 0; 2 * i + 1 < size; ++i)
    list[i] = 2 * i + 1;
  check_members(odd, list, size / 2);
  if (size == 1) CHECK(odd == MPI_GROUP_EMPTY);
  MPI_Group_rank(odd, &group_rank);
  CHECK_EQUAL(group_rank, rank % 2 == 1 ? rank / 2 : MPI_UNDEFINED);
  MPI_Group_compare(even, odd, &result);
  CHECK_EQUAL(result, MPI_UNEQUAL);

  /* Odd ranks first, then even ones; and what the two have in common. */
  MPI_Group_union(odd, even, &made);
  int count = 0;
  for (int i = 1; i < size; i += 2)
    list[count++] = i;
  for (int i = 0; i < size; i += 2)
    list[count++] = i;
  check_members(made, list, size);
  MPI_Group_free(&made);
  MPI_Group_intersection(odd, even, &made);
  CHECK(made == MPI_GROUP_EMPTY);
  MPI_Group_intersection(reversed, even, &made);
  for (int i = 0; 2 * i < size; ++i)
    list[i] = 2 * ((size - 1) / 2 - i);
  check_members(made, list, (size + 1) / 2);
  MPI_Group_free(&made);
  MPI_Group_difference(world, even, &made);
  MPI_Group_compare(made, odd, &result);
  CHECK_EQUAL(result, MPI_IDENT);
  if (made != MPI_GROUP_EMPTY) MPI_Group_free(&made);

  int last = size - 1;
  MPI_Group_incl(world, 1, &last, &made);
  check_members(made, &last, 1);
  int asked[2] = {0, MPI_PROC_NULL}, answer[2];
  MPI_Group_translate_ranks(world, 2, asked, made, answer);
  CHECK_EQUAL(answer[0], size == 1 ? 0 : MPI_UNDEFINED);
  CHECK_EQUAL(answer[1], MPI_PROC_NULL);
  MPI_Group_free(&made);
  MPI_Group_excl(world, 1, &last, &made);
  for (int i = 0; i < size; ++i)
    list[i] = i;
  check_members(made, list, size - 1);
  MPI_Group_free(&made);
  MPI_Group_incl(world, 0, NULL, &made);
  CHECK(made == MPI_GROUP_EMPTY);

  /* Errors: raised on MPI_COMM_SELF, because no communicator is involved. */
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  int twice[2] = {0, 0}, outside = size;
  int stuck[1][3] = {{0, size - 1, 0}}, away[1][3] = {{0, 1, -1}}, beyond[1][3] = {{0, size, 1}};
  CHECK_ERROR(MPI_Group_incl(world, 2, twice, &made), MPI_ERR_RANK, "ranks[1]");
  CHECK_ERROR(MPI_Group_incl(world, 1, &outside, &made), MPI_ERR_RANK, "MPI_Group_incl");
  CHECK_ERROR(MPI_Group_excl(world, 1, &outside, &made), MPI_ERR_RANK, "ranks[0]");
  CHECK_ERROR(MPI_Group_incl(world, -1, twice, &made), MPI_ERR_ARG, "-1");
  CHECK_ERROR(MPI_Group_range_incl(world, 1, stuck, &made), MPI_ERR_ARG, "stride");
  CHECK_ERROR(MPI_Group_range_excl(world, 1, away, &made), MPI_ERR_ARG, "ranges[0]");
  CHECK_ERROR(MPI_Group_range_incl(world, 1, beyond, &made), MPI_ERR_RANK, "ranges[0]");
  CHECK_ERROR(MPI_Group_translate_ranks(world, 1, &outside, even, answer), MPI_ERR_RANK, "ranks1[0]");
  CHECK_ERROR(MPI_Group_size(MPI_GROUP_NULL, &count), MPI_ERR_GROUP, "MPI_Group_size");
  CHECK_ERROR(MPI_Group_union(world, MPI_GROUP_NULL, &made), MPI_ERR_GROUP, "group2");
  CHECK_ERROR(MPI_Group_size((MPI_Group)MPI_COMM_WORLD, &count), MPI_ERR_GROUP, "");
  CHECK_ERROR(MPI_Group_size(world, NULL), MPI_ERR_ARG, "size");
  MPI_Group stale = even;
  MPI_Group_free(&even);
  CHECK_ERROR(MPI_Group_size(stale, &count), MPI_ERR_GROUP, "");
  CHECK_ERROR(MPI_Group_free(&stale), MPI_ERR_GROUP, "");

  CHECK(MPI_Group_fromint(MPI_Group_toint(world)) == world);
  CHECK(MPI_Group_fromint(MPI_Group_toint(MPI_GROUP_EMPTY)) == MPI_GROUP_EMPTY);

  MPI_Group_free(&world);
  MPI_Group_free(&reversed);
  if (odd != MPI_GROUP_EMPTY) MPI_Group_free(&odd);
  free(list);
  MPI_Finalize();
  return 0;
}
