// The point-to-point calls beside Send and Recv; rank 1 has its data in the memory of its GPU.
#include <array>

#include "places.hpp"

namespace isthmus::gpu_check {
namespace {

constexpr std::array<std::size_t, 7> sizes{0, 1, 8, 4095, 65'536, 1'048'579, std::size_t{16} << 20U};

void sendrecv(const Setting& setting, Place place, std::size_t bytes) {
  const int peer = 1 - setting.rank;
  const int count = static_cast<int>(bytes);
  const std::uint64_t mine = mix(bytes + static_cast<unsigned>(setting.rank));
  const std::uint64_t theirs = mix(bytes + static_cast<unsigned>(peer));
  Region out(setting, place, bytes);
  Region in(setting, place, bytes);
  const auto pass = [&](int to, std::uint64_t seed, std::size_t length, const char* what) {
    out.fill(mine, bytes);
    in.clear();
    expect_success(MPI_Sendrecv(out.data(), count, MPI_BYTE, to, 3, in.data(), count, MPI_BYTE, to, 3,
                                MPI_COMM_WORLD, MPI_STATUS_IGNORE),
                   what);
    in.expect(seed, length, what);
  };
  pass(peer, theirs, bytes, "Sendrecv");
  pass(setting.rank, mine, bytes, "Sendrecv with itself");
  pass(MPI_PROC_NULL, 0, 0, "Sendrecv with nobody");
  in.clear();
  in.fill(mine, bytes);
  expect_success(
      MPI_Sendrecv_replace(in.data(), count, MPI_BYTE, peer, 3, peer, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
      "Sendrecv_replace");
  in.expect(theirs, bytes, "Sendrecv_replace");
}

using Send = int (*)(const void*, int, MPI_Datatype, int, int, MPI_Comm);
using StartSend = int (*)(const void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*);

void modes(const Setting& setting, Place place, std::size_t bytes) {
  std::vector<char> room((std::size_t{16} << 20U) + MPI_BSEND_OVERHEAD + 100);
  for (int form = 0; form < 5; ++form) {
    MPI_Buffer_attach(room.data(), static_cast<int>(room.size()));
    Region region(setting, place, bytes);
    const std::uint64_t seed = mix(bytes + static_cast<unsigned>(form));
    const int count = static_cast<int>(bytes);
    constexpr std::array<Send, 3> sends{MPI_Bsend, MPI_Ssend, MPI_Rsend};
    constexpr std::array<StartSend, 2> starts{MPI_Issend, MPI_Ibsend};
    const bool is_buffered = form == 0 || form == 4;
    if (setting.rank == 0) {
      region.fill(seed, bytes);
      MPI_Barrier(MPI_COMM_WORLD);
      MPI_Request request = MPI_REQUEST_NULL;
      const auto at = static_cast<std::size_t>(form);
      expect_success(form < 3
                         ? sends[at](region.data(), count, MPI_BYTE, 1, 3, MPI_COMM_WORLD)
                         : starts[at - 3](region.data(), count, MPI_BYTE, 1, 3, MPI_COMM_WORLD, &request),
                     "a send of another mode");
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      if (is_buffered) region.clear();  // it may be overwritten at once
    } else {
      region.clear();
      MPI_Request request = MPI_REQUEST_NULL;
      MPI_Irecv(region.data(), count, MPI_BYTE, 0, 3, MPI_COMM_WORLD, &request);
      MPI_Barrier(MPI_COMM_WORLD);
      expect_success(MPI_Wait(&request, MPI_STATUS_IGNORE), "Wait");
      region.expect(seed, bytes, "a send of another mode");
    }
    void* back = nullptr;
    int length = 0;
    MPI_Buffer_detach(&back, &length);
  }
}

void persistent(const Setting& setting, Place place, std::size_t bytes) {
  const int peer = 1 - setting.rank;
  Region out(setting, place, bytes);
  Region in(setting, place, bytes);
  std::array<MPI_Request, 2> requests{};
  MPI_Recv_init(in.data(), static_cast<int>(bytes), MPI_BYTE, peer, 8, MPI_COMM_WORLD, &requests[0]);
  MPI_Send_init(out.data(), static_cast<int>(bytes), MPI_BYTE, peer, 8, MPI_COMM_WORLD, &requests[1]);
  for (int round = 0; round < (setting.quick ? 3 : 20); ++round) {
    const auto seed = [&](int rank) { return mix(bytes + static_cast<unsigned>(rank + round * 100)); };
    out.fill(seed(setting.rank), bytes);
    in.clear();
    expect_success(MPI_Startall(2, requests.data()), "Startall");
    expect_success(MPI_Waitall(2, requests.data(), MPI_STATUSES_IGNORE), "Waitall");
    in.expect(seed(peer), bytes, "a persistent receive");
  }
  for (MPI_Request& request : requests)
    MPI_Request_free(&request);
}

/// Receives that are shorter or longer than their messages, cancelled, or of what was probed.
void odd_receives(const Setting& setting, Place place, std::size_t bytes) {
  const int count = static_cast<int>(bytes);
  Region region(setting, place, 2 * bytes);
  if (setting.rank == 1) {
    region.fill(mix(bytes), bytes);
    for (int tag = 0; tag < 3; ++tag)
      expect_success(MPI_Send(region.data(), count, MPI_BYTE, 0, tag, MPI_COMM_WORLD), "Send");
    return;
  }
  region.clear();
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  const int error = MPI_Recv(region.data(), count / 2, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  CHECK_EQUAL(class_of(error), MPI_ERR_TRUNCATE);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
  const Bytes got = region.read(2 * bytes);
  for (std::size_t i = bytes / 2; i < got.size(); ++i)
    expect(got[i] == untouched, "a truncated receive wrote beyond its end");
  region.clear();
  MPI_Status status;
  MPI_Recv(region.data(), 2 * count, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &status);
  region.expect(mix(bytes), bytes, "a longer receive");
  region.clear();
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Irecv(region.data(), count, MPI_BYTE, 1, 77, MPI_COMM_WORLD, &request);
  MPI_Cancel(&request);
  MPI_Wait(&request, &status);
  int cancelled = 0;
  MPI_Test_cancelled(&status, &cancelled);
  CHECK(cancelled != 0);
  region.expect(0, 0, "a cancelled receive");
  MPI_Probe(1, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
  int probed = 0;
  MPI_Get_count(&status, MPI_BYTE, &probed);
  CHECK_EQUAL(probed, count);
  MPI_Recv(region.data(), probed, MPI_BYTE, 1, status.MPI_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  region.expect(mix(bytes), bytes, "a probed message");
}

}  // namespace

void check_calls(const Setting& setting) {
  using enum Place;
  for (const Place theirs :
       {device, other_gpu, managed, managed_host, default_pool, vmm, private_vmm, pinned, pageable}) {
    const Place place = setting.rank == 0 ? theirs : device;
    for (const std::size_t bytes : sizes) {
      if (setting.quick && bytes > std::size_t{2} << 20U) continue;
      sendrecv(setting, place, bytes);
      modes(setting, place, bytes);
    }
    for (const std::size_t bytes : {8, 4096, 300'000})
      persistent(setting, place, bytes);
    for (const std::size_t bytes : {16, 5000, 1'048'576})
      odd_receives(setting, place, bytes);
  }
}

}  // namespace isthmus::gpu_check
