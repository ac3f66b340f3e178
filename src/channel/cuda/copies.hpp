#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/error.hpp"
#include "memory/buffer.hpp"
#include "memory/cuda_context.hpp"

namespace isthmus {

/// Copies that a GPU's copy engine makes for the library: on streams of its own, which the program's streams
/// do not wait for and which do not wait for them. One thread at a time.
class CudaCopies {
 public:
  /// A copy under way; to be asked for by `finished` until it is.
  class Copy {
   public:
    Copy() = default;

   private:
    friend class CudaCopies;
    cuda::Event event_ = nullptr;
    std::size_t lane_ = 0;
  };

  explicit CudaCopies(cuda::PrimaryContexts& contexts) noexcept : contexts_(contexts) {}
  CudaCopies(const CudaCopies&) = delete;
  CudaCopies& operator=(const CudaCopies&) = delete;
  ~CudaCopies();

  /// A piece of a copy; either side in any memory that the unified address space reaches.
  struct Piece {
    std::byte* to;
    const std::byte* from;
    std::size_t bytes;
  };
  /// Starts the pieces, by the device and in the context of `near`, which is one side of the copy.
  Result<Copy> start(const Buffer& near, const std::vector<Piece>& pieces);
  /// Whether it is over; an error if it failed, and then it is over too.
  Result<bool> finished(const Copy& copy);
  /// Starts and waits.
  Result<> run(const Buffer& near, const std::vector<Piece>& pieces);

  [[nodiscard]] const cuda::Functions& functions() const noexcept { return contexts_.functions(); }

 private:
  /// What one context needs.
  struct Lane {
    cuda::Context context = nullptr;
    cuda::Stream stream = nullptr;
    std::vector<cuda::Event> idle;
  };
  Result<std::size_t> lane_of(const Buffer& near);
  Result<cuda::Event> take_event(Lane& lane);

  cuda::PrimaryContexts& contexts_;
  std::vector<Lane> lanes_;
};

}  // namespace isthmus
