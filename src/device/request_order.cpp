#include "device/request_order.hpp"

#include <utility>

namespace isthmus::device {

static_assert(std::to_underlying(carry::Kind::put) == ISTHMUS_DEVICE_PUT &&
              std::to_underlying(carry::Kind::get) == ISTHMUS_DEVICE_GET &&
              std::to_underlying(carry::Kind::signal) == ISTHMUS_DEVICE_SIGNAL);
static_assert(std::to_underlying(carry::Signal::set) == ISTHMUS_DEVICE_SET &&
              std::to_underlying(carry::Signal::add) == ISTHMUS_DEVICE_ADD &&
              std::to_underlying(carry::Signal::line) == ISTHMUS_DEVICE_LINE);

carry::Order order_of(const isthmus_device_request& request) {
  return {.offset = request.offset,
          .bytes = request.bytes,
          .value = request.value,
          .word = request.word,
          .share = request.share,
          .signal = request.signal,
          .kind = static_cast<carry::Kind>(request.kind),
          .signals = static_cast<carry::Signal>(request.signals)};
}

}  // namespace isthmus::device
