// One chare a node: how many there are, where they live, that each is reached from every process, and that a
// broadcast comes to each once, of all and of a section.
#include <isthmus/chare.hpp>

#include "chare_check.h"

#include <vector>

namespace chare = isthmus::chare;

namespace {

/// A table that the processes of a node share.
class Table : public chare::Chare {
 public:
  Table() = default;
  explicit Table(std::uint64_t value) : values_{value} {}
  template <class Archive>
  void serialize(Archive& archive) {
    archive(values_, mail, section_);
  }
  void join(const chare::Section<Table>& section) { section_ = section; }
  /// In a section: that it is there, its node's number, and its latest value.
  void give(const chare::Callback<std::vector<std::uint64_t>>& to) {
    section_.contribute<chare::Sum>(std::vector<std::uint64_t>{1, index(), values_.back()}, to);
  }
  void add(std::uint64_t value) { values_.push_back(value); }
  /// Node number, rank, and how many values there are and what they add up to.
  void tell(const chare::Callback<std::vector<std::uint64_t>>& to) {
    CHECK_EQUAL(index(), chare::node());
    std::vector<std::uint64_t> all(4 * chare::nodes());
    all[4 * index()] = 1;
    all[4 * index() + 1] = chare::rank();
    all[4 * index() + 2] = values_.size();
    for (const std::uint64_t each : values_)
      all[4 * index() + 3] += each;
    contribute<chare::Sum>(all, to);
  }
  chare::Task answer(chare::Callback<std::uint64_t> to) {
    std::uint64_t sum = 0;
    for (std::uint32_t i = 0; i < chare::size(); ++i)
      sum += std::get<0>(co_await mail.next());
    to(sum);
  }
  chare::Inbox<std::uint64_t> mail;

 private:
  std::vector<std::uint64_t> values_;
  chare::Section<Table> section_;
};

/// Of each process.
class Worker : public chare::Chare {
 public:
  void use(const chare::NodeGroup<Table>& tables) {
    CHECK_EQUAL(chare::node(), chare::node_of(chare::rank()));
    // The table itself is only in the first process of its node.
    bool is_first = true;
    for (std::uint32_t rank = 0; rank < chare::rank(); ++rank)
      is_first = is_first && chare::node_of(rank) != chare::node();
    CHECK_EQUAL(tables.local() != nullptr, is_first);
    tables.here().invoke<&Table::add>(std::uint64_t{100});
    for (std::uint32_t node = 0; node < chare::nodes(); ++node) {
      tables[node].invoke<&Table::add>(std::uint64_t{1});
      tables[node].invoke<&Table::mail>(std::uint64_t{chare::rank()});
    }
    tables.broadcast<&Table::add>(std::uint64_t{10});
  }
  /// What MPI says of who shares memory.
  void compare(std::vector<std::uint64_t> nodes, const chare::Callback<>& to) {
    CHECK_EQUAL(nodes.size(), chare::size());
    for (std::uint32_t rank = 0; rank < chare::size(); ++rank)
      CHECK_EQUAL(chare::node_of(rank), nodes[rank]);
    contribute(to);
  }
};

int mpi_node = 0;  ///< the lowest rank that shares this process's memory

void tell_node(const chare::Callback<std::vector<std::uint64_t>>& to) {
  to(std::vector<std::uint64_t>{chare::rank(), static_cast<std::uint64_t>(mpi_node)});
}

chare::Task start() {
  const std::uint64_t size = chare::size();
  const auto tables = chare::NodeGroup<Table>::create(std::uint64_t{7});
  const auto workers = chare::Group<Worker>::create();
  // Numbers of nodes, by their lowest ranks.
  std::vector<std::uint64_t> lowest(size);
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    const auto told = chare::Future<std::vector<std::uint64_t>>::make();
    chare::call<&tell_node>(rank, told.callback());
    const auto both = co_await told;
    lowest[both[0]] = both[1];
  }
  std::vector<std::uint64_t> numbers;
  std::vector<std::uint64_t> leaders;
  for (const std::uint64_t each : lowest) {
    std::uint64_t number = 0;
    while (number < leaders.size() && leaders[number] != each)
      ++number;
    if (number == leaders.size()) leaders.push_back(each);
    numbers.push_back(number);
  }
  CHECK_EQUAL(chare::nodes(), leaders.size());
  const auto compared = chare::Future<>::make();
  workers.broadcast<&Worker::compare>(numbers, compared.callback());
  co_await compared;

  std::vector<chare::Future<std::uint64_t>> answers;
  for (std::uint32_t node = 0; node < chare::nodes(); ++node) {
    answers.push_back(chare::Future<std::uint64_t>::make());
    tables[node].invoke<&Table::answer>(answers.back().callback());
  }
  workers.broadcast<&Worker::use>(tables);
  for (const auto& each : answers)
    CHECK_EQUAL(co_await each, size * (size - 1) / 2);
  const auto quiet = chare::Future<>::make();
  chare::quiescence(quiet.callback());
  co_await quiet;
  const auto told = chare::Future<std::vector<std::uint64_t>>::make();
  tables.broadcast<&Table::tell>(told.callback());
  const auto all = co_await told;
  for (std::uint64_t node = 0; node < leaders.size(); ++node) {
    std::uint64_t here = 0;
    for (const std::uint64_t each : numbers)
      here += each == node ? 1 : 0;
    CHECK_EQUAL(all[4 * node], 1);
    CHECK_EQUAL(all[4 * node + 1], leaders[node]);
    CHECK_EQUAL(all[4 * node + 2], 1 + here + 2 * size);
    CHECK_EQUAL(all[4 * node + 3], 7 + 100 * here + 11 * size);
  }
  // All but the first, if there is another; and the first alone.
  for (const bool others : {true, false}) {
    std::vector<std::uint32_t> members;
    std::uint64_t sum = 0;
    for (std::uint32_t node = 0; node < chare::nodes(); ++node)
      if ((node != 0) == (others && chare::nodes() > 1)) members.push_back(node), sum += node;
    const auto section = chare::Section<Table>::of(tables, members);
    CHECK_EQUAL(section.size(), members.size());
    section.broadcast<&Table::join>(section);
    for (std::uint64_t round = 1; round < 4; ++round) {
      const auto given = chare::Future<std::vector<std::uint64_t>>::make();
      section.broadcast<&Table::add>(round * 1000);
      section.broadcast<&Table::give>(given.callback());
      const auto found = co_await given;
      CHECK_EQUAL(found[0], members.size());
      CHECK_EQUAL(found[1], sum);
      CHECK_EQUAL(found[2], round * 1000 * members.size());
    }
    section.destroy();
  }
  chare::exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm shared;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &shared);
  MPI_Allreduce(&rank, &mpi_node, 1, MPI_INT, MPI_MIN, shared);
  MPI_Comm_free(&shared);
  CHECK_EQUAL(chare::run(start), 0);
  MPI_Finalize();
}
