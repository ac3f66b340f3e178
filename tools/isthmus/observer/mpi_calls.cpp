// Stands before functions of MPI.
#include <mpi.h>

#include <map>
#include <mutex>
#include <vector>

#include "observer/observer.hpp"

namespace {

using isthmus::observer::Kind;
using isthmus::observer::observe;
using isthmus::observer::Observer;

std::uint64_t bytes_of(int count, MPI_Datatype type) {
  int size = 0;
  return PMPI_Type_size(type, &size) == MPI_SUCCESS && size > 0
             ? static_cast<std::uint64_t>(count) * static_cast<std::uint64_t>(size)
             : 0;
}

/// Ranks of communicators in MPI_COMM_WORLD; -1: not there.
class Ranks {
 public:
  int in_world(int rank, MPI_Comm comm) {
    if (rank < 0 || comm == MPI_COMM_WORLD) return rank;
    const std::scoped_lock lock(mutex_);
    auto at = known_.find(comm);
    if (at == known_.end()) at = known_.emplace(comm, translate(comm)).first;
    const auto index = static_cast<std::size_t>(rank);
    return index < at->second.size() ? at->second[index] : -1;
  }
  void forget(MPI_Comm comm) {
    const std::scoped_lock lock(mutex_);
    known_.erase(comm);
  }

 private:
  static std::vector<int> translate(MPI_Comm comm) {
    int is_inter = 0, size = 0;
    PMPI_Comm_test_inter(comm, &is_inter);
    if (is_inter) return {};
    PMPI_Comm_size(comm, &size);
    MPI_Group group = MPI_GROUP_NULL, world = MPI_GROUP_NULL;
    PMPI_Comm_group(comm, &group);
    PMPI_Comm_group(MPI_COMM_WORLD, &world);
    std::vector<int> here(static_cast<std::size_t>(size)), there(here.size(), -1);
    for (int i = 0; i < size; ++i)
      here[static_cast<std::size_t>(i)] = i;
    PMPI_Group_translate_ranks(group, size, here.data(), world, there.data());
    PMPI_Group_free(&group);
    PMPI_Group_free(&world);
    for (int& rank : there)
      if (rank == MPI_UNDEFINED) rank = -1;
    return there;
  }
  std::mutex mutex_;
  std::map<MPI_Comm, std::vector<int>> known_;
};

/// What persistent requests do when they are started.
class Persistent {
 public:
  struct What {
    int peer;
    std::uint64_t bytes;
    bool sends;
  };
  void add(MPI_Request request, What what) {
    const std::scoped_lock lock(mutex_);
    known_[request] = what;
  }
  void start(MPI_Request request);
  void forget(MPI_Request request) {
    const std::scoped_lock lock(mutex_);
    known_.erase(request);
  }

