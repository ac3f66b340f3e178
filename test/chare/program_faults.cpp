// What goes wrong ends the job with a sentence: run by the suite `chare`, which names the fault.
#include <isthmus/chare.hpp>

#include <mpi.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>

namespace chare = isthmus::chare;

namespace {

struct TwoTexts {
  std::string first;
  std::string second;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(first, second);
  }
};

class Cell : public chare::Chare {
 public:
  Cell() = default;
  explicit Cell(int value) {
    if (value == 13) throw std::runtime_error("thirteen is refused");
  }
  void fails(int value) {
    if (value == 7) throw std::runtime_error("seven is too many");
  }
  chare::Task fails_late() {
    const auto later = chare::Future<>::make();
    later.set();
    co_await later;
    throw std::runtime_error("it was late");
  }
  void end() { destroy(); }
  chare::Task wait_and_end() {
    destroy();
    co_await never.next();
  }
  chare::Task wait_and_move() {
    migrate(0);
    co_await never.next();
  }
  template <class Archive>
  void serialize(Archive& archive) {
    archive(never);
  }
  void texts(const TwoTexts&) {}
  void numbers(const std::vector<double>&) {}
  void sum(bool other, const chare::Callback<int>& to) {
    if (other && index() == 1)
      contribute<chare::Max>(1, to);
    else
      contribute<chare::Sum>(1, to);
  }
#ifdef OTHER_PROGRAM
  void only_here() {}
#endif

  chare::Inbox<int> never;
};

void take(int) {}

/// One that is balanced, with what can be wrong then.
class Load : public chare::Chare {
 public:
  Load() = default;
  template <class Archive>
  void serialize(Archive& archive) {
    if (is_bad_) throw std::runtime_error("it has a file open");
    archive(is_bad_);
  }
  template <auto balancer>
  void sync() {
    at_sync<&Load::rest, balancer>();
  }
  void sync_twice() {
    sync<&chare::greedy>();
    sync<&chare::greedy>();
  }
  void move() { migrate(0); }
  void sync_and_move() {
    sync<&chare::greedy>();
    migrate(0);
  }
  void sync_with_two() {
    if (index() % 2 == 0)
      sync<&chare::greedy>();
    else
      sync<&chare::refine>();
  }
  void sync_and_wait() {
    if (index() == 0) sync<&chare::refine>();
  }
  void heavy(double load) { set_load(load); }
  void be_bad() { is_bad_ = true; }
  chare::Task wait() { co_await never.next(); }
  void rest() { chare::exit(0); }
  chare::Inbox<int> never;

 private:
  bool is_bad_ = false;
};

/// Who is killed, or ends, while the others go on, or wait.
class Victim : public chare::Chare {
 public:
  Victim() = default;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(data_);
  }
  void die() { std::raise(SIGKILL); }
  void leave(int code) { std::_Exit(code); }
  void to_and_fro(std::uint32_t left) {
    data_.resize(100000);
    if (left == 0 && chare::rank() == chare::size() - 1) std::raise(SIGKILL);
    this_proxy<Victim>().invoke<&Victim::to_and_fro>(left == 0 ? 0 : left - 1);
    migrate((chare::rank() + 1) % chare::size());
  }
  void babble(const chare::Group<Victim>& all) {
    for (std::uint32_t to = 0; to < chare::size(); ++to)
      all[to].invoke<&Victim::hear>(std::vector<char>(to % 2 == 0 ? 10 : 20000));
    this_proxy<Victim>().invoke<&Victim::babble>(all);
  }
  void hear(const std::vector<char>&) {
    if (++heard_ == 300 && chare::rank() == chare::size() - 1) std::raise(SIGKILL);
  }

 private:
  std::vector<char> data_;
  int heard_ = 0;
};

void throwing(std::span<chare::Load>, std::uint32_t) {
  throw std::runtime_error("the weights are wrong");
}
void too_far(std::span<chare::Load> chares, std::uint32_t processes) {
  chares.front().to = processes;
}
void to_the_last(std::span<chare::Load> chares, std::uint32_t processes) {
  for (chare::Load& each : chares)
    each.to = processes - 1;
}
const chare::Array<Load>& loads() {
  static const auto all = chare::Array<Load>::create({5});
  return all;
}

