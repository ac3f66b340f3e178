// What checkpoints in memory cost, and a death: the table of docs/chares.md.
//
//     mpiexec --on-failure continue -n 4 bench_chare_survival [CHARES-A-PROCESS [BYTES-A-CHARE [DEATHS]]]
#include <isthmus/chare.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace chare = isthmus::chare;

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t blocks = 21;
std::uint64_t chares = 64;
std::uint64_t bytes = 65536;
std::uint32_t deaths = 1;

// Of process 0, which lives. What chares keep would be as it was.
std::vector<double> checkpoints;
Clock::time_point begun;

double milliseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}
void print(const char* what, std::vector<double> times) {
  std::ranges::sort(times);
  std::printf("%u  %-34s %10.3f %10.3f ms\n", chare::size(), what, times.front(), times[times.size() / 2]);
  std::fflush(stdout);
}

void die() {
  std::raise(SIGKILL);
}

class Cell : public chare::Chare {
 public:
  Cell() = default;
  explicit Cell(std::uint64_t size) : data_(size) {}
  template <class Archive>
  void serialize(Archive& archive) {
    archive(data_);
  }

 private:
  std::vector<char> data_;
};

class Main : public chare::Chare {
 public:
  Main() = default;
  explicit Main(std::uint64_t count) : cells_(chare::Array<Cell>::create({count}, bytes)) {}
  template <class Archive>
  void serialize(Archive& archive) {
    archive(cells_);
  }
  void write() {
    begun = Clock::now();
    const auto self = this_proxy<Main>();
    chare::checkpoint_in_memory(self.callback<&Main::written>(), self.callback<&Main::restarted>());
  }
  void written(const std::string& error) {
    if (!error.empty()) {
      std::fprintf(stderr, "no checkpoint: %s\n", error.c_str());
      return chare::exit(1);
    }
    checkpoints.push_back(milliseconds_since(begun));
    if (checkpoints.size() < blocks) return write();
    print("a checkpoint in memory", checkpoints);
    if (chare::rollbacks() == deaths || chare::size() == 1) return chare::exit(0);
    begun = Clock::now();
    chare::call<&die>(chare::size() - 1);
  }
  void restarted() {
    print("from a death to going on", {milliseconds_since(begun)});
    if (chare::size() == 1) return chare::exit(0);
    checkpoints.clear();
    write();
  }

 private:
  chare::Array<Cell> cells_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) chares = std::strtoull(argv[1], nullptr, 10);
  if (argc > 2) bytes = std::strtoull(argv[2], nullptr, 10);
  if (argc > 3) deaths = static_cast<std::uint32_t>(std::strtoul(argv[3], nullptr, 10));
  return chare::run(
      [] { chare::Array<Main>::create({1}, chares * chare::size())[0].invoke<&Main::write>(); });
}
