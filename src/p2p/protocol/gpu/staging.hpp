#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <utility>

#include "gpu/copy/copy_crew.hpp"
#include "gpu/copy/engine.hpp"
#include "gpu/memory/mapping.hpp"
#include "p2p/message/message.hpp"
#include "p2p/progress/poll_list.hpp"
#include "p2p/protocol/gpu/messages.hpp"
#include "p2p/protocol/gpu/staging_area.hpp"
#include "wire/gpu.hpp"

namespace isthmus {

class Completion;
class GpuAccess;
class Links;
class Peer;
class Request;

/// Messages between ranks of one host through memory that both reach, a chunk at a time: the sender's GPU
/// copies a chunk there while the receiver's copies the one before.
///
/// That is a window in the memory of the sender's GPU (`GpuWindows`), or memory of the host that both share
/// and have pinned, where a side without its bytes in a GPU's memory copies by its processor. Which of both,
/// the plan says (`route/gpu/plan`): `gpu_bounce` or `gpu_staged`. Where the sender has no window after all,
/// it is the host's.
///
/// The receiver asks (`request`); the sender answers (`start`) that the message is at a position of the
/// stream of bytes through the pair's area, and fills chunk by chunk; the receiver (`begin`) empties it.
class Staging final : public Polled {
 public:
  Staging(Links& links, Completion& completion, GpuAccess& gpu)
      : links_(links), completion_(completion), gpu_(gpu) {}
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  ~Staging() override = default;

  /// What the receiver of a message asks for.
  struct Wanted {
    Protocol way;       ///< `gpu_bounce` or `gpu_staged`
    bool lacks_memory;  ///< what the sender has told of its GPU memory is not open here
    wire::StageChunks chunks = wire::StageChunks::usual;
  };
  /// Asks the sender of the matched `receive` for it.
  void request(Peer& peer, Request& receive, wire::Cookie sender, Wanted wanted);
  /// The sender of a receive has a window for it.
  void resolve_window(Peer& peer, std::uint32_t number, const wire::GpuWindow& told,
                      const wire::GpuExport& what);
  /// The receiver of a send asks for it.
  void start(Peer& peer, const wire::StageRequest& wanted);
  /// The sender of a receive has begun, with a window of that number or none (0).
  void begin(Peer& peer, std::uint32_t number, const wire::StageStart& start);
  /// The sender of a receive has given it up: it fails.
  void abandon(Peer& peer, Request& receive);

  /// A peer is no more: all messages to and from it fail.
  void lost(Peer& peer);

  /// Moves what can be moved; how many chunks that were.
  unsigned poll() override;
  [[nodiscard]] bool wakes_nobody() const noexcept override { return under_way_ != 0; }

 private:
  struct Message {
    wire::Cookie request = 0;
    wire::Cookie receiver = 0;  ///< of a send: whom to tell
    std::uint64_t bytes = 0;
    std::uint64_t position = 0;  ///< in the stream
    std::uint64_t begun = 0;     ///< bytes whose copy has been started
    std::uint32_t window = 0;
    std::byte* data = nullptr;                    ///< of the stream, as this process sees it
    std::shared_ptr<const Mapping> mapping = {};  ///< of a receive: the window
    Buffer near = {};        ///< what a GPU copies from or to at this side, where one does
    bool to_gpu = false;     ///< of a send: a GPU takes the chunks up
    bool finely = false;     ///< of a send: in small chunks
    bool is_told = false;    ///< of a send: the receiver knows the position
    bool failed = false;     ///< of a receive: what comes is thrown away
    bool abandoned = false;  ///< of a receive: nothing comes any more
  };
  struct Chunk {
    PendingCopy copy;
    std::uint64_t end;  ///< position in the stream
    bool is_last;       ///< of its message
  };
  /// One direction between this rank and a peer. Messages go one after the other; the first `begun` of them
  /// have all their chunks under way.
  struct Stream {
    StagingArea area{};
    std::deque<Message> messages{};
    std::size_t begun = 0;
    std::deque<Chunk> chunks{};
    std::uint64_t position = 0;  ///< where the next message of a send begins
    std::uint32_t window = 0;
    std::uint32_t number = 0;          ///< of the window that it goes through; 0: memory of the host
    std::span<std::byte> memory = {};  ///< of a send: that window
  };
  /// By the peer and the number of the window.
  using Streams = std::map<std::pair<Peer*, std::uint32_t>, Stream>;

