// Chares are balanced: those that come to it by themselves, round after round with other loads, while they
// are invoked; and those that somebody else balances, wherever they are. What the balancer gets is what was
// measured, or what the program has said.
#include <isthmus/chare.hpp>

#include "chare_check.h"

#include <algorithm>
#include <chrono>
#include <numeric>

namespace chare = isthmus::chare;

namespace {

constexpr std::uint64_t count = 64;
constexpr int rounds = 12;

/// What each process has of the load.
double largest(std::span<const chare::Load> chares, std::uint32_t processes) {
  std::vector<double> sums(processes);
  for (const chare::Load& each : chares)
    sums.at(each.to) += each.seconds;
  return std::ranges::max(sums);
}

int balancings = 0;
double total = 0;  ///< of the last balancing
double worst = 0;  ///< after it
void watched(std::span<chare::Load> chares, std::uint32_t processes) {
  if (++balancings % 2 == 0)
    chare::greedy(chares, processes);
  else
    chare::refine(chares, processes);
  total = std::accumulate(chares.begin(), chares.end(), 0.0,
                          [](double sum, const chare::Load& each) { return sum + each.seconds; });
  worst = largest(chares, processes);
}

/// Everybody goes to the next process.
void around(std::span<chare::Load> chares, std::uint32_t processes) {
  for (chare::Load& each : chares)
    if (each.is_fixed == 0) each.to = (each.rank + 1) % processes;
}

/// Half of them have 4 times the work, and other ones in each round.
class Worker : public chare::Chare {
 public:
  Worker() = default;
  explicit Worker(std::size_t bytes) : data_(bytes, static_cast<char>('a' + index() % 26)) {}
  template <class Archive>
  void serialize(Archive& archive) {
    archive(data_, round_, visits_, places_, done_);
  }

  void begin(const chare::Callback<std::vector<double>>& done) {
    done_ = done;
    work();
  }
  void visit() { ++visits_; }
  void count_visits(const chare::Callback<std::uint64_t>& to) { contribute<chare::Sum>(visits_, to); }
  void work() {
    std::vector<double> loads(chare::size());
    const double load = (index() / 32 + static_cast<unsigned>(round_)) % 2 == 0 ? 4 : 1;
    // In the end: what each process has, with the load that it was balanced for.
    if (round_ == rounds) {
      loads[chare::rank()] = (index() / 32 + static_cast<unsigned>(round_ - 1)) % 2 == 0 ? 4 : 1;
      CHECK_EQUAL(std::ranges::count(data_, static_cast<char>('a' + index() % 26)), data_.size());
      return contribute<chare::Sum>(loads, done_);
    }
    ++round_;
    set_load(load);
    at_sync<&Worker::work, &watched>();
    this_proxy<Worker>().invoke<&Worker::visit>();
  }
  /// By somebody else; the number of moves that were due.
  void where(const chare::Callback<std::uint64_t>& to) {
    const std::uint64_t here = places_.empty() ? index() * chare::size() / count : places_.back();
    const bool is_next = places_.empty() || chare::rank() == (here + 1) % chare::size();
    places_.push_back(chare::rank());
    contribute<chare::Sum>(std::uint64_t{is_next ? 1U : 0U}, to);
  }

 private:
  std::vector<char> data_;
  int round_ = 0;
  std::uint64_t visits_ = 0;
  std::vector<std::uint64_t> places_;
  chare::Callback<std::vector<double>> done_{};
};

/// With chares that cannot move now.
class Sleeper : public chare::Chare {
 public:
  chare::Task sleep(chare::Callback<> asleep, chare::Callback<> awake) {
    const std::uint32_t was = chare::rank();
    contribute(asleep);
    static_cast<void>(co_await wake.next());
    CHECK_EQUAL(chare::rank(), was);
    contribute(awake);
  }
  template <class Archive>
  void serialize(Archive& archive) {
    archive(wake);
  }
  chare::Inbox<int> wake;
};

using Clock = std::chrono::steady_clock;
void spin(double seconds) {
  const auto begin = Clock::now();
  while (std::chrono::duration<double>(Clock::now() - begin).count() < seconds) {
  }
}

Clock::time_point measured_since;
constexpr double work_each = 0.002;
void look(std::span<chare::Load> chares, std::uint32_t) {
  CHECK_EQUAL(chares.size(), 8);
  double all = 0;
  for (const chare::Load& each : chares) {
    all += each.seconds;
    if (each.index.low == 7)
      CHECK_EQUAL(each.seconds, 3.5);
    else
      CHECK(each.seconds >= work_each * static_cast<double>(each.index.low));
  }
  // Nothing is counted twice, although a coroutine goes on inside the entry that wakes it.
  CHECK(all - 3.5 <= std::chrono::duration<double>(Clock::now() - measured_since).count() * chare::size());
}

class Measured : public chare::Chare {
 public:
  Measured() = default;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(wake, done_);
  }
  void work(const chare::Callback<>& done) {
    done_ = done;
    if (index() == 7) set_load(3.5);
    spin(work_each * static_cast<double>(index()) / 2);
    rest();
    wake.put({1});
  }
  void go_on() { contribute(done_); }
  chare::Inbox<int> wake;

