// What another number of processes costs: the table of docs/chares.md.
//
//     mpiexec -n 4 bench_chare_resize [CHARES [BYTES-A-CHARE]]
#include <isthmus/chare.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace chare = isthmus::chare;

namespace {

using Clock = std::chrono::steady_clock;

constexpr int blocks = 21;
std::uint64_t chares = 64;
std::uint64_t bytes = 65536;

class Cell : public chare::Chare {
 public:
  Cell() = default;
  explicit Cell(std::uint64_t size) : data_(size) {}
  template <class Archive>
  void serialize(Archive& archive) {
    archive(data_);
  }
  void tell(const chare::Callback<std::uint64_t>& to) {
    contribute<chare::Sum>(std::uint64_t{data_.size()}, to);
  }

 private:
  std::vector<char> data_;
};

double milliseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}
void print(const char* what, std::uint32_t from, std::uint32_t to, std::vector<double> times) {
  std::ranges::sort(times);
  std::printf("%u to %u  %-34s %10.3f %10.3f ms\n", from, to, what, times.front(), times[times.size() / 2]);
  std::fflush(stdout);
}

chare::Task start() {
  const auto cells = chare::Array<Cell>::create({chares}, bytes);
  const std::uint32_t all = chare::processes();
  const std::uint32_t half = (all + 1) / 2;
  std::vector<double> shrinking;
  std::vector<double> expanding;
  std::vector<double> sums;
  for (int block = 0; block < blocks; ++block)
    for (const std::uint32_t to : {half, all}) {
      const auto begin = Clock::now();
      const auto done = chare::Future<std::string>::make();
      chare::resize(to, done.callback());
      if (const std::string why = co_await done; !why.empty()) {
        std::fprintf(stderr, "as many processes as before: %s\n", why.c_str());
        co_return chare::exit(1);
      }
      (to == half ? shrinking : expanding).push_back(milliseconds_since(begin));
      const auto after = Clock::now();
      const auto sum = chare::Future<std::uint64_t>::make();
      cells.broadcast<&Cell::tell>(sum.callback());
      if (co_await sum != chares * bytes) co_return chare::exit(1);
      sums.push_back(milliseconds_since(after));
    }
  print("shrinks", all, half, shrinking);
  print("expands", half, all, expanding);
  print("a broadcast and a sum right afterwards", half, all, sums);
  chare::exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) chares = std::strtoull(argv[1], nullptr, 10);
  if (argc > 2) bytes = std::strtoull(argv[2], nullptr, 10);
  return chare::run(start);
}
