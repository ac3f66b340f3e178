// Chares that move all the time, while they are invoked, while broadcasts and reductions are under way: each
// invocation and each broadcast comes once, each reduction counts each of them once, and they carry all that
// is theirs.
#include <isthmus/chare.hpp>

#include "chare_check.h"

namespace chare = isthmus::chare;

namespace {

constexpr std::uint64_t count = 24;
constexpr int rounds = 60;
constexpr std::size_t large = 40000;

class Nomad : public chare::Chare {
 public:
  Nomad() = default;
  explicit Nomad(std::uint64_t seed) : state_(seed + index() * 77), data_(index() % 5 == 0 ? large : 3) {
    for (std::size_t i = 0; i < data_.size(); ++i)
      data_[i] = index() + i;
  }
  template <class Archive>
  void serialize(Archive& archive) {
    archive(state_, data_, visits_, heard_, moves_, mail);
  }

  chare::Inbox<std::uint64_t> mail;

  /// Told by others: goes somewhere else every other time.
  void visit(std::uint64_t) {
    ++visits_;
    wander();
  }
  /// Told to all. The number tells which.
  void hear(int number, const chare::Callback<std::uint64_t>& to) {
    CHECK_EQUAL(number, heard_.size());
    heard_.push_back(number);
    contribute<chare::Sum>(std::uint64_t{1} << (number % 8), to);
    if (number % 3 != 0) wander();
  }
  /// Messages that nobody has taken move too.
  chare::Task read(int letters, chare::Callback<std::uint64_t> to) {
    std::uint64_t sum = 0;
    for (int i = 0; i < letters; ++i)
      sum += std::get<0>(co_await mail.next());
    contribute<chare::Sum>(sum, to);
  }
  void count_visits(const chare::Callback<std::uint64_t>& to) { contribute<chare::Sum>(visits_, to); }
  void count_moves(const chare::Callback<std::uint64_t>& to) { contribute<chare::Sum>(moves_, to); }
  void check_all(const chare::Callback<>& to) {
    CHECK_EQUAL(heard_.size(), rounds);
    CHECK_EQUAL(data_.size(), index() % 5 == 0 ? large : 3);
    for (std::size_t i = 0; i < data_.size(); ++i)
      if (data_[i] != index() + i) CHECK_EQUAL(data_[i], index() + i);
    contribute(to);
  }

 private:
  void wander() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    if ((state_ >> 40) % 2 == 0) return;
    ++moves_;
    migrate(static_cast<std::uint32_t>((state_ >> 33) % chare::size()));
  }

  std::uint64_t state_ = 0;
  std::vector<std::uint64_t> data_;
  std::uint64_t visits_ = 0;
  std::vector<int> heard_;
  std::uint64_t moves_ = 0;
};

/// Invokes nomads from every process.
class Crowd : public chare::Chare {
 public:
  void visit_all(const chare::Array<Nomad>& nomads, int times) {
    for (int i = 0; i < times; ++i)
      for (std::uint64_t each = 0; each < count; ++each)
        nomads[(each * 7 + index()) % count].invoke<&Nomad::visit>(each);
  }
  void write_all(const chare::Array<Nomad>& nomads) {
    for (std::uint64_t each = 0; each < count; ++each)
      nomads[each].invoke<&Nomad::mail>(each);
  }
};

chare::Task start() {
  const auto nomads = chare::Array<Nomad>::create({count}, std::uint64_t{5});
  const auto crowd = chare::Group<Crowd>::create();
  std::uint64_t visits = 0;
  std::vector<chare::Future<std::uint64_t>> sums;
  for (int round = 0; round < rounds; ++round) {
    crowd.broadcast<&Crowd::visit_all>(nomads, 3);
    crowd.broadcast<&Crowd::write_all>(nomads);
    visits += 3 * count * chare::size();
    sums.push_back(chare::Future<std::uint64_t>::make());
    nomads.broadcast<&Nomad::hear>(round, sums.back().callback());
    // Up to 8 of these are under way; and now and then everything comes to rest.
    if (round % 8 == 7) {
      std::uint64_t sum = 0;
      for (const auto& each : sums)
        sum += co_await each;
      sums.clear();
      CHECK_EQUAL(sum, 255 * count);
    }
    if (round % 16 == 15) {
      const auto quiet = chare::Future<>::make();
      chare::quiescence(quiet.callback());
      co_await quiet;
      const auto told = chare::Future<std::uint64_t>::make();
      nomads.broadcast<&Nomad::count_visits>(told.callback());
      CHECK_EQUAL(co_await told, visits);
    }
  }
  for (const auto& each : sums)
    co_await each;
  const auto quiet = chare::Future<>::make();
  chare::quiescence(quiet.callback());
  co_await quiet;
  const auto checked = chare::Future<>::make();
  nomads.broadcast<&Nomad::check_all>(checked.callback());
  co_await checked;
  const auto letters = chare::Future<std::uint64_t>::make();
  nomads.broadcast<&Nomad::read>(rounds * static_cast<int>(chare::size()), letters.callback());
  CHECK_EQUAL(co_await letters, rounds * chare::size() * (count * (count - 1) / 2));
  const auto moves = chare::Future<std::uint64_t>::make();
  nomads.broadcast<&Nomad::count_moves>(moves.callback());
  CHECK(co_await moves > count * rounds);
  chare::exit(0);
}

}  // namespace

int main() {
  return chare::run(start);
}
