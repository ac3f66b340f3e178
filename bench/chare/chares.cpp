// What chares cost: the table of docs/chares.md. Each line is the best of the blocks, and their median.
//
//     mpiexec -n 1 chares; mpiexec -n 2 chares
#include <isthmus/chare.hpp>

#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

namespace chare = isthmus::chare;

namespace {

using Clock = std::chrono::steady_clock;

constexpr int blocks = 21;

double microseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

void print(const char* what, std::vector<double> microseconds) {
  std::ranges::sort(microseconds);
  std::printf("%d  %-46s %10.3f %10.3f us\n", static_cast<int>(chare::size()), what, microseconds.front(),
              microseconds[microseconds.size() / 2]);
  std::fflush(stdout);
}

/// Two of them throw something to each other.
class Player : public chare::Chare {
 public:
  void hit(std::uint64_t left, const chare::Proxy<Player>& other, const chare::Callback<>& done) {
    if (left == 0) return done();
    other.invoke<&Player::hit>(left - 1, this_proxy<Player>(), done);
  }
  void meet(const chare::Proxy<Player>& other) { other_ = other; }
  void short_hit(std::uint64_t left) {
    if (left == 0) return done_();
    other_.invoke<&Player::short_hit>(left - 1);
  }
  void end_at(const chare::Callback<>& done) { done_ = done; }
  void long_hit(int left, std::vector<char> data) {
    if (left == 0) return done_();
    other_.invoke<&Player::long_hit>(left - 1, std::move(data));
  }
  void take(std::uint64_t) {
    if (++taken_ == wanted_) {
      taken_ = 0;
      done_();
    }
  }
  void want(int count) { wanted_ = count; }

 private:
  chare::Proxy<Player> other_;
  chare::Callback<> done_{};
  int taken_ = 0;
  int wanted_ = 0;
};

class Counter : public chare::Chare {
 public:
  void count(const chare::Callback<std::uint64_t>& done) { contribute<chare::Sum>(std::uint64_t{1}, done); }
};

/// Goes to and fro between the first and the last process.
class Traveller : public chare::Chare {
 public:
  Traveller() = default;
  explicit Traveller(std::size_t bytes) : luggage_(bytes) {}
  template <class Archive>
  void serialize(Archive& archive) {
    archive(luggage_);
  }
  void travel(int left, const chare::Callback<>& done) {
    if (left == 0) return done();
    // It is sent behind the chare: invocations follow.
    this_proxy<Traveller>().invoke<&Traveller::travel>(left - 1, done);
    migrate(chare::rank() == 0 ? chare::size() - 1 : 0);
  }

 private:
  std::vector<char> luggage_;
};

class Empty : public chare::Chare {};

/// One of 64, the first half of which have 4 times the work: 0.1 ms and 0.4.
class Unequal : public chare::Chare {
 public:
  Unequal() = default;
  Unequal(std::size_t bytes, std::uint64_t turns)
      : luggage_(bytes), turns_(index() < 32 ? 4 * turns : turns) {}
  template <class Archive>
  void serialize(Archive& archive) {
    archive(luggage_, turns_, done_);
  }
  static std::uint64_t work(std::uint64_t turns) {
    volatile std::uint64_t x = 1;
    for (std::uint64_t i = 0; i < turns; ++i)
      x = x * 3 + i;
    return x;
  }
  void iterate(const chare::Callback<std::uint64_t>& done) { contribute<chare::Sum>(work(turns_), done); }
  template <auto balancer>
  void sync(const chare::Callback<>& done) {
    done_ = done;
    at_sync<&Unequal::go_on, balancer>();
  }
  void go_on() { contribute(done_); }
  void destroy_now() { destroy(); }

