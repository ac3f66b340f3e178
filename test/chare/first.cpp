// Invocations, broadcasts, reductions, futures, coroutines: what docs/chares.md begins with.
#include <isthmus/chare.hpp>

#include "chare_check.h"

namespace chare = isthmus::chare;

namespace {

class Cell : public chare::Chare {
 public:
  explicit Cell(int scale) : scale_(scale) {}

  void add(int value, const std::vector<double>& more) {
    sum_ += value * scale_;
    for (const double each : more)
      sum_ += each;
  }
  void report(const chare::Callback<double>& to) { contribute<chare::Sum>(sum_, to); }

 private:
  int scale_;
  double sum_ = 0;
};

chare::Task start() {
  const auto cells = chare::Array<Cell>::create({100}, 2);
  for (int i = 0; i < 100; ++i)
    cells[i].invoke<&Cell::add>(i, std::vector<double>(3, 0.5));
  const auto quiet = chare::Future<>::make();
  chare::quiescence(quiet.callback());
  co_await quiet;
  const auto total = chare::Future<double>::make();
  cells.broadcast<&Cell::report>(total.callback());
  CHECK_EQUAL(co_await total, 2 * 4950 + 150);
  chare::exit(0);
}

}  // namespace

int main() {
  return chare::run(start);
}
