#include "carry/order.hpp"

#include <fmt/format.h>

#include <utility>

namespace isthmus::carry {
namespace {

bool has_memory(Kind kind) {
  return kind == Kind::put || kind == Kind::get;
}

}  // namespace

Result<> check(const Order& order, const Limits& limits) {
  if (!has_memory(order.kind) && order.kind != Kind::signal)
    return fail(ErrorClass::intern,
                fmt::format("a proxy is told to do {}, which is nothing", std::to_underlying(order.kind)));
  if (has_memory(order.kind)) {
    if (order.share >= limits.shares.size())
      return fail(ErrorClass::arg, fmt::format("{} names share {}, which there is not any more: {}",
                                               limits.asks, order.share, limits.late));
    const std::size_t room = limits.shares[order.share];
    if (order.offset > room || order.bytes > room - order.offset)
      return fail(ErrorClass::arg,
                  fmt::format("{} names {} bytes at {} of share {}, which has {}: {}", limits.asks,
                              order.bytes, order.offset, order.share, room, limits.late));
  }
  if (order.signals == Signal::none && order.kind != Kind::signal) return {};
  if (order.signals != Signal::set && order.signals != Signal::line)
    return fail(ErrorClass::intern, fmt::format("a proxy is told to signal by {}, which is nothing",
                                                std::to_underlying(order.signals)));
  if (order.signal >= limits.signals)
    return fail(ErrorClass::arg,
                fmt::format("{} names signal {}, of {}", limits.asks, order.signal, limits.signals));
  return {};
}

}  // namespace isthmus::carry
