// Sections: some chares of an array, a map or a group as one, also while they move.
#include <isthmus/chare.hpp>

#include <string>
#include <vector>

#include "chare_check.h"

namespace chare = isthmus::chare;

namespace {

class Cell : public chare::Chare {
 public:
  Cell() = default;
  explicit Cell(int value) : value_(value) {}
  template <class Archive>
  void serialize(Archive& archive) {
    archive(value_, told_, section_);
  }
  void hear(const std::string& text, int by) {
    CHECK(text == "all of you");
    told_ += by;
  }
  void join(const chare::Section<Cell>& section) { section_ = section; }
  void give(int times, const chare::Callback<std::vector<int>>& to) {
    for (int i = 0; i < times; ++i)
      section_.contribute<chare::Sum>(std::vector<int>{1, value_, told_}, to);
  }
  void move(std::uint32_t to) { migrate(to); }
  void count(const chare::Callback<int>& to) { contribute<chare::Sum>(told_, to); }

 private:
  int value_ = 0;
  int told_ = 0;
  chare::Section<Cell> section_;
};

// Lists of values in a coroutine are too much for g++ 12.
std::vector<std::string> keys() {
  return {"key 3", "key 29", "key 11"};
}
std::vector<std::array<std::uint64_t, 2>> row_of(std::uint64_t row) {
  std::vector<std::array<std::uint64_t, 2>> members;
  for (std::uint64_t column = 0; column < 5; ++column)
    members.push_back({row, column});
  return members;
}

chare::Task quiet(chare::Callback<> then) {
  const auto now = chare::Future<>::make();
  chare::quiescence(now.callback());
  co_await now;
  then();
}

/// Of four reductions.
void take(const std::vector<int>& value) {
  static int results = 0;
  CHECK((value == std::vector<int>{1, 7, 0}));
  if (++results == 4) chare::exit(0);
}

chare::Task start() {
  const auto cells = chare::Array<Cell, 2>::create({8, 5}, 3);
  std::vector<chare::Section<Cell>> sections;
  for (std::uint64_t row = 0; row < 8; row += 2) {
    sections.push_back(chare::Section<Cell>::of(cells, row_of(row)));
    CHECK_EQUAL(sections.back().size(), 5);
    sections.back().broadcast<&Cell::join>(sections.back());
  }
  auto now = chare::Future<>::make();
  quiet(now.callback());
  co_await now;
  for (std::size_t i = 0; i < sections.size(); ++i)
    sections[i].broadcast<&Cell::hear>("all of you", static_cast<int>(i) + 1);
  now = chare::Future<>::make();
  quiet(now.callback());
  co_await now;
  for (int round = 0; round < 3; ++round) {
    // While some of them move, and between.
    for (std::uint64_t column = 0; column < 5; column += 2)
      cells(2, column).invoke<&Cell::move>(static_cast<std::uint32_t>((column + round) % chare::size()));
    for (std::size_t i = 0; i < sections.size(); ++i) {
      const auto sum = chare::Future<std::vector<int>>::make();
      sections[i].broadcast<&Cell::give>(1, sum.callback());
      const auto found = co_await sum;
      CHECK_EQUAL(found.size(), 3);
      CHECK_EQUAL(found[0], 5);
      CHECK_EQUAL(found[1], 15);
      CHECK_EQUAL(found[2], 5 * static_cast<int>(i + 1));
    }
  }
  // The others have heard nothing.
  const auto told = chare::Future<int>::make();
  cells.broadcast<&Cell::count>(told.callback());
  CHECK_EQUAL(co_await told, 5 * (1 + 2 + 3 + 4));
  for (const auto& section : sections)
    section.destroy();

  const auto map = chare::Map<Cell, std::string>::create();
  for (int i = 0; i < 30; ++i)
    map.insert("key " + std::to_string(i), i);
  const auto some = chare::Section<Cell>::of(map, keys());
  some.broadcast<&Cell::join>(some);
  now = chare::Future<>::make();
  quiet(now.callback());
  co_await now;
  const auto of_map = chare::Future<std::vector<int>>::make();
  some.broadcast<&Cell::give>(1, of_map.callback());
  const auto found = co_await of_map;
  CHECK_EQUAL(found[0], 3);
  CHECK_EQUAL(found[1], 43);

  // Several reductions of one section at a time.
  const auto group = chare::Group<Cell>::create(7);
  const auto last = chare::Section<Cell>::of(group, std::vector<std::uint32_t>(1, chare::size() - 1));
  last.broadcast<&Cell::join>(last);
  now = chare::Future<>::make();
  quiet(now.callback());
  co_await now;
  last.broadcast<&Cell::give>(4, chare::callback_function<&take>(0));
}

}  // namespace

int main() {
  return chare::run(start);
}
