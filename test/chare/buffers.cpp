// Arguments whose data goes apart from the message: post entries, memory that is given away, chares that move
// meanwhile, mailboxes that are posted ahead, state that moves.
#include <isthmus/chare.hpp>

#include <memory>
#include <string>
#include <vector>

#include "chare_check.h"

namespace chare = isthmus::chare;

namespace {

constexpr std::size_t sizes[] = {0, 1, 500, 100'000};
constexpr std::size_t largest = 100'000;

double value_at(std::size_t seed, std::size_t i) {
  return static_cast<double>(seed * 1000 + i % 997);
}
void fill(double* to, std::size_t seed, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i)
    to[i] = value_at(seed, i);
}
bool are_values(const double* found, std::size_t seed, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i)
    if (found[i] != value_at(seed, i)) return false;
  return true;
}
std::shared_ptr<double[]> made_values(std::size_t seed, std::size_t size) {
  std::shared_ptr<double[]> made(new double[size == 0 ? 1 : size]);
  fill(made.get(), seed, size);
  return made;
}

/// Where a cell's data goes: memory that stays where it is.
class Cell : public chare::Chare {
 public:
  Cell() : field_((chare::size() + 2) * largest) {}

  // One buffer, between other arguments.
  void take(const std::string& name, const chare::DeviceBuffer<double>& data, std::size_t seed) {
    CHECK(name == "from " + std::to_string(seed));
    CHECK(!data.memory());
    CHECK(data.data() == field_.data() + seed * largest);
    CHECK(are_values(data.data(), seed, data.size()));
    ++taken_;
  }
  void post(chare::Post<&Cell::take>, const std::string& name, chare::DeviceBuffer<double>& data,
            std::size_t seed) {
    CHECK(!data.data());
    CHECK(name == "from " + std::to_string(seed));
    // Those of two senders may come at the same time.
    data.into(field_.data() + seed * largest, largest);
  }

  // Two buffers of different types; the second gets memory of its own.
  void take_two(const chare::DeviceBuffer<double>& numbers, const chare::DeviceBuffer<char>& letters) {
    CHECK(are_values(numbers.data(), numbers.size(), numbers.size()));
    CHECK(std::string(letters.data(), letters.size()) == std::string(numbers.size(), 'x'));
    CHECK(letters.memory().get() == letters.data());
    ++taken_;
  }
  void post(chare::Post<&Cell::take_two>, chare::DeviceBuffer<double>& numbers,
            chare::DeviceBuffer<char>& letters) {
    CHECK_EQUAL(numbers.size(), letters.size());
    numbers.into(std::shared_ptr<double[]>(new double[numbers.size() + 1]), numbers.size());
    letters.into(std::shared_ptr<char[]>(new char[letters.size() + 1]), letters.size());
  }

  // What comes from this process is the sender's own memory.
  void take_given(const chare::DeviceBuffer<double>& data, bool is_here, std::uint64_t address) {
    CHECK_EQUAL(static_cast<bool>(data.memory()), is_here);
    if (is_here) {
      CHECK_EQUAL(reinterpret_cast<std::uintptr_t>(data.data()), address);
      CHECK_EQUAL(data.memory().use_count(), 1);
    }
    CHECK(are_values(data.data(), 5, data.size()));
    ++taken_;
  }
  void post(chare::Post<&Cell::take_given>, chare::DeviceBuffer<double>& data, bool is_here, std::uint64_t) {
    CHECK(!is_here);
    data.into(field_.data(), field_.size());
  }

  // By a coroutine, and into an inbox.
  chare::Inbox<chare::DeviceBuffer<double>> inbox;
  chare::Task take_late(chare::DeviceBuffer<double> data) {
    const auto later = chare::Future<>::make();
    later.set();
    co_await later;
    CHECK(are_values(data.data(), 6, data.size()));
    const auto [from_inbox] = co_await inbox.next();
    CHECK(are_values(from_inbox.data(), 7, from_inbox.size()));
    ++taken_;
  }
  void post(chare::Post<&Cell::take_late>, chare::DeviceBuffer<double>& data) {
    data.into(field_.data(), largest);
  }
  void post(chare::Post<&Cell::inbox>, chare::DeviceBuffer<double>& data) {
    data.into(field_.data() + largest, largest);
  }

  void count(const chare::Callback<int>& to) { contribute<chare::Sum>(std::exchange(taken_, 0), to); }

