// Memory fails at one allocation of the last process: run by the suite `chare` with the number of that
// allocation, which must end the job with a sentence, or be got over.
//
//     program_memory PATH [NUMBER]    without a number prints how many there are
#include <isthmus/chare.hpp>

#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>

namespace chare = isthmus::chare;

namespace {

bool is_armed = false;
long allocations = 0;
long failing = 0;

void* allocate(std::size_t bytes) {
  if (is_armed && ++allocations == failing) throw std::bad_alloc();
  void* const memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (!memory) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t bytes) {
  return allocate(bytes);
}
void* operator new[](std::size_t bytes) {
  return allocate(bytes);
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return allocate(bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace {

std::string path;

class Cell : public chare::Chare {
 public:
  Cell() = default;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(data_, done_);
  }
  void fill(std::size_t bytes, const chare::Callback<std::uint64_t>& to) {
    data_.resize(bytes);
    contribute<chare::Sum>(std::uint64_t{data_.size()}, to);
    migrate((chare::rank() + 1) % chare::size());
  }
  void sync(const chare::Callback<>& done) {
    done_ = done;
    set_load(static_cast<double>(index()));
    at_sync<&Cell::go_on, &chare::greedy>();
  }
  void go_on() { contribute(done_); }

 private:
  std::vector<char> data_;
  chare::Callback<> done_{};
};

class Switch : public chare::Chare {
 public:
  Switch() = default;
  template <class Archive>
  void serialize(Archive&) {}
  void arm(bool on) {
    if (chare::rank() != chare::size() - 1) return;
    is_armed = on;
    if (!on && failing == 0) std::printf("%ld\n", allocations);
  }
};

void never() {}

chare::Task start() {
  const auto switches = chare::Group<Switch>::create();
  switches.broadcast<&Switch::arm>(true);
  const auto quiet = chare::Future<>::make();
  chare::quiescence(quiet.callback());
  co_await quiet;
  const auto cells = chare::Array<Cell>::create({8});
  const auto keyed = chare::Map<Cell, std::string>::create();
  for (int i = 0; i < 8; ++i)
    keyed.insert("a key that is not a short one " + std::to_string(i));
  keyed.done_inserting();
  for (const std::size_t bytes : {std::size_t{10}, std::size_t{30000}}) {
    const auto sum = chare::Future<std::uint64_t>::make();
    cells.broadcast<&Cell::fill>(bytes, sum.callback());
    if (co_await sum != 8 * bytes) std::abort();
    const auto other = chare::Future<std::uint64_t>::make();
    keyed.broadcast<&Cell::fill>(bytes, other.callback());
    if (co_await other != 8 * bytes) std::abort();
  }
  const auto balanced = chare::Future<>::make();
  cells.broadcast<&Cell::sync>(balanced.callback());
  co_await balanced;
  const auto moved = chare::Future<>::make();
  keyed.balance<&chare::refine>(moved.callback());
  co_await moved;
  const auto written = chare::Future<std::string>::make();
  chare::checkpoint(path, written.callback(), chare::callback_function<&never>(0));
  if (const std::string why = co_await written; !why.empty()) std::printf("no checkpoint: %s\n", why.c_str());
  const auto copied = chare::Future<std::string>::make();
  chare::checkpoint_in_memory(copied.callback(), chare::callback_function<&never>(0));
  if (const std::string why = co_await copied; !why.empty()) std::printf("no checkpoint: %s\n", why.c_str());
  switches.broadcast<&Switch::arm>(false);
  chare::quiescence(chare::exit_when_called());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  path = argv[1];
  failing = argc > 2 ? std::atol(argv[2]) : 0;
  return chare::run(start);
}
