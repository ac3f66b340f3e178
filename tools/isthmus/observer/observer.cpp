#include "observer/observer.hpp"

#include <mpi.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "observer/replay.hpp"

namespace isthmus::observer {
namespace {

constexpr std::size_t most_exchanges = 2000;  // that are remembered

}  // namespace

Observer& Observer::self() {
  static auto* const observer = new Observer;  // calls come until the process has ended
  return *observer;
}

bool& Observer::is_inside() {
  static thread_local bool inside = false;
  return inside;
}

Observer::Observer() {
  if (const char* const folder = std::getenv("OBSERVED_JOB_FOLDER")) folder_ = folder;
  const char* const run = std::getenv("OBSERVED_JOB_RUN");
  kernels_ = run && std::strcmp(run, "kernels") == 0;
}

void Observer::begin_passage() {
  const std::scoped_lock lock(mutex_);
  if (!is_steered_) {
    // What was counted until now was before the first passage.
    for (Sum& sum : sums_)
      sum = {};
    total_ = 0;
    a_ = b_ = c_ = {};
    latest_.reset();
    kernels_seen_ = exchange_count_ = message_count_ = byte_count_ = 0;
    exchanges_.clear();
  }
  is_steered_ = is_open_ = true;
  current_.clear();
  has_sent_ = false;
  opened_ = last_ = Clock::now();
}

void Observer::end_passage() {
  const std::scoped_lock lock(mutex_);
  if (!is_steered_ || !is_open_) return;
  total_ += seconds_since(opened_);
  is_open_ = false;
  settle_latest(c_);
}

void Observer::settle_latest(Sum& sum) {
  if (!latest_) return;
  ++sum.count;
  sum.seconds += *latest_;
  latest_.reset();
}

bool Observer::is_open() const {
  return is_on() && is_open_;
}

void Observer::count(Kind kind, Clock::time_point begin) {
  const std::scoped_lock lock(mutex_);
  last_ = Clock::now();
  Sum& sum = sums_[static_cast<std::size_t>(kind)];
  ++sum.count;
  sum.seconds += std::chrono::duration<double>(last_ - begin).count();
}

void Observer::sends_to(int peer, std::uint64_t bytes) {
  const std::scoped_lock lock(mutex_);
  if (is_on() && !is_steered_ && !is_open_) {
    is_open_ = true;
    opened_ = last_ = Clock::now();
  }
  if (!is_open_) return;
  current_[peer].out += bytes;
  ++current_[peer].messages_out;
  ++message_count_;
  byte_count_ += bytes;
  if (!has_sent_) settle_latest(a_);
  has_sent_ = true;
}

void Observer::receives_from(int peer, std::uint64_t bytes) {
  const std::scoped_lock lock(mutex_);
  if (!is_open_) return;
  current_[peer].in += bytes;
  ++current_[peer].messages_in;
}

void Observer::waits() {
  const std::scoped_lock lock(mutex_);
  if (!is_open_ || current_.empty()) return;
  ++exchange_count_;
  if (exchanges_.size() < most_exchanges) exchanges_.push_back(current_);
  current_.clear();
  has_sent_ = false;
}

void Observer::ran(double seconds) {
  const std::scoped_lock lock(mutex_);
  ++kernels_seen_;
  settle_latest(c_);
  latest_ = seconds;
  if (has_sent_) settle_latest(b_);
}

void Observer::finish() {
  if (!is_on()) return;
  is_inside() = true;
  {
    const std::scoped_lock lock(mutex_);
    if (!is_steered_ && is_open_) total_ = std::chrono::duration<double>(last_ - opened_).count();
    settle_latest(c_);
    is_open_ = false;
    is_steered_ = true;
  }
  int rank = 0, size = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  PMPI_Comm_size(MPI_COMM_WORLD, &size);
  const Replayed replayed = kernels_ ? Replayed{} : replay(exchanges_, device_, rank, size);
  write(rank, size, replayed);
  is_inside() = false;
}

void Observer::write(int rank, int size, const Replayed& replayed) const {
  const std::string name = folder_ + (kernels_ ? "/kernels." : "/host.") + std::to_string(rank);
  FILE* const file = std::fopen(name.c_str(), "we");
  if (!file) {
    std::fprintf(stderr, "isthmus model: rank %d cannot write %s: %s\n", rank, name.c_str(),
                 std::strerror(errno));
    return;
  }
  const auto number = [](std::uint64_t value) { return static_cast<unsigned long long>(value); };
  std::fprintf(file, "isthmus-observed 2\nrank %d %d\nseconds %.9g\n", rank, size, total_);
  constexpr const char* names[kind_count] = {"launch", "gpu_wait", "send", "wait", "collective"};
  for (std::size_t kind = 0; kind < kind_count; ++kind)
    std::fprintf(file, "%s %llu %.9g\n", names[kind], number(sums_[kind].count), sums_[kind].seconds);
  std::fprintf(file, "a %llu %.9g\nb %llu %.9g\nc %llu %.9g\n", number(a_.count), a_.seconds,
               number(b_.count), b_.seconds, number(c_.count), c_.seconds);
  std::fprintf(file, "exchanges %llu %llu %llu\n", number(exchange_count_), number(message_count_),
               number(byte_count_));
  std::fprintf(file, "gpu %llu\n", number(kernels_seen_));
  std::fprintf(file, "stream %llu %.9g %.9g\n", number(replayed.exchanges), replayed.stream_seconds,
               replayed.enqueue_seconds);
  std::fprintf(file, "graph %.9g %.9g\n", replayed.graph_seconds, replayed.bare_seconds);
  const Pieces& pieces = replayed.pieces;
  std::fprintf(file, "pieces %.9g %.9g %.9g %.9g %.9g %.9g\n", pieces.alone, pieces.stream.in_a_row,
               pieces.stream.behind_wait, pieces.graph.in_a_row, pieces.graph.behind_wait,
               pieces.graph_enqueue);
  std::fprintf(file, "meeting %.9g\n", replayed.meeting);
  std::fprintf(file, "why_not %s\nwhy_no_meeting %s\n", replayed.why_not.c_str(),
               replayed.why_no_meeting.c_str());
  if (std::fclose(file) != 0)
    std::fprintf(stderr, "isthmus model: rank %d could not write all of %s\n", rank, name.c_str());
}

}  // namespace isthmus::observer
