#include "suite/job/buffer.hpp"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>

#include "common/pages.hpp"
#include "suite/gpu/memory.hpp"
#include "suite/job/call.hpp"

namespace isthmus::bench {
namespace {

constexpr std::size_t piece = 65536;

// That the processor copies to and from.
class PlainBuffer : public Buffer {
 public:
  void write(std::size_t offset, std::span<const std::uint8_t> bytes) override {
    std::copy(bytes.begin(), bytes.end(), data() + offset);
  }
  void read(std::size_t offset, std::span<std::uint8_t> bytes) const override {
    std::copy_n(data() + offset, bytes.size(), bytes.begin());
  }
};

class HostBuffer final : public PlainBuffer {
 public:
  explicit HostBuffer(std::size_t bytes) : pages_(std::max<std::size_t>(bytes, 1)) {
    set(pages_.data(), bytes);
  }

 private:
  Pages pages_;
};

class AllocatedBuffer final : public PlainBuffer {
 public:
  explicit AllocatedBuffer(std::size_t bytes) {
    void* memory = nullptr;
    call(MPI_Alloc_mem(static_cast<MPI_Aint>(std::max<std::size_t>(bytes, 1)), MPI_INFO_NULL,
                       static_cast<void*>(&memory)),
         "MPI_Alloc_mem");
    std::memset(memory, 0, std::max<std::size_t>(bytes, 1));
    set(static_cast<std::uint8_t*>(memory), bytes);
  }
  ~AllocatedBuffer() override { MPI_Free_mem(data()); }
};

template <class Kind>
class HostMemory final : public Memory {
 public:
  std::unique_ptr<Buffer> make(std::size_t bytes) override {
    try {
      return std::make_unique<Kind>(bytes);
    } catch (const std::bad_alloc&) {
      throw Stop{status_failed, "there is no memory for a buffer of " + std::to_string(bytes) + " bytes",
                 false};
    }
  }
};

}  // namespace

void Buffer::fill(std::size_t offset, std::size_t bytes, unsigned writer, unsigned round) {
  std::array<std::uint8_t, piece> text{};
  for (std::size_t at = 0; at < bytes; at += piece) {
    const std::size_t count = std::min(piece, bytes - at);
    for (std::size_t i = 0; i < count; ++i)
      text[i] = Pages::expected(at + i, writer, round);
    write(offset + at, {text.data(), count});
  }
}

void Buffer::clear() {
  const std::array<std::uint8_t, piece> zeros{};
  for (std::size_t at = 0; at < size_; at += piece)
    write(at, {zeros.data(), std::min(piece, size_ - at)});
}

std::string Buffer::fault(std::size_t offset, std::size_t bytes, unsigned writer, unsigned round) const {
  std::array<std::uint8_t, piece> text{};
  for (std::size_t at = 0; at < bytes; at += piece) {
    const std::size_t count = std::min(piece, bytes - at);
    read(offset + at, {text.data(), count});
    for (std::size_t i = 0; i < count; ++i)
      if (text[i] != Pages::expected(at + i, writer, round))
        return "byte " + std::to_string(offset + at + i) + " is wrong";
  }
  return "";
}

std::unique_ptr<Memory> make_memory(Placement placement, int local_rank, bool count_faults) {
  if (needs_gpu(placement)) return make_gpu_memory(placement, local_rank, count_faults);
  if (placement == Placement::allocated) return std::make_unique<HostMemory<AllocatedBuffer>>();
  return std::make_unique<HostMemory<HostBuffer>>();
}

}  // namespace isthmus::bench
