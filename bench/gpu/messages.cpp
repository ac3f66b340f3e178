#include <mpi.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "gpu/courier.hpp"
#include "gpu/points.hpp"

namespace isthmus::bench {
namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes pattern(std::size_t bytes, int writer) {
  Bytes made(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    made[i] = static_cast<std::uint8_t>(i * 7 + (i >> 8U) * 13 + static_cast<unsigned>(writer) * 101 + 1);
  return made;
}

int as_count(std::size_t bytes) {
  return static_cast<int>(bytes);
}

Meaning one_way(std::size_t bytes) {
  // Times of short messages, rates of long ones.
  if (bytes < (1U << 20U)) return {.unit = Unit::microseconds, .amount = 1, .share = 0.5};
  return {.unit = Unit::gigabytes_per_second, .amount = static_cast<double>(bytes), .share = 0.5};
}

// There and back by blocking calls, as rank 0 and rank 1 have it.
void there_and_back(int rank, const std::byte* from, std::byte* to, int count, MPI_Datatype type) {
  const int peer = 1 - rank;
  if (rank == 0) {
    MPI_Send(from, count, type, peer, 0, MPI_COMM_WORLD);
    MPI_Recv(to, count, type, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  } else {
    MPI_Recv(to, count, type, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(from, count, type, peer, 0, MPI_COMM_WORLD);
  }
}

}  // namespace

void host_pingpong(const Rounds& rounds, std::string_view point, std::size_t bytes, const char* way) {
  Bytes from(bytes, 1);
  Bytes to(bytes);
  rounds.measure(point, one_way(bytes),
                 {{way, [&] {
                     there_and_back(rounds.rank(), reinterpret_cast<std::byte*>(from.data()),
                                    reinterpret_cast<std::byte*>(to.data()), as_count(bytes), MPI_BYTE);
                   }}});
}

void pingpong(const Setting& with, std::string_view point, std::size_t bytes, Kind mine) {
  const int rank = with.rounds.rank();
  const int peer = 1 - rank;
  const Memory from(with.cuda, mine, bytes);
  const Memory to(with.cuda, mine, bytes);
  from.write(pattern(bytes, rank));
  std::vector<Way> ways{
      {"mpi", [&] { there_and_back(rank, from.data(), to.data(), as_count(bytes), MPI_BYTE); }}};
  // One copy to the other GPU at a time, and back: the limit of what a processor drives.
  std::unique_ptr<PeerMemory> there;
  if (mine == Kind::device) there = std::make_unique<PeerMemory>(with.cuda, to, peer);
  if (there && *there) {
    ways.push_back({"raw", [&] {
                      if (rank != 0) return;
                      for (int way = 0; way < 2; ++way) {
                        with.cuda.demand(with.cuda->copy_async(there->address(), from.address(), bytes,
                                                               with.cuda.stream()),
                                         "cuMemcpyAsync");
                        with.cuda.poll();
                      }
                    }});
  }
  if (with.nccl)
    ways.push_back({"nccl", [&] {
                      if (rank == 0) {
                        with.nccl->send(from, bytes, peer);
                        with.nccl->wait();
                        with.nccl->receive(to, bytes, peer);
                      } else {
                        with.nccl->receive(to, bytes, peer);
                        with.nccl->wait();
                        with.nccl->send(from, bytes, peer);
                      }
                      with.nccl->wait();
                    }});
  for (const Way& way : ways) {
    to.write(Bytes(bytes));
    MPI_Barrier(MPI_COMM_WORLD);
    way.once();
    MPI_Barrier(MPI_COMM_WORLD);
    const bool mute = way.name == "raw" && rank == 0;  // only rank 0 copies, to rank 1
    with.rounds.demand(point, way.name, mute || to.read<std::uint8_t>(bytes) == pattern(bytes, peer));
  }
  with.rounds.measure(point, one_way(bytes), ways);
}

void latency_bound(const Setting& with, std::string_view point, std::size_t bytes) {
  const int rank = with.rounds.rank();
  const Memory from(with.cuda, Kind::device, bytes);
  const Memory to(with.cuda, Kind::device, bytes);
  from.write(pattern(bytes, rank));
  std::vector<Way> ways{
      {"mpi", [&] { there_and_back(rank, from.data(), to.data(), as_count(bytes), MPI_BYTE); }}};
  const PeerMemory there(with.cuda, to, 1 - rank);
  BareCourier bare(with.cuda);
  if (there && bare && bytes == sizeof(std::uint64_t))
    ways.push_back({"raw", [&] {
                      for (int way = 0; way < 2 && rank == 0; ++way)
                        bare.deliver(there.address());
                    }});
  constexpr double many = 10;
  const Rounds rounds = with.rounds.longer(many);
  rounds.measure(point, one_way(bytes), ways);
  to.write(Bytes(bytes));
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < 1000; ++i)
    ways.front().once();
  rounds.demand(point, "mpi", to.read<std::uint8_t>(bytes) == pattern(bytes, 1 - rank));
}

void synchronised(const Setting& with, std::string_view point, std::size_t bytes) {
  const int rank = with.rounds.rank();
  const int peer = 1 - rank;
  const Memory from(with.cuda, Kind::device, bytes);
  const Memory to(with.cuda, Kind::device, bytes);
  from.write(pattern(bytes, rank));
  const auto send = [&] {
    with.cuda.demand(with.cuda->synchronize(), "cuCtxSynchronize");
    MPI_Send(from.data(), as_count(bytes), MPI_BYTE, peer, 0, MPI_COMM_WORLD);
  };
  const auto receive = [&] {
    MPI_Recv(to.data(), as_count(bytes), MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  };
  std::vector<Way> ways{{"mpi", [&] {
                           if (rank == 0) send();
                           receive();
                           if (rank != 0) send();
                         }}};
  const PeerMemory there(with.cuda, to, peer);
  if (there)
    ways.push_back({"raw", [&] {
                      for (int way = 0; way < 2 && rank == 0; ++way) {
                        with.cuda.demand(with.cuda->synchronize(), "cuCtxSynchronize");
                        with.cuda.demand(
                            with.cuda->copy_async(there.address(), from.address(), bytes, with.cuda.stream()),
                            "cuMemcpyAsync");
                        with.cuda.poll();
                      }
                    }});
  constexpr double many = 10;
  const Rounds rounds = with.rounds.longer(many);
  rounds.measure(point, one_way(bytes), ways);
  to.write(Bytes(bytes));
  MPI_Barrier(MPI_COMM_WORLD);
  ways.front().once();
  rounds.demand(point, "mpi", to.read<std::uint8_t>(bytes) == pattern(bytes, peer));
}

void window(const Setting& with, std::string_view point, std::size_t bytes, bool both) {
  constexpr std::size_t messages = 64;
  const int rank = with.rounds.rank();
  const int peer = 1 - rank;
  const bool sends = both || rank == 0;
  const bool receives = both || rank == 1;
  const Memory from(with.cuda, Kind::device, messages * bytes);
  const Memory to(with.cuda, Kind::device, messages * bytes);
  from.write(pattern(messages * bytes, rank));
  std::vector<Way> ways{{"mpi", [&] {
                           std::array<MPI_Request, 2 * messages> requests{};
                           int pending = 0;
                           for (std::size_t i = 0; i < messages && receives; ++i)
                             MPI_Irecv(to.data() + i * bytes, as_count(bytes), MPI_BYTE, peer, 0,
                                       MPI_COMM_WORLD, &requests[static_cast<std::size_t>(pending++)]);
                           for (std::size_t i = 0; i < messages && sends; ++i)
                             MPI_Isend(from.data() + i * bytes, as_count(bytes), MPI_BYTE, peer, 0,
                                       MPI_COMM_WORLD, &requests[static_cast<std::size_t>(pending++)]);
                           MPI_Waitall(pending, requests.data(), MPI_STATUSES_IGNORE);
                           // The receiver has it all, before the sender's clock stops.
                           if (!both)
                             MPI_Sendrecv(nullptr, 0, MPI_BYTE, peer, 1, nullptr, 0, MPI_BYTE, peer, 1,
                                          MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                         }}};
  const PeerMemory there(with.cuda, to, peer);
  if (there)
    ways.push_back({"raw", [&] {
                      if (!sends) return;
                      for (std::size_t i = 0; i < messages; ++i)
                        with.cuda.demand(
                            with.cuda->copy_async(there.address() + i * bytes, from.address() + i * bytes,
                                                  bytes, with.cuda.stream()),
                            "cuMemcpyAsync");
                      with.cuda.poll();
                    }});
  if (with.nccl)
    ways.push_back({"nccl", [&] {
                      for (std::size_t i = 0; i < messages; ++i) {
                        with.nccl->begin_group();
                        if (sends) with.nccl->send(from, bytes, peer);
                        if (receives) with.nccl->receive(to, bytes, peer);
                        with.nccl->end_group();
                      }
                      with.nccl->wait();
                    }});
  ways.front().once();
  if (receives)
    with.rounds.demand(point, "mpi",
                       to.read<std::uint8_t>(messages * bytes) == pattern(messages * bytes, peer));
  else
    with.rounds.demand(point, "mpi", true);
  const double amount = static_cast<double>(messages * bytes) * (both ? 2 : 1);
  with.rounds.measure(point, {.unit = Unit::gigabytes_per_second, .amount = amount, .share = 1}, ways);
}

void first_message(const Setting& with, std::string_view point, std::size_t bytes) {
  // CUDA opens what it has opened before sooner, so nothing is freed before the end.
  constexpr int rounds = 15;
  const int rank = with.rounds.rank();
  const Memory to(with.cuda, Kind::device, bytes);
  std::vector<std::unique_ptr<Memory>> fresh;
  std::vector<std::unique_ptr<PeerMemory>> opened;
  std::vector<double> mpi;
  std::vector<double> raw;
  for (int round = 0; round < rounds; ++round) {
    for (const bool by_mpi : {true, false}) {
      fresh.push_back(std::make_unique<Memory>(with.cuda, Kind::device, bytes));
      fresh.back()->write(pattern(bytes, round));
      MPI_Barrier(MPI_COMM_WORLD);
      const double start = now_seconds();
      if (by_mpi && rank == 0) {
        MPI_Send(fresh.back()->data(), as_count(bytes), MPI_BYTE, 1, 0, MPI_COMM_WORLD);
      } else if (by_mpi) {
        MPI_Recv(to.data(), as_count(bytes), MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      } else {
        opened.push_back(std::make_unique<PeerMemory>(with.cuda, *fresh.back(), 1 - rank));
        if (rank == 1 && *opened.back()) {
          with.cuda.demand(
              with.cuda->copy_async(to.address(), opened.back()->address(), bytes, with.cuda.stream()),
              "cuMemcpyAsync");
          with.cuda.poll();
        }
      }
      MPI_Barrier(MPI_COMM_WORLD);
      (by_mpi ? mpi : raw).push_back(now_seconds() - start);
      with.rounds.demand(
          point, by_mpi ? "mpi" : "raw",
          rank == 0 || (!by_mpi && !*opened.back()) || to.read<std::uint8_t>(bytes) == pattern(bytes, round));
    }
  }
  if (rank == 0) {
    for (const auto& [way, times] : {std::pair{"mpi", &mpi}, std::pair{"raw", &raw}})
      std::printf(
          "{\"point\": \"%.*s\", \"way\": \"%s\", \"unit\": \"us\", \"value\": %.6g, \"rounds\": %d}\n",
          static_cast<int>(point.size()), point.data(), way, median(*times) * 1e6, rounds);
    std::fflush(stdout);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

void vector(const Setting& with, std::string_view point, std::size_t bytes) {
  const int rank = with.rounds.rank();
  const Memory from(with.cuda, Kind::device, 2 * bytes);
  const Memory to(with.cuda, Kind::device, 2 * bytes);
  from.write(pattern(2 * bytes, rank));
  MPI_Datatype strided = MPI_DATATYPE_NULL;
  MPI_Type_vector(as_count(bytes / 8), 1, 2, MPI_INT64_T, &strided);
  MPI_Type_commit(&strided);
  const std::vector<Way> ways{
      {"mpi", [&] { there_and_back(rank, from.data(), to.data(), 1, strided); }},
      {"raw", [&] { there_and_back(rank, from.data(), to.data(), as_count(bytes), MPI_BYTE); }}};
  to.write(Bytes(2 * bytes));
  MPI_Barrier(MPI_COMM_WORLD);
  ways.front().once();
  const Bytes got = to.read<std::uint8_t>(2 * bytes);
  const Bytes sent = pattern(2 * bytes, 1 - rank);
  bool right = true;
  for (std::size_t i = 0; i < got.size(); ++i)
    right = right && got[i] == (i / 8 % 2 == 0 ? sent[i] : 0);
  with.rounds.demand(point, "mpi", right);
  with.rounds.measure(point, one_way(bytes), ways);
  MPI_Type_free(&strided);
}

void mixed(const Setting& with, std::string_view point, std::size_t bytes, Kind from, Kind to) {
  const int rank = with.rounds.rank();
  const Kind kind = rank == 0 ? from : to;
  const Memory sent(with.cuda, kind, bytes);
  const Memory received(with.cuda, kind, bytes);
  const Memory on_host(with.cuda, Kind::pinned, bytes);
  const Memory on_gpu(with.cuda, Kind::device, bytes);
  sent.write(pattern(bytes, rank));
  const std::vector<Way> ways{
      {"mpi", [&] { there_and_back(rank, sent.data(), received.data(), as_count(bytes), MPI_BYTE); }},
      // The limit of PCIe: to the GPU and back.
      {"raw", [&] {
         if (rank != 0) return;
         for (const auto& [target, source] : {std::pair{&on_gpu, &on_host}, std::pair{&on_host, &on_gpu}}) {
           with.cuda.demand(
               with.cuda->copy_async(target->address(), source->address(), bytes, with.cuda.stream()),
               "cuMemcpyAsync");
           with.cuda.poll();
         }
       }}};
  received.write(Bytes(bytes));
  MPI_Barrier(MPI_COMM_WORLD);
  ways.front().once();
  with.rounds.demand(point, "mpi", received.read<std::uint8_t>(bytes) == pattern(bytes, 1 - rank));
  with.rounds.measure(point, one_way(bytes), ways);
}

}  // namespace isthmus::bench
