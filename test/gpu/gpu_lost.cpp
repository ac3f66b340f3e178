// Messages of GPU memory to another host that is lost in their middle. At 2 ranks on two hosts, on the
// emulated driver, with ISTHMUS_GPU_CHUNK=64K. The argument:
//   cut              rank 1's connections end, with messages on their way in both directions, and some that
//                    nobody has asked for: all of them end with MPI_ERR_PROC_ABORTED, on both sides
//   sender, receiver that rank is killed
//   slim             a message from memory of the host lands in a GPU's without as much memory of the host
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "gpu_memory.hpp"

using namespace isthmus;
using namespace isthmus::testing_gpu;

namespace {

constexpr int bytes = 20'000'000;

int rank = -1;

std::vector<int> pattern() {
  return ascending(bytes / sizeof(int), 3);
}

void end_all_connections() {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::atoi(entry.path().filename().c_str());
    sockaddr_storage name{};
    socklen_t size = sizeof name;
    // Not those that listen: what the network library has for them is none of a connection's.
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&name), &size) != 0) continue;
    if (name.ss_family == AF_INET || name.ss_family == AF_INET6) ::shutdown(fd, SHUT_RDWR);
  }
}

/// Makes progress on a request while the GPUs are slow, so that it is in its middle then.
void test_for(MPI_Request& request, double seconds) {
  const double begin = MPI_Wtime();
  while (MPI_Wtime() - begin < seconds) {
    int is_over = 0;
    MPI_Test(&request, &is_over, MPI_STATUS_IGNORE);
    CHECK(is_over == 0);
  }
}

void check_cut(const Gpu& gpu) {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  const int peer = 1 - rank;
  Memory out(gpu, MemoryKind::device, bytes);
  Memory in(gpu, MemoryKind::device, bytes);
  Memory from_host(gpu, MemoryKind::device, bytes);
  const std::vector<int> host = pattern();
  std::array<MPI_Request, 6> requests{};
  out.write(host);
  MPI_Barrier(MPI_COMM_WORLD);
  set_emulated("MEGABYTES_PER_SECOND", "40");  // half a second a message
  MPI_Irecv(in.data(), bytes, MPI_BYTE, peer, 1, MPI_COMM_WORLD, &requests[0]);
  MPI_Irecv(from_host.data(), bytes, MPI_BYTE, peer, 2, MPI_COMM_WORLD, &requests[1]);
  MPI_Isend(out.data(), bytes, MPI_BYTE, peer, 1, MPI_COMM_WORLD, &requests[2]);
  MPI_Isend(host.data(), bytes, MPI_BYTE, peer, 2, MPI_COMM_WORLD, &requests[3]);
  // Nobody receives these.
  MPI_Isend(out.data(), bytes, MPI_BYTE, peer, 3, MPI_COMM_WORLD, &requests[4]);
  MPI_Isend(host.data(), bytes, MPI_BYTE, peer, 3, MPI_COMM_WORLD, &requests[5]);
  for (const int each : {2, 3, 0, 1})
    test_for(requests[static_cast<std::size_t>(each)], 0.03);
  if (rank == 1) end_all_connections();
  for (MPI_Request& request : requests)
    CHECK_EQUAL(class_of(MPI_Wait(&request, MPI_STATUS_IGNORE)), MPI_ERR_PROC_ABORTED);
  set_emulated("MEGABYTES_PER_SECOND", "0");
  // From now on at once, whether or not their envelopes had come before.
  for (const int tag : {1, 3}) {
    CHECK_EQUAL(class_of(MPI_Recv(in.data(), bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE)),
                MPI_ERR_PROC_ABORTED);
    CHECK_EQUAL(class_of(MPI_Send(out.data(), bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD)),
                MPI_ERR_PROC_ABORTED);
  }
}

/// mpiexec ends the other rank.
void check_killed(const Gpu& gpu, bool is_victim) {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  Memory memory(gpu, MemoryKind::device, bytes);
  memory.write(pattern());
  MPI_Barrier(MPI_COMM_WORLD);
  set_emulated("MEGABYTES_PER_SECOND", "40");
  MPI_Request request;
  if (rank == 0)
    MPI_Isend(memory.data(), bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &request);
  else
    MPI_Irecv(memory.data(), bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &request);
  if (is_victim) {
    test_for(request, 0.06);
    ::raise(SIGKILL);
  }
  // Whether or not this rank sees the end of it.
  CHECK_EQUAL(class_of(MPI_Wait(&request, MPI_STATUS_IGNORE)), MPI_ERR_PROC_ABORTED);
  ::pause();
}

void check_slim(const Gpu& gpu) {
  constexpr int length = 100'000'000;
  const std::vector<int> wanted(length / sizeof(int), 5);
  const auto peak = [] {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss * 1024L;
  };
  if (rank == 0) {
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_MPI(MPI_Send(wanted.data(), length, MPI_BYTE, 1, 0, MPI_COMM_WORLD));
    CHECK_MPI(MPI_Ssend(wanted.data(), length, MPI_BYTE, 1, 0, MPI_COMM_WORLD));
    return;
  }
  Memory memory(gpu, MemoryKind::device, length);
  const std::vector<int> ones(wanted.size(), 1);
  for (const int room : {length, length / 2}) {
    memory.write(ones);
    const long before = peak();
    if (room == length) MPI_Barrier(MPI_COMM_WORLD);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    const int error = MPI_Recv(memory.data(), room, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK_EQUAL(class_of(error), room == length ? MPI_SUCCESS : MPI_ERR_TRUNCATE);
    CHECK(peak() - before < length / 4);  // in the first round: then there is nothing to be used again
    std::vector<int> expected = wanted;
    std::fill(expected.begin() + room / static_cast<int>(sizeof(int)), expected.end(), 1);
    CHECK(memory.read<int>(wanted.size()) == expected);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view which = argc > 1 ? argv[1] : "";
  return run_on_gpu(argc, argv, [&](const Gpu& gpu, int my_rank) {
    rank = my_rank;
    if (which == "cut") check_cut(gpu);
    if (which == "sender" || which == "receiver") check_killed(gpu, rank == (which == "sender" ? 0 : 1));
    if (which == "slim") check_slim(gpu);
  });
}
