#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "gpu/points.hpp"

namespace isthmus::bench {
namespace {

using Bytes = std::vector<std::uint8_t>;

// What `writer` sends at byte i.
std::uint8_t byte_of(std::size_t i, int writer) {
  return static_cast<std::uint8_t>(i * 7 + (i >> 8U) * 13 + (i >> 16U) * 29 +
                                   static_cast<unsigned>(writer) * 101 + 1);
}

Bytes pattern(std::size_t bytes, int writer) {
  Bytes made(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    made[i] = byte_of(i, writer);
  return made;
}

int as_count(std::size_t bytes) {
  return static_cast<int>(bytes);
}

// Runs each way once on fresh contents and compares, then measures them.
void run(const Setting& with, std::string_view point, const std::vector<Way>& ways,
         const std::function<void()>& prepare, const std::function<bool()>& is_right) {
  for (const Way& way : ways) {
    prepare();
    MPI_Barrier(MPI_COMM_WORLD);
    way.once();
    with.rounds.demand(point, way.name, is_right());
  }
  prepare();
  with.rounds.measure(point, {}, ways);
}

}  // namespace

void allreduce(const Setting& with, std::string_view point, std::size_t bytes) {
  const std::size_t count = bytes / sizeof(float);
  const int ranks = with.rounds.ranks();
  const Memory from(with.cuda, Kind::device, bytes);
  const Memory to(with.cuda, Kind::device, bytes);
  std::vector<float> mine(count);
  for (std::size_t i = 0; i < count; ++i)
    mine[i] = static_cast<float>(i % 1021) + static_cast<float>(with.rounds.rank());
  from.write(mine);
  const auto sum = [&](std::size_t i) {
    return static_cast<float>(ranks) * static_cast<float>(i % 1021) +
           static_cast<float>(ranks * (ranks - 1)) / 2;
  };
  std::vector<Way> ways{
      {"mpi",
       [&] { MPI_Allreduce(from.data(), to.data(), as_count(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); }}};
  if (with.nccl)
    ways.push_back({"nccl", [&] {
                      with.nccl->all_reduce(from, to, count);
                      with.nccl->wait();
                    }});
  run(
      with, point, ways, [&] { to.write(std::vector<float>(count, -1)); },
      [&] {
        const auto got = to.read<float>(count);
        for (std::size_t i = 0; i < count; ++i)
          if (got[i] != sum(i)) return false;
        return true;
      });
}

void bcast(const Setting& with, std::string_view point, std::size_t bytes) {
  const Memory data(with.cuda, Kind::device, bytes);
  const bool root = with.rounds.rank() == 0;
  std::vector<Way> ways{
      {"mpi", [&] { MPI_Bcast(data.data(), as_count(bytes), MPI_BYTE, 0, MPI_COMM_WORLD); }}};
  if (with.nccl)
    ways.push_back({"nccl", [&] {
                      with.nccl->broadcast(data, bytes, 0);
                      with.nccl->wait();
                    }});
  run(
      with, point, ways, [&] { data.write(root ? pattern(bytes, 0) : Bytes(bytes)); },
      [&] { return data.read<std::uint8_t>(bytes) == pattern(bytes, 0); });
}

void allgather(const Setting& with, std::string_view point, std::size_t bytes) {
  const auto ranks = static_cast<std::size_t>(with.rounds.ranks());
  const std::size_t each = std::max<std::size_t>(1, bytes / ranks);
  const Memory from(with.cuda, Kind::device, each);
  const Memory to(with.cuda, Kind::device, each * ranks);
  from.write(pattern(each, with.rounds.rank()));
  std::vector<Way> ways{{"mpi", [&] {
                           MPI_Allgather(from.data(), as_count(each), MPI_BYTE, to.data(), as_count(each),
                                         MPI_BYTE, MPI_COMM_WORLD);
                         }}};
  if (with.nccl)
    ways.push_back({"nccl", [&] {
                      with.nccl->all_gather(from, to, each);
                      with.nccl->wait();
                    }});
  run(
      with, point, ways, [&] { to.write(Bytes(each * ranks)); },
      [&] {
        const Bytes got = to.read<std::uint8_t>(each * ranks);
        for (std::size_t i = 0; i < got.size(); ++i)
          if (got[i] != byte_of(i % each, static_cast<int>(i / each))) return false;
        return true;
      });
}

void alltoall(const Setting& with, std::string_view point, std::size_t bytes) {
  const auto ranks = static_cast<std::size_t>(with.rounds.ranks());
  const auto rank = static_cast<std::size_t>(with.rounds.rank());
  const std::size_t each = std::max<std::size_t>(1, bytes / ranks);
  const Memory from(with.cuda, Kind::device, each * ranks);
  const Memory to(with.cuda, Kind::device, each * ranks);
  from.write(pattern(each * ranks, with.rounds.rank()));
  std::vector<Way> ways{{"mpi", [&] {
                           MPI_Alltoall(from.data(), as_count(each), MPI_BYTE, to.data(), as_count(each),
                                        MPI_BYTE, MPI_COMM_WORLD);
                         }}};
  if (with.nccl)
    ways.push_back({"nccl", [&] {
                      with.nccl->all_to_all(from, to, each);
                      with.nccl->wait();
                    }});
  run(
      with, point, ways, [&] { to.write(Bytes(each * ranks)); },
      [&] {
        const Bytes got = to.read<std::uint8_t>(each * ranks);
        for (std::size_t i = 0; i < got.size(); ++i)
          if (got[i] != byte_of(rank * each + i % each, static_cast<int>(i / each))) return false;
        return true;
      });
}

}  // namespace isthmus::bench
