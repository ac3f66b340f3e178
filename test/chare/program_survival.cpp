// A program that goes on when processes of it die: run by the suite `chare`, which compares the answers.
//
//     program_survival STEPS BYTES [RANK:MOMENT:NUMBER]...
//
// CHARES_BEGIN_IN in the environment: so many processes have chares at the beginning; CHARES_RESIZE: their
// number changes now and then.
//
// RANK of MPI_COMM_WORLD is killed: MOMENT `step`: in an entry of step NUMBER; `pair`: the same, and the next
// rank with it, so that nobody sees one of them dead and the other alive; `write`: when chares of it are
// measured or written for the NUMBERth time; `time`: NUMBER microseconds after the first checkpoint;
// `went_back`: when it is told to go on the NUMBERth time after a death; `start`: in an entry before the
// first checkpoint; `clock`: NUMBER microseconds after the beginning, chares or not. `future`: nobody is, but
// a future of before a death gets a value.
#include <isthmus/chare.hpp>

#include <mpi.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace chare = isthmus::chare;

namespace {

struct Death {
  int rank;
  std::string moment;
  std::uint64_t number;
};
std::vector<Death> deaths;
std::uint64_t steps = 0;
std::uint64_t bytes = 0;
std::uint64_t writes = 0;

std::vector<int> pids;  ///< by rank, where ranks die in pairs

int world_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}
void die_at(const char* moment, std::uint64_t number) {
  for (const Death& each : deaths)
    if (each.moment == moment && each.number == number && each.rank == world_rank()) raise(SIGKILL);
}
void die_in_pair(std::uint64_t number) {
  for (const Death& each : deaths)
    if (each.moment == "pair" && each.number == number && each.rank == world_rank()) {
      kill(pids[static_cast<std::size_t>(each.rank) + 1], SIGKILL);
      raise(SIGKILL);
    }
}
void die_later(const char* moment, int rank) {
  for (const Death& each : deaths)
    if (each.moment == moment && each.rank == rank)
      std::thread([number = each.number] {
        std::this_thread::sleep_for(std::chrono::microseconds(number));
        raise(SIGKILL);
      }).detach();
}
bool is_named(const char* moment) {
  for (const Death& each : deaths)
    if (each.moment == moment) return true;
  return false;
}
std::uint64_t mixed(std::uint64_t value) {
  return (value ^ (value >> 29)) * 6364136223846793005u + 1442695040888963407u;
}

/// Of an array. Some move with each step, so that they are not where they were made.
class Cell : public chare::Chare {
 public:
  Cell() = default;
  explicit Cell(std::uint64_t seed)
      : state_(mixed(seed + index())), data_(bytes, static_cast<char>(index())) {}
  template <class Archive>
  void serialize(Archive& archive) {
    die_at("write", ++writes);
    archive(state_, data_);
  }
  void step(std::uint64_t number, const chare::Callback<std::uint64_t>& to) {
    die_at("step", number);
    die_in_pair(number);
    for (const char each : data_)
      if (each != static_cast<char>(index())) state_ = 0;
    state_ = mixed(state_ + number);
    set_load(static_cast<double>(state_ % 100));
    contribute<chare::Sum>(state_, to);
    if (state_ % 3 == 0) migrate(static_cast<std::uint32_t>(state_ / 3 % chare::size()));
  }

 private:
  std::uint64_t state_ = 0;
  std::vector<char> data_;
};

/// Of a map. Passes on what it is told, so that much is under way.
class Keyed : public chare::Chare {
 public:
  Keyed() = default;
  explicit Keyed(std::string key) : key_(std::move(key)) {}
  template <class Archive>
  void serialize(Archive& archive) {
    archive(key_, sum_);
  }
  void pass(const chare::Map<Keyed, std::string>& all, std::uint64_t left) {
    sum_ += left;
    if (left != 0) all[std::string(1 + (key_.size() + left) % 20, 'k')].invoke<&Keyed::pass>(all, left - 1);
  }
  void tell(const chare::Callback<std::uint64_t>& to) {
    contribute<chare::Sum>(mixed(sum_ + key_.size()), to);
  }

 private:
  std::string key_;
  std::uint64_t sum_ = 0;
};

class Main;
chare::Proxy<Main> main_chare;

/// Of a group: all have the same.
class Branch : public chare::Chare {
 public:
  Branch() = default;
  template <class Archive>
  void serialize(Archive& archive) {
    // With it, a process that takes the place of another knows what that has been told.
    archive(state_, tokens, main_chare);
  }
  void arm() { die_later("time", world_rank()); }
  void start(const chare::Proxy<Main>& main) {
    main_chare = main;
    die_at("start", 0);
  }
  void went_back() { die_at("went_back", chare::rollbacks()); }
  /// Waits for a message, and for a value of another process.
  chare::Task step(std::uint64_t number, chare::Callback<std::uint64_t> to) {
    static_cast<void>(co_await tokens.next([number](std::uint64_t token) { return token == number; }));
    const auto value = chare::Future<std::uint64_t>::make();
    chare::call<&Branch::answer>(static_cast<std::uint32_t>((index() + 1) % chare::size()), value.callback());
    state_ = mixed(state_ + number + co_await value);
    contribute<Same>(state_, to);
  }
  static void answer(const chare::Callback<std::uint64_t>& to) { to(std::uint64_t{5}); }
  chare::Inbox<std::uint64_t> tokens;
  struct Same {
    void operator()(std::uint64_t& into, const std::uint64_t& value) const {
      if (into != value) into = 0;
    }
  };