 private:
  std::vector<double> field_;
  int taken_ = 0;
};

/// Sends in an entry, and waits until its memory is its own again.
class Sender : public chare::Chare {
 public:
  chare::Task send(chare::Array<Cell> cells, chare::Callback<int> done) {
    int sent = 0;
    for (const std::size_t size : sizes)
      for (std::size_t to = 0; to < cells.extents()[0]; ++to) {
        std::vector<double> data(size);
        fill(data.data(), index(), size);
        const auto free = chare::Future<>::make();
        cells[to].invoke<&Cell::take>("from " + std::to_string(index()),
                                      chare::DeviceBuffer<double>(data.data(), size, free.callback()),
                                      index());
        ++sent;
        co_await free;
        data.assign(size, -1);
      }
    contribute<chare::Sum>(sent, done);
  }
};

chare::Task everywhere(chare::Future<> end) {
  const auto cells = chare::Array<Cell>::create({2 * chare::size()});
  const auto senders = chare::Group<Sender>::create();
  const auto done = chare::Future<int>::make();
  senders.broadcast<&Sender::send>(cells, done.callback());
  const int sent = co_await done;
  CHECK_EQUAL(sent, static_cast<int>(std::size(sizes) * 2 * chare::size() * chare::size()));
  // Quiescence waits for what is on its way.
  std::vector<std::shared_ptr<double[]>> held;
  std::vector<std::shared_ptr<char[]>> letters;
  int more = 0;
  for (const std::size_t size : sizes)
    for (std::uint32_t to = 0; to < 2 * chare::size(); ++to) {
      held.push_back(made_values(size, size));
      letters.emplace_back(new char[size + 1]);
      std::fill_n(letters.back().get(), size, 'x');
      cells[to].invoke<&Cell::take_two>(chare::DeviceBuffer<double>(held.back().get(), size),
                                        chare::DeviceBuffer<char>(letters.back().get(), size));
      ++more;
    }
  for (std::uint32_t to = 0; to < 2 * chare::size(); ++to) {
    auto memory = made_values(5, largest);
    const std::weak_ptr<double[]> watched = memory;
    const auto address = reinterpret_cast<std::uintptr_t>(memory.get());
    const bool is_here = cells[to].local() != nullptr;
    cells[to].invoke<&Cell::take_given>(chare::DeviceBuffer<double>(std::move(memory), largest), is_here,
                                        address);
    const auto quiet = chare::Future<>::make();
    chare::quiescence(quiet.callback());
    co_await quiet;
    CHECK(watched.expired());
    ++more;
  }
  const auto first = made_values(6, 1000);
  const auto second = made_values(7, largest);
  for (std::uint32_t to = 0; to < 2 * chare::size(); ++to) {
    cells[to].invoke<&Cell::take_late>(chare::DeviceBuffer<double>(first.get(), 1000));
    cells[to].invoke<&Cell::inbox>(chare::DeviceBuffer<double>(second.get(), largest));
    ++more;
  }
  const auto quiet = chare::Future<>::make();
  chare::quiescence(quiet.callback());
  co_await quiet;
  const auto count = chare::Future<int>::make();
  cells.broadcast<&Cell::count>(count.callback());
  CHECK_EQUAL(co_await count, sent + more);
  end.set();
}

/// Wanders with what it has, while data follows it.
class Wanderer : public chare::Chare {
 public:
  Wanderer() = default;
  explicit Wanderer(std::size_t size) : size_(size), state_(new double[size]) { fill(state_.get(), 9, size); }
  template <class Archive>
  void serialize(Archive& archive) {
    archive(size_, taken_, done_);
    if constexpr (Archive::reads) state_.reset(new double[size_]);
    chare::device_state(archive, state_.get(), size_);
  }
  void take(const chare::DeviceBuffer<double>& data, std::size_t seed) {
    CHECK(are_values(data.data(), seed, data.size()));
    CHECK(are_values(state_.get(), 9, size_));
    ++taken_;
  }
  void post(chare::Post<&Wanderer::take>, chare::DeviceBuffer<double>& data, std::size_t) {
    data.into(std::shared_ptr<double[]>(new double[data.size()]), data.size());
  }
  void wander(int left) {
    migrate((chare::rank() + 1) % chare::size());
    if (left > 0) this_proxy<Wanderer>().invoke<&Wanderer::wander>(left - 1);
  }
  void sync(const chare::Callback<>& done) {
    done_ = done;
    at_sync<&Wanderer::go_on, chare::greedy>();
  }
  void go_on() { contribute(done_); }
  void count(const chare::Callback<int>& to) { contribute<chare::Sum>(taken_, to); }

