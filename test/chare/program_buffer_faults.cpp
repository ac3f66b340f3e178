// What goes wrong with data that goes apart from its message ends the job with a sentence: run by the suite
// `chare` at 2 ranks, which names the fault.
#include <isthmus/chare.hpp>

#include <sys/mman.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace chare = isthmus::chare;

namespace {

constexpr std::size_t page = 4096;

/// Memory that can be taken away for good.
double* mapped() {
  void* const memory = mmap(nullptr, 64 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  return static_cast<double*>(memory);
}
double* freed() {
  double* const memory = mapped();
  if (munmap(memory, 64 * page) != 0) std::abort();
  return memory;
}

class Cell : public chare::Chare {
 public:
  void take(const chare::DeviceBuffer<double>&, int) {}
  void post(chare::Post<&Cell::take>, chare::DeviceBuffer<double>& data, int fault) {
    static std::vector<double> room(100'000);
    if (fault == 1) throw std::runtime_error("the post entry is wrong");
    if (fault == 2) data.into(room.data(), data.size() - 1);
    if (fault == 3) return;
    if (fault == 4) data.into(freed(), 64 * page / sizeof(double));
    if (fault == 0) data.into(room.data(), room.size());
  }
  void other(int) {}
  void open(const chare::Callback<chare::MailboxAddress<double>>& opened) {
    static std::vector<double> room(10);
    box_ = chare::Mailbox<double>::open();
    box_.post(room.data(), room.size(), chare::callback_function<&Cell::came>(1));
    opened(box_.address());
  }
  static void came(std::uint64_t) {}

 private:
  chare::Mailbox<double> box_;
};

std::vector<double>& data() {
  static std::vector<double> all(1000);
  return all;
}
/// In the last process.
chare::Proxy<Cell> cell() {
  static const auto cells = chare::Array<Cell>::create({chare::size()});
  return cells[chare::size() - 1];
}
void take(double* from, std::size_t size, int fault) {
  cell().invoke<&Cell::take>(chare::DeviceBuffer<double>(from, size), fault);
}

/// An entry that has as many buffers as each invocation says. No invocation of these tests reaches it.
const chare::detail::Item any_number{"takes any number of buffers", ISTHMUS_CHARE_ENTRY,
                                     chare::detail::TypeItem<Cell>::get(), [](chare::detail::Item& made) {
                                       made.buffers = ISTHMUS_CHARE_ANY_BUFFERS;
                                       made.post = [](void*, void*, std::size_t, int, isthmus_chare_buffer*,
                                                      std::uint32_t) {
                                         chare::detail::fail("its post entry is called");
                                       };
                                     }};

/// An invocation of `take`, or of that entry, as no program makes it: with marks of its own.
void forge(const std::vector<std::uint64_t>& marks, bool says_buffers = true, bool takes_any = false) {
  isthmus_chare_item item = takes_any ? any_number : *chare::detail::EntryItem<Cell, &Cell::take>::get();
  item.buffers = 0;
  isthmus_chare_target target{};
  target.kind = ISTHMUS_CHARE_TO_ELEMENT;
  static const auto cells = chare::Array<Cell>::create({chare::size()});
  target.collection = cells.id();
  target.index.low = chare::size() - 1;
  const std::size_t bytes = marks.size() * sizeof marks[0];
  const int fault = 0;
  void* const to = says_buffers
                       ? isthmus_chare_begin_with(chare::detail::runtime, &target, &item,
                                                  bytes + sizeof fault, 0, nullptr, 0)
                       : isthmus_chare_begin(chare::detail::runtime, &target, &item, bytes + sizeof fault, 0);
  if (bytes != 0) std::memcpy(to, marks.data(), bytes);
  std::memcpy(static_cast<char*>(to) + bytes, &fault, sizeof fault);
  isthmus_chare_send(chare::detail::runtime);
}
/// As the standard division has them: the type above 60 bits, the source above 28.
constexpr std::uint64_t tag(std::uint64_t type, std::uint64_t source, std::uint64_t counter) {
  return type << 60 | source << 28 | counter;
}

chare::Task send_to_box(std::size_t bytes_more) {
  const auto opened = chare::Future<chare::MailboxAddress<double>>::make();
  cell().invoke<&Cell::open>(opened.callback());
  const auto address = co_await opened;
  if (bytes_more == 0) {
    address.send(chare::DeviceBuffer<double>(data().data(), 11));
  } else {
    const isthmus_chare_buffer odd{data().data(), bytes_more, nullptr, nullptr, nullptr};
    isthmus_chare_mailbox_send(chare::detail::runtime, address.id, &odd);
  }
}

void written(const std::string& why) {
  std::fprintf(stderr, "no checkpoint: %s\n", why.c_str());
  chare::exit(1);
}

using Faults = std::map<std::string, void (*)()>;

const Faults& faults() {
  static const Faults all{
      {"throws", [] { take(data().data(), 10, 1); }},
      {"too_small", [] { take(data().data(), 10, 2); }},
      {"nowhere", [] { take(data().data(), 10, 3); }},
      {"into_freed", [] { take(data().data(), 1000, 4); }},
      {"from_freed", [] { take(freed(), 64 * page / sizeof(double), 0); }},
      {"from_nothing", [] { take(nullptr, 10, 0); }},
      {"from_shorter", [] { take(mapped(), 65 * page * 1000 / sizeof(double), 0); }},
      {"without", [] { forge({tag(1, 0, 0), 8}, false); }},
      {"with",
       [] {
         isthmus_chare_item item = *chare::detail::EntryItem<Cell, &Cell::other>::get();
         item.buffers = 1;
         isthmus_chare_target target{};
         target.kind = ISTHMUS_CHARE_TO_ELEMENT;
         target.collection = chare::Array<Cell>::create({chare::size()}).id();
         target.index.low = chare::size() - 1;
         const isthmus_chare_buffer buffer{data().data(), 8, nullptr, nullptr, nullptr};
         isthmus_chare_begin_with(chare::detail::runtime, &target, &item, 0, 0, &buffer, 1);
         isthmus_chare_send(chare::detail::runtime);
       }},
      {"cut_off", [] { forge({tag(1, 0, 0)}); }},
      {"any_without", [] { forge({}, true, true); }},
      {"any_none", [] { forge({0, 0}, true, true); }},
      {"any_too_many", [] { forge({65, tag(1, 0, 0), 8}, true, true); }},
      {"any_cut_off", [] { forge({2, tag(1, 0, 0), 8}, true, true); }},
      {"no_type", [] { forge({tag(0, 0, 0), 8}); }},
      {"other_type", [] { forge({tag(9, 0, 0), 8}); }},
      {"of_a_mailbox", [] { forge({tag(2, 0, 1), 8}); }},
      {"of_another", [] { forge({tag(1, 1, 0), 8}); }},
      {"of_nobody", [] { forge({tag(1, 77, 0), 8}); }},
      {"too_long", [] { forge({tag(1, 0, 0), std::uint64_t{1} << 60}); }},
      {"half_an_item", [] { forge({tag(1, 0, 0), 12}); }},
      {"longer",
       [] {
         forge({tag(1, 0, 0), 8});
         take(data().data(), 10, 0);
       }},
      {"shorter",
       [] {
         forge({tag(1, 0, 0), 800});
         take(data().data(), 10, 0);
       }},
      {"box_too_small", [] { send_to_box(0); }},
      {"box_of_halves", [] { send_to_box(12); }},
      {"no_box", [] { chare::MailboxAddress<double>{}.send(chare::DeviceBuffer<double>(data().data(), 1)); }},
      {"box_of_another",
       [] {
         const isthmus_chare_callback came = chare::callback_function<&Cell::came>(0).what;
         isthmus_chare_mailbox_post(chare::detail::runtime, std::uint64_t{1} << 32 | 1, data().data(), 8, 8,
                                    &came);
       }},
      {"checkpoint",
       [] {
         static auto box = chare::Mailbox<double>::open();
         box.post(data().data(), 10, chare::callback_function<&Cell::came>(0));
         chare::checkpoint("nowhere/at", chare::callback_function<&written>(0), chare::exit_when_called());
       }},
  };
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  const auto fault = faults().find(argc > 1 ? argv[1] : "");
  if (fault == faults().end()) {
    std::fprintf(stderr, "there is no such fault\n");
    return 2;
  }
  return chare::run(fault->second);
}
