// A program that writes a checkpoint in the middle and goes on from it: run by the suite `chare`, which
// compares the answers, whatever the number of processes, and damages files.
//
//     program_checkpoint write PATH | restart PATH | FAULT PATH
#include <isthmus/chare.hpp>

#include <sys/resource.h>

#include <csignal>
#include <cstdio>
#include <map>
#include <stdexcept>
#include <string>

namespace chare = isthmus::chare;

namespace {

std::string fault;
std::string path;

class Cell : public chare::Chare {
 public:
  Cell() = default;
  explicit Cell(std::uint64_t seed)
      : state_(seed + index()), data_(index() * 300, static_cast<int>(index())) {}
  template <class Archive>
  void serialize(Archive& archive) {
    if (fault == "throw") throw std::runtime_error("it has a file open");
    archive(state_, data_, mail);
  }
  void step(std::uint64_t number, const chare::Callback<std::uint64_t>& to) {
    state_ = state_ * 6364136223846793005u + index() + number;
    for (const int each : data_)
      if (static_cast<std::uint64_t>(each) != index()) state_ = 0;
    // Some are not where they were made, and one is no more.
    if (number == 2) {
      contribute<chare::Sum>(state_, to);
      if (index() == 5) return destroy();
      return migrate(static_cast<std::uint32_t>((index() * 7 + 1) % chare::size()));
    }
    contribute<chare::Sum>(state_ + mail.size(), to);
  }
  void half(const chare::Callback<std::uint64_t>& to) {
    if (index() % 2 == 0) contribute<chare::Sum>(state_, to);
  }
  chare::Task wait() { static_cast<void>(co_await mail.next()); }
  chare::Inbox<int> mail;

 private:
  std::uint64_t state_ = 0;
  std::vector<int> data_;
};

#ifdef OTHER_PROGRAM
#define Keyed AnotherKeyed
#endif
class Keyed : public chare::Chare {
 public:
  Keyed() = default;
  explicit Keyed(std::string text) : text_(std::move(text)) {}
  template <class Archive>
  void serialize(Archive& archive) {
    archive(text_);
  }
  void step(const chare::Callback<std::uint64_t>& to) {
    text_ += 'x';
    contribute<chare::Sum>(std::uint64_t{text_.size()}, to);
  }

 private:
  std::string text_;
};

class Branch : public chare::Chare {
 public:
  Branch() : was_(index()) {}
  template <class Archive>
  void serialize(Archive& archive) {
    archive(was_, seed_);
  }
  void set(std::uint64_t seed) { seed_ = seed; }
  /// Each is that of a process of before.
  void check(std::uint64_t processes, const chare::Callback<std::uint64_t>& to) {
    contribute<chare::Sum>(std::uint64_t{was_ == index() % processes && seed_ == 11 ? 1U : 0U}, to);
  }

 private:
  std::uint64_t was_ = 0;
  std::uint64_t seed_ = 0;
};

#ifndef OTHER_PROGRAM
class Plain : public chare::Chare {};
#endif

void ignore(std::uint64_t) {}
void give_up() {
  chare::exit(3);
}

/// What goes on. It has no coroutine that waits while the checkpoint is written.
class Main : public chare::Chare {
 public:
  Main() = default;
  explicit Main(std::uint64_t processes)
      : processes_(processes),
        cells_(chare::Array<Cell>::create({20}, std::uint64_t{77})),
        keyed_(chare::Map<Keyed, std::string>::create()),
        branches_(chare::Group<Branch>::create()),
        stores_(chare::NodeGroup<Keyed>::create(std::string("stored"))) {
    for (const char* key : {"a", "bb", "ccc", "a key that is longer than sixteen bytes"})
      keyed_.insert(key, std::string(key));
    keyed_.done_inserting();
    branches_.broadcast<&Branch::set>(std::uint64_t{11});
  }
  template <class Archive>
  void serialize(Archive& archive) {
    archive(processes_, step_, sum_, cells_, keyed_, branches_, stores_);
  }
  void begin() { next(0); }
  void next(std::uint64_t part) {
    sum_ = sum_ * 31 + part;
    if (step_ == 5 && !has_written_) return write();
    if (step_ == 10) return keyed_.broadcast<&Keyed::step>(self().callback<&Main::keys>());
    if (step_ == 3) cells_[6].invoke<&Cell::mail>(1);
    cells_.broadcast<&Cell::step>(step_++, self().callback<&Main::next>());
  }
  void written(const std::string& error) {
    if (!error.empty()) {
      std::printf("no checkpoint: %s\n", error.c_str());
      // Nobody frees a coroutine that waits when the program ends.
      if (fault == "coroutine") cells_[3].invoke<&Cell::mail>(1);
      return chare::quiescence(chare::callback_function<&give_up>(0));
    }
    if (fault == "stop") return chare::exit(0);
    has_written_ = true;
    resume();
  }
  void restarted() {
    has_written_ = true;
    resume();
  }
  void keys(std::uint64_t sum) {
    sum_ = sum_ * 31 + sum;
    branches_.broadcast<&Branch::check>(processes_, self().callback<&Main::end>());
  }
  void end(std::uint64_t right) {
    right_ = right;
    stores_.broadcast<&Keyed::step>(self().callback<&Main::stores>());
  }
  /// Each node has the text of seven letters now.
  void stores(std::uint64_t letters) const {
    const std::uint64_t right = letters == 7 * chare::nodes() ? right_ : 0;
    // A new collection has a number of its own.
    static_cast<void>(chare::Array<Cell>::create({3}, std::uint64_t{1}));
    std::printf("%llu %s\n", static_cast<unsigned long long>(sum_),
                right == chare::size() ? "well" : "wrong branches");
    chare::quiescence(chare::exit_when_called());
  }

 private:
  [[nodiscard]] chare::Proxy<Main> self() const { return this_proxy<Main>(); }
  void resume() { cells_.broadcast<&Cell::step>(step_++, self().callback<&Main::next>()); }
  void write() {
    if (fault == "coroutine") cells_[3].invoke<&Cell::wait>();
    if (fault == "reduction") cells_.broadcast<&Cell::half>(chare::callback_function<&ignore>(0));
#ifndef OTHER_PROGRAM
    if (fault == "no_serialize") static_cast<void>(chare::Array<Plain>::create({3}));
#endif
    chare::checkpoint(path, self().callback<&Main::written>(), self().callback<&Main::restarted>());
    if (fault == "twice")
      chare::checkpoint(path, self().callback<&Main::written>(), self().callback<&Main::restarted>());
  }

  std::uint64_t processes_ = 0;
  std::uint64_t step_ = 0;
  std::uint64_t sum_ = 0;
  std::uint64_t right_ = 0;
  bool has_written_ = false;
  chare::Array<Cell> cells_;
  chare::Map<Keyed, std::string> keyed_;
  chare::Group<Branch> branches_;
  chare::NodeGroup<Keyed> stores_;
};

void start() {
  chare::Array<Main>::create({1}, std::uint64_t{chare::size()})[0].invoke<&Main::begin>();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  fault = argv[1];
  path = argv[2];
  if (fault == "full") {
    const rlimit limit{20000, 20000};
    std::signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  if (fault == "restart") return chare::restart(path);
  return chare::run(start);
}
