/* Part of the interchange program; see main.c. */

#include "interchange.h"

#include <stdint.h>
#include <string.h>

void communicators(void) {
  MPI_Comm half, copy;
  MPI_Group world, part, got;
  const int first[1] = {0};
  int result, ranks[2] = {0, 0}, translated[2], length;
  char name[MPI_MAX_OBJECT_NAME];

  OK(MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? MPI_UNDEFINED : 5, -rank, &half));
  if (rank == 0) {
    CHECK(half == MPI_COMM_NULL);
  } else {
    OK(MPI_Comm_rank(half, &result));
    record("rank in the part: %d\n", result);
    OK(MPI_Comm_compare(half, MPI_COMM_WORLD, &result));
    record("compared with the world: %d\n", result);
    OK(MPI_Comm_free(&half));
  }
  OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
  OK(MPI_Comm_compare(copy, MPI_COMM_WORLD, &result));
  record("a copy compares as %d, itself as ", result);
  OK(MPI_Comm_compare(copy, copy, &result));
  record("%d\n", result);
  CHECK(MPI_Comm_fromint(MPI_Comm_toint(copy)) == copy);
  OK(MPI_Comm_set_name(copy, "a copy"));
  OK(MPI_Comm_get_name(copy, name, &length));
  CHECK(strcmp(name, "a copy") == 0 && length == 6);
  OK(MPI_Comm_get_name(MPI_COMM_WORLD, name, &length));
  record("%s\n", name);

  OK(MPI_Comm_group(copy, &world));
  OK(MPI_Group_excl(world, 1, first, &part));
  OK(MPI_Group_size(part, &result));
  OK(MPI_Group_translate_ranks(world, 2, ranks, part, translated));
  record("%d without the first, which is %d there\n", result, translated[0]);
  OK(MPI_Group_intersection(part, MPI_GROUP_EMPTY, &got));
  OK(MPI_Group_compare(got, MPI_GROUP_EMPTY, &result));
  CHECK(result == MPI_IDENT);
  CHECK(MPI_Group_fromint(MPI_Group_toint(part)) == part);
  OK(MPI_Group_free(&part));
  OK(MPI_Group_free(&world));
  OK(MPI_Comm_free(&copy));
}

void infos(void) {
  MPI_Info info;
  char value[32];
  int flag, room = (int)sizeof value, keys;
  OK(MPI_Info_create(&info));
  OK(MPI_Info_set(info, "colour", "green"));
  OK(MPI_Info_set(info, "shape", "round"));
  OK(MPI_Info_get_nkeys(info, &keys));
  OK(MPI_Info_get_string(info, "colour", &room, value, &flag));
  record("%d keys, colour %s, needs %d\n", keys, value, room);
  OK(MPI_Info_get_string(info, "taste", &room, value, &flag));
  CHECK(!flag && MPI_Info_fromint(MPI_Info_toint(info)) == info);
  OK(MPI_Info_free(&info));
  CHECK(info == MPI_INFO_NULL);
}

void handles(void) {
  MPI_Request request;
  int value;
#define HANDLE(kind, handle)                                    \
  record("%s %d\n", #handle, MPI_##kind##_toint(handle));       \
  CHECK(MPI_##kind##_toint(handle) == (int)(intptr_t)(handle)); \
  CHECK(MPI_##kind##_fromint(MPI_##kind##_toint(handle)) == (handle))
  HANDLE(Comm, MPI_COMM_WORLD);
  HANDLE(Comm, MPI_COMM_SELF);
  HANDLE(Comm, MPI_COMM_NULL);
  HANDLE(Group, MPI_GROUP_EMPTY);
  HANDLE(Group, MPI_GROUP_NULL);
  HANDLE(Type, MPI_DATATYPE_NULL);
  HANDLE(Op, MPI_SUM);
  HANDLE(Op, MPI_NO_OP);
  HANDLE(Op, MPI_OP_NULL);
  HANDLE(Errhandler, MPI_ERRORS_RETURN);
  HANDLE(Errhandler, MPI_ERRORS_ABORT);
  HANDLE(Info, MPI_INFO_NULL);
  HANDLE(Info, MPI_INFO_ENV);
  HANDLE(Request, MPI_REQUEST_NULL);
  HANDLE(Message, MPI_MESSAGE_NULL);
  HANDLE(Message, MPI_MESSAGE_NO_PROC);
  HANDLE(Win, MPI_WIN_NULL);
  HANDLE(File, MPI_FILE_NULL);
  HANDLE(Session, MPI_SESSION_NULL);
  OK(MPI_Recv_init(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &request));
  CHECK(MPI_Request_fromint(MPI_Request_toint(request)) == request);
  OK(MPI_Request_free(&request));
}
