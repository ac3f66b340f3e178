// How long messages take between places, as a program sees it. No check: a line for each pair of places and
// size, with the median of several batches; rank 0 sends from the first place to rank 1's second, and back.
#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "../median_seconds.hpp"
#include "places.hpp"

namespace isthmus::gpu_check {
namespace {

constexpr int tag = 9;

/// One way of a ping-pong: each rank sends from and receives to the same memory.
double one_way(const Setting& setting, const Region& mine, int bytes, int rounds) {
  const int other = 1 - setting.rank;
  return median_seconds(5, rounds,
                        [&] {
                          if (setting.rank == 0)
                            MPI_Send(mine.data(), bytes, MPI_BYTE, other, tag, MPI_COMM_WORLD);
                          MPI_Recv(mine.data(), bytes, MPI_BYTE, other, tag, MPI_COMM_WORLD,
                                   MPI_STATUS_IGNORE);
                          if (setting.rank == 1)
                            MPI_Send(mine.data(), bytes, MPI_BYTE, other, tag, MPI_COMM_WORLD);
                        }) /
         2;
}

constexpr int in_flight = 64;

/// So many messages at a time from rank `sender`, or (2) from both.
double windows(const Setting& setting, const Region& out, const Region& in, int bytes, int sender) {
  const int other = 1 - setting.rank;
  const bool sends = sender == setting.rank || sender == 2;
  const bool receives = sender == other || sender == 2;
  return median_seconds(5, 3, [&] {
    std::array<MPI_Request, 2 * in_flight> requests;
    int count = 0;
    for (int i = 0; i < in_flight && receives; ++i)
      MPI_Irecv(static_cast<char*>(in.data()) + std::size_t{1} * static_cast<std::size_t>(i * bytes), bytes,
                MPI_BYTE, other, tag, MPI_COMM_WORLD, &requests[static_cast<std::size_t>(count++)]);
    for (int i = 0; i < in_flight && sends; ++i)
      MPI_Isend(static_cast<char*>(out.data()) + std::size_t{1} * static_cast<std::size_t>(i * bytes), bytes,
                MPI_BYTE, other, tag, MPI_COMM_WORLD, &requests[static_cast<std::size_t>(count++)]);
    MPI_Waitall(count, requests.data(), MPI_STATUSES_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
  });
}

void say(const Setting& setting, const std::string& what, std::size_t bytes, double seconds, double amount) {
  if (setting.rank == 0)
    std::printf("%-44s %9zu %10.2f us %8.2f GB/s\n", what.c_str(), bytes, seconds * 1e6,
                amount / seconds * 1e-9);
  std::fflush(stdout);
}

}  // namespace

void measure_times(const Setting& setting) {
  using enum Place;
  constexpr std::array<std::pair<Place, Place>, 12> pairs{{{device, device},
                                                           {default_pool, default_pool},
                                                           {private_vmm, private_vmm},
                                                           {managed, managed},
                                                           {shared_pool, shared_pool},
                                                           {default_pool, device},
                                                           {device, pinned},
                                                           {device, pageable},
                                                           {managed, managed_host},
                                                           {managed_host, managed_host},
                                                           {pageable, pageable},
                                                           {pinned, pinned}}};
  const std::array<std::size_t, 6> sizes{
      8, 4096, 65'536, std::size_t{1} << 20, std::size_t{16} << 20, std::size_t{64} << 20};
  for (const auto& [first, second] : pairs) {
    const std::string what = std::string(name_of(first)) + " > " + std::string(name_of(second));
    const Place own = setting.rank == 0 ? first : second;
    for (const std::size_t bytes : sizes) {
      Region mine(setting, own, bytes);
      mine.fill(bytes, bytes);
      const int rounds = bytes <= 65'536 ? 200 : bytes <= (std::size_t{1} << 20) ? 50 : 5;
      const double seconds = one_way(setting, mine, static_cast<int>(bytes), setting.quick ? 1 : rounds);
      say(setting, what, bytes, seconds, static_cast<double>(bytes));
    }
  }
  constexpr std::array<std::pair<Place, Place>, 5> many{{{device, device},
                                                         {default_pool, default_pool},
                                                         {device, pageable},
                                                         {device, pinned},
                                                         {pageable, pageable}}};
  for (const auto& [first, second] : many)
    for (const std::size_t bytes : {std::size_t{4096}, std::size_t{1} << 20}) {
      const Place own = setting.rank == 0 ? first : second;
      Region out(setting, own, in_flight * bytes);
      Region in(setting, own, in_flight * bytes);
      out.fill(1, in_flight * bytes);
      in.fill(2, in_flight * bytes);
      constexpr std::array<const char*, 3> directions{"there", "back", "both ways"};
      for (int direction = 0; direction < 3; ++direction) {
        const double seconds = windows(setting, out, in, static_cast<int>(bytes), direction);
        say(setting,
            "64 at a time, " + std::string(name_of(first)) + " > " + std::string(name_of(second)) + ", " +
                directions[static_cast<std::size_t>(direction)],
            bytes, seconds, static_cast<double>(in_flight * bytes) * (direction == 2 ? 2 : 1));
      }
    }
}

}  // namespace isthmus::gpu_check