 private:
  std::uint64_t state_ = 1;
};

/// Of each node, the same.
class Store : public chare::Chare {
 public:
  Store() = default;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(state_);
  }
  void step(std::uint64_t number, const chare::Callback<std::uint64_t>& to) {
    state_ = mixed(state_ + number);
    contribute<Branch::Same>(state_, to);
  }

 private:
  std::uint64_t state_ = 2;
};

class Main : public chare::Chare {
 public:
  Main() = default;
  explicit Main(int)
      : cells_(chare::Array<Cell>::create({24}, std::uint64_t{7})),
        keyed_(chare::Map<Keyed, std::string>::create()),
        branches_(chare::Group<Branch>::create()),
        stores_(chare::NodeGroup<Store>::create()) {
    for (std::uint64_t i = 1; i <= 20; ++i)
      keyed_.insert(std::string(i, 'k'), std::string(i, 'k'));
    keyed_.done_inserting();
  }
  template <class Archive>
  void serialize(Archive& archive) {
    archive(step_, sum_, kept_, cells_, keyed_, branches_, stores_);
  }
  void begin() {
    branches_.broadcast<&Branch::start>(self());
    kept_ = chare::Future<int>::make();
    write();
  }
  void written(const std::string& error) {
    if (!error.empty() && error != "there is no other process to keep a copy") {
      std::printf("no checkpoint: %s\n", error.c_str());
      return chare::exit(3);
    }
    if (step_ == 0) branches_.broadcast<&Branch::arm>();
    next_step();
  }
  void restarted() {
    if (is_named("future")) return kept_.set(1);
    branches_.broadcast<&Branch::went_back>();
    next_step();
  }
  void resized(const std::string& error) {
    if (!error.empty()) {
      std::printf("as many processes as before: %s\n", error.c_str());
      return chare::exit(3);
    }
    next_step();
  }
  void next_step() {
    if (step_ == steps) {
      std::printf("%llx\n", static_cast<unsigned long long>(sum_));
      std::fflush(stdout);
      return chare::exit(0);
    }
    keyed_["kkk"].invoke<&Keyed::pass>(keyed_, 40);
    cells_.broadcast<&Cell::step>(step_++, self().callback<&Main::cells_done>());
  }
  void cells_done(std::uint64_t part) {
    sum_ = mixed(sum_ + part);
    branches_.broadcast<&Branch::step>(step_, self().callback<&Main::branches_done>());
    branches_.broadcast<&Branch::tokens>(step_);
  }
  void branches_done(std::uint64_t part) {
    sum_ = mixed(sum_ + part);
    stores_.broadcast<&Store::step>(step_, self().callback<&Main::stores_done>());
  }
  void stores_done(std::uint64_t part) {
    sum_ = mixed(sum_ + part);
    chare::quiescence(self().callback<&Main::quiet>());
  }
  void quiet() { keyed_.broadcast<&Keyed::tell>(self().callback<&Main::keyed_done>()); }
  void keyed_done(std::uint64_t part) {
    sum_ = mixed(sum_ + part);
    if (step_ % 4 == 1) return cells_.balance<&chare::greedy>(self().callback<&Main::next_step>());
    if (step_ % 4 == 3) return write();
    if (step_ % 2 == 0 && std::getenv("CHARES_RESIZE"))
      return chare::resize(1 + static_cast<std::uint32_t>(mixed(step_) >> 33) % chare::processes(),
                           self().callback<&Main::resized>());
    next_step();
  }

 private:
  [[nodiscard]] chare::Proxy<Main> self() const { return this_proxy<Main>(); }

  /// With an odd number of steps, a function of the last process is what goes on.
  void write() const;

  std::uint64_t step_ = 0;
  std::uint64_t sum_ = 0;
  chare::Future<int> kept_;
  chare::Array<Cell> cells_;
  chare::Map<Keyed, std::string> keyed_;
  chare::Group<Branch> branches_;
  chare::NodeGroup<Store> stores_;
};

void go_on() {
  main_chare.invoke<&Main::restarted>();
}
void Main::write() const {
  const auto on = steps % 2 == 0 ? self().callback<&Main::restarted>()
                                 : chare::callback_function<&go_on>(chare::size() - 1);
  chare::checkpoint_in_memory(self().callback<&Main::written>(), on);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  steps = std::strtoull(argv[1], nullptr, 10);
  bytes = std::strtoull(argv[2], nullptr, 10);
  for (int i = 3; i < argc; ++i) {
    char* rest = nullptr;
    const int rank = static_cast<int>(std::strtol(argv[i], &rest, 10));
    char* const number = std::strrchr(rest, ':');
    if (*rest != ':' || number == rest) return 2;
    deaths.push_back({rank, std::string(rest + 1, number), std::strtoull(number + 1, nullptr, 10)});
  }
  if (const char* const rank = std::getenv("ISTHMUS_WORLD_RANK")) die_later("clock", std::atoi(rank));
  if (is_named("pair")) {
    MPI_Init(&argc, &argv);
    int size = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    pids.resize(static_cast<std::size_t>(size));
    const int own = getpid();
    MPI_Allgather(&own, 1, MPI_INT, pids.data(), 1, MPI_INT, MPI_COMM_WORLD);
  }
  const char* const used = std::getenv("CHARES_BEGIN_IN");
  const int status = chare::run([] { chare::Array<Main>::create({1}, 0)[0].invoke<&Main::begin>(); },
                                used ? static_cast<std::uint32_t>(std::atoi(used)) : 0);
  if (is_named("pair")) MPI_Finalize();
  return status;
}
