/* Intercommunicators: creation, both groups, messages, dup, split, create, merge. With one rank there are
 * none. ranks: 2 3 5 */
#include "../check.h"

static int world_rank, world_size;

/* Processes of the other side as they should be: sends every one of them my number in world and hears theirs.
 */
static void check_sides(MPI_Comm inter, const int* local, int local_count, const int* remote,
                        int remote_count) {
  int size, rank, remote_size, flag;
  MPI_Comm_test_inter(inter, &flag);
  CHECK(flag);
  MPI_Comm_size(inter, &size);
  MPI_Comm_rank(inter, &rank);
  MPI_Comm_remote_size(inter, &remote_size);
  CHECK_EQUAL(size, local_count);
  CHECK_EQUAL(remote_size, remote_count);
  CHECK_EQUAL(local[rank], world_rank);

  MPI_Request* requests = malloc(sizeof(MPI_Request) * (size_t)remote_count);
  for (int i = 0; i < remote_count; ++i)
    MPI_Isend(&world_rank, 1, MPI_INT, i, 3, inter, &requests[i]);
  for (int i = remote_count - 1; i >= 0; --i) {
    int got = -1;
    MPI_Status status;
    MPI_Recv(&got, 1, MPI_INT, i, 3, inter, &status);
    CHECK_EQUAL(got, remote[i]);
    CHECK_EQUAL(status.MPI_SOURCE, i);
  }
  MPI_Waitall(remote_count, requests, MPI_STATUSES_IGNORE);
  free(requests);

  MPI_Group world, group;
  int first = 0, there;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Comm_remote_group(inter, &group);
  MPI_Group_translate_ranks(group, 1, &first, world, &there);
  CHECK_EQUAL(there, remote[0]);
  MPI_Group_free(&group);
  MPI_Comm_group(inter, &group);
  MPI_Group_translate_ranks(group, 1, &first, world, &there);
  CHECK_EQUAL(there, local[0]);
  MPI_Group_free(&group);
  MPI_Group_free(&world);
}

