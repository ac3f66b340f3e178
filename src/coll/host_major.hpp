#pragma once

#include <cstddef>
#include <cstdint>

#include "coll/hierarchy.hpp"
#include "coll/local.hpp"

namespace isthmus::coll {

/// Blocks of `bytes` from or for all ranks, packed host by host.
class HostMajor {
 public:
  HostMajor(const Hierarchy& hosts, std::uint64_t bytes)
      : hosts_(hosts), bytes_(bytes), memory_(bytes * hosts.order().size()) {}

  [[nodiscard]] std::byte* at(int position) {
    return memory_.data() + bytes_ * static_cast<std::uint64_t>(position);
  }
  [[nodiscard]] Payload of_host(int host) {
    return Payload::of(at(hosts_.begin(host)), bytes_ * static_cast<std::uint64_t>(hosts_.members(host)));
  }

 private:
  const Hierarchy& hosts_;
  std::uint64_t bytes_;
  Bytes memory_;
};

}  // namespace isthmus::coll
