#pragma once

#include <cstdint>

/// What lies beside a descriptor in the box that the processes of a region share (`launch::DescriptorBox`).
namespace isthmus::wire {

inline constexpr std::uint64_t descriptor_magic = 0x6973'7468'6465'7301;  // "isthdes", 1

/// Names a descriptor that has been left for one process. Number 0: none has.
struct DescriptorTicket {
  std::uint64_t owner = 0;  ///< a random number that names the process that has left it
  std::uint64_t number = 0;

  friend bool operator==(const DescriptorTicket&, const DescriptorTicket&) = default;
};

/// One packet.
struct LeftDescriptor {
  std::uint64_t magic = descriptor_magic;
  DescriptorTicket ticket;
  std::uint32_t rank = 0;  ///< in the job: who may take it
  std::uint32_t reserved = 0;
};
static_assert(sizeof(LeftDescriptor) == 32);

}  // namespace isthmus::wire