static void check_merged(MPI_Comm inter, int high, const int* expected) {
  MPI_Comm merged;
  int size, rank, flag, *all = malloc(sizeof(int) * (size_t)world_size);
  MPI_Intercomm_merge(inter, high, &merged);
  MPI_Comm_test_inter(merged, &flag);
  CHECK(!flag);
  MPI_Comm_size(merged, &size);
  MPI_Comm_rank(merged, &rank);
  CHECK_EQUAL(size, world_size);
  CHECK_EQUAL(expected[rank], world_rank);
  MPI_Allgather(&world_rank, 1, MPI_INT, all, 1, MPI_INT, merged);
  for (int i = 0; i < size; ++i)
    CHECK_EQUAL(all[i], expected[i]);
  MPI_Comm_free(&merged);
  free(all);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_size(MPI_COMM_WORLD, &world_size);
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  if (world_size == 1) {
    MPI_Finalize();
    return 0;
  }

  /* Even ranks in order against odd ranks backwards; leaders in the middle of their sides. */
  const int odd = world_rank % 2, evens = (world_size + 1) / 2, odds = world_size / 2;
  int* side[2] = {malloc(sizeof(int) * (size_t)world_size), malloc(sizeof(int) * (size_t)world_size)};
  int* expected = malloc(sizeof(int) * (size_t)world_size);
  const int count[2] = {evens, odds};
  for (int i = 0; i < evens; ++i)
    side[0][i] = 2 * i;
  for (int i = 0; i < odds; ++i)
    side[1][i] = 2 * (odds - 1 - i) + 1;
  const int *mine = side[odd], *theirs = side[1 - odd];

  MPI_Comm local, inter, copy, made, later;
  MPI_Comm_split(MPI_COMM_WORLD, odd, odd ? -world_rank : world_rank, &local);
  const int leader = count[odd] / 2, remote_leader = theirs[count[1 - odd] / 2];
  MPI_Intercomm_create(local, leader, MPI_COMM_WORLD, remote_leader, 99, &inter);
  check_sides(inter, mine, count[odd], theirs, count[1 - odd]);

  int result;
  MPI_Comm_dup(inter, &copy);
  check_sides(copy, mine, count[odd], theirs, count[1 - odd]);
  MPI_Comm_compare(inter, copy, &result);
  CHECK_EQUAL(result, MPI_CONGRUENT);
  MPI_Comm_compare(inter, local, &result);
  CHECK_EQUAL(result, MPI_UNEQUAL);
  MPI_Request request;
  MPI_Comm_idup(inter, &later, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  check_sides(later, mine, count[odd], theirs, count[1 - odd]);
  MPI_Comm_free(&later);
  MPI_Comm_free(&copy);

  /* Merge: whoever is low comes first, and with equal wishes all agree on some order. */
  for (int i = 0; i < evens; ++i)
    expected[i] = side[0][i];
  for (int i = 0; i < odds; ++i)
    expected[evens + i] = side[1][i];
  check_merged(inter, odd, expected);
  for (int i = 0; i < odds; ++i)
    expected[i] = side[1][i];
  for (int i = 0; i < evens; ++i)
    expected[odds + i] = side[0][i];
  check_merged(inter, !odd, expected);
  for (int high = 0; high < 2; ++high) {
    int *all = malloc(sizeof(int) * (size_t)world_size), merged_rank;
    MPI_Intercomm_merge(inter, high, &made);
    MPI_Allgather(&world_rank, 1, MPI_INT, all, 1, MPI_INT, made);
    MPI_Comm_rank(made, &merged_rank);
    CHECK_EQUAL(all[merged_rank], world_rank);
    CHECK(memcmp(all, side[0], sizeof(int) * (size_t)evens) == 0 ||
          memcmp(all, side[1], sizeof(int) * (size_t)odds) == 0);
    MPI_Comm_free(&made);
    free(all);
  }

  /* Split: the first of each side meet; of the others only the even side has a colour, and so no partner. */
  int local_rank, remote_first[1] = {theirs[0]};
  MPI_Comm_rank(inter, &local_rank);
  MPI_Comm_split(inter, local_rank == 0 ? 1 : odd ? MPI_UNDEFINED : 2, 0, &made);
  if (local_rank == 0) {
    check_sides(made, mine, 1, remote_first, 1);
    MPI_Comm_free(&made);
  } else {
    CHECK(made == MPI_COMM_NULL);
  }
  /* All, each side backwards. */
  int *backwards = malloc(sizeof(int) * (size_t)world_size),
      *their_backwards = malloc(sizeof(int) * (size_t)world_size);
  for (int i = 0; i < count[odd]; ++i)
    backwards[i] = mine[count[odd] - 1 - i];
  for (int i = 0; i < count[1 - odd]; ++i)
    their_backwards[i] = theirs[count[1 - odd] - 1 - i];
  MPI_Comm_split(inter, 4, -local_rank, &made);
  check_sides(made, backwards, count[odd], their_backwards, count[1 - odd]);
  MPI_Comm_free(&made);

  /* Create: the last of each side. With one side empty there is nothing. */
  MPI_Group group, last_only;
  int last = count[odd] - 1, their_last = theirs[count[1 - odd] - 1];
  MPI_Comm_group(inter, &group);
  MPI_Group_incl(group, 1, &last, &last_only);
  MPI_Comm_create(inter, last_only, &made);
  CHECK((made != MPI_COMM_NULL) == (local_rank == last));
  if (made != MPI_COMM_NULL) {
    check_sides(made, mine + last, 1, &their_last, 1);
    MPI_Comm_free(&made);
  }
  MPI_Comm_create(inter, odd ? MPI_GROUP_EMPTY : last_only, &made);
  CHECK(made == MPI_COMM_NULL);
  MPI_Group_free(&group);
  MPI_Group_free(&last_only);

  /* The same two sides without a parent, and one of them alone. */
  MPI_Group local_group, remote_group;
  MPI_Comm_group(inter, &local_group);
  MPI_Comm_remote_group(inter, &remote_group);
  MPI_Intercomm_create_from_groups(local_group, leader, remote_group, count[1 - odd] / 2, "test",
                                   MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &made);
  check_sides(made, mine, count[odd], theirs, count[1 - odd]);
  MPI_Comm_free(&made);
  MPI_Comm_create_from_group(local_group, "test", MPI_INFO_NULL, MPI_ERRORS_RETURN, &made);
  MPI_Comm_compare(made, local, &result);
  CHECK_EQUAL(result, MPI_CONGRUENT);
  CHECK_ERROR(MPI_Comm_split(made, -9, 0, &later), MPI_ERR_ARG, "color");
  MPI_Comm_free(&made);
  CHECK_ERROR(MPI_Comm_create_from_group(remote_group, "test", MPI_INFO_NULL, MPI_ERRORS_RETURN, &made),
              MPI_ERR_GROUP, "calling process");
  MPI_Group_free(&local_group);
  MPI_Group_free(&remote_group);

  /* Groups that overlap cannot be joined; every process hears it. */
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
  MPI_Comm everyone;
  MPI_Comm_dup(MPI_COMM_WORLD, &everyone);
  CHECK_ERROR(MPI_Intercomm_create(everyone, 0, MPI_COMM_WORLD, 0, 1, &made), MPI_ERR_COMM, "in common");
  CHECK_ERROR(MPI_Intercomm_create(inter, 0, MPI_COMM_WORLD, 0, 1, &made), MPI_ERR_COMM, "local_comm");
  CHECK_ERROR(MPI_Intercomm_create(everyone, world_size, MPI_COMM_WORLD, 0, 1, &made), MPI_ERR_RANK,
              "local_leader");
  CHECK_ERROR(MPI_Intercomm_merge(everyone, 0, &made), MPI_ERR_COMM, "intercomm");
  CHECK_ERROR(MPI_Send(&last, 1, MPI_INT, count[1 - odd], 0, inter), MPI_ERR_RANK, "dest");
  MPI_Comm_free(&everyone);

  MPI_Comm_free(&inter);
  MPI_Comm_free(&local);
  free(backwards), free(their_backwards), free(expected), free(side[0]), free(side[1]);
  MPI_Finalize();
  return 0;
}
