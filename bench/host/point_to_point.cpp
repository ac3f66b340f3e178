#include "host/point_to_point.hpp"

#include <mpi.h>

#include <algorithm>
#include <string>
#include <vector>

#include "common/pages.hpp"

namespace isthmus::bench {
namespace {

constexpr int message_tag = 1;
constexpr int acknowledgement_tag = 2;

void send(const void* data, std::size_t bytes, int peer) {
  MPI_Send(data, static_cast<int>(bytes), MPI_BYTE, peer, message_tag, MPI_COMM_WORLD);
}

void receive(void* data, std::size_t bytes, int peer) {
  MPI_Recv(data, static_cast<int>(bytes), MPI_BYTE, peer, message_tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

// One message there and one back, checked once before and once after the timed loop.
class PingPong {
 public:
  PingPong(const Job& job, std::size_t bytes, bool echo)
      : job_(job), peer_(1 - job.rank()), out_(bytes), in_(bytes), echo_(echo) {}

  void exchange() {
    if (job_.rank() == 0) {
      send(out_.data(), out_.size(), peer_);
      receive(in_.data(), in_.size(), peer_);
    } else {
      receive(in_.data(), in_.size(), peer_);
      send((echo_ ? in_ : out_).data(), out_.size(), peer_);
    }
    if (echo_ && job_.rank() == 0) std::swap(in_, out_);
  }

  // Rank 1 echoes what rank 0 wrote; without echo each rank receives what its peer wrote.
  void check(std::string_view point, unsigned round) {
    out_.fill(static_cast<unsigned>(job_.rank()), round);
    in_.clear();
    exchange();
    const Pages& received = echo_ && job_.rank() == 0 ? out_ : in_;
    const unsigned writer = echo_ ? 0U : static_cast<unsigned>(peer_);
    job_.demand(point, fault_text(received.mismatch(writer, round)));
  }

 private:
  const Job& job_;
  int peer_;
  Pages out_;
  Pages in_;
  bool echo_;
};

// A timed operation is a round trip, of which one way is half.
void ping_pong(const Job& job, std::string_view point, std::size_t bytes, bool echo, Unit unit) {
  PingPong pair(job, bytes, echo);
  pair.check(point, 1);
  job.measure(point, {.unit = unit, .amount = static_cast<double>(bytes), .share = 0.5},
              [&pair] { pair.exchange(); });
  pair.check(point, 2);
}

// One window: `count` messages one way, all in flight at once, then 4 bytes back. Every message has a buffer
// of its own on the receiving side, as the standard demands of receives that overlap in time.
class Window {
 public:
  Window(const Job& job, std::size_t bytes, int count)
      : job_(job),
        peer_(1 - job.rank()),
        bytes_(bytes),
        buffer_(bytes * static_cast<std::size_t>(count)),
        requests_(static_cast<std::size_t>(count)) {}

  void transfer() {
    const int count = static_cast<int>(requests_.size());
    if (job_.rank() == 0) {
      for (int i = 0; i < count; ++i)
        MPI_Isend(slot(i), static_cast<int>(bytes_), MPI_BYTE, peer_, message_tag, MPI_COMM_WORLD,
                  &requests_[i]);
    } else {
      for (int i = 0; i < count; ++i)
        MPI_Irecv(slot(i), static_cast<int>(bytes_), MPI_BYTE, peer_, message_tag, MPI_COMM_WORLD,
                  &requests_[i]);
    }
    MPI_Waitall(count, requests_.data(), MPI_STATUSES_IGNORE);
    int token = 0;
    if (job_.rank() == 0) {
      MPI_Recv(&token, 1, MPI_INT, peer_, acknowledgement_tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
      MPI_Send(&token, 1, MPI_INT, peer_, acknowledgement_tag, MPI_COMM_WORLD);
    }
  }

  void check(std::string_view point, unsigned round) {
    const bool sender = job_.rank() == 0;
    buffer_.clear();
    for (std::size_t i = 0; sender && i < requests_.size(); ++i)
      buffer_.fill(i * bytes_, bytes_, i, round);
    transfer();
    std::string fault;
    for (std::size_t i = 0; fault.empty() && i < requests_.size(); ++i)
      fault = fault_text(buffer_.mismatch(i * bytes_, bytes_, static_cast<unsigned>(i), round));
    job_.demand(point, fault);
  }

 private:
  void* slot(int i) const { return buffer_.data() + static_cast<std::size_t>(i) * bytes_; }

  const Job& job_;
  int peer_;
  std::size_t bytes_;
  Pages buffer_;
  std::vector<MPI_Request> requests_;
};

void windowed(const Job& job, std::string_view point, std::size_t bytes, int count, const Meaning& meaning) {
  Window window(job, bytes, count);
  window.check(point, 1);
  job.measure(point, meaning, [&window] { window.transfer(); });
  window.check(point, 2);
}

}  // namespace

void latency(const Job& job, std::string_view point, std::size_t bytes) {
  ping_pong(job, point, bytes, false, Unit::microseconds);
}

void latency_echo(const Job& job, std::string_view point, std::size_t bytes) {
  ping_pong(job, point, bytes, true, Unit::microseconds);
}

void bandwidth(const Job& job, std::string_view point, std::size_t bytes) {
  ping_pong(job, point, bytes, false, Unit::gigabytes_per_second);
}

void bandwidth_echo(const Job& job, std::string_view point, std::size_t bytes) {
  ping_pong(job, point, bytes, true, Unit::gigabytes_per_second);
}

void bandwidth_window(const Job& job, std::string_view point, std::size_t bytes) {
  // 64 messages in flight as osu_bw, but no more than 64 MiB of them (and 2 at least).
  constexpr std::size_t most_in_flight = std::size_t{64} << 20;
  const int count = static_cast<int>(std::clamp<std::size_t>(most_in_flight / bytes, 2, 64));
  windowed(job, point, bytes, count,
           {.unit = Unit::gigabytes_per_second, .amount = static_cast<double>(bytes) * count});
}

void message_rate(const Job& job, std::string_view point, std::size_t bytes) {
  constexpr int count = 64;
  windowed(job, point, bytes, count, {.unit = Unit::millions_per_second, .amount = count});
}

}  // namespace isthmus::bench