  void ask(Peer& peer, const Request& receive, Wanted so, wire::StageWindow window);
  [[nodiscard]] cuda::Device device_for(const Request& request) const;
  [[nodiscard]] cuda::Device wanted_for(const Request& receive) const;
  /// Of a GPU, under way at a time.
  static constexpr std::size_t most_chunks = 8;
  [[nodiscard]] static bool goes_by_gpu(const Request& request) noexcept;
  /// What a GPU copies a request's bytes from or to.
  [[nodiscard]] static Buffer side_of(const Request& request, cuda::Device device);
  static std::uint32_t next_chunk(const Stream& stream, const Message& message);

  /// Of a message that has begun: where memory runs out, `poll` goes on.
  template <class Move>
  static void go_on(Move move) {
    try {
      move();
    } catch (const std::bad_alloc&) {
      return;
    }
  }
  Result<> start_chunk(Stream& stream, Message& message, GpuCopies::Direction direction,
                       const CopyPiece& piece, Chunk chunk);

  unsigned fill(Peer& peer, Stream& out);
  unsigned settle_filled(Peer& peer, Stream& out);
  [[nodiscard]] bool is_short(const Stream& stream, const Message& message) const;
  /// Short messages that wait are copied together, by one call of the driver.
  enum class Together : std::uint8_t {
    none,     ///< the first goes by itself
    held,     ///< it waits for others
    started,  ///< some have begun
  };
  /// `is_ready`: whether the message at that index, which is short, may begin.
  Together gather(Stream& stream, GpuCopies::Direction direction,
                  const std::function<bool(std::size_t, Message&)>& is_ready);
  Together fill_together(Peer& peer, Stream& out);
  Together empty_together(Stream& in);
  bool announce(Peer& peer, Stream& out, Message& message, const Request& send, std::size_t index);
  bool open(Stream& out, const Message& message, const Request& send);
  unsigned fill_chunks(Peer& peer, Stream& out, Message& message, Request& send);
  void publish(Peer& peer, std::atomic<std::uint64_t>& counter, std::uint64_t position);
  void end_send(Peer& peer, Stream& out, std::size_t index, const Error* why);
  void fail_send(Peer& peer, Request& send, wire::Cookie receiver, const Error& why);

  unsigned empty(Peer& peer, Stream& in);
  unsigned settle_emptied(Peer& peer, Stream& in);
  unsigned empty_chunks(Peer& peer, Stream& in, Message& message, Request& receive);
  void end_receive(Peer& peer, Stream& in);

  bool pin(Stream& stream, const Request& request, std::uint32_t window);
  void complain(const Error& error) noexcept;
  /// Copies between the program's memory and pinned memory.
  void copy_by_processors(std::byte* to, const std::byte* from, std::size_t bytes);
  void copy_out(Request& send, std::uint64_t offset, std::span<std::byte> to, bool to_gpu);
  bool copy_in(Request& receive, std::uint64_t offset, std::span<const std::byte> from);

  Links& links_;
  Completion& completion_;
  GpuAccess& gpu_;
  Streams out_, in_;
  std::map<wire::Cookie, cuda::Device> wanted_;  ///< receives that have asked for a window: by which device
  std::size_t under_way_ = 0;                    ///< messages in all streams
  bool complained_ = false;
  std::unique_ptr<CopyCrew> crew_;  ///< once there was something to copy
};

}  // namespace isthmus
