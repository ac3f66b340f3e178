// What `isthmus tune` and `./dev bench plans` start as two ranks: the time of one message at each size, in a
// line "SIZE MICROSECONDS", and where that is asked for, behind it what one of the first messages took, and 8
// B before and afterwards, which tell how far the cores were from each other.
#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <vector>

#include "batches.hpp"

namespace {

constexpr std::size_t mib = std::size_t{1} << 20U;
constexpr int window = 64;                        ///< messages under way in the bandwidth mode
constexpr std::size_t most_under_way = 64 * mib;  ///< bytes; two messages at least
constexpr std::size_t fresh_room = 256 * mib;     ///< more than processors keep in their caches

/// What the sender's data is, and where.
enum class Data {
  renewed,  ///< the same buffers, and the program has just changed what is in them, as most programs do
  fresh,    ///< each message has buffers that were touched 256 MiB ago
  same,     ///< the same buffers and bytes, as in the usual ping-pong: both processors have them
};

struct Mode {
  bool many = false;
  Data data = Data::renewed;
};

/// "latency", "bandwidth-fresh" and the like.
std::optional<Mode> mode_of(std::string_view text) {
  Mode mode;
  const std::size_t dash = text.find('-');
  const std::string_view what = text.substr(0, dash);
  mode.many = what == "bandwidth";
  if (!mode.many && what != "latency") return std::nullopt;
  if (dash == std::string_view::npos) return mode;
  const std::string_view data = text.substr(dash + 1);
  mode.data = data == "fresh" ? Data::fresh : Data::same;
  if (mode.data == Data::same && data != "same") return std::nullopt;
  return mode;
}

/// Data that its program has just made, as what programs send mostly is: a copy of what both processors have
/// in their caches already would let direct reading look twice as fast as it is.
void renew(char* data, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += 64)
    ++data[i];
}

/// How many messages of a size are under way at once in the bandwidth mode.
int under_way(int bytes) {
  return static_cast<int>(
      std::clamp<std::size_t>(most_under_way / static_cast<std::size_t>(std::max(bytes, 1)), 2, window));
}

class Pair {
 public:
  Pair(int rank, const Mode& mode, const isthmus::pair::Effort& effort, int largest)
      : rank_(rank),
        mode_(mode),
        effort_(effort),
        room_(std::max(mode.data == Data::fresh ? fresh_room : 0,
                       static_cast<std::size_t>(largest) *
                           static_cast<std::size_t>(mode.many ? under_way(largest) : 1))),
        out_(room_, 'o'),
        in_(room_, 'i') {}

  /// The median time of a message, in seconds, and the mean of the first ones where it is asked for.
  std::vector<double> measure(int bytes) {
    // The first messages come first: who measures from the second on has missed them.
    const double first = effort_.first > 0 ? mean_of_first(bytes) : 0;
    const int trips = std::clamp((1 << 18) / std::max(bytes, 1), 2, 50);
    const double time = isthmus::pair::median_of(
        effort_.batches, [&] { return mode_.many ? bandwidth(bytes) : latency(bytes, trips); });
    return effort_.first > 0 ? std::vector{time, first} : std::vector{time};
  }

 private:
  /// Where the next messages are, `bytes` together.
  std::size_t place_for(std::size_t bytes) {
    if (mode_.data != Data::fresh) return 0;
    if (next_ + bytes > room_) next_ = 0;
    const std::size_t place = next_;
    next_ += (bytes + 63) / 64 * 64;
    return place;
  }

  double mean_of_first(int bytes) {
    if (!mode_.many) return latency(bytes, effort_.first);
    const int windows = (effort_.first + under_way(bytes) - 1) / under_way(bytes);
    double time = 0;
    for (int i = 0; i < windows; ++i)
      time += bandwidth(bytes);
    return time / windows;
  }

  /// One way, half a round trip.
  double latency(int bytes, int trips) {
    double time = 0;
    for (int i = 0; i < trips; ++i) {
      const std::size_t place = place_for(static_cast<std::size_t>(bytes));
      char* const out = out_.data() + place;
      if (mode_.data == Data::renewed) renew(out, static_cast<std::size_t>(bytes));
      const double begin = MPI_Wtime();
      if (rank_ == 0) MPI_Send(out, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
      MPI_Recv(in_.data() + place, bytes, MPI_BYTE, 1 - rank_, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      if (rank_ == 1) MPI_Send(out, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
      time += MPI_Wtime() - begin;
    }
    return time / trips / 2;
  }

  /// Of each of many messages under way at once, all from rank 0.
  double bandwidth(int bytes) {
    const int messages = under_way(bytes);
    const std::size_t all = static_cast<std::size_t>(bytes) * static_cast<std::size_t>(messages);
    const std::size_t place = place_for(all);
    MPI_Request requests[window];
    if (rank_ == 0 && mode_.data == Data::renewed) renew(out_.data(), all);
    const double begin = MPI_Wtime();
    for (int i = 0; i < messages; ++i) {
      const std::size_t at = place + static_cast<std::size_t>(i) * static_cast<std::size_t>(bytes);
      if (rank_ == 0)
        MPI_Isend(out_.data() + at, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &requests[i]);
      else
        MPI_Irecv(in_.data() + at, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &requests[i]);
    }
    MPI_Waitall(messages, requests, MPI_STATUSES_IGNORE);
    if (rank_ == 0)
      MPI_Recv(nullptr, 0, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else
      MPI_Send(nullptr, 0, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
    return (MPI_Wtime() - begin) / messages;
  }

  int rank_;
  Mode mode_;
  isthmus::pair::Effort effort_;
  std::size_t room_;
  std::vector<char> out_, in_;
  std::size_t next_ = 0;  ///< of fresh data
};

}  // namespace

int main(int count, char** arguments) {
  MPI_Init(&count, &arguments);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const std::optional<Mode> mode = count > 1 ? mode_of(arguments[1]) : std::nullopt;
  const isthmus::pair::Effort effort(count > 3 ? arguments[2] : "0");
  if (size != 2 || !mode || effort.batches < 1) {
    if (rank == 0)
      std::fputs(
          "measure_pair: isthmus tune starts it: MODE BATCHES[+FIRST] SIZE...; MODE is latency or bandwidth, "
          "with -fresh or -same\n",
          stderr);
    MPI_Abort(MPI_COMM_WORLD, 2);
    return 2;
  }
  const std::vector<int> sizes = isthmus::pair::sizes_of(count, arguments, 3, 0);
  Pair pair(rank, *mode, effort, std::ranges::max(sizes));
  isthmus::pair::print_times(rank, sizes, effort, [&](int bytes) { return pair.measure(bytes); });
  MPI_Finalize();
  return 0;
}