 private:
  std::mutex mutex_;
  std::map<MPI_Request, What> known_;
};

Ranks& ranks() {
  static auto* const all = new Ranks;
  return *all;
}

Persistent& persistent() {
  static auto* const all = new Persistent;
  return *all;
}

/// Says what the program sends, unless the call is inside another.
void note(bool sends, int count, MPI_Datatype type, int peer, MPI_Comm comm) {
  Observer& observer = Observer::self();
  if (Observer::is_inside() || !observer.is_on()) return;
  const int there = ranks().in_world(peer, comm);
  if (there < 0) return;  // MPI_PROC_NULL, or whoever comes
  if (sends)
    observer.sends_to(there, bytes_of(count, type));
  else
    observer.receives_from(there, bytes_of(count, type));
}

void Persistent::start(MPI_Request request) {
  const std::scoped_lock lock(mutex_);
  const auto at = known_.find(request);
  if (at == known_.end() || Observer::is_inside()) return;
  if (at->second.sends)
    Observer::self().sends_to(at->second.peer, at->second.bytes);
  else
    Observer::self().receives_from(at->second.peer, at->second.bytes);
}

/// A call that waits for messages.
template <class Call>
int wait_in(Call call) {
  if (!Observer::is_inside()) Observer::self().waits();
  return observe(Kind::wait, call);
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int MPI_Pcontrol(const int level, ...) {
  if (Observer::self().is_on()) {
    if (level > 0)
      Observer::self().begin_passage();
    else
      Observer::self().end_passage();
  }
  return PMPI_Pcontrol(level);
}

int MPI_Finalize(void) {
  Observer::self().finish();
  return PMPI_Finalize();
}

int MPI_Comm_free(MPI_Comm* comm) {
  ranks().forget(*comm);
  return PMPI_Comm_free(comm);
}
int MPI_Request_free(MPI_Request* request) {
  persistent().forget(*request);
  return PMPI_Request_free(request);
}

int MPI_Isend(const void* buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
              MPI_Request* request) {
  note(true, count, type, dest, comm);
  return observe(Kind::send, [&] { return PMPI_Isend(buf, count, type, dest, tag, comm, request); });
}
int MPI_Issend(const void* buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
               MPI_Request* request) {
  note(true, count, type, dest, comm);
  return observe(Kind::send, [&] { return PMPI_Issend(buf, count, type, dest, tag, comm, request); });
}
int MPI_Irecv(void* buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
              MPI_Request* request) {
  note(false, count, type, source, comm);
  return observe(Kind::send, [&] { return PMPI_Irecv(buf, count, type, source, tag, comm, request); });
}
int MPI_Send(const void* buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm) {
  note(true, count, type, dest, comm);
  return observe(Kind::send, [&] { return PMPI_Send(buf, count, type, dest, tag, comm); });
}
int MPI_Ssend(const void* buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm) {
  note(true, count, type, dest, comm);
  return observe(Kind::send, [&] { return PMPI_Ssend(buf, count, type, dest, tag, comm); });
}
int MPI_Recv(void* buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
             MPI_Status* status) {
  note(false, count, type, source, comm);
  return wait_in([&] { return PMPI_Recv(buf, count, type, source, tag, comm, status); });
}
int MPI_Sendrecv(const void* sendbuf, int sendcount, MPI_Datatype sendtype, int dest, int sendtag,
                 void* recvbuf, int recvcount, MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm,
                 MPI_Status* status) {
  note(true, sendcount, sendtype, dest, comm);
  note(false, recvcount, recvtype, source, comm);
  return wait_in([&] {
    return PMPI_Sendrecv(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype, source,
                         recvtag, comm, status);
  });
}

int MPI_Send_init(const void* buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
                  MPI_Request* request) {
  const int code = PMPI_Send_init(buf, count, type, dest, tag, comm, request);
  const int there = ranks().in_world(dest, comm);
  if (code == MPI_SUCCESS && there >= 0) persistent().add(*request, {there, bytes_of(count, type), true});
  return code;
}
int MPI_Recv_init(void* buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                  MPI_Request* request) {
  const int code = PMPI_Recv_init(buf, count, type, source, tag, comm, request);
  const int there = ranks().in_world(source, comm);
  if (code == MPI_SUCCESS && there >= 0) persistent().add(*request, {there, bytes_of(count, type), false});
  return code;
}
int MPI_Start(MPI_Request* request) {
  persistent().start(*request);
  return observe(Kind::send, [&] { return PMPI_Start(request); });
}
int MPI_Startall(int count, MPI_Request requests[]) {
  for (int i = 0; i < count; ++i)
    persistent().start(requests[i]);
  return observe(Kind::send, [&] { return PMPI_Startall(count, requests); });
}

int MPI_Wait(MPI_Request* request, MPI_Status* status) {
  return wait_in([&] { return PMPI_Wait(request, status); });
}
int MPI_Waitall(int count, MPI_Request requests[], MPI_Status* statuses) {
  return wait_in([&] { return PMPI_Waitall(count, requests, statuses); });
}
int MPI_Waitany(int count, MPI_Request requests[], int* index, MPI_Status* status) {
  return wait_in([&] { return PMPI_Waitany(count, requests, index, status); });
}
int MPI_Waitsome(int incount, MPI_Request array_of_requests[], int* outcount, int array_of_indices[],
                 MPI_Status* array_of_statuses) {
  return wait_in([&] {
    return PMPI_Waitsome(incount, array_of_requests, outcount, array_of_indices, array_of_statuses);
  });
}
int MPI_Test(MPI_Request* request, int* flag, MPI_Status* status) {
  return observe(Kind::wait, [&] { return PMPI_Test(request, flag, status); });
}
int MPI_Testall(int count, MPI_Request requests[], int* flag, MPI_Status* statuses) {
  return observe(Kind::wait, [&] { return PMPI_Testall(count, requests, flag, statuses); });
}

int MPI_Barrier(MPI_Comm comm) {
  return observe(Kind::collective, [&] { return PMPI_Barrier(comm); });
}
int MPI_Bcast(void* buf, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  return observe(Kind::collective, [&] { return PMPI_Bcast(buf, count, type, root, comm); });
}
int MPI_Reduce(const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype, MPI_Op op, int root,
               MPI_Comm comm) {
  return observe(Kind::collective,
                 [&] { return PMPI_Reduce(sendbuf, recvbuf, count, datatype, op, root, comm); });
}
int MPI_Allreduce(const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
                  MPI_Comm comm) {
  return observe(Kind::collective,
                 [&] { return PMPI_Allreduce(sendbuf, recvbuf, count, datatype, op, comm); });
}
int MPI_Allgather(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
                  MPI_Datatype recvtype, MPI_Comm comm) {
  return observe(Kind::collective, [&] {
    return PMPI_Allgather(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm);
  });
}
int MPI_Allgatherv(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf,
                   const int recvcounts[], const int displs[], MPI_Datatype recvtype, MPI_Comm comm) {
  return observe(Kind::collective, [&] {
    return PMPI_Allgatherv(sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, comm);
  });
}
int MPI_Alltoall(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
                 MPI_Datatype recvtype, MPI_Comm comm) {
  return observe(Kind::collective, [&] {
    return PMPI_Alltoall(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm);
  });
}
int MPI_Alltoallv(const void* sendbuf, const int sendcounts[], const int sdispls[], MPI_Datatype sendtype,
                  void* recvbuf, const int recvcounts[], const int rdispls[], MPI_Datatype recvtype,
                  MPI_Comm comm) {
  return observe(Kind::collective, [&] {
    return PMPI_Alltoallv(sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype,
                          comm);
  });
}
int MPI_Reduce_scatter(const void* sendbuf, void* recvbuf, const int recvcounts[], MPI_Datatype datatype,
                       MPI_Op op, MPI_Comm comm) {
  return observe(Kind::collective,
                 [&] { return PMPI_Reduce_scatter(sendbuf, recvbuf, recvcounts, datatype, op, comm); });
}

}  // extern "C"
#pragma GCC visibility pop
