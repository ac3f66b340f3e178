#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/error.hpp"
#include "gpu/copy/engine.hpp"
#include "gpu/driver/cuda_context.hpp"
#include "gpu/memory/pinned_range.hpp"

namespace isthmus {

/// Copies of one GPU, on streams of its own, in turn with those of another process's GPU: one GPU writes to a
/// word of memory of the host how far it is, the other waits for that, and no processor stands between them.
/// Positions only grow. One thread at a time.
class PacedEngine {
 public:
  using Work = std::function<Result<>(cuda::Stream)>;
  enum class Side : std::uint8_t { writes, waits };

  /// `pinned` has the word and outlives the engine, which ends with it (`is_over`). Tries whether the GPU's
  /// streams do that: some drivers refuse it to virtual machines. Waits.
  static Result<std::unique_ptr<PacedEngine>> make(cuda::PrimaryContexts& contexts, cuda::Device device,
                                                   const PinnedRange& pinned,
                                                   std::atomic<std::uint64_t>& word, Side side);
  PacedEngine(const PacedEngine&) = delete;
  PacedEngine& operator=(const PacedEngine&) = delete;
  ~PacedEngine() = default;

  /// The side that writes: the word becomes `position` behind that work. All work is in order.
  Result<PendingCopy> start_and_tell(std::uint64_t position, const Work& work);
  /// The side that waits: the work begins once the word is `position` at least. Must be told only what is
  /// certain to come, or to be written by this process in its place. In no order with other work.
  Result<PendingCopy> start_when(std::uint64_t position, const Work& work);

  [[nodiscard]] bool is_over() const noexcept { return pinned_.is_over(); }
  [[nodiscard]] cuda::Device device() const noexcept { return engine_.device(); }
  /// Calls that have started what is not known to be done.
  [[nodiscard]] std::size_t under_way() const noexcept { return engine_.under_way(); }

 private:
  /// A second stream fills the time in which an engine turns to the next copy. Those that tell are to be in
  /// order.
  PacedEngine(cuda::PrimaryContexts& contexts, cuda::Device device, const PinnedRange& pinned,
              std::atomic<std::uint64_t>& word, Side side)
      : functions_(contexts.functions()),
        pinned_(pinned),
        word_(reinterpret_cast<cuda::Address>(&word)),
        engine_(contexts, device, side == Side::writes ? 1 : 2) {}

  Result<> put(cuda::Stream stream, bool writes, std::uint64_t position);

  const cuda::Functions& functions_;
  const PinnedRange& pinned_;
  const cuda::Address word_;
  CopyEngine engine_;
};

}  // namespace isthmus
