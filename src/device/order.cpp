#include "device/order.hpp"

#include <fmt/format.h>

namespace isthmus::device {

Order order_of(const isthmus_device_request& request) {
  return {.offset = request.offset,
          .bytes = request.bytes,
          .value = request.value,
          .word = request.word,
          .share = request.share,
          .signal = request.signal,
          .kind = request.kind,
          .signals = request.signals};
}

Result<> check(const Order& order, std::uint32_t signals, std::span<const std::size_t> shares) {
  if (order.kind != ISTHMUS_DEVICE_PUT && order.kind != ISTHMUS_DEVICE_GET &&
      order.kind != ISTHMUS_DEVICE_SIGNAL)
    return fail(ErrorClass::intern, fmt::format("a proxy is told to do {}, which is nothing", order.kind));
  if (order.kind != ISTHMUS_DEVICE_SIGNAL) {
    if (order.share >= shares.size())
      return fail(ErrorClass::arg, fmt::format("a kernel names share {}, which there is not any more: it was "
                                               "launched before isthmus_device_unshare",
                                               order.share));
    const std::size_t room = shares[order.share];
    if (order.offset > room || order.bytes > room - order.offset)
      return fail(
          ErrorClass::arg,
          fmt::format("a kernel names {} bytes at {} of share {}, which has {}: it was launched before "
                      "isthmus_device_unshare",
                      order.bytes, order.offset, order.share, room));
  }
  if (order.signals == 0 && order.kind != ISTHMUS_DEVICE_SIGNAL) return {};
  if (order.signals != ISTHMUS_DEVICE_SET && order.signals != ISTHMUS_DEVICE_LINE)
    return fail(ErrorClass::intern,
                fmt::format("a proxy is told to signal by {}, which is nothing", order.signals));
  if (order.signal >= signals)
    return fail(ErrorClass::arg, fmt::format("a kernel names signal {}, of {}", order.signal, signals));
  return {};
}

}  // namespace isthmus::device
