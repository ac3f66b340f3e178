// A kernel of one thread that waits for the next message: what a courier without MPI around it takes.
#pragma once

#include <atomic>
#include <cstdint>

#include "gpu/cuda.hpp"

namespace isthmus::bench {

// It looks at 16 bytes of pinned memory, an address and a value, stores the value there and answers. Leaves
// when it has had nothing to do for a while.
class BareCourier {
 public:
  // False below where the driver does not take the kernel.
  explicit BareCourier(const Cuda& cuda);
  BareCourier(const BareCourier&) = delete;
  BareCourier& operator=(const BareCourier&) = delete;
  ~BareCourier();
  explicit operator bool() const { return function_ != nullptr; }

  // Stores 8 bytes, and returns when the host knows that they have arrived.
  void deliver(driver::Address to);

 private:
  struct alignas(64) Board {
    alignas(16) std::uint64_t errand[2];  // by the host: address, number
    alignas(64) std::uint64_t delivered;  // by the kernel: the number
    std::uint64_t left;                   // by the kernel: 1 when it has
  };
  void send_out();

  const Cuda& cuda_;
  driver::Module module_ = nullptr;
  driver::Function function_ = nullptr;
  Board* board_ = nullptr;
  std::uint64_t number_ = 0;
};

}  // namespace isthmus::bench
