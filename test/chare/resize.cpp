// Chares in fewer processes than there are, and in more again: right afterwards everything works as if it had
// always been so, and nothing lives where it should not.
#include <isthmus/chare.hpp>

#include "chare_check.h"

#include <string>
#include <vector>

namespace chare = isthmus::chare;

namespace {

constexpr std::uint64_t count = 50;
constexpr std::uint64_t keys = 30;

/// Of an array, or a map.
class Cell : public chare::Chare {
 public:
  Cell() = default;
  explicit Cell(std::uint64_t seed) : state_(seed) {}
  template <class Archive>
  void serialize(Archive& archive) {
    archive(state_, told_, mail);
  }
  void add(std::uint64_t value) { state_ += value; }
  void tell(const chare::Callback<std::uint64_t>& to) { contribute<chare::Sum>(state_, to); }
  void where(const chare::Callback<std::uint64_t>& to) {
    contribute<chare::Max>(std::uint64_t{chare::rank()}, to);
  }
  /// How many are in each process.
  void spread(const chare::Callback<std::vector<std::uint64_t>>& to) {
    std::vector<std::uint64_t> here(chare::processes());
    here[chare::rank()] = 1;
    contribute<chare::Sum>(here, to);
  }
  void wander() { migrate(static_cast<std::uint32_t>((index() * 7 + state_) % chare::size())); }
  void sync(const chare::Callback<>& to) {
    told_ = to;
    set_load(static_cast<double>(1 + index() % 3));
    at_sync<&Cell::go_on, &chare::greedy>();
  }
  void go_on() { contribute(told_); }
  chare::Task wait() { static_cast<void>(co_await mail.next()); }
  chare::Inbox<int> mail;

 private:
  std::uint64_t state_ = 0;
  chare::Callback<> told_{};
};

/// Of a group.
class Branch : public chare::Chare {
 public:
  Branch() = default;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(sum_);
  }
  void add(std::uint64_t value) { sum_ += value; }
  void add_to_all(const chare::Array<Cell>& cells, const chare::Map<Cell>& map) {
    CHECK(chare::rank() < chare::size() && index() == chare::rank());
    for (std::uint64_t i = 0; i < count; ++i)
      cells[i].invoke<&Cell::add>(1);
    for (std::uint64_t i = 0; i < keys; ++i)
      map[i].invoke<&Cell::add>(1);
  }
  void tell(const chare::Callback<std::vector<std::uint64_t>>& to) {
    contribute<chare::Sum>(std::vector<std::uint64_t>{1, sum_}, to);
  }

 private:
  std::uint64_t sum_ = 0;
};

/// Of a node group.
class Store : public chare::Chare {
 public:
  Store() = default;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(sum_);
  }
  void add(std::uint64_t value) { sum_ += value; }
  void tell(const chare::Callback<std::vector<std::uint64_t>>& to) {
    contribute<chare::Sum>(std::vector<std::uint64_t>{1, sum_}, to);
  }

 private:
  std::uint64_t sum_ = 0;
};

/// A group whose class cannot be written.
class Plain : public chare::Chare {
 public:
  void end() { destroy(); }
};

std::uint64_t expected_cells = 0;
std::uint64_t expected_keys = 0;
std::uint64_t expected_branch = 0;
std::uint64_t expected_store = 0;

template <class T, class C, auto entry = &Cell::tell>
chare::Future<T> sum_of(const C& collection) {
  const auto sum = chare::Future<T>::make();
  collection.template broadcast<entry>(sum.callback());
  return sum;
}
void reached(const chare::Callback<std::uint32_t>& to) {
  to(chare::rank());
}

/// Everything at once, right after the number of processes has changed.
void use(const chare::Array<Cell>& cells, const chare::Map<Cell>& map, const chare::Group<Branch>& branches) {
  branches.broadcast<&Branch::add_to_all>(cells, map);
  branches.broadcast<&Branch::add>(std::uint64_t{3});
  for (std::uint32_t rank = 0; rank < chare::size(); ++rank)
    branches[rank].invoke<&Branch::add>(std::uint64_t{4});
  expected_branch += 7;
  expected_cells += count * chare::size();
  expected_keys += keys * chare::size();
}

