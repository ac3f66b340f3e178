#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "carry/leaving.hpp"
#include "gpu/driver/cuda_api.hpp"
#include "p2p/engine.hpp"
#include "stream/prepared/errand_lines.hpp"
#include "stream/prepared/lines.hpp"

namespace isthmus::stream {

/// What a descriptor becomes on a stream, fixed when it is posted.
struct Step {
  enum class Kind : std::uint8_t { wait, write, copy };
  Kind kind = Kind::write;
  cuda::Address to = 0;  ///< the word, or where a copy goes
  cuda::Address from = 0;
  std::uint64_t bytes = 0;
  std::uint32_t value = 0;
  std::uint32_t condition = cuda::wait_equal;
  bool is_reached = false;  ///< a copy: kernels of the port's GPU reach both ends
};

/// Processes whose streams write to each other's memory, with no processor on the way: a stream copies to the
/// mapping of a peer's memory and then writes to a word of the peer's, for which the peer's stream waits. A
/// thread of the library looks every 20 ms whether a process has died; then it sets the words that streams of
/// this process wait for, again and again, until the port goes, and nothing more is posted. What streams do
/// not reach, a carrier does for them.
class Port {
 public:
  struct Peer {
    PeerId id = 0;
    std::optional<Lines> lines;  ///< none: out of reach, because of `why`
    std::string why;
  };

  Port(Engine& engine, const cuda::Functions& functions, cuda::Device device, cuda::Context context)
      : engine_(engine), functions_(functions), device_(device), context_(context) {}
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;
  ~Port();

  /// When `peers` is complete. Tries whether the driver lets streams write and wait. `trial`: a line that
  /// nobody else uses. Without the engine's lock.
  Result<> start(std::size_t trial);
  /// Ends the thread and the own stream. Without the engine's lock.
  void stop() noexcept;

  /// Why nothing can be posted any more.
  [[nodiscard]] Result<> check() const;
  /// Why nothing comes from other processes, or goes to them: as `check`, but `cancel` is this process's own.
  [[nodiscard]] Result<> check_peers() const;
  /// Whether a process has died since. Without the engine's lock.
  void look_for_losses() noexcept;
  /// Nothing can be done any more, because of this.
  void fail_for_good(Error why) noexcept;
  void cancel() noexcept;
  /// At the end of MPI, of a port that is never freed: lets streams go on from now on without the engine.
  /// Without its lock.
  void abandon() noexcept;
  /// The kernel that does copies and the writes behind them as one, where they are short and there is one;
  /// null: copy engines and memory operations do it.
  void set_put_kernel(cuda::Function kernel) noexcept { put_kernel_ = kernel; }
  /// Puts steps on a stream of the program's, or for null on the own one, of which neighbouring writes and
  /// waits go as one call of the driver. `recorded` says whether the stream is in capture.
  Result<> put(cuda::Stream stream, std::span<const Step> steps, bool& recorded);
  /// A stream is about to wait for a line of this process: if nobody comes any more, it gets `value`.
  void await(std::size_t line, std::uint32_t value);

  [[nodiscard]] Engine& engine() const noexcept { return engine_; }
  [[nodiscard]] const cuda::Functions& functions() const noexcept { return functions_; }
  [[nodiscard]] cuda::Device device() const noexcept { return device_; }
  [[nodiscard]] cuda::Context context() const noexcept { return context_; }
  [[nodiscard]] const Lines& own() const noexcept { return *peers[static_cast<std::size_t>(rank)].lines; }

  /// What streams wait for when they have asked the carrier for something.
  void set_errands(std::shared_ptr<ErrandLines> lines);

  int rank = 0;
  std::vector<Peer> peers;                  ///< by rank, this process too
  std::unique_ptr<carry::Leaving> carrier;  ///< null: streams reach all that there is

 private:
  struct Awaited {
    std::size_t line;
    std::uint32_t value;
    bool operator==(const Awaited&) const = default;
  };
  /// As `check_peers` says it.
  [[nodiscard]] bool is_broken() const noexcept {
    return lost_.load(std::memory_order_relaxed) >= 0 || has_failed_.load(std::memory_order_relaxed);
  }
  Result<bool> check_stream(cuda::Stream stream) const;
  /// Whether all of them are one kernel's.
  [[nodiscard]] bool is_for_kernel(std::span<const Step> steps) const noexcept;
  Result<> launch(cuda::Stream stream, std::span<const Step> steps) const;
  Result<> put_words(cuda::Stream stream, std::span<const Step> steps) const;
  void watch() noexcept;
  void release_streams() noexcept;

  Engine& engine_;
  const cuda::Functions& functions_;
  const cuda::Device device_;
  cuda::ContextObject* const context_;
  cuda::Function put_kernel_ = nullptr;
  cuda::Stream stream_ = nullptr;  ///< for what is posted now
  std::uint32_t flush_ = 0;
  mutable std::mutex mutex_;  ///< guards what follows
  std::vector<Awaited> awaited_;
  std::shared_ptr<ErrandLines> errands_;
  std::optional<Error> failure_;  ///< read once `has_failed_`
  std::atomic<bool> is_failing_{false}, has_failed_{false};
  std::atomic<int> lost_{-1};  ///< a rank
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> is_abandoned_{false};  ///< the engine ends
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

}  // namespace isthmus::stream
