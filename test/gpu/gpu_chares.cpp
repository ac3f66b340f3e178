// Chares with data in GPU memory: arguments that go apart, from each kind of memory to each, within a process
// and between two; memory that is given away with a GPU's deleter; mailboxes; state in a GPU that moves. With
// a word, a fault, which ends the job with a sentence. Prints nothing when all is right. At 2 ranks.
#include <isthmus/chare.hpp>

#include <map>
#include <memory>
#include <optional>
#include <string_view>

#include "gpu_memory.hpp"

using namespace isthmus;
using namespace isthmus::testing_gpu;

namespace {

constexpr std::size_t sizes[] = {2, 3000, 400'000};
constexpr std::size_t largest = 400'000;

const Gpu* gpu = nullptr;
std::string_view fault;

/// Of each process: one of each kind, to send from and to receive in.
struct Memories {
  std::map<MemoryKind, std::unique_ptr<Memory>> from, to;
};
Memories* memories = nullptr;
int* data_of(Memory& memory) {
  return static_cast<int*>(memory.data());
}

/// GPU memory that ends with its last owner.
std::shared_ptr<int[]> on_gpu(std::size_t count, int first) {
  auto memory = std::make_shared<Memory>(*gpu, MemoryKind::device, count * sizeof(int));
  memory->write(ascending(count, first));
  return {memory, data_of(*memory)};
}
std::vector<int> read(const int* from, std::size_t count) {
  std::vector<int> values(count);
  isthmus_chare_copy(chare::detail::runtime, values.data(), from, count * sizeof(int));
  return values;
}

class Cell : public chare::Chare {
 public:
  void take(const chare::DeviceBuffer<int>& data, MemoryKind kind, int first, const chare::Callback<>& done) {
    CHECK(data.data() == data_of(*memories->to.at(kind)));
    CHECK(memories->to.at(kind)->read<int>(data.size()) == ascending(data.size(), first));
    done();
  }
  void post(chare::Post<&Cell::take>, chare::DeviceBuffer<int>& data, MemoryKind kind, int,
            const chare::Callback<>&) {
    data.into(data_of(*memories->to.at(kind)), largest);
  }
  void take_own(const chare::DeviceBuffer<int>& data, int first, const chare::Callback<>& done) {
    CHECK(data.memory());
    CHECK(read(data.data(), data.size()) == ascending(data.size(), first));
    done();
  }
  void post(chare::Post<&Cell::take_own>, chare::DeviceBuffer<int>& data, int, const chare::Callback<>&) {
    data.into(on_gpu(data.size(), -1), data.size());
  }
  void open(const chare::Callback<chare::MailboxAddress<int>>& opened) {
    box_ = chare::Mailbox<int>::open();
    opened(box_.address());
  }
  chare::Task await_mail(std::size_t count, int first, chare::Callback<> ready, chare::Callback<> done) {
    const auto memory = on_gpu(largest, -1);
    const auto came = chare::Future<std::uint64_t>::make();
    box_.post(memory.get(), largest, came.callback());
    ready();
    CHECK_EQUAL(co_await came, count);
    CHECK(read(memory.get(), count) == ascending(count, first));
    box_ = {};
    done();
  }

 private:
  chare::Mailbox<int> box_;
};

/// Its state is in its process's GPU.
class Wanderer : public chare::Chare {
 public:
  Wanderer() = default;
  explicit Wanderer(std::size_t count) : count_(count), state_(on_gpu(count, 7)) {}
  template <class Archive>
  void serialize(Archive& archive) {
    archive(count_);
    if constexpr (Archive::reads) state_ = on_gpu(count_, -1);
    chare::device_state(archive, state_.get(), count_);
  }
  void wander(int left, const chare::Callback<>& done) {
    CHECK(read(state_.get(), count_) == ascending(count_, 7));
    if (left == 0) return done();
    this_proxy<Wanderer>().invoke<&Wanderer::wander>(left - 1, done);
    migrate((chare::rank() + 1) % chare::size());
  }

 private:
  std::size_t count_ = 0;
  std::shared_ptr<int[]> state_;
};

chare::Task start() {
  const auto cells = chare::Group<Cell>::create();
  if (fault == "freed") {
    // The address stays, the memory is gone.
    const int* gone = on_gpu(1000, 0).get();
    cells[1].invoke<&Cell::take>(chare::DeviceBuffer<int>(const_cast<int*>(gone), 1000), MemoryKind::device,
                                 0, chare::exit_when_called());
    co_return;
  }
  int first = 1;
  for (std::uint32_t to = 0; to < chare::size(); ++to) {
    for (const MemoryKind from : every_kind)
      for (const MemoryKind into : every_kind)
        for (const std::size_t size : sizes) {
          if (size != sizes[1] && from != MemoryKind::device && into != MemoryKind::device) continue;
          Memory& memory = *memories->from.at(from);
          memory.write(ascending(size, ++first));
          const auto sent = chare::Future<>::make();
          const auto done = chare::Future<>::make();
          cells[to].invoke<&Cell::take>(chare::DeviceBuffer<int>(data_of(memory), size, sent.callback()),
                                        into, first, done.callback());
          co_await done;
          co_await sent;
        }
    auto memory = on_gpu(largest, 5);
    const std::weak_ptr<int[]> watched = memory;
    const auto done = chare::Future<>::make();
    cells[to].invoke<&Cell::take_own>(chare::DeviceBuffer<int>(std::move(memory), largest), 5,
                                      done.callback());
    co_await done;
    const auto quiet = chare::Future<>::make();
    chare::quiescence(quiet.callback());
    co_await quiet;
    CHECK(watched.expired());
    const auto opened = chare::Future<chare::MailboxAddress<int>>::make();
    cells[to].invoke<&Cell::open>(opened.callback());
    const auto address = co_await opened;
    const auto ready = chare::Future<>::make();
    const auto received = chare::Future<>::make();
    cells[to].invoke<&Cell::await_mail>(largest, 9, ready.callback(), received.callback());
    co_await ready;
    address.send(chare::DeviceBuffer<int>(on_gpu(largest, 9), largest));
    co_await received;
  }
  const auto wanderers = chare::Array<Wanderer>::create({1}, largest);
  const auto arrived = chare::Future<>::make();
  wanderers[0].invoke<&Wanderer::wander>(5, arrived.callback());
  co_await arrived;
  chare::exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) fault = argv[1];
  return run_on_gpu(argc, argv, [](const Gpu& of_rank, int) {
    gpu = &of_rank;
    Memories all;
    for (const MemoryKind kind : every_kind) {
      all.from[kind] = std::make_unique<Memory>(of_rank, kind, largest * sizeof(int));
      all.to[kind] = std::make_unique<Memory>(of_rank, kind, largest * sizeof(int));
    }
    memories = &all;
    CHECK_EQUAL(chare::run(start), 0);
  });
}
