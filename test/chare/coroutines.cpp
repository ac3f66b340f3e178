// Coroutines that await futures and the next message that fits; priorities.
#include <isthmus/chare.hpp>

#include <cmath>

#include "chare_check.h"

namespace chare = isthmus::chare;

namespace {

constexpr int steps = 50;

/// A ring of cells. Each step needs both neighbours' values of that step, whichever comes first, and cells
/// may be steps apart.
class Cell : public chare::Chare {
 public:
  explicit Cell(int count) : count_(count), value_(static_cast<double>(index())) {}

  chare::Inbox<int, bool, double> borders;

  chare::Task run(chare::Array<Cell> ring, chare::Callback<double> done) {
    const std::uint64_t left =
        (index() + static_cast<std::uint64_t>(count_) - 1) % static_cast<std::uint64_t>(count_);
    const std::uint64_t right = (index() + 1) % static_cast<std::uint64_t>(count_);
    for (int step = 0; step < steps; ++step) {
      ring[left].invoke<&Cell::borders>(step, false, value_);
      ring[right].invoke<&Cell::borders>(step, true, value_);
      const auto [from, is_left, first] = co_await borders.next(
          [step](int at, bool is_left_one, double) { return at == step && !is_left_one; });
      const auto [its_step, its_left, second] = co_await borders.next(
          [step](int at, bool is_left_one, double) { return at == step && is_left_one; });
      CHECK(from == step && its_step == step && !is_left && its_left);
      value_ = (first + second + value_) / 3;
    }
    CHECK_EQUAL(borders.size(), 0);
    contribute<chare::Sum>(value_, done);
  }

 private:
  int count_;
  double value_;
};

/// Awaits an answer of another process.
class Asker : public chare::Chare {
 public:
  chare::Task ask(chare::Group<Asker> all, chare::Callback<int> done) {
    int sum = 0;
    for (std::uint32_t i = 0; i < chare::size(); ++i) {
      const auto answer = chare::Future<int>::make();
      all[i].invoke<&Asker::answer>(static_cast<int>(index()), answer.callback());
      sum += co_await answer;
    }
    contribute<chare::Sum>(sum, done);
  }
  void answer(int from, const chare::Callback<int>& to) { to(from * 100 + static_cast<int>(index())); }
};

/// Writes down what it is called with.
class Listener : public chare::Chare {
 public:
  void begin(const chare::Proxy<Listener>& self) {
    // Nothing of these is done before this entry ends.
    self.invoke<&Listener::hear>(3);
    self.with_priority(10).invoke<&Listener::hear>(5);
    self.with_priority(-1).invoke<&Listener::hear>(2);
    self.with_priority(-7).invoke<&Listener::hear>(1);
    self.with_priority(10).invoke<&Listener::hear>(6);
    self.invoke<&Listener::hear>(4);
  }
  void hear(int number) { heard_.push_back(number); }
  void tell(const chare::Callback<std::vector<int>>& to) { to(heard_); }

 private:
  std::vector<int> heard_;
};

chare::Task start() {
  const int count = 17;
  const auto ring = chare::Array<Cell>::create({count}, count);
  const auto sum = chare::Future<double>::make();
  ring.broadcast<&Cell::run>(ring, sum.callback());
  CHECK(std::abs(co_await sum - count * (count - 1) / 2.0) < 1e-9);

  const auto askers = chare::Group<Asker>::create();
  const auto answers = chare::Future<int>::make();
  askers.broadcast<&Asker::ask>(askers, answers.callback());
  const int n = static_cast<int>(chare::size());
  CHECK_EQUAL(co_await answers, 101 * n * (n * (n - 1) / 2));

  const auto listeners = chare::Group<Listener>::create();
  const auto listener = listeners[chare::size() - 1];
  listener.invoke<&Listener::begin>(listener);
  const auto quiet = chare::Future<>::make();
  chare::quiescence(quiet.callback());
  co_await quiet;
  const auto heard = chare::Future<std::vector<int>>::make();
  listener.invoke<&Listener::tell>(heard.callback());
  const std::vector<int> numbers = co_await heard;
  CHECK_EQUAL(numbers.size(), 6);
  for (int i = 0; i < 6; ++i)
    CHECK_EQUAL(numbers[static_cast<std::size_t>(i)], i + 1);
  chare::exit(0);
}

}  // namespace

int main() {
  return chare::run(start);
}
