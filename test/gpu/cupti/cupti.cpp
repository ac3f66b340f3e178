// A stand-in for libcupti.so.13, for tests of --faults: while enabled, each flush delivers the same records,
// in two buffers.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace {

// CUpti_ActivityUnifiedMemoryCounter3.
struct Record {
  int kind;
  int counter;
  std::uint64_t value;
  std::uint64_t start;
  std::uint64_t end;
  std::uint64_t address;
  std::uint32_t source;
  std::uint32_t target;
  std::uint32_t stream;
  std::uint32_t process;
  std::uint32_t flags;
  std::uint32_t pad;
  std::uint64_t processors[5];
};
static_assert(sizeof(Record) == 104);

using Request = void (*)(std::uint8_t**, std::size_t*, std::size_t*);
using Complete = void (*)(void*, std::uint32_t, std::uint8_t*, std::size_t, std::size_t);

struct State {
  Request request = nullptr;
  Complete complete = nullptr;
  bool enabled = false;
  std::vector<int> configured;
};

State& state() {
  static State instance;
  return instance;
}

void deliver(const std::vector<Record>& records) {
  std::uint8_t* buffer = nullptr;
  std::size_t size = 0;
  std::size_t most = 0;
  state().request(&buffer, &size, &most);
  const std::size_t bytes = records.size() * sizeof(Record);
  if (buffer == nullptr || size < bytes) return;
  std::memcpy(buffer, records.data(), bytes);
  state().complete(nullptr, 0, buffer, size, bytes);
}

}  // namespace

extern "C" {

int cuptiActivityRegisterCallbacks(Request request, Complete complete) {
  state().request = request;
  state().complete = complete;
  return 0;
}

struct Counter {
  int scope;
  int kind;
  std::uint32_t device;
  std::uint32_t enable;
};
int cuptiActivityConfigureUnifiedMemoryCounter(Counter* counters, std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i)
    if (counters[i].scope == 2 && counters[i].enable == 1) state().configured.push_back(counters[i].kind);
  return 0;
}

int cuptiActivityEnable(int kind) {
  if (kind != 25) return 1;
  state().enabled = true;
  return 0;
}

int cuptiActivityDisable(int kind) {
  if (kind == 25) state().enabled = false;
  return 0;
}

// In all: 40 faults of the CPU, 100 of the GPU, 81920 bytes to the GPU and 40960 back, if the four counters
// were asked for.
int cuptiActivityFlushAll(std::uint32_t) {
  if (!state().enabled || state().configured != std::vector<int>{1, 2, 3, 4}) return 0;
  deliver(std::vector<Record>(40, Record{25, 3, 0xdeadbeef}));
  std::vector<Record> rest(20, Record{25, 4, 5});
  rest.push_back({25, 1, 81920});
  rest.push_back({25, 2, 40960});
  rest.push_back({7, 1, 99999});  // another kind of activity
  deliver(rest);
  return 0;
}

int cuptiActivityGetNextRecord(std::uint8_t* buffer, std::size_t valid, void** record) {
  std::uint8_t* const next =
      *record == nullptr ? buffer : static_cast<std::uint8_t*>(*record) + sizeof(Record);
  if (next + sizeof(Record) > buffer + valid) return 12;  // CUPTI_ERROR_MAX_LIMIT_REACHED
  *record = next;
  return 0;
}

int cuptiGetResultString(int, const char** text) {
  *text = "refused";
  return 0;
}
}