chare::Map<Cell> ended_cells;
void invoke_ended() {
  for (std::uint64_t key = 0; key < 8; ++key)
    ended_cells[key].invoke<&Cell::fails>(1);
  chare::quiescence(chare::exit_when_called());
}

/// Sends bytes that no `Writer` has written, as a process that is broken would.
void send_bytes(const isthmus_chare_item* item, const std::string& bytes) {
  isthmus_chare_target target{};
  target.kind = ISTHMUS_CHARE_TO_ELEMENT;
  const auto cells = chare::Array<Cell>::create({chare::size()});
  target.collection = cells.id();
  target.index.low = chare::size() - 1;
  std::memcpy(isthmus_chare_begin(chare::detail::runtime, &target, item, bytes.size(), 0), bytes.data(),
              bytes.size());
  isthmus_chare_send(chare::detail::runtime);
}

void not_here() {}

using Faults = std::map<std::string, void (*)()>;

const Faults& faults() {
  static const Faults all{
      {"throw",
       [] {
         const auto cells = chare::Array<Cell, 2>::create({4, 5});
         cells(3, 4).invoke<&Cell::fails>(6);
         cells(3, 4).invoke<&Cell::fails>(7);
       }},
      {"throw_late", [] { chare::Array<Cell>::create({5})[4].invoke<&Cell::fails_late>(); }},
      {"throw_in_constructor", [] { static_cast<void>(chare::Array<Cell>::create({5}, 13)); }},
      {"beyond", [] { chare::Array<Cell>::create({5})[5].invoke<&Cell::end>(); }},
      {"ended",
       [] {
         const auto cells = chare::Array<Cell>::create({5});
         cells[4].invoke<&Cell::end>();
         cells[4].invoke<&Cell::fails>(1);
       }},
      {"end_with_coroutine", [] { chare::Array<Cell>::create({5})[4].invoke<&Cell::wait_and_end>(); }},
      {"never_inserted",
       [] {
         const auto cells = chare::Map<Cell>::create();
         cells.insert(1);
         cells[1].invoke<&Cell::fails>(1);
         cells[2].invoke<&Cell::fails>(1);
         chare::quiescence(chare::exit_when_called());
       }},
      {"ended_elsewhere",
       [] {
         // Its home is told, or the invocation would go to and fro for ever.
         const auto cells = chare::Map<Cell>::create();
         for (std::uint64_t key = 0; key < 8; ++key) {
           cells.insert_in(1, key);
           cells[key].invoke<&Cell::end>();
         }
         chare::quiescence(chare::callback_function<&invoke_ended>(0));
         ended_cells = cells;
       }},
      {"before_run", [] {}},
      {"made_before_run", [] {}},
      {"after_run", [] {}},
      {"migrate_with_coroutine", [] { chare::Array<Cell>::create({5})[4].invoke<&Cell::wait_and_move>(); }},
      {"inserted_twice",
       [] {
         const auto cells = chare::Map<Cell>::create();
         cells.insert(1);
         cells.insert(1);
       }},
      {"two_reducers",
       [] {
         chare::Array<Cell>::create({5}).broadcast<&Cell::sum>(true, chare::callback_function<&take>(0));
       }},
      {"cut_off",
       [] {
         send_bytes(chare::detail::EntryItem<Cell, &Cell::texts>::get(),
                    std::string("\x02\0\0\0\0\0\0\0ab\x09", 11));
       }},
      {"too_long",
       [] {
         send_bytes(chare::detail::EntryItem<Cell, &Cell::numbers>::get(),
                    std::string("\xff\xff\xff\xff\xff\xff\xff\x7f", 8));
       }},
      {"left_over",
       [] { send_bytes(chare::detail::EntryItem<Cell, &Cell::fails>::get(), std::string(40, '\0')); }},
      {"unknown_entry",
       [] {
         isthmus_chare_item unknown = *chare::detail::EntryItem<Cell, &Cell::fails>::get();
         unknown.number = 60000;
         send_bytes(&unknown, "abcd");
       }},
      {"no_entry",
       [] {
         isthmus_chare_item function = *chare::detail::FunctionItem<&take>::get();
         send_bytes(&function, "abcd");
       }},
      {"unknown_collection",
       [] {
         const isthmus_chare_index index{1, 0};
         chare::Proxy<Cell>((std::uint64_t{chare::size() - 1} << 32) | 77, index).invoke<&Cell::fails>(1);
         chare::quiescence(chare::exit_when_called());
       }},
      {"unknown_root",
       [] {
         chare::Proxy<Cell>(std::uint64_t{1000} << 32 | 1, isthmus_chare_index{}).invoke<&Cell::fails>(1);
       }},
      {"resized_to_nothing", [] { chare::resize(0, chare::Future<std::string>::make().callback()); }},
      {"resized_too_far", [] { chare::resize(3, chare::Future<std::string>::make().callback()); }},
      {"begins_in_too_many", [] {}},
      {"node_of_nobody", [] { static_cast<void>(chare::node_of(7)); }},
      {"section_of_no_node",
       [] { static_cast<void>(chare::Section<Cell>::of(chare::NodeGroup<Cell>::create(), {0, 5})); }},
      {"section_with_node_twice",
       [] { static_cast<void>(chare::Section<Cell>::of(chare::NodeGroup<Cell>::create(), {0, 0})); }},
      {"no_such_node", [] { chare::NodeGroup<Cell>::create()[5].invoke<&Cell::fails>(1); }},
      {"node_chare_moves", [] { chare::NodeGroup<Load>::create()[0].invoke<&Load::move>(); }},
      {"begins_in_different", [] {}},
      {"beyond_those_in_use", [] { chare::call<&not_here>(1); }},
      {"balancer_throws", [] { loads().broadcast<&Load::sync<&throwing>>(); }},
      {"balancer_too_far", [] { loads().broadcast<&Load::sync<&too_far>>(); }},
      {"balancer_moves_fixed",
       [] {
         loads()[0].invoke<&Load::wait>();
         loads().balance<&to_the_last>(chare::exit_when_called());
       }},
      {"cannot_be_packed",
       [] {
         loads()[1].invoke<&Load::be_bad>();
         loads().broadcast<&Load::sync<&to_the_last>>();
       }},
      {"sync_twice", [] { loads()[1].invoke<&Load::sync_twice>(); }},
      {"sync_and_move", [] { loads()[4].invoke<&Load::sync_and_move>(); }},
      {"sync_with_two", [] { loads().broadcast<&Load::sync_with_two>(); }},
      {"sync_with_coroutine",
       [] {
         loads()[0].invoke<&Load::wait>();
         loads().broadcast<&Load::sync<&to_the_last>>();
       }},
      {"balanced_twice",
       [] {
         loads().balance<&chare::greedy>(chare::exit_when_called());
         loads().balance<&chare::greedy>(chare::exit_when_called());
       }},
      {"no_load", [] { loads()[2].invoke<&Load::heavy>(-1.0); }},
      {"never_balanced", [] { loads().broadcast<&Load::sync_and_wait>(); }},
      {"killed", [] { chare::Group<Victim>::create()[chare::size() - 1].invoke<&Victim::die>(); }},
      {"leaves", [] { chare::Group<Victim>::create()[chare::size() - 1].invoke<&Victim::leave>(7); }},
      {"leaves_well", [] { chare::Group<Victim>::create()[chare::size() - 1].invoke<&Victim::leave>(0); }},
      {"killed_in_talk",
       [] {
         const auto all = chare::Group<Victim>::create();
         all.broadcast<&Victim::babble>(all);
       }},
      {"killed_in_moves",
       [] { chare::Array<Victim>::create({16}).broadcast<&Victim::to_and_fro>(std::uint32_t{40}); }},
      {"idle", [] {}},
  };
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  const auto fault = faults().find(argc > 1 ? argv[1] : "");
  if (fault == faults().end()) {
    std::fprintf(stderr, "there is no such fault\n");
    return 2;
  }
#ifdef OTHER_PROGRAM
  static_cast<void>(chare::detail::EntryItem<Cell, &Cell::only_here>::get());
#endif
  std::uint32_t processes = 0;
  if (fault->first == "before_run") static_cast<void>(chare::rank());
  if (fault->first == "made_before_run") const Cell cell;
  if (fault->first == "after_run") {
    chare::run([] { chare::exit(); });
    chare::exit();
  }
  if (fault->first == "begins_in_too_many") processes = 3;
  if (fault->first == "beyond_those_in_use") processes = 1;
  if (fault->first == "begins_in_different") {
    MPI_Init(&argc, &argv);
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    processes = 1 + static_cast<std::uint32_t>(rank);
  }
  return chare::run(fault->second, processes);
}