chare::Task start() {
  CHECK_EQUAL(chare::size(), (chare::processes() + 1) / 2);
  const auto cells = chare::Array<Cell>::create({count}, std::uint64_t{2});
  const auto map = chare::Map<Cell>::create();
  const auto open = chare::Map<Cell>::create();
  const auto branches = chare::Group<Branch>::create();
  for (std::uint64_t i = 0; i < keys; ++i)
    map.insert(i, i);
  map.done_inserting();
  expected_cells = 2 * count;
  expected_keys = keys * (keys - 1) / 2;
  const auto stores = chare::NodeGroup<Store>::create();
  std::uint64_t inserted = 0;
  const std::uint32_t all = chare::processes();
  for (const std::uint32_t processes : {all, 1U, all, (all + 1) / 2, all, all, (2 * all + 2) / 3, 1U}) {
    // Under way while the number changes.
    use(cells, map, branches);
    const std::uint32_t before = chare::size();
    const auto done = chare::Future<std::string>::make();
    chare::resize(processes, done.callback());
    const std::string why = co_await done;
    CHECK(why.empty());
    CHECK_EQUAL(chare::size(), processes);
    CHECK_EQUAL(chare::processes(), all);

    // As they lie now.
    const auto spread = chare::Future<std::vector<std::uint64_t>>::make();
    cells.broadcast<&Cell::spread>(spread.callback());
    const auto numbers = co_await spread;
    for (std::uint32_t rank = 0; rank < all; ++rank) {
      if (rank >= processes) CHECK_EQUAL(numbers[rank], 0);
      // Those that have come have their share.
      if (rank >= before && rank < processes) CHECK(numbers[rank] >= count / (2 * processes));
    }
    use(cells, map, branches);
    CHECK(co_await sum_of<std::uint64_t>(cells) <= expected_cells);  // they are on their way
    const auto quiet = chare::Future<>::make();
    chare::quiescence(quiet.callback());
    co_await quiet;
    CHECK_EQUAL(co_await sum_of<std::uint64_t>(cells), expected_cells);
    CHECK_EQUAL(co_await sum_of<std::uint64_t>(map), expected_keys);
    const auto group = chare::Future<std::vector<std::uint64_t>>::make();
    branches.broadcast<&Branch::tell>(group.callback());
    const auto told = co_await group;
    CHECK_EQUAL(told[0], processes);
    CHECK_EQUAL(told[1], processes * expected_branch);

    stores.broadcast<&Store::add>(std::uint64_t{6});
    expected_store += 6;
    const auto of_nodes = chare::Future<std::vector<std::uint64_t>>::make();
    stores.broadcast<&Store::tell>(of_nodes.callback());
    const auto stored = co_await of_nodes;
    CHECK_EQUAL(stored[0], chare::nodes());
    CHECK_EQUAL(stored[1], chare::nodes() * expected_store);

    // They move, by themselves and balanced, and are where they may be.
    cells.broadcast<&Cell::wander>();
    map.broadcast<&Cell::wander>();
    const auto balanced = chare::Future<>::make();
    cells.balance<&chare::greedy>(balanced.callback());
    co_await balanced;
    const auto synced = chare::Future<>::make();
    map.broadcast<&Cell::sync>(synced.callback());
    co_await synced;
    const auto highest = chare::Future<std::uint64_t>::make();
    cells.broadcast<&Cell::where>(highest.callback());
    CHECK(co_await highest < processes);

    // New ones, in a map that is open still, and of a new array and a new group.
    for (int i = 0; i < 5; ++i) {
      open.insert(inserted, std::uint64_t{1});
      ++inserted;
    }
    const auto fresh = chare::Array<Cell>::create({7}, std::uint64_t{4});
    CHECK_EQUAL(co_await sum_of<std::uint64_t>(fresh), 28);
    const auto group_of_now = chare::Group<Branch>::create();
    const auto counted = chare::Future<std::vector<std::uint64_t>>::make();
    group_of_now.broadcast<&Branch::tell>(counted.callback());
    CHECK_EQUAL((co_await counted)[0], processes);
    const auto section =
        chare::Section<Cell>::of(cells, std::vector<std::array<std::uint64_t, 1>>{{1}, {30}});
    section.broadcast<&Cell::add>(std::uint64_t{10});
    expected_cells += 20;
    const auto answer = chare::Future<std::uint32_t>::make();
    chare::call<&reached>(processes - 1, answer.callback());
    CHECK_EQUAL(co_await answer, processes - 1);
  }
  open.done_inserting();
  CHECK_EQUAL(co_await sum_of<std::uint64_t>(open), inserted);

  // Where it cannot be, nothing changes.
  if (all > 1) {
    cells[3].invoke<&Cell::wait>();
    const auto refused = chare::Future<std::string>::make();
    chare::resize(all, refused.callback());
    const std::string why = co_await refused;
    CHECK(why.ends_with("Cell[3] wait"));
    CHECK_EQUAL(chare::size(), 1);
    cells[3].invoke<&Cell::mail>(1);
    const auto plain = chare::Group<Plain>::create();
    const auto other = chare::Future<std::string>::make();
    chare::resize(all, other.callback());
    const std::string unwritten = co_await other;
    CHECK(unwritten.ends_with("the class needs `serialize` and a constructor without arguments"));
    plain.broadcast<&Plain::end>();
    const auto at_last = chare::Future<std::string>::make();
    chare::resize(all, at_last.callback());
    CHECK((co_await at_last).empty());
    CHECK_EQUAL(co_await sum_of<std::uint64_t>(cells), expected_cells);
  }
  chare::exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int code = chare::run(start, static_cast<std::uint32_t>(size + 1) / 2);
  CHECK_EQUAL(code, 0);
  MPI_Finalize();
}
