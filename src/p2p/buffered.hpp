#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>

#include "base/error.hpp"
#include "base/ref.hpp"
#include "p2p/engine.hpp"
#include "p2p/message/message.hpp"

namespace isthmus {

/// Memory in which messages of buffered mode wait until they are sent (MPI 5.0, section 3.6): what a program
/// attached, or, where it left that to the library, an allocation for each message. Guarded by the engine's
/// lock.
///
/// Places messages one behind the other and wraps around at the end, as the standard's model of a circular
/// buffer, and beyond that model uses any gap that is large enough. What it keeps about messages is not in
/// the attached memory.
class SendBuffer final : public RefCounted {
 public:
  /// `memory` of `size` bytes stays the program's.
  SendBuffer(Engine& engine, void* memory, std::size_t size);
  /// MPI_BUFFER_AUTOMATIC: allocates as it needs.
  explicit SendBuffer(Engine& engine);
  /// Waits as `flush`.
  ~SendBuffer() override;

  [[nodiscard]] bool automatic() const noexcept { return automatic_; }
  [[nodiscard]] void* memory() const noexcept { return memory_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  /// Copies the message and starts to send the copy. `ErrorClass::buffer` if there is no room.
  Result<> send(const Target& target, const Payload& payload);
  /// Waits until every message in the buffer has been sent.
  void flush();

  /// Names the messages that are in the buffer now, for `sent`.
  [[nodiscard]] std::uint64_t mark() const noexcept { return next_serial_; }
  /// Whether all messages from before `mark` have been sent. Makes no progress.
  [[nodiscard]] bool sent(std::uint64_t mark);

 private:
  struct Message {
    std::uint64_t serial;
    std::size_t begin, end;  ///< place in `memory_`, for attached buffers
    std::unique_ptr<std::byte[]> own;
    Request* request;
  };

  /// Where `bytes` fit, or `no_place`.
  [[nodiscard]] std::size_t find_place(std::size_t bytes) const;
  /// Forgets messages that have been sent.
  void reclaim();

  static constexpr std::size_t no_place = SIZE_MAX;
  Engine& engine_;
  std::byte* memory_ = nullptr;
  std::size_t size_ = 0;
  bool automatic_ = false;
  std::list<Message> messages_;  ///< in order of their places
  std::size_t last_end_ = 0;     ///< of the message placed last
  std::uint64_t next_serial_ = 0;
};

}  // namespace isthmus
