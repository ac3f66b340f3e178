#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/ref.hpp"
#include "chare/data/tag.hpp"
#include "chare/message.hpp"
#include "chare/transport.hpp"
#include "comm/communicator.hpp"
#include "p2p/engine.hpp"

namespace isthmus::chare {

using Buffer = isthmus_chare_buffer;
using Callback = isthmus_chare_callback;

/// Calls what somebody has given away a buffer with.
inline void let_go(Buffer& buffer) noexcept {
  if (buffer.owner) buffer.release(buffer.owner);
  buffer.owner = nullptr;
}

/// An invocation whose data is on its way to where it goes.
struct Incoming {
  Incoming() = default;
  Incoming(const Incoming&) = delete;
  Incoming& operator=(const Incoming&) = delete;
  ~Incoming() { clear(); }
  /// For another.
  void clear() noexcept {
    for (Buffer& each : buffers)
      let_go(each);
    buffers.clear();
    memory.clear();
  }

  Message* message = nullptr;
  Element* element = nullptr;   ///< null: it is passed on
  std::vector<Buffer> buffers;  ///< where it comes to
  std::size_t missing = 0;      ///< messages
  std::size_t place = 0;        ///< among all that are under way
  bool is_queued = false;       ///< its data is there
  /// Of data that is passed on, and of copies within this process.
  std::vector<std::unique_ptr<std::byte[]>> memory;
};

/// Sends and receives what goes apart from the records: buffers of invocations, and what mailboxes take. Each
/// is a message of the engine from the program's memory to the program's memory, of the host or of a GPU, so
/// it takes the way that MPI's messages take. Its key is a tag (`Tags`).
class DataMessages {
 public:
  /// What is told of what has happened, by `poll`, which holds no lock then.
  class Listener {
   public:
    virtual void arrived(Incoming& incoming) = 0;
    /// With a number where there is one.
    virtual void invoke(const Callback& callback, const std::uint64_t* value) = 0;
    [[noreturn]] virtual void failed(const Incoming* incoming, std::string_view reason) = 0;

   protected:
    ~Listener() = default;
  };

  /// On the collective context of `comm`, on which there are no collectives.
  DataMessages(Ref<Communicator> comm, const Tags& tags, Listener& listener);
  ~DataMessages() { cancel(); }
  DataMessages(const DataMessages&) = delete;
  DataMessages& operator=(const DataMessages&) = delete;

  [[nodiscard]] const Tags& tags() const noexcept { return tags_; }
  [[nodiscard]] Engine& engine() noexcept { return engine_; }
  /// Of the next buffer that this process sends.
  [[nodiscard]] std::uint64_t next_tag() noexcept { return tags_.tag(TagType::buffer, rank(), counter_++); }

  /// Starts to send; the owner is this object's from now on.
  void send(std::uint32_t to, std::uint64_t tag, const Buffer& buffer);
  /// Starts to receive the buffer `number` of `incoming`, whose sender has named `tag`: exactly its bytes.
  void receive(const TagParts& tag, Incoming& incoming, std::size_t number);

  std::uint64_t open_mailbox();
  void close_mailbox(std::uint64_t mailbox);
  void post(std::uint64_t mailbox, void* address, std::uint64_t bytes, std::uint32_t item_bytes,
            const Callback& came);
  void send_to(std::uint64_t mailbox, const Buffer& buffer);

  /// Tells the listener what has happened; whether something has. `progresses`: nobody has moved the engine's
  /// messages just now.
  bool poll(bool progresses);
  /// Whether `poll` would find something. With the engine's lock held.
  [[nodiscard]] bool has_news() const noexcept;
  /// Whether anything is under way.
  [[nodiscard]] bool is_idle() const noexcept {
    return sending_.empty() && receiving_.empty() && over_.empty();
  }
  /// What is under way to mailboxes, which quiescence does not see, for people; empty if nothing is. Receives
  /// that are only posted count.
  [[nodiscard]] std::string under_way();
  /// Takes back what has not been matched, and waits for the rest: no memory of the program is touched from
  /// then on.
  void cancel();

  /// As of `Transport`.
  [[nodiscard]] bool is_broken() const noexcept { return is_broken_; }
  /// Goes on, after `cancel`, among the processes of `comm`. There is nothing in mailboxes.
  void open(Ref<Communicator> comm, const Tags& tags);

 private:
  struct Sending {
    Request* request;
    Buffer buffer;
    Callback sent;
    bool to_mailbox = false;
  };
  struct Receiving {
    Request* request;
    Incoming* incoming;  ///< or, null, of a mailbox:
    std::uint32_t mailbox = 0;
    std::uint32_t item_bytes = 1;
    std::uint64_t bytes = 0;   ///< that are to come, or have room
    std::uint32_t source = 0;  ///< of an incoming one
    Callback came{};
  };
  /// What the listener is to be told.
  struct Over {
    Incoming* incoming = nullptr;  ///< or
    Callback callback{};
    std::uint64_t value = 0;
    bool has_value = false;
  };

  [[nodiscard]] std::uint32_t rank() const noexcept { return static_cast<std::uint32_t>(comm_->rank()); }
  void need_memory(const void* address, std::uint64_t bytes, const Incoming* incoming);
  void sent(Sending& each);
  void received(const Receiving& each, const Status& status);
  bool settle();

  Ref<Communicator> comm_;
  Engine& engine_;
  Tags tags_;
  Listener& listener_;
  std::uint64_t counter_ = 0;
  std::uint32_t mailboxes_ = 0;  ///< that have been opened
  std::vector<Sending> sending_;
  std::vector<Receiving> receiving_;
  std::vector<Over> over_;
  std::vector<Over> told_;  ///< is empty, and keeps its memory
  bool is_broken_ = false;
};

}  // namespace isthmus::chare