 private:
  std::size_t size_ = 0;
  std::unique_ptr<double[]> state_;
  int taken_ = 0;
  chare::Callback<> done_{};
};

class Follower : public chare::Chare {
 public:
  void send(const chare::Array<Wanderer>& wanderers, int rounds) {
    for (int round = 0; round < rounds; ++round)
      for (std::size_t to = 0; to < wanderers.extents()[0]; ++to)
        for (const std::size_t size : {sizes[2], sizes[3]})
          wanderers[to].invoke<&Wanderer::take>(chare::DeviceBuffer<double>(made_values(index(), size), size),
                                                index());
  }
};

chare::Task following(chare::Future<> end) {
  constexpr int rounds = 3;
  const auto wanderers = chare::Array<Wanderer>::create({3}, std::size_t{10'000});
  const auto followers = chare::Group<Follower>::create();
  wanderers.broadcast<&Wanderer::wander>(20);
  followers.broadcast<&Follower::send>(wanderers, rounds);
  const auto quiet = chare::Future<>::make();
  chare::quiescence(quiet.callback());
  co_await quiet;
  // And while they are balanced.
  followers.broadcast<&Follower::send>(wanderers, rounds);
  const auto synced = chare::Future<>::make();
  wanderers.broadcast<&Wanderer::sync>(synced.callback());
  co_await synced;
  const auto again = chare::Future<>::make();
  chare::quiescence(again.callback());
  co_await again;
  const auto count = chare::Future<int>::make();
  wanderers.broadcast<&Wanderer::count>(count.callback());
  CHECK_EQUAL(co_await count, static_cast<int>(2 * rounds * 3 * 2 * chare::size()));
  end.set();
}

/// One in a ring whose neighbour's memory is posted before anything is sent.
class Link : public chare::Chare {
 public:
  void begin(const chare::Group<Link>& ring, const chare::Callback<>& ready) {
    ring_ = ring;
    box_ = chare::Mailbox<double>::open();
    ring[(index() + chare::size() - 1) % chare::size()].invoke<&Link::know>(box_.address(), ready);
  }
  void know(chare::MailboxAddress<double> right, const chare::Callback<>& ready) {
    right_ = right;
    contribute(ready);
  }
  chare::Task go(int rounds, chare::Callback<> done) {
    // All are posted ahead, and used in their order.
    std::vector<std::vector<double>> rooms(rounds, std::vector<double>(largest));
    std::vector<chare::Future<std::uint64_t>> came;
    for (auto& room : rooms) {
      came.push_back(chare::Future<std::uint64_t>::make());
      box_.post(room.data(), room.size(), came.back().callback());
    }
    const auto left = (index() + chare::size() - 1) % chare::size();
    std::vector<double> mine(largest);
    for (int round = 0; round < rounds; ++round) {
      const std::size_t size = sizes[round % std::size(sizes)];
      fill(mine.data(), index() + round, size);
      const auto free = chare::Future<>::make();
      right_.send(chare::DeviceBuffer<double>(mine.data(), size, free.callback()));
      CHECK_EQUAL(co_await came[round], size);
      CHECK(are_values(rooms[round].data(), left + round, size));
      co_await free;
    }
    // One without a message: closed with what is posted there.
    box_.post(rooms[0].data(), 1, chare::callback_function<&Link::never>(0));
    box_ = {};
    contribute(done);
  }
  static void never(std::uint64_t) { CHECK(false); }

 private:
  chare::Group<Link> ring_;
  chare::Mailbox<double> box_;
  chare::MailboxAddress<double> right_;
};

chare::Task ahead(chare::Future<> end) {
  const auto ring = chare::Group<Link>::create();
  const auto ready = chare::Future<>::make();
  ring.broadcast<&Link::begin>(ring, ready.callback());
  co_await ready;
  const auto done = chare::Future<>::make();
  ring.broadcast<&Link::go>(8, done.callback());
  co_await done;
  end.set();
}

chare::Task start() {
  for (const auto part : {everywhere, following, ahead}) {
    const auto done = chare::Future<>::make();
    part(done);
    co_await done;
  }
  chare::exit(0);
}

}  // namespace

int main() {
  return chare::run(start);
}