 private:
  chare::Task rest() {
    static_cast<void>(co_await wake.next());
    spin(work_each * static_cast<double>(index()) / 2);
    at_sync<&Measured::go_on, &look>();
  }
  chare::Callback<> done_{};
};

/// Chares with keys, some of which have ended.
class Keyed : public chare::Chare {
 public:
  Keyed() = default;
  explicit Keyed(std::uint64_t key) : key_(key) {}
  template <class Archive>
  void serialize(Archive& archive) {
    archive(key_, done_);
  }
  void sync(const chare::Callback<std::uint64_t>& done) {
    done_ = done;
    if (key_ % 5 == 0) return destroy();
    at_sync<&Keyed::tell>();
  }
  void tell() { contribute<chare::Sum>(key_, done_); }

 private:
  std::uint64_t key_ = 0;
  chare::Callback<std::uint64_t> done_{};
};

chare::Task start() {
  const double heaviest = 4;
  {
    const auto workers = chare::Array<Worker>::create({count}, std::size_t{20000});
    const auto sums = chare::Future<std::vector<double>>::make();
    workers.broadcast<&Worker::begin>(sums.callback());
    const std::vector<double> loads = co_await sums;
    CHECK_EQUAL(balancings, rounds);
    CHECK_EQUAL(total, 160);
    // All of one weight in pairs: what is left over is less than one chare.
    CHECK(worst < 160.0 / chare::size() + heaviest);
    CHECK_EQUAL(std::accumulate(loads.begin(), loads.end(), 0.0), 160);
    CHECK_EQUAL(std::ranges::max(loads), worst);
    const auto visits = chare::Future<std::uint64_t>::make();
    workers.broadcast<&Worker::count_visits>(visits.callback());
    CHECK_EQUAL(co_await visits, count * rounds);
    // Two moves in their lives, told by nobody of their own.
    for (int i = 0; i < 3; ++i) {
      const auto moved = chare::Future<std::uint64_t>::make();
      workers.broadcast<&Worker::where>(moved.callback());
      CHECK_EQUAL(co_await moved, count);
      const auto done = chare::Future<>::make();
      workers.balance<&around>(done.callback());
      co_await done;
    }
  }
  {
    const auto sleepers = chare::Array<Sleeper, 2>::create({3, 4});
    const auto asleep = chare::Future<>::make();
    const auto awake = chare::Future<>::make();
    sleepers.broadcast<&Sleeper::sleep>(asleep.callback(), awake.callback());
    co_await asleep;
    const auto done = chare::Future<>::make();
    sleepers.balance<&around>(done.callback());
    co_await done;
    sleepers.broadcast<&Sleeper::wake>(1);
    co_await awake;
  }
  {
    measured_since = Clock::now();
    const auto measured = chare::Array<Measured>::create({8});
    const auto done = chare::Future<>::make();
    measured.broadcast<&Measured::work>(done.callback());
    co_await done;
  }
  {
    const auto keyed = chare::Map<Keyed>::create();
    for (std::uint64_t key = 0; key < 40; ++key)
      keyed.insert_in(0, key, key);
    keyed.done_inserting();
    const auto told = chare::Future<std::uint64_t>::make();
    for (std::uint64_t key = 0; key < 40; ++key)
      keyed[key].invoke<&Keyed::sync>(told.callback());
    CHECK_EQUAL(co_await told, 780 - 140);
  }
  chare::exit(0);
}

}  // namespace

int main() {
  return chare::run(start);
}
