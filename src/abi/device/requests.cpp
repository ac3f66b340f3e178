#include "abi/device/requests.hpp"

#include <fmt/format.h>

#include <atomic>
#include <cstddef>

#include "device/request_order.hpp"
#include "gpu/driver/cuda_error.hpp"

namespace isthmus::abi {

bool KernelRequests::is_asked() const noexcept {
  return std::atomic_ref(slot().number).load(std::memory_order_acquire) == next_;
}

Result<bool> KernelRequests::take_requests(Carrier& carrier) {
  bool moved = false;
  for (; is_asked(); ++next_) {
    const isthmus_device_request request = slot();
    carry::Order order = device::order_of(request);
    if (request.share == ISTHMUS_DEVICE_ROOM) {
      order.share = port_.extent().shares;
      order.offset += port_.room_offset();
      order.signal += static_cast<std::uint32_t>(port_.room_offset() / sizeof(isthmus_device_line));
    } else if (order.signals != carry::Signal::none && order.signal >= port_.extent().signals) {
      return fail(ErrorClass::arg, fmt::format("a kernel's request names signal {}, of {}", order.signal,
                                               port_.extent().signals));
    }
    ISTHMUS_TRY(carrier.begin(request.rank, order, request.local, begun_.begin()));
    moved = true;
  }
  return moved;
}

Result<> KernelRequests::end(Carrier&, std::uint64_t number) {
  begun_.end(number);
  std::atomic_ref(port_.control().done).store(begun_.ended(), std::memory_order_release);
  return {};
}

bool KernelRequests::is_idle() const {
  return begun_.is_idle() && !is_asked();
}

Result<> KernelRequests::set_signal(const carry::Order& order, cuda::Stream stream) {
  const cuda::Functions& cuda = port_.functions();
  const cuda::Address line = port_.signal(order.signal);
  cuda::Status status = cuda::Status::success;
  if (order.signals == carry::Signal::line)
    status = cuda.stream_write_value_64(stream, line + offsetof(isthmus_device_line, word), order.word, 0);
  if (status == cuda::Status::success) status = cuda.stream_write_value_64(stream, line, order.value, 0);
  if (status == cuda::Status::success) return {};
  return cuda::fail(cuda, status, "let a stream set a signal (cuStreamWriteValue64)");
}

carry::Limits KernelRequests::limits() const {
  // Lines of what is shared: the asking side has held signals of the program against their count.
  return {.signals = static_cast<std::uint32_t>(port_.shared_bytes() / sizeof(isthmus_device_line)),
          .shares = {},
          .asks = "a kernel",
          .late = "it was launched before isthmus_device_unshare"};
}

}  // namespace isthmus::abi
