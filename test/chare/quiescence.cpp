// Quiescence is found when nothing is under way, and never before: each time, all hops of all walkers have
// been counted, however late a process is.
#include <isthmus/chare.hpp>

#include <chrono>
#include <thread>

#include "chare_check.h"

namespace chare = isthmus::chare;

namespace {

long hops_here = 0;

class Place : public chare::Chare {
 public:
  void hop(const chare::Array<Place>& places, std::uint64_t state, int left) {
    ++hops_here;
    // Now and then a process sleeps with messages under way.
    if (state % 97 == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));
    if (left == 0) return;
    const std::uint64_t next = state * 6364136223846793005u + 1442695040888963407u;
    places[(next >> 33) % places.extents()[0]].invoke<&Place::hop>(places, next, left - 1);
  }
};

void count_hops(const chare::Callback<long>& to) {
  to(hops_here);
}

chare::Task start() {
  const auto places = chare::Array<Place>::create({64});
  long expected = 0;
  for (int round = 0; round < 25; ++round) {
    for (std::uint64_t walker = 0; walker < 10; ++walker) {
      places[walker].invoke<&Place::hop>(places, walker + static_cast<std::uint64_t>(round) * 31, 20 * round);
      expected += 20 * round + 1;
    }
    const auto quiet = chare::Future<>::make();
    const auto quiet_too = chare::Future<>::make();
    chare::quiescence(quiet.callback());
    chare::quiescence(quiet_too.callback());
    co_await quiet;
    co_await quiet_too;
    long hops = 0;
    for (std::uint32_t rank = 0; rank < chare::size(); ++rank) {
      const auto counted = chare::Future<long>::make();
      chare::call<&count_hops>(rank, counted.callback());
      hops += co_await counted;
    }
    CHECK_EQUAL(hops, expected);
  }
  chare::exit(0);
}

}  // namespace

int main() {
  return chare::run(start);
}
