#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "base/ref.hpp"
#include "chare/message.hpp"
#include "chare/record.hpp"
#include "comm/communicator.hpp"
#include "p2p/engine.hpp"

namespace isthmus::chare {

/// Whether an error of a message says that a process is no more, or that another has found that out.
[[nodiscard]] constexpr bool tells_of_loss(int error) noexcept {
  return error == static_cast<int>(ErrorClass::proc_aborted) ||
         error == static_cast<int>(ErrorClass::proc_failed_pending) ||
         error == static_cast<int>(ErrorClass::revoked);
}

/// Ends the job with a sentence. Does not return: it leaves the process, or throws (unit tests).
using Fail = void (*)(std::string_view);

/// Carries records between the processes of a communicator of its own, by the engine's point-to-point: so it
/// works wherever messages do. Records for one process are gathered in one message for as long as the caller
/// has more to do.
///
/// Short messages meet receives from any source that are posted ahead; a longer record is a message of its
/// own. Records are not kept in order between short and long ones.
class Transport {
 public:
  /// What is done with what comes. Called with the engine's lock held.
  class Receiver {
   public:
    /// `record` lives until the call returns.
    virtual void came(std::uint32_t source, const Record& record) = 0;
    /// The same of a long one: its payload lies in `message`, which is the receiver's from now on.
    virtual void came(std::uint32_t source, const Record& record, Message* message) = 0;

   protected:
    ~Receiver() = default;
  };

  /// `comm`: used for nothing else.
  Transport(Ref<Communicator> comm, Receiver& receiver, MessagePool& pool, Fail fail);
  ~Transport();
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  [[nodiscard]] std::uint32_t rank() const noexcept { return static_cast<std::uint32_t>(comm_->rank()); }
  [[nodiscard]] std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(comm_->size()); }

  /// Writes all of a record for another process but its payload of `bytes`, which goes where it returns,
  /// before `end`. One at a time.
  std::byte* begin(std::uint32_t to, const Record& record, std::uint64_t bytes);
  /// `now`: nothing is to be waited for that could go with it.
  void end(bool now);
  /// Sends all that has been gathered. False where there was nothing.
  bool flush();
  /// Hands on what has come; whether something has.
  bool poll();
  /// Waits until something has come. Sleeps where ranks share cores.
  void wait();
  /// The same, or until `ready()`, which is called between looks with the engine's lock held.
  template <class Ready>
  void wait_or(Ready&& ready) {
    const std::lock_guard guard(engine_.lock());
    engine_.wait_for([&] { return has_news() || ready(); });
  }
  [[nodiscard]] bool sleeps() const noexcept { return engine_.peers_sleep(); }
  /// Collective. Says that nothing more will come, and waits until all who live have said so and everything
  /// of theirs has come, which the receiver still gets. False where a process that has lost another does not
  /// know yet that the program ends: then none has left, and `is_broken`.
  [[nodiscard]] bool finish();

  /// A process with chares is no more, or another has found that out: nothing goes on before `abandon` and
  /// `open`.
  [[nodiscard]] bool is_broken() const noexcept { return is_broken_; }
  /// Ends all that is under way. What has not been read yet is lost.
  void abandon();
  /// Goes on, after `abandon`, among the processes of `comm`, which is used for nothing else.
  void open(Ref<Communicator> comm);

  /// Of a message that a peer has sent: the one place where its bytes are read.
  void read(std::uint32_t source, std::span<const std::byte> message);

  static constexpr std::size_t batch_bytes = 8192;

 private:
  struct Peer {
    std::unique_ptr<std::byte[]> open;  ///< being gathered
    std::uint32_t used = 0;
    bool listed = false;
    std::uint64_t long_sent = 0;
    std::uint64_t long_came = 0;
    std::uint64_t long_wanted = 0;
    bool has_ended = false;
  };
  struct Sending {
    Request* request;
    std::unique_ptr<std::byte[]> batch;  ///< or
    Message* large;
  };
  struct Posted {
    Request* request = nullptr;
    std::unique_ptr<std::byte[]> buffer;
  };

  void post_all();
  void post(Posted& posted);
  /// Whether it is that a process is no more.
  [[nodiscard]] bool note(int error) noexcept;
  void pass_over_losses();
  void send(std::uint32_t to);
  void send_long();
  bool settle_sends();
  bool take_short();
  bool take_long();
  void receive_long(const UnexpectedMessage& found);
  [[nodiscard]] bool has_news() const;
  [[noreturn]] void give_up(std::uint32_t peer, std::string_view why);
  std::unique_ptr<std::byte[]> take_buffer();

  static constexpr std::size_t posted_ahead = 32;
  static constexpr int short_tag = 0;
  static constexpr int long_tag = 1;

  Ref<Communicator> comm_;
  Engine& engine_;
  Receiver& receiver_;
  MessagePool& pool_;
  Fail fail_;
  std::vector<Peer> peers_;
  std::vector<std::uint32_t> gathering_;  ///< peers with something in `open`
  std::vector<Sending> sending_;
  std::vector<std::unique_ptr<std::byte[]>> free_;
  std::vector<Posted> posted_;
  std::size_t next_ = 0;  ///< of `posted_`: the oldest
  bool is_broken_ = false;
  // What `begin` has begun.
  std::uint32_t to_ = 0;
  bool begun_ = false;
  Message* long_ = nullptr;  ///< only its memory is used
  std::uint64_t long_bytes_ = 0;
};

}  // namespace isthmus::chare
