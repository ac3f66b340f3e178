// Waits for values and writes of values, in streams.
#include <atomic>
#include <chrono>

#include "copies.hpp"
#include "streams/stream.hpp"

namespace isthmus::emulated {
namespace {

struct Operation {
  StreamOperationType type = StreamOperationType::barrier;
  std::byte* where = nullptr;
  std::uint64_t value = 0;
  unsigned flags = 0;
  std::shared_ptr<Allocation> keeps;
};

template <class Value>
bool holds(Value now, Value wanted, unsigned flags) {
  switch (flags & 3U) {
    case wait_at_least:
      return static_cast<std::make_signed_t<Value>>(now - wanted) >= 0;
    case wait_equal:
      return now == wanted;
    case wait_and:
      return (now & wanted) != 0;
    default:
      return static_cast<Value>(~(now | wanted)) != 0;
  }
}

template <class Value>
void wait_for(const Operation& operation) {
  const auto* word = reinterpret_cast<const Value*>(operation.where);
  while (
      !holds(__atomic_load_n(word, __ATOMIC_ACQUIRE), static_cast<Value>(operation.value), operation.flags))
    std::this_thread::sleep_for(std::chrono::microseconds(2));
}

template <class Value>
void write(const Operation& operation) {
  __atomic_store_n(reinterpret_cast<Value*>(operation.where), static_cast<Value>(operation.value),
                   __ATOMIC_RELEASE);
}

void perform(const Operation& operation) {
  switch (operation.type) {
    case StreamOperationType::wait_value_32:
      return wait_for<std::uint32_t>(operation);
    case StreamOperationType::wait_value_64:
      return wait_for<std::uint64_t>(operation);
    case StreamOperationType::write_value_32:
      return write<std::uint32_t>(operation);
    case StreamOperationType::write_value_64:
      return write<std::uint64_t>(operation);
    default:
      std::atomic_thread_fence(std::memory_order_seq_cst);
  }
}

Status prepare(const StreamOperation& asked, Device device, Operation& operation) {
  operation = {.type = asked.type, .value = asked.value, .flags = asked.flags};
  std::size_t width = 4;
  switch (asked.type) {
    case StreamOperationType::wait_value_64:
    case StreamOperationType::write_value_64:
      width = 8;
      break;
    case StreamOperationType::wait_value_32:
    case StreamOperationType::write_value_32:
      break;
    case StreamOperationType::flush_remote_writes:
    case StreamOperationType::barrier:
      return Status::success;
    default:
      return Status::invalid_value;
  }
  if (asked.address % width != 0) return Status::invalid_value;
  Place place;
  ISTHMUS_PASS(locate(asked.address, width, device, place));
  if (!place.allocation) return Status::invalid_value;  // pageable memory
  operation.where = place.view;
  operation.keeps = place.allocation;
  return Status::success;
}

Status one(Stream stream, StreamOperationType type, Address address, std::uint64_t value, unsigned flags) {
  StreamOperation operation{.type = type, .address = address, .value = value, .flags = flags};
  return cuStreamBatchMemOp_v2(stream, 1, &operation, 0);
}

}  // namespace

extern "C" {

Status cuStreamBatchMemOp_v2(Stream stream, unsigned count, StreamOperation* operations, unsigned flags) {
  Context context = nullptr;
  ISTHMUS_PASS(enter_with_context(context));
  constexpr unsigned most = 256;
  if (settings().refuses(Refusal::memops)) return Status::not_supported;
  if (count > most || flags != 0 || (count > 0 && !operations)) return Status::invalid_value;
  std::vector<Operation> all(count);
  for (unsigned i = 0; i < count; ++i)
    ISTHMUS_PASS(prepare(operations[i], context->device, all[i]));
  return submit(stream, [all = std::move(all)] {
    for (const Operation& operation : all)
      perform(operation);
  });
}

Status cuStreamWaitValue32_v2(Stream stream, Address address, std::uint32_t value, unsigned flags) {
  return one(stream, StreamOperationType::wait_value_32, address, value, flags);
}

Status cuStreamWriteValue32_v2(Stream stream, Address address, std::uint32_t value, unsigned flags) {
  return one(stream, StreamOperationType::write_value_32, address, value, flags);
}

Status cuStreamWaitValue64_v2(Stream stream, Address address, std::uint64_t value, unsigned flags) {
  return one(stream, StreamOperationType::wait_value_64, address, value, flags);
}

Status cuStreamWriteValue64_v2(Stream stream, Address address, std::uint64_t value, unsigned flags) {
  return one(stream, StreamOperationType::write_value_64, address, value, flags);
}
}

}  // namespace isthmus::emulated
