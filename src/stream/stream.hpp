#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/error.hpp"
#include "base/ref.hpp"
#include "gpu/driver/cuda_context.hpp"
#include "gpu/memory/pinned_pool.hpp"
#include "p2p/engine.hpp"
#include "stream/launcher.hpp"
#include "stream/operation.hpp"
#include "stream/proxy.hpp"
#include "stream/words.hpp"

/// Operations of MPI in the order of a CUDA stream of the program. For each, the stream gets a write to a
/// word of pinned memory where it begins and a wait for another where it must have ended (`WordPair`), and a
/// thread of the library does it in between as any thread of the program would (`Proxy`): all of matching,
/// protocols and collectives is the engine's. So a processor is on the way of each message: two crossings of
/// the PCIe, 2 to 3 us, more than a way from GPU to GPU would need. What `abi/` has to add is what the
/// operations are (`Operation`).
namespace isthmus::stream {

/// What a stream does behind the beginning of an operation.
enum class Then : bool {
  goes_on,  ///< until `Stream::wait`
  waits,
};

/// A stream of the program's (MPIX_Stream).
class Stream final : public RefCounted {
 public:
  /// Tries whether the driver lets streams write and wait. With the engine's lock enabled, and not held by
  /// who has more to do with the engine in this call than this.
  static Result<Ref<Stream>> make(Engine& engine, const cuda::Functions& functions, cuda::Stream stream);

  // With the engine's lock held, which is let go of while the driver is called: it may wait for room in the
  // stream, and so for the proxy.

  /// Puts an operation on the stream. Threads take turns.
  Result<> begin(const Ref<Enqueued>& what, Then then);
  /// Has the stream wait for operations that are on it.
  Result<> wait(std::span<const Ref<Enqueued>> all);

  /// Puts a kernel of the library's on the stream, which `arguments` is the only argument of. `keeps` lives
  /// as long as a graph may be launched that the kernel is part of. `number`, where it is not null: in the
  /// arguments, and becomes that of the operation.
  Result<> launch(cuda::Function kernel, unsigned blocks, unsigned threads, void* arguments,
                  const Ref<RefCounted>& keeps, std::uint64_t* number = nullptr);
  /// Pinned memory of that length for operations on this stream, whose use of it follows the order of the
  /// stream: so it may be given back when the operation that used it is on the stream.
  Result<std::shared_ptr<const PinnedBuffer>> stage(std::size_t bytes);

  /// Whether what is put on it now becomes part of a graph. Without the engine's lock, or with it.
  Result<bool> is_capturing();

  /// As `Proxy::take_failure`.
  [[nodiscard]] std::optional<Error> take_failure(const Communicator* comm) {
    return proxy_ ? proxy_->take_failure(comm) : std::nullopt;
  }
  /// How many operations the stream has not got to or are under way; kernels of the library's count until the
  /// stream is idle. None where the program has reset its device.
  [[nodiscard]] std::size_t outstanding();
  /// Whether nothing is on the stream at all: so nothing that waits for a message.
  [[nodiscard]] bool is_idle();
  /// Lets go of all, recorded operations too: no graph with one may be launched any more.
  void close();
  /// The GPU that it is of.
  [[nodiscard]] cuda::Device device() const noexcept { return device_; }
  [[nodiscard]] cuda::Context context() const noexcept { return context_; }
  [[nodiscard]] const cuda::Functions& functions() const noexcept { return functions_; }

 private:
  Stream(Engine& engine, const cuda::Functions& functions, cuda::Stream stream, cuda::Context context)
      : engine_(engine), functions_(functions), stream_(stream), context_(context) {}
  ~Stream() override = default;

  Result<> prepare();
  Result<> try_words();
  /// `work(whether the stream is in capture)` in a thread's turn, with the stream's context current and
  /// without the engine's lock.
  template <class Work>
  Result<> in_turn(Work work);
  Result<> begin(const Ref<Enqueued>& what, Then then, bool capturing);
  Result<> wait(std::span<const Ref<Enqueued>> all, bool capturing);
  [[nodiscard]] bool is_passed();
  Result<> put(cuda::Stream where, std::span<cuda::StreamOperation> operations, const char* what);
  [[nodiscard]] cuda::StreamOperation wait_for(const Words& words) const noexcept;

  Engine& engine_;
  const cuda::Functions& functions_;
  cuda::Stream stream_;
  cuda::Context context_;
  cuda::Device device_ = cuda::no_device;
  std::uint32_t wait_flags_ = cuda::wait_equal;
  std::optional<Launcher> launcher_;
  std::mutex turn_;  ///< of who puts something on the stream; never waited for with the engine's lock
  std::uint64_t number_ = 0;
  bool holds_mappings_ = false;
  std::size_t launched_ = 0;  ///< kernels since it was last found idle
  std::vector<Ref<RefCounted>> kept_;
  std::shared_ptr<WordPool> words_;
  Result<std::shared_ptr<const PinnedBuffer>> try_stage(std::size_t bytes);
  /// What is staged is given back by other threads.
  struct Staging {
    std::mutex mutex;
    PinnedPool pool;
  };
  std::shared_ptr<Staging> staging_;  ///< null before anything was staged
  std::unique_ptr<Proxy> proxy_;      ///< null once it is closed
};

}  // namespace isthmus::stream
