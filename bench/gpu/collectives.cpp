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

namespace {

// A collective in which every rank gets a block of `each` bytes from each rank: the same one as all others,
// or one of its own.
struct Exchange {
  const Setting& with;
  std::size_t each;
  Memory from, to;

  Exchange(const Setting& the_setting, std::size_t bytes, bool own_blocks)
      : with(the_setting),
        each(std::max<std::size_t>(1, bytes / ranks())),
        from(the_setting.cuda, Kind::device, own_blocks ? each * ranks() : each),
        to(the_setting.cuda, Kind::device, each * ranks()),
        own_blocks_(own_blocks) {
    from.write(pattern(sent_bytes(), with.rounds.rank()));
  }
  [[nodiscard]] std::size_t ranks() const { return static_cast<std::size_t>(with.rounds.ranks()); }
  [[nodiscard]] int count() const { return as_count(each); }
  // Where each block begins, and its length.
  [[nodiscard]] std::vector<int> places() const {
    std::vector<int> made(ranks());
    for (std::size_t i = 0; i < ranks(); ++i)
      made[i] = as_count(i * each);
    return made;
  }
  [[nodiscard]] std::vector<int> counts() const { return std::vector<int>(ranks(), count()); }

  void run(std::string_view point, const std::function<void()>& mpi, const std::function<void()>& nccl,
           bool in_place = false) const {
    std::vector<Way> ways{{"mpi", mpi}};
    if (with.nccl && nccl)
      ways.push_back({"nccl", [&] {
                        nccl();
                        with.nccl->wait();
                      }});
    bench::run(
        with, point, ways,
        [&] { to.write(in_place ? pattern(sent_bytes(), with.rounds.rank()) : Bytes(each * ranks())); },
        [&] { return is_right(); });
  }

 private:
  [[nodiscard]] std::size_t sent_bytes() const { return own_blocks_ ? each * ranks() : each; }
  [[nodiscard]] bool is_right() const {
    const Bytes got = to.read<std::uint8_t>(each * ranks());
    const std::size_t first = own_blocks_ ? static_cast<std::size_t>(with.rounds.rank()) * each : 0;
    for (std::size_t i = 0; i < got.size(); ++i)
      if (got[i] != byte_of(first + i % each, static_cast<int>(i / each))) return false;
    return true;
  }
  const bool own_blocks_;
};

}  // namespace

void allgather(const Setting& with, std::string_view point, std::size_t bytes) {
  const Exchange x(with, bytes, false);
  x.run(
      point,
      [&] {
        MPI_Allgather(x.from.data(), x.count(), MPI_BYTE, x.to.data(), x.count(), MPI_BYTE, MPI_COMM_WORLD);
      },
      [&] { with.nccl->all_gather(x.from, x.to, x.each); });
}

void allgatherv(const Setting& with, std::string_view point, std::size_t bytes) {
  const Exchange x(with, bytes, false);
  const std::vector<int> counts = x.counts();
  const std::vector<int> places = x.places();
  x.run(
      point,
      [&] {
        MPI_Allgatherv(x.from.data(), x.count(), MPI_BYTE, x.to.data(), counts.data(), places.data(),
                       MPI_BYTE, MPI_COMM_WORLD);
      },
      [&] { with.nccl->all_gather(x.from, x.to, x.each); });
}

void alltoall(const Setting& with, std::string_view point, std::size_t bytes) {
  const Exchange x(with, bytes, true);
  x.run(
      point,
      [&] {
        MPI_Alltoall(x.from.data(), x.count(), MPI_BYTE, x.to.data(), x.count(), MPI_BYTE, MPI_COMM_WORLD);
      },
      [&] { with.nccl->all_to_all(x.from, x.to, x.each); });
}

void alltoall_in_place(const Setting& with, std::string_view point, std::size_t bytes) {
  const Exchange x(with, bytes, true);
  x.run(
      point,
      [&] {
        MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, x.to.data(), x.count(), MPI_BYTE, MPI_COMM_WORLD);
      },
      nullptr, true);
}

void alltoallv(const Setting& with, std::string_view point, std::size_t bytes) {
  const Exchange x(with, bytes, true);
  const std::vector<int> counts = x.counts();
  const std::vector<int> places = x.places();
  x.run(
      point,
      [&] {
        MPI_Alltoallv(x.from.data(), counts.data(), places.data(), MPI_BYTE, x.to.data(), counts.data(),
                      places.data(), MPI_BYTE, MPI_COMM_WORLD);
      },
      [&] { with.nccl->all_to_all(x.from, x.to, x.each); });
}

void scan(const Setting& with, std::string_view point, std::size_t bytes) {
  const std::size_t count = bytes / sizeof(float);
  const Memory from(with.cuda, Kind::device, bytes);
  const Memory to(with.cuda, Kind::device, bytes);
  from.write(std::vector<float>(count, 1));
  const std::vector<Way> ways{
      {"mpi",
       [&] { MPI_Scan(from.data(), to.data(), as_count(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); }}};
  run(
      with, point, ways, [&] { to.write(std::vector<float>(count, -1)); },
      [&] {
        return to.read<float>(count) == std::vector<float>(count, static_cast<float>(with.rounds.rank() + 1));
      });
}

}  // namespace isthmus::bench
