#pragma once

#include <cstddef>
#include <cstdint>

#include "coll/call/local.hpp"
#include "coll/context/hierarchy.hpp"

namespace isthmus::coll {

/// Blocks of `bytes` from or for all ranks, packed domain by domain.
class DomainMajor {
 public:
  DomainMajor(const Hierarchy& domains, std::uint64_t bytes)
      : domains_(domains), bytes_(bytes), memory_(bytes * domains.order().size()) {}

  [[nodiscard]] std::byte* at(int position) {
    return memory_.data() + bytes_ * static_cast<std::uint64_t>(position);
  }
  [[nodiscard]] Payload of_domain(int domain) {
    return Payload::of(at(domains_.begin(domain)),
                       bytes_ * static_cast<std::uint64_t>(domains_.members(domain)));
  }

 private:
  const Hierarchy& domains_;
  std::uint64_t bytes_;
  Bytes memory_;
};

}  // namespace isthmus::coll
