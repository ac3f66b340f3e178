#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "carry/leaving.hpp"
#include "gpu/driver/cuda_api.hpp"
#include "kernels/body/put.hpp"
#include "p2p/engine.hpp"
#include "stream/launcher.hpp"
#include "stream/prepared/errand_lines.hpp"
#include "stream/prepared/lines.hpp"
#include "stream/prepared/room.hpp"

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
  bool is_linked = false;   ///< the same, and neither lies behind the PCIe
};

/// A wait for words of this process, all of which are to fulfil a condition.
struct WordsWait {
  std::span<const std::uint32_t> words;
  kernel::WordCondition condition = kernel::WordCondition::equal;
  std::uint32_t value = 0;
  bool resets = false;  ///< each is 0 then
};

/// Processes whose streams write to each other's memory, with no processor on the way: a stream copies to the
/// mapping of a peer's memory and then writes to a word of the peer's, for which the peer's stream waits.
/// Words lie in memory of the host, or, of a port for streams alone, in rooms on the GPUs, where kernels wait
/// for them. A thread of the library looks every 20 ms whether a process has died; then it lets streams of
/// this process go: it tells kernels that wait, and sets the words of the host that are waited for, again and
/// again, until the port goes, and nothing more is posted. What streams do not reach, a carrier does for
/// them.
class Port {
 public:
  struct Peer {
    PeerId id = 0;
    std::optional<Lines> lines;  ///< none: out of reach, because of `why`
    std::string why;
    cuda::Address room = 0;  ///< where its words lie on its GPU; 0: in `lines`
  };
  /// Lines behind the words that are the port's own.
  enum class Line : std::uint32_t {
    ended,   ///< tried at first; then not 0 when no kernel is to wait any more
    parted,  ///< how many others write nothing here any more
    count,
  };

  Port(Engine& engine, const cuda::Functions& functions, cuda::Device device, cuda::Context context,
       std::uint32_t words)
      : engine_(engine),
        functions_(functions),
        device_(device),
        context_(context),
        words_(words),
        launcher_(functions, device) {}
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;
  ~Port();

  /// When `peers` is complete. Tries whether the driver lets streams write and wait. Without the engine's
  /// lock.
  Result<> start();
  /// Ends the thread and the own stream. Without the engine's lock.
  void stop() noexcept;
  /// This process writes no words of others any more: tells them.
  void part() const noexcept;
  /// Whether no other process needs it any more.
  [[nodiscard]] bool is_over() const noexcept;

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
  /// The kernels that do copies and the writes behind them as one, where they are short, and that wait; and
  /// memory that they count in, a line for each of the port's. Without them copy engines and memory
  /// operations do it.
  struct Kernels {
    cuda::Function put = nullptr;
    cuda::Function wait = nullptr;
    std::unique_ptr<Room> room;
  };
  void set_kernels(Kernels kernels) noexcept { kernels_ = std::move(kernels); }
  [[nodiscard]] const Room* room() const noexcept { return kernels_.room.get(); }
  /// Puts steps on a stream of the program's, or for null on the own one, of which neighbouring writes and
  /// waits go as one call of the driver. `recorded` says whether the stream is in capture.
  Result<> put(cuda::Stream stream, std::span<const Step> steps, bool& recorded);
  /// The same of what is posted, by a kernel where there is one for it. `line`: of this post alone.
  Result<> post(cuda::Stream stream, std::span<const Step> steps, std::size_t line, bool& recorded);
  /// Lets the stream wait.
  Result<> wait(cuda::Stream stream, const WordsWait& what);

  [[nodiscard]] Engine& engine() const noexcept { return engine_; }
  [[nodiscard]] const cuda::Functions& functions() const noexcept { return functions_; }
  [[nodiscard]] cuda::Device device() const noexcept { return device_; }
  [[nodiscard]] cuda::Context context() const noexcept { return context_; }
  [[nodiscard]] const Lines& own() const noexcept { return *peers[static_cast<std::size_t>(rank)].lines; }
  [[nodiscard]] std::size_t line(Line which) const noexcept {
    return words_ + static_cast<std::size_t>(which);
  }
  [[nodiscard]] bool has_words_on_gpu() const noexcept {
    return peers[static_cast<std::size_t>(rank)].room != 0;
  }
  /// A word of a process whose words are within reach, as this GPU names it.
  [[nodiscard]] cuda::Address word(int of, std::uint32_t word) const noexcept {
    const Peer& peer = peers[static_cast<std::size_t>(of)];
    return peer.room != 0 ? peer.room + word * Room::line : peer.lines->address(word);
  }

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
  /// Whether it is in capture.
  [[nodiscard]] Result<bool> check_stream(cuda::Stream stream) const;
  /// The stream that is meant, if anything may be put there.
  [[nodiscard]] Result<cuda::Stream> begin(cuda::Stream stream, bool& recorded) const;
  Result<> put_steps(cuda::Stream stream, std::span<const Step> steps) const;
  /// Whether all of them are one kernel's.
  [[nodiscard]] bool is_for_kernel(std::span<const Step> steps) const noexcept;
  Result<> launch(cuda::Stream stream, std::span<const Step> steps, std::size_t line) const;
  Result<> wait_by_kernel(cuda::Stream stream, const WordsWait& what) const;
  /// A stream is about to wait for a line of this process: if nobody comes any more, it gets `value`.
  void await(std::size_t line, std::uint32_t value);
  Result<> put_words(cuda::Stream stream, std::span<const Step> steps) const;
  void watch() noexcept;
  void release_streams() noexcept;

  Engine& engine_;
  const cuda::Functions& functions_;
  const cuda::Device device_;
  cuda::ContextObject* const context_;
  const std::uint32_t words_;
  const Launcher launcher_;
  Kernels kernels_;
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
