#pragma once

#include <cstdint>

#include "base/error.hpp"
#include "p2p/link/links.hpp"
#include "p2p/message/message.hpp"
#include "p2p/message/request.hpp"
#include "p2p/message/request_pool.hpp"
#include "p2p/progress/lock.hpp"

namespace isthmus {

class MessageTrace;
class WayTimes;

/// The requests of an engine, from where they begin to where they end. Guarded by the engine's lock.
class Completion {
 public:
  /// Has the last word on a request with a payload in GPU memory.
  class Lander {
   public:
    /// Whether a request that has nothing more to wait for from peers is complete; else what is still to be
    /// copied has been started, and `finish` is called again at its end.
    virtual bool land_or_finish(Request& request) noexcept = 0;

   protected:
    ~Lander() = default;
  };

  Completion(Links& links, EngineLock& lock) noexcept : links_(links), lock_(lock) {}
  Completion(const Completion&) = delete;
  Completion& operator=(const Completion&) = delete;

  [[nodiscard]] RequestPool& pool() noexcept { return pool_; }
  [[nodiscard]] const RequestPool& pool() const noexcept { return pool_; }
  [[nodiscard]] Request* find(wire::Cookie cookie) noexcept { return pool_.find(cookie); }
  /// Null: requests have no payload in GPU memory.
  void set_lander(Lander* lander) noexcept { lander_ = lander; }
  /// Hears of requests that end, while the lock is attended. Null: nobody does.
  void set_trace(MessageTrace* trace) noexcept { trace_ = trace; }

  /// Hears of what is under way, while the lock is attended. Null: nobody does.
  void set_times(WayTimes* times) noexcept { times_ = times; }

  /// A send that is counted as pending until `finish` or `drop`.
  Request* make_send(const Target& target, const Payload& payload, SendMode mode);
  /// Gives back a send of which nothing has left, and nothing waits to.
  void drop(Request* send) noexcept {
    --pending_sends_;
    pool_.give_back(send);
  }
  /// The send that an answer of a peer names, of which nothing else has been heard; null where there is no
  /// such send, which is reported.
  Request* find_unanswered(Peer& peer, wire::Cookie cookie);
  /// Gives back a request that its owner wants no more. One that is not complete goes on and is freed when it
  /// completes (MPI_Request_free).
  void free(Request* request) {
    if (request->complete)
      pool_.give_back(request);
    else
      request->orphan = true;
  }
  /// Sends that are not complete.
  [[nodiscard]] std::uint64_t pending_sends() const noexcept { return pending_sends_; }

  /// A receive that has matched begins to take its bytes, which did not come with the envelope.
  void carry(Request& receive) noexcept {
    if (lock_.attended()) [[unlikely]]
      carry_attended(receive);
  }
  /// Completes a request: whoever waits for it goes on, and one that its owner has freed is gone afterwards.
  void finish(Request& request);
  void end_in_error(Request& request, ErrorClass why);
  /// A matched receive ends for want of memory, and the send `sender` with it. `Links::prepare_answer` has
  /// been called.
  void end_without_memory(Peer& peer, Request& receive, wire::Cookie sender);
  /// A receive has matched a message whose bytes are lost with their sender.
  void end_lost(Request& receive, int source, int tag);
  /// Wakes another thread of this rank that may sleep until something is complete.
  void wake_threads() noexcept {
    if (links_.peers_sleep() && lock_.enabled()) links_.wake(links_.slot());
  }

 private:
  void finish_attended(Request& request);
  void carry_attended(Request& receive) noexcept;

  Links& links_;
  EngineLock& lock_;
  Lander* lander_ = nullptr;
  MessageTrace* trace_ = nullptr;
  WayTimes* times_ = nullptr;
  RequestPool pool_;
  std::uint64_t pending_sends_ = 0;
};

}  // namespace isthmus
