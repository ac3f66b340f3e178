// Messages between every two kinds of memory, at sizes around each change of way, in every mode. Prints
// nothing when all is right. At 2 ranks. With an argument, without long messages.
#include <algorithm>
#include <numeric>

#include "gpu_memory.hpp"

using namespace isthmus;
using namespace isthmus::testing_gpu;
using Bytes = std::vector<unsigned char>;

namespace {

int rank = -1;

Bytes pattern(std::size_t bytes, int seed) {
  Bytes values(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    values[i] = static_cast<unsigned char>(i * 31 + i / 251 + static_cast<std::size_t>(seed) * 77);
  return values;
}

constexpr int canary = 0xAB;

void send_and_check(const Gpu& gpu, MemoryKind from, MemoryKind to, std::size_t bytes, int seed) {
  // A byte before and behind the message, so that copies of too much are seen.
  Memory memory(gpu, rank == 0 ? from : to, bytes + 2);
  auto* const data = static_cast<unsigned char*>(memory.data()) + 1;
  const Bytes wanted = pattern(bytes, seed);
  if (rank == 0) {
    Bytes all(bytes + 2, canary);
    std::ranges::copy(wanted, all.begin() + 1);
    memory.write(all);
    MPI_Send(data, static_cast<int>(bytes), MPI_BYTE, 1, seed, MPI_COMM_WORLD);
  } else {
    memory.write(Bytes(bytes + 2, canary));
    MPI_Status status;
    MPI_Recv(data, static_cast<int>(bytes), MPI_BYTE, 0, seed, MPI_COMM_WORLD, &status);
    int count = -1;
    MPI_Get_count(&status, MPI_BYTE, &count);
    CHECK_EQUAL(count, bytes);
    const Bytes got = memory.read<unsigned char>(bytes + 2);
    CHECK_EQUAL(got.front(), canary);
    CHECK_EQUAL(got.back(), canary);
    CHECK(std::equal(wanted.begin(), wanted.end(), got.begin() + 1));
  }
}

/// Sends that are there before the receive, that wait for it, with wildcards, and that are too long.
void check_modes(const Gpu& gpu, MemoryKind kind) {
  constexpr int count = 40'000;
  Memory memory(gpu, kind, count);
  Memory second(gpu, kind, count);
  const Bytes wanted = pattern(count, 1);
  if (rank == 0) {
    memory.write(wanted);
    MPI_Request request;
    MPI_Issend(memory.data(), count, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &request);
    int done = 0;
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    MPI_Send(nullptr, 0, MPI_BYTE, 1, 2, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Send(memory.data(), count, MPI_BYTE, 1, 3, MPI_COMM_WORLD);
    MPI_Sendrecv(memory.data(), count, MPI_BYTE, 1, 4, second.data(), count, MPI_BYTE, 1, 4, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    CHECK(second.read<unsigned char>(count) == pattern(count, 2));
    MPI_Send(memory.data(), count, MPI_BYTE, 1, 5, MPI_COMM_WORLD);
  } else {
    MPI_Recv(nullptr, 0, MPI_BYTE, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Status status;
    MPI_Probe(MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &status);
    int got = 0;
    MPI_Get_count(&status, MPI_BYTE, &got);
    CHECK_EQUAL(got, count);
    MPI_Recv(memory.data(), count, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
    CHECK_EQUAL(status.MPI_TAG, 1);
    CHECK(memory.read<unsigned char>(count) == wanted);
    MPI_Message message;
    MPI_Mprobe(0, 3, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
    memory.write(Bytes(count));
    MPI_Mrecv(memory.data(), count, MPI_BYTE, &message, MPI_STATUS_IGNORE);
    CHECK(memory.read<unsigned char>(count) == wanted);
    second.write(pattern(count, 2));
    MPI_Sendrecv(second.data(), count, MPI_BYTE, 0, 4, memory.data(), count, MPI_BYTE, 0, 4, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    CHECK(memory.read<unsigned char>(count) == wanted);
    memory.write(Bytes(count));
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int error = MPI_Recv(memory.data(), 100, MPI_BYTE, 0, 5, MPI_COMM_WORLD, &status);
    MPI_Error_class(error, &error);
    CHECK_EQUAL(error, MPI_ERR_TRUNCATE);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    Bytes part = wanted;
    std::fill(part.begin() + 100, part.end(), 0);
    CHECK(memory.read<unsigned char>(count) == part);
  }
}

/// Many at once, and persistent.
void check_window(const Gpu& gpu, MemoryKind kind) {
  constexpr int messages = 20;
  constexpr int count = 3000;
  Memory memory(gpu, kind, messages * count);
  auto* const data = static_cast<unsigned char*>(memory.data());
  std::vector<MPI_Request> requests(messages);
  for (int i = 0; i < messages; ++i)
    if (rank == 0)
      MPI_Send_init(data + i * count, count, MPI_BYTE, 1, i, MPI_COMM_WORLD, &requests[i]);
    else
      MPI_Recv_init(data + i * count, count, MPI_BYTE, 0, i, MPI_COMM_WORLD, &requests[i]);
  for (int round = 0; round < 3; ++round) {
    if (rank == 0) memory.write(pattern(messages * count, round));
    MPI_Startall(messages, requests.data());
    MPI_Waitall(messages, requests.data(), MPI_STATUSES_IGNORE);
    if (rank == 1) CHECK(memory.read<unsigned char>(messages * count) == pattern(messages * count, round));
    MPI_Barrier(MPI_COMM_WORLD);
  }
  for (MPI_Request& request : requests)
    MPI_Request_free(&request);
}

constexpr int width = 7;

/// Two neighbouring columns of a matrix.
MPI_Datatype columns(int rows) {
  MPI_Datatype type;
  MPI_Type_vector(rows, 2, width, MPI_INT, &type);
  return type;
}
/// As many pairs, in each second row one place further.
MPI_Datatype zigzag(int rows) {
  std::vector<int> places;
  for (int row = 0; row < rows; ++row)
    places.push_back(row * width + row % 2);
  MPI_Datatype type;
  MPI_Type_create_indexed_block(rows, 2, places.data(), MPI_INT, &type);
  return type;
}

/// Layouts with gaps on either side or both. A layout that is null is contiguous.
void check_gaps(const Gpu& gpu, MemoryKind from, MemoryKind to) {
  using Layout = MPI_Datatype (*)(int);
  for (const int rows : {1, 3000})
    for (const Layout source : {static_cast<Layout>(nullptr), columns, zigzag})
      for (const Layout target : {static_cast<Layout>(nullptr), columns, zigzag}) {
        const Layout layout = rank == 0 ? source : target;
        MPI_Datatype type = MPI_INT;
        if (layout) {
          type = layout(rows);
          MPI_Type_commit(&type);
        }
        std::vector<int> all(static_cast<std::size_t>(rows) * width);
        Memory memory(gpu, rank == 0 ? from : to, all.size() * sizeof(int));
        const int count = layout ? 1 : 2 * rows;
        if (rank == 0) {
          std::iota(all.begin(), all.end(), 0);
          memory.write(all);
          MPI_Send(memory.data(), count, type, 1, 0, MPI_COMM_WORLD);
        } else {
          memory.write(std::vector<int>(all.size(), -1));
          MPI_Recv(memory.data(), count, type, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
          const auto place = [](Layout of, int i) {
            return static_cast<std::size_t>(of ? i / 2 * width + i % 2 + (of == zigzag ? i / 2 % 2 : 0) : i);
          };
          std::vector<int> wanted(all.size(), -1);
          for (int i = 0; i < 2 * rows; ++i)
            wanted[place(target, i)] = static_cast<int>(place(source, i));
          CHECK(memory.read<int>(all.size()) == wanted);
        }
        if (layout) MPI_Type_free(&type);
      }
}

void check_self(const Gpu& gpu, MemoryKind kind) {
  for (const int count : {5, 100'000}) {
    Memory from(gpu, kind, static_cast<std::size_t>(count));
    Memory to(gpu, kind, static_cast<std::size_t>(count));
    from.write(pattern(static_cast<std::size_t>(count), 9));
    MPI_Request request;
    MPI_Irecv(to.data(), count, MPI_BYTE, 0, 0, MPI_COMM_SELF, &request);
    MPI_Send(from.data(), count, MPI_BYTE, 0, 0, MPI_COMM_SELF);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(to.read<unsigned char>(static_cast<std::size_t>(count)) ==
          pattern(static_cast<std::size_t>(count), 9));
  }
}

/// Messages longer than what they go through at a time, both ways at once, several under way.
void check_long(const Gpu& gpu, MemoryKind mine, MemoryKind peers) {
  constexpr std::size_t most = 9'437'199;
  const MemoryKind kind = rank == 0 ? mine : peers;
  const std::vector<std::size_t> sizes{most, 100'001, 3'000'000, 65'536};
  std::size_t total = 0;
  for (const std::size_t bytes : sizes)
    total += bytes;
  Memory from(gpu, kind, total);
  Memory to(gpu, kind, total);
  from.write(pattern(total, rank));
  to.write(Bytes(total));
  std::vector<MPI_Request> requests;
  std::size_t offset = 0;
  for (const std::size_t bytes : sizes) {
    const int count = static_cast<int>(bytes);
    MPI_Irecv(static_cast<char*>(to.data()) + offset, count, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD,
              &requests.emplace_back());
    MPI_Isend(static_cast<char*>(from.data()) + offset, count, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD,
              &requests.emplace_back());
    offset += bytes;
  }
  MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
  CHECK(to.read<unsigned char>(total) == pattern(total, 1 - rank));
}

/// Calls that put a copy of the message aside.
void check_copies(const Gpu& gpu, MemoryKind kind) {
  constexpr int count = 30'000;
  Memory memory(gpu, kind, count);
  memory.write(pattern(count, rank));
  MPI_Sendrecv_replace(memory.data(), count, MPI_BYTE, 1 - rank, 0, 1 - rank, 0, MPI_COMM_WORLD,
                       MPI_STATUS_IGNORE);
  CHECK(memory.read<unsigned char>(count) == pattern(count, 1 - rank));
  if (rank == 0) {
    std::vector<char> space(count + MPI_BSEND_OVERHEAD);
    MPI_Buffer_attach(space.data(), static_cast<int>(space.size()));
    MPI_Bsend(memory.data(), count, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
    memory.write(Bytes(count));
    void* detached = nullptr;
    int size = 0;
    MPI_Buffer_detach(&detached, &size);
  } else {
    MPI_Recv(memory.data(), count, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(memory.read<unsigned char>(count) == pattern(count, 1));
  }
}

/// The same by requests, and the modes that `check_modes` leaves out.
void check_requests(const Gpu& gpu, MemoryKind kind) {
  constexpr int count = 20'000;
  const MPI_Comm comm = MPI_COMM_WORLD;
  const int peer = 1 - rank;
  Memory send(gpu, kind, count);
  Memory receive(gpu, kind, count);
  send.write(pattern(count, rank));
  MPI_Request request;
  MPI_Isendrecv(send.data(), count, MPI_BYTE, peer, 0, receive.data(), count, MPI_BYTE, peer, 0, comm,
                &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  CHECK(receive.read<unsigned char>(count) == pattern(count, peer));
  MPI_Isendrecv_replace(receive.data(), count, MPI_BYTE, peer, 0, peer, 0, comm, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  CHECK(receive.read<unsigned char>(count) == pattern(count, rank));

  // A receive that nothing comes for, and nothing at all.
  MPI_Irecv(receive.data(), count, MPI_BYTE, peer, 99, comm, &request);
  MPI_Cancel(&request);
  MPI_Status status;
  MPI_Wait(&request, &status);
  int flag = 0;
  MPI_Test_cancelled(&status, &flag);
  CHECK_EQUAL(flag, 1);
  MPI_Sendrecv(nullptr, 0, MPI_BYTE, peer, 1, receive.data(), 0, MPI_BYTE, peer, 1, comm, &status);
  MPI_Get_count(&status, MPI_BYTE, &flag);
  CHECK_EQUAL(flag, 0);
  CHECK(receive.read<unsigned char>(count) == pattern(count, rank));

  if (rank == 0) {
    std::vector<char> space(count + MPI_BSEND_OVERHEAD);
    MPI_Buffer_attach(space.data(), static_cast<int>(space.size()));
    MPI_Ibsend(send.data(), count, MPI_BYTE, 1, 2, comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    void* detached = nullptr;
    int size = 0;
    MPI_Buffer_detach(&detached, &size);
    MPI_Ssend_init(send.data(), count, MPI_BYTE, 1, 3, comm, &request);
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Request_free(&request);
    MPI_Recv(nullptr, 0, MPI_BYTE, 1, 4, comm, MPI_STATUS_IGNORE);
    MPI_Rsend(send.data(), count, MPI_BYTE, 1, 5, comm);
    return;
  }
  const auto check_next = [&](const auto& call) {
    receive.write(Bytes(count));
    call();
    CHECK(receive.read<unsigned char>(count) == pattern(count, 0));
  };
  check_next([&] { MPI_Recv(receive.data(), count, MPI_BYTE, MPI_ANY_SOURCE, 2, comm, MPI_STATUS_IGNORE); });
  check_next([&] {
    MPI_Message message = MPI_MESSAGE_NULL;
    while (!flag)
      MPI_Improbe(MPI_ANY_SOURCE, 3, comm, &flag, &message, MPI_STATUS_IGNORE);
    MPI_Imrecv(receive.data(), count, MPI_BYTE, &message, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  });
  check_next([&] {
    MPI_Irecv(receive.data(), count, MPI_BYTE, 0, 5, comm, &request);
    MPI_Send(nullptr, 0, MPI_BYTE, 0, 4, comm);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  });
}

/// Receives that are too short for their messages, whatever either side looks like.
void check_truncated(const Gpu& gpu, MemoryKind from, MemoryKind to) {
  constexpr int rows = 2000;
  constexpr std::size_t ints = std::size_t{rows} * width;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  Memory memory(gpu, rank == 0 ? from : to, ints * sizeof(int));
  for (const bool gaps : {false, true})
    for (const int received : {0, 1, rows / 2}) {
      // Of rows, each of two ints.
      MPI_Datatype type = columns(rank == 0 ? rows : received);
      MPI_Type_commit(&type);
      std::vector<int> all(ints, -1);
      if (rank == 0) std::iota(all.begin(), all.end(), 0);
      memory.write(all);
      if (rank == 0) {
        // An error of the receiver is none of the sender's.
        CHECK_MPI(MPI_Send(memory.data(), gaps ? 1 : 2 * rows, gaps ? type : MPI_INT, 1, 0, MPI_COMM_WORLD));
      } else {
        CHECK_ERROR(MPI_Recv(memory.data(), gaps ? 1 : 2 * received, gaps ? type : MPI_INT, 0, 0,
                             MPI_COMM_WORLD, MPI_STATUS_IGNORE),
                    MPI_ERR_TRUNCATE, "");
        for (int i = 0; i < 2 * received; ++i) {
          const int place = gaps ? i / 2 * width + i % 2 : i;
          all[static_cast<std::size_t>(place)] = place;
        }
        CHECK(memory.read<int>(ints) == all);
      }
      MPI_Type_free(&type);
    }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

/// A buffer that is freed and whose address another allocation gets.
void check_reuse(const Gpu& gpu, MemoryKind kind) {
  for (int round = 0; round < 5; ++round)
    send_and_check(gpu, kind, kind, 100'000, round);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  {
    const Gpu gpu(rank);
    int seed = 0;
    for (const MemoryKind from : every_kind)
      for (const MemoryKind to : every_kind)
        for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{8}, std::size_t{33},
                                        std::size_t{5000}, std::size_t{16385}, std::size_t{300'001}})
          send_and_check(gpu, from, to, bytes, ++seed);
    for (const MemoryKind from : every_kind)
      for (const MemoryKind to : every_kind)
        if (from == to || from == MemoryKind::device || to == MemoryKind::device) check_gaps(gpu, from, to);
    for (const MemoryKind kind : every_kind) {
      check_modes(gpu, kind);
      check_window(gpu, kind);
      check_self(gpu, kind);
      check_copies(gpu, kind);
      check_requests(gpu, kind);
      check_truncated(gpu, kind, kind);
      check_reuse(gpu, kind);
    }
    check_truncated(gpu, MemoryKind::pageable, MemoryKind::device);
    check_truncated(gpu, MemoryKind::device, MemoryKind::pinned);
    if (argc == 1) {
      // Memory of a GPU by whatever name goes alike from here on.
      for (const MemoryKind kind : {MemoryKind::pageable, MemoryKind::device, MemoryKind::managed}) {
        check_long(gpu, kind, kind);
        if (kind != MemoryKind::device) check_long(gpu, kind, MemoryKind::device);
      }
      check_long(gpu, MemoryKind::pinned, MemoryKind::device);
    }
    MPI_Finalize();
  }
  return 0;
}
