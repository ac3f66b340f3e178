#pragma once

#include <memory>

#include "memory/backing.hpp"
#include "streams/stream.hpp"

namespace isthmus::cuda {

struct EventObject {
  Device device = 0;
  ContextObject* context = nullptr;
  unsigned flags = 0;
  /// Holds `state` where several processes share the event.
  std::shared_ptr<emulated::Backing> backing;
  std::unique_ptr<emulated::BackingHeader> own;
  emulated::BackingHeader* state = nullptr;
  bool is_imported = false;
  /// The capture in which it was recorded last, if it was in one.
  std::shared_ptr<emulated::Capture> capture;

  [[nodiscard]] bool reached(std::uint32_t number) const;
  void wait(std::uint32_t number) const;
};

}  // namespace isthmus::cuda
