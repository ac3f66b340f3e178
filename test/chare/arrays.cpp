// Arrays of one to three dimensions, and by key with insertion at run time; chares that end.
#include <isthmus/chare.hpp>

#include <string>

#include "chare_check.h"

namespace chare = isthmus::chare;

namespace {

template <std::size_t dimensions>
class Point : public chare::Chare {
 public:
  explicit Point(const std::array<std::uint64_t, dimensions>& extents) : extents_(extents) {}
  void weigh(const chare::Callback<std::uint64_t>& to) {
    const auto at = coordinates<dimensions>();
    std::uint64_t weight = 0;
    for (std::size_t i = 0; i < dimensions; ++i) {
      CHECK(at[i] < extents_[i]);
      weight = weight * 1000 + at[i];
    }
    contribute<chare::Sum>(weight, to);
  }
  void is_at(const std::array<std::uint64_t, dimensions>& expected, const chare::Callback<>& answer) {
    CHECK(coordinates<dimensions>() == expected);
    answer();
  }

 private:
  std::array<std::uint64_t, dimensions> extents_;
};

template <std::size_t dimensions, class... I>
chare::Task walk(chare::Future<> all_done, std::array<std::uint64_t, dimensions> extents,
                 std::uint64_t expected) {
  const auto points = chare::Array<Point<dimensions>, dimensions>::create(extents, extents);
  const auto total = chare::Future<std::uint64_t>::make();
  points.template broadcast<&Point<dimensions>::weigh>(total.callback());
  CHECK_EQUAL(co_await total, expected);
  std::array<std::uint64_t, dimensions> last = extents;
  for (auto& each : last)
    --each;
  const auto answer = chare::Future<>::make();
  std::apply(
      [&](auto... at) { points(at...).template invoke<&Point<dimensions>::is_at>(last, answer.callback()); },
      last);
  co_await answer;
  all_done.set();
}

/// One by key, that counts what it has been told.
class Word : public chare::Chare {
 public:
  explicit Word(std::string text) : text_(std::move(text)) {}
  void tell(const std::string& text) {
    CHECK(text == text_);
    ++told_;
  }
  void sum(const chare::Callback<int>& to) { contribute<chare::Sum>(told_, to); }
  void count_and_end(const chare::Callback<int>& to, bool ends) {
    contribute<chare::Sum>(1, to);
    if (ends && text_.size() % 2 == 0) destroy();
  }

 private:
  std::string text_;
  int told_ = 0;
};

std::string word(int i) {
  return std::string(static_cast<std::size_t>(i % 40), 'a') + std::to_string(i);
}

constexpr int words_of_each = 50;

/// Each process inserts words of its own, and tells those of all.
class Writer : public chare::Chare {
 public:
  void write(const chare::Map<Word, std::string>& words, const chare::Callback<>& done) {
    const int first = static_cast<int>(index()) * words_of_each;
    for (int i = 0; i < static_cast<int>(chare::size()) * words_of_each; ++i)
      words[word(i)].invoke<&Word::tell>(word(i));
    for (int i = first; i < first + words_of_each; ++i)
      if (i % 3 == 0)
        words.insert_in(static_cast<std::uint32_t>(i) % chare::size(), word(i), word(i));
      else
        words.insert(word(i), word(i));
    contribute(done);
  }
};

chare::Task write_words(chare::Future<> all_done) {
  const auto words = chare::Map<Word, std::string>::create();
  const auto writers = chare::Group<Writer>::create();
  const auto written = chare::Future<>::make();
  // A writer may be asked before it has heard of the map.
  const auto quiet = chare::Future<>::make();
  chare::quiescence(quiet.callback());
  co_await quiet;
  writers.broadcast<&Writer::write>(words, written.callback());
  co_await written;
  words.done_inserting();
  // Broadcasts reach what is there: all, when everything has arrived.
  const auto quiet_again = chare::Future<>::make();
  chare::quiescence(quiet_again.callback());
  co_await quiet_again;
  const int all = static_cast<int>(chare::size()) * words_of_each;
  const auto told = chare::Future<int>::make();
  words.broadcast<&Word::sum>(told.callback());
  CHECK_EQUAL(co_await told, all * static_cast<int>(chare::size()));
  int odd = 0;
  for (int i = 0; i < all; ++i)
    odd += static_cast<int>(word(i).size() % 2);
  for (const int expected : {all, odd, odd}) {
    const auto counted = chare::Future<int>::make();
    words.broadcast<&Word::count_and_end>(counted.callback(), true);
    CHECK_EQUAL(co_await counted, expected);
  }
  all_done.set();
}

chare::Task start() {
  const auto one = chare::Future<>::make();
  walk<1>(one, {37}, 36 * 37 / 2);
  const auto two = chare::Future<>::make();
  walk<2>(two, {4, 5}, (0 + 1 + 2 + 3) * 5 * 1000 + (0 + 1 + 2 + 3 + 4) * 4);
  const auto three = chare::Future<>::make();
  walk<3>(three, {2, 3, 4}, 1 * 12 * 1000000 + 3 * 8 * 1000 + 6 * 6);
  const auto few = chare::Future<>::make();  // fewer than processes
  walk<1>(few, {1}, 0);
  const auto words = chare::Future<>::make();
  write_words(words);
  co_await one;
  co_await two;
  co_await three;
  co_await few;
  co_await words;
  chare::exit(0);
}

}  // namespace

int main() {
  return chare::run(start);
}
