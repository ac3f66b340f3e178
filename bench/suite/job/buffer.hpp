// Memory in some placement, with a pattern in it that can be checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "suite/core/placement.hpp"
#include "suite/gpu/faults.hpp"
#include "suite/job/grid.hpp"

namespace isthmus::bench {

class Buffer {
 public:
  virtual ~Buffer() = default;
  Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  [[nodiscard]] std::uint8_t* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }

  // Copies of a part, from or to host memory.
  virtual void write(std::size_t offset, std::span<const std::uint8_t> bytes) = 0;
  virtual void read(std::size_t offset, std::span<std::uint8_t> bytes) const = 0;
  // Uses so many bytes from `offset` on where the placement says that the program does: the CPU or a kernel
  // touches their pages. Nothing for memory that does not move. With `wait`, returns when that is done; else
  // `settle` waits for all of them.
  virtual void touch(std::size_t /*offset*/, std::size_t /*bytes*/, bool /*wait*/) {}
  virtual void settle() {}

  // The pattern of bench/common/pages.hpp, as `writer` sends it in `round`.
  void fill(std::size_t offset, std::size_t bytes, unsigned writer, unsigned round);
  void fill(unsigned writer, unsigned round) { fill(0, size_, writer, round); }
  void clear();
  // "byte 17 is wrong", or nothing.
  [[nodiscard]] std::string fault(std::size_t offset, std::size_t bytes, unsigned writer,
                                  unsigned round) const;
  [[nodiscard]] std::string fault(unsigned writer, unsigned round) const {
    return fault(0, size_, writer, round);
  }

 protected:
  void set(std::uint8_t* data, std::size_t size) {
    data_ = data;
    size_ = size;
  }

 private:
  std::uint8_t* data_ = nullptr;
  std::size_t size_ = 0;
};

// Makes buffers for this rank. Memory that is not there is a Stop (job/call.hpp) with the reason.
class Memory {
 public:
  virtual ~Memory() = default;
  Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // Of at least one byte, all of it touched.
  [[nodiscard]] virtual std::unique_ptr<Buffer> make(std::size_t bytes) = 0;
  // Computed where the placement's buffers are used.
  [[nodiscard]] virtual std::unique_ptr<Grid> make_grid(const Shape& shape) { return make_host_grid(shape); }
  // Seconds that launching so many data-migration kernels and waiting for them takes by itself, samples of
  // it; empty where `touch` launches none.
  [[nodiscard]] virtual std::vector<double> launch_times(int /*kernels*/) { return {}; }
  // Page faults of what is done between the two, where the memory was made to count them; else none.
  virtual void begin_faults() {}
  [[nodiscard]] virtual Faults end_faults() { return {}; }
};

// In this rank's placement; `local_rank` chooses among the GPUs.
std::unique_ptr<Memory> make_memory(Placement placement, int local_rank, bool count_faults);

}  // namespace isthmus::bench