 private:
  std::vector<char> luggage_;
  std::uint64_t turns_ = 0;
  chare::Callback<> done_{};
};

/// An iteration before and after balancing, and the balancing itself, each time from the beginning.
template <auto balancer>
chare::Task balance(const char* name, chare::Callback<> finished) {
  constexpr std::uint64_t many_turns = 10000000;
  static_cast<void>(Unequal::work(many_turns));
  const auto calibration = Clock::now();
  static_cast<void>(Unequal::work(many_turns));
  const auto turns = static_cast<std::uint64_t>(many_turns * 100 / microseconds_since(calibration));
  std::vector<double> before;
  std::vector<double> step;
  std::vector<double> after;
  for (int block = 0; block < blocks; ++block) {
    const auto chares = chare::Array<Unequal>::create({64}, std::size_t{1} << 20, turns);
    for (const auto times : {&before, &after}) {
      for (int i = 0; i < 3; ++i) {
        const auto done = chare::Future<std::uint64_t>::make();
        const auto begin = Clock::now();
        chares.broadcast<&Unequal::iterate>(done.callback());
        static_cast<void>(co_await done);
        if (i != 0) times->push_back(microseconds_since(begin));
      }
      if (times == &after) break;
      const auto done = chare::Future<>::make();
      const auto begin = Clock::now();
      chares.broadcast<&Unequal::sync<balancer>>(done.callback());
      co_await done;
      step.push_back(microseconds_since(begin));
    }
    chares.broadcast<&Unequal::destroy_now>();
    const auto quiet = chare::Future<>::make();
    chare::quiescence(quiet.callback());
    co_await quiet;
  }
  std::printf("%s\n", name);
  print("64 chares, half of them with 4 x: an iteration", before);
  print("balancing them, 1 MiB each", step);
  print("an iteration then", after);
  finished();
}

chare::Task measure(chare::Array<Player> players) {
  const std::uint64_t turns = 2000;
  players[0].invoke<&Player::meet>(players[1]);
  players[1].invoke<&Player::meet>(players[0]);
  std::vector<double> times;
  auto quiet = chare::Future<>::make();
  chare::quiescence(quiet.callback());
  co_await quiet;

  for (int block = 0; block < blocks; ++block) {
    const auto done = chare::Future<>::make();
    players[0].invoke<&Player::end_at>(done.callback());
    const auto begin = Clock::now();
    players[0].invoke<&Player::short_hit>(turns);
    co_await done;
    times.push_back(microseconds_since(begin) / static_cast<double>(turns));
  }
  print("entry method, 8 B, one way", std::exchange(times, {}));

  for (int block = 0; block < blocks; ++block) {
    const auto done = chare::Future<>::make();
    players[0].invoke<&Player::end_at>(done.callback());
    const auto begin = Clock::now();
    players[0].invoke<&Player::long_hit>(20, std::vector<char>(1 << 20));
    co_await done;
    times.push_back(microseconds_since(begin) / 20);
  }
  print("entry method, 1 MiB, one way", std::exchange(times, {}));

  constexpr int under_way = 1000;
  players[1].invoke<&Player::want>(under_way);
  for (int block = 0; block < blocks; ++block) {
    const auto done = chare::Future<>::make();
    players[1].invoke<&Player::end_at>(done.callback());
    const auto begin = Clock::now();
    for (std::uint64_t i = 0; i < under_way; ++i)
      players[1].invoke<&Player::take>(i);
    co_await done;
    times.push_back(microseconds_since(begin) / under_way);
  }
  print("an invocation, 1000 under way", std::exchange(times, {}));

  const auto counters = chare::Array<Counter>::create({10000});
  for (int block = 0; block < blocks; ++block) {
    const auto done = chare::Future<std::uint64_t>::make();
    const auto begin = Clock::now();
    counters.broadcast<&Counter::count>(done.callback());
    if (co_await done != 10000) std::abort();
    times.push_back(microseconds_since(begin));
  }
  print("10^4 chares: broadcast and sum", std::exchange(times, {}));

  for (int block = 0; block < blocks; ++block) {
    const auto begin = Clock::now();
    quiet = chare::Future<>::make();
    chare::quiescence(quiet.callback());
    co_await quiet;
    times.push_back(microseconds_since(begin));
  }
  print("quiescence", std::exchange(times, {}));

  if (chare::size() > 1)
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{1} << 20}) {
      const auto travellers = chare::Array<Traveller>::create({1}, bytes);
      const int moves = bytes == 0 ? 1000 : 20;
      for (int block = 0; block < blocks; ++block) {
        const auto done = chare::Future<>::make();
        const auto begin = Clock::now();
        travellers[0].invoke<&Traveller::travel>(moves, done.callback());
        co_await done;
        times.push_back(microseconds_since(begin) / moves);
      }
      print(bytes == 0 ? "a chare moves, and an invocation follows it" : "the same with 1 MiB",
            std::exchange(times, {}));
    }

  if (chare::size() > 1) {
    const auto greedy = chare::Future<>::make();
    balance<&chare::greedy>("greedy", greedy.callback());
    co_await greedy;
    const auto refine = chare::Future<>::make();
    balance<&chare::refine>("refine", refine.callback());
    co_await refine;
  }

  constexpr std::uint64_t many = 1000000;
  for (int block = 0; block < 5; ++block) {
    const std::size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
    const auto begin = Clock::now();
    const auto all = chare::Array<Empty>::create({many * chare::size()});
    times.push_back(microseconds_since(begin) / many);
    const std::size_t after = mallinfo2().uordblks + mallinfo2().hblkhd;
    if (block == 0)
      std::printf("%d  %-46s %10zu B (of which %zu are the object)\n", static_cast<int>(chare::size()),
                  "10^6 chares: memory of each", (after - before) / many, sizeof(Empty));
    static_cast<void>(all);
  }
  print("10^6 chares in a process: creation of each", std::exchange(times, {}));
  chare::exit(0);
}

}  // namespace

int main() {
  return chare::run([] { return measure(chare::Array<Player>::create({2})); });
}
