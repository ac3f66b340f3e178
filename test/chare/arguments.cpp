// What arguments may be: own classes, containers, long data; within a process they are moved, not copied.
#include <isthmus/chare.hpp>

#include <map>
#include <memory>
#include <set>
#include <unordered_map>

#include "chare_check.h"

namespace chare = isthmus::chare;

namespace {

std::uint32_t number(std::size_t i) {
  return static_cast<std::uint32_t>(i * 2654435761u);
}

struct Body {
  std::string name;
  std::array<double, 3> position{};
  std::map<std::string, std::vector<int>> tables;
  std::optional<std::pair<int, std::string>> mark;
  std::unique_ptr<int> owned;
  std::unordered_map<int, std::set<long>> sets;
  std::vector<std::tuple<bool, char>> flags;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(name, position, tables, mark, owned, sets, flags);
  }
};

Body make_body() {
  Body body;
  body.name = "a body";
  body.position = {1, 2, 3};
  body.tables["even"] = {0, 2, 4};
  body.tables["none"] = {};
  body.mark.emplace(7, "seven");
  body.owned = std::make_unique<int>(42);
  body.sets[3] = {1, 2, 3};
  body.flags = {{true, 'x'}, {false, 'y'}};
  return body;
}
void check_body(const Body& body) {
  const Body expected = make_body();
  CHECK(body.name == expected.name && body.position == expected.position && body.tables == expected.tables);
  CHECK(body.mark == expected.mark && body.owned && *body.owned == 42);
  CHECK(body.sets == expected.sets && body.flags == expected.flags);
}

class Taker : public chare::Chare {
 public:
  void take(Body body, const chare::Callback<>& done) {
    check_body(body);
    done();
  }
  /// `address`: where the data was when it was given; 0: in another process.
  void take_long(std::vector<std::uint32_t>&& data, std::uint64_t address, const chare::Callback<>& done) {
    for (std::size_t i = 0; i < data.size(); ++i)
      if (data[i] != number(i)) CHECK_EQUAL(data[i], number(i));
    if (address != 0) CHECK_EQUAL(reinterpret_cast<std::uint64_t>(data.data()), address);
    done();
  }
  /// Numbers are converted as in any call.
  void convert(double number, const std::string& text, const chare::Callback<>& done) {
    CHECK(number == 3.0 && text == "text");
    done();
  }
};

std::vector<std::uint32_t> numbers(std::size_t count) {
  std::vector<std::uint32_t> made(count);
  for (std::size_t i = 0; i < count; ++i)
    made[i] = number(i);
  return made;
}

chare::Task start() {
  const auto takers = chare::Group<Taker>::create();
  for (std::uint32_t to = 0; to < chare::size(); ++to) {
    const auto taken = chare::Future<>::make();
    takers[to].invoke<&Taker::take>(make_body(), taken.callback());
    co_await taken;
    const auto converted = chare::Future<>::make();
    takers[to].invoke<&Taker::convert>(3, "text", converted.callback());
    co_await converted;
    // Around the sizes at which another way is taken, and several at a time.
    for (const std::size_t count :
         {std::size_t{0}, std::size_t{1}, std::size_t{100}, std::size_t{2000}, std::size_t{2030},
          std::size_t{2048}, std::size_t{5000}, std::size_t{3000000}}) {
      std::vector<chare::Future<>> all;
      for (int i = 0; i < 3; ++i) {
        all.push_back(chare::Future<>::make());
        auto data = numbers(count);
        const std::uint64_t address =
            to == chare::rank() && count != 0 ? reinterpret_cast<std::uint64_t>(data.data()) : 0;
        takers[to].invoke<&Taker::take_long>(std::move(data), address, all.back().callback());
      }
      for (const auto& each : all)
        co_await each;
    }
  }
  chare::exit(0);
}

}  // namespace

int main() {
  return chare::run(start);
}
