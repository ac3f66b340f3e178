#include "device/refusal.hpp"

#include <fmt/format.h>

namespace isthmus::device {
namespace {

const char* call_of(unsigned long long what) {
  switch (what) {
    case ISTHMUS_DEVICE_PUT:
      return "put";
    case ISTHMUS_DEVICE_GET:
      return "get";
    case ISTHMUS_DEVICE_SIGNAL:
      return "signal";
    case ISTHMUS_DEVICE_WAIT:
      return "wait";
    case ISTHMUS_DEVICE_TEAM:
      return "team operation";
    case ISTHMUS_DEVICE_ROLE:
      return "wait for a role";
    case ISTHMUS_DEVICE_SEND:
      return "send";
    case ISTHMUS_DEVICE_RECEIVE:
      return "receive";
    default:
      return "call";
  }
}

}  // namespace

Error refusal(const isthmus_device_control& noted) {
  const char* const call = call_of(noted.what);
  const auto rank = static_cast<long long>(noted.rank);
  switch (noted.why) {
    case ISTHMUS_DEVICE_BAD_RANK:
      return Error(ErrorClass::rank,
                   fmt::format("a kernel's {} names rank {}, which the port has not", call, rank));
    case ISTHMUS_DEVICE_BAD_SHARE:
      return Error(ErrorClass::arg,
                   fmt::format("a kernel's {} names share {}, which there was not when the kernel "
                               "was launched: nothing was copied",
                               call, noted.number));
    case ISTHMUS_DEVICE_BAD_RANGE:
      return Error(
          ErrorClass::arg,
          fmt::format("a kernel's {} of {} bytes at {} does not lie within what rank {} shares under {}: "
                      "nothing was copied",
                      call, noted.bytes, noted.offset, rank, noted.number));
    case ISTHMUS_DEVICE_BAD_SIGNAL:
      return Error(ErrorClass::arg,
                   fmt::format("a kernel's {} names signal {}, which the port has not: ask for more "
                               "when it is made",
                               call, noted.number));
    case ISTHMUS_DEVICE_NO_WAY:
      if (noted.what == ISTHMUS_DEVICE_TEAM)
        return Error(ErrorClass::unsupported_operation,
                     "a kernel's team operation needs all processes of the port mapped, and one is not: "
                     "isthmus_device_reach says why; use MPI's collectives");
      return Error(
          ErrorClass::unsupported_operation,
          fmt::format("a kernel's {} names rank {}, whose memory is not mapped, and there is no proxy for "
                      "it: isthmus_device_reach says why",
                      call, rank));
    case ISTHMUS_DEVICE_NO_ATOMICS:
      return Error(
          ErrorClass::unsupported_operation,
          fmt::format("a kernel's {} adds to a word of rank {}, to which no link with atomic operations "
                      "leads: set it instead",
                      call, rank));
    case ISTHMUS_DEVICE_BAD_ROLE:
      return Error(ErrorClass::arg,
                   fmt::format("a role of a fused kernel waits for role {}, which comes no sooner "
                               "than itself, so that it may never begin",
                               noted.number));
    case ISTHMUS_DEVICE_BAD_TAG:
      return Error(ErrorClass::tag,
                   fmt::format("a kernel's {} to rank {} has the tag that stands for any", call, rank));
    case ISTHMUS_DEVICE_TRUNCATED:
      return Error(
          ErrorClass::truncate,
          fmt::format("a kernel's {} has room for {} bytes, and message {} from rank {} has {}: what "
                      "fits has been copied",
                      call, noted.offset, noted.number, rank, noted.bytes));
    default:
      return Error(ErrorClass::intern,
                   fmt::format("a kernel's {} was refused, because of {}", call, noted.why));
  }
}

}  // namespace isthmus::device
