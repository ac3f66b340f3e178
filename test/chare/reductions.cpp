// Every operation of reductions, every kind of target, and many reductions under way at a time.
#include <isthmus/chare.hpp>

#include "chare_check.h"

namespace chare = isthmus::chare;

namespace {

/// The two largest, by a class of the program.
struct TopTwo {
  int first = -1;
  int second = -1;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(first, second);
  }
};
struct MergeTops {
  void operator()(TopTwo& into, const TopTwo& other) const {
    for (const int each : {other.first, other.second})
      if (each > into.first)
        into.second = std::exchange(into.first, each);
      else if (each > into.second)
        into.second = each;
  }
};

constexpr int count = 23;
constexpr int rounds = 200;

class Part : public chare::Chare {
 public:
  int value() const { return static_cast<int>(index() * 7 % count); }
  void sum(const chare::Callback<int>& to) { contribute<chare::Sum>(value(), to); }
  void min(const chare::Callback<int>& to) { contribute<chare::Min>(value(), to); }
  void max(const chare::Callback<int>& to) { contribute<chare::Max>(value(), to); }
  void all(bool except, const chare::Callback<bool>& to) {
    contribute<chare::LogicalAnd>(!(except && value() == 5), to);
  }
  void any(bool with, const chare::Callback<bool>& to) {
    contribute<chare::LogicalOr>(with && value() == 5, to);
  }
  void vectors(const chare::Callback<std::vector<long>>& to) {
    contribute<chare::Sum>(std::vector<long>{1, value(), -value()}, to);
  }
  void own(const chare::Callback<TopTwo>& to) { contribute<MergeTops>(TopTwo{value(), -1}, to); }
  void barrier(const chare::Callback<>& to) { contribute(to); }
  void many(const chare::Callback<int>& to) {
    for (int round = 0; round < rounds; ++round)
      contribute<chare::Sum>(round * value(), to);
  }
  /// Of a reduction whose target is all of them.
  void hear(int sum) {
    CHECK_EQUAL(sum, count * (count - 1) / 2);
    contribute(chare::Callback<>(told_));
  }
  void tell_all(const chare::Callback<int>& to, const chare::Callback<>& told) {
    told_ = told;
    contribute<chare::Sum>(value(), to);
  }

 private:
  chare::Callback<> told_{};
};

/// Gets the results of `many`, in whatever order.
class Sink : public chare::Chare {
 public:
  void take(int sum) {
    CHECK_EQUAL(sum % (count * (count - 1) / 2), 0);
    total_ += sum;
    if (++taken_ == rounds) done_(total_);
  }
  void begin(const chare::Callback<long>& done) { done_ = done; }

 private:
  chare::Callback<long> done_{};
  int taken_ = 0;
  long total_ = 0;
};

int function_sum = 0;
chare::Callback<> function_done{};
void take_in_function(int sum) {
  function_sum = sum;
  CHECK_EQUAL(chare::rank(), chare::size() - 1);
  function_done();
}
void prepare_function(const chare::Callback<>& done, const chare::Callback<>& ready) {
  function_done = done;
  ready();
}

template <auto entry, class T, class... A>
chare::Task expect(chare::Array<Part> parts, chare::Future<> done, T expected, A... arguments) {
  const auto result = chare::Future<T>::make();
  parts.broadcast<entry>(arguments..., result.callback());
  CHECK(co_await result == expected);
  done.set();
}

chare::Task start() {
  const auto parts = chare::Array<Part>::create({count});
  constexpr int sum = count * (count - 1) / 2;
  const auto step = [&](auto run) {
    const auto done = chare::Future<>::make();
    run(done);
    return done;
  };
  co_await step([&](auto done) { expect<&Part::sum, int>(parts, done, sum); });
  co_await step([&](auto done) { expect<&Part::min, int>(parts, done, 0); });
  co_await step([&](auto done) { expect<&Part::max, int>(parts, done, count - 1); });
  co_await step([&](auto done) { expect<&Part::all, bool>(parts, done, true, false); });
  co_await step([&](auto done) { expect<&Part::all, bool>(parts, done, false, true); });
  co_await step([&](auto done) { expect<&Part::any, bool>(parts, done, false, false); });
  co_await step([&](auto done) { expect<&Part::any, bool>(parts, done, true, true); });
  co_await step([&](auto done) {
    expect<&Part::vectors, std::vector<long>>(parts, done, std::vector<long>{count, sum, -sum});
  });

  const auto tops = chare::Future<TopTwo>::make();
  parts.broadcast<&Part::own>(tops.callback());
  const TopTwo top = co_await tops;
  CHECK_EQUAL(top.first, count - 1);
  CHECK_EQUAL(top.second, count - 2);

  const auto come = chare::Future<>::make();
  parts.broadcast<&Part::barrier>(come.callback());
  co_await come;

  // An entry of one chare.
  const auto sink = chare::Array<Sink>::create({1});
  const auto total = chare::Future<long>::make();
  sink[0].invoke<&Sink::begin>(total.callback());
  parts.broadcast<&Part::many>(sink[0].callback<&Sink::take>());
  CHECK_EQUAL(co_await total, long{sum} * rounds * (rounds - 1) / 2);

  // An entry of all chares.
  const auto told = chare::Future<>::make();
  parts.broadcast<&Part::tell_all>(parts.broadcast_callback<&Part::hear>(), told.callback());
  co_await told;

  // A function.
  const auto ready = chare::Future<>::make();
  const auto called = chare::Future<>::make();
  chare::call<&prepare_function>(chare::size() - 1, called.callback(), ready.callback());
  co_await ready;
  parts.broadcast<&Part::sum>(chare::callback_function<&take_in_function>(chare::size() - 1));
  co_await called;
  chare::exit(0);
}

}  // namespace

int main() {
  return chare::run(start);
}
