#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/settings.hpp"
#include "launch/job.hpp"
#include "p2p/lock.hpp"
#include "p2p/matcher.hpp"
#include "p2p/message.hpp"
#include "p2p/request.hpp"
#include "p2p/request_pool.hpp"

namespace isthmus {

class Peer;

/// Carries messages for one rank: owns its matcher, its requests and its connections, and makes progress on
/// all of them.
///
/// Threading: every member but `lock()` is called with `lock()` held; blocking members let go of it while
/// they wait, so that other threads of the rank can work. With one thread the lock is a branch.
class Engine {
 public:
  /// Joins the job's region as `job.rank`. The job must outlive the engine.
  static Result<std::unique_ptr<Engine>> make(launch::Job& job, const Settings& settings);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  [[nodiscard]] EngineLock& lock() noexcept { return lock_; }
  [[nodiscard]] PeerId rank() const noexcept { return rank_; }
  [[nodiscard]] std::uint32_t size() const noexcept { return size_; }
  [[nodiscard]] launch::Job& job() noexcept { return job_; }
  [[nodiscard]] const Settings& settings() const noexcept { return settings_; }

  // --- contexts
  // -------------------------------------------------------------------------------------------------------------------

  /// An id that no other process of the job hands out: made of this process's rank and a counter. Each
  /// reserves `id` and `id + 1`.
  [[nodiscard]] ContextId new_context_id() noexcept;
  /// The matching space of `id`. Messages that came before it was opened are in it. `sources`: size of the
  /// group that sends to it.
  MatchContext& open_context(ContextId id, std::uint32_t sources);
  /// No receive may be pending in it. Unmatched messages are dropped.
  void close_context(MatchContext& context);

  // --- sending
  // --------------------------------------------------------------------------------------------------------------------

  /// Starts a send. Returns null if it is already complete and the buffer may be reused, which is the rule
  /// for small messages; otherwise a request that the caller gives back with `free`.
  Request* start_send(const Target& target, const Payload& payload, SendMode mode = SendMode::standard);
  /// Sends and returns when the buffer may be reused.
  Result<> send(const Target& target, const Payload& payload, SendMode mode = SendMode::standard);

  // --- receiving
  // ------------------------------------------------------------------------------------------------------------------

  /// Starts a receive of a message from rank `source` (or `any_source`) with `tag` (or `any_tag`) in
  /// `context`.
  Request* start_receive(MatchContext& context, int source, int tag, const Payload& payload);
  /// Receives; a message longer than the payload gives `ErrorClass::truncate` in the status and as the
  /// result's error.
  Result<Status> receive(MatchContext& context, int source, int tag, const Payload& payload);
  /// Both at once, without deadlock between pairs that do the same.
  Result<Status> send_receive(const Target& target, const Payload& out, MatchContext& context, int source,
                              int tag, const Payload& in);

  /// The oldest message that would match, left in its queue; null if there is none now (makes progress
  /// first).
  const UnexpectedMessage* probe(MatchContext& context, int source, int tag);
  /// The same, taken out of matching (MPI_Mprobe); to be received by `start_matched_receive`.
  UnexpectedMessage* matched_probe(MatchContext& context, int source, int tag);
  /// Receives a message taken by `matched_probe`, and consumes it.
  Request* start_matched_receive(UnexpectedMessage* message, const Payload& payload);
  [[nodiscard]] static Status status_of(const UnexpectedMessage& message) noexcept;

  // --- completion
  // -----------------------------------------------------------------------------------------------------------------

  /// Waits until `request` is complete. The request stays the caller's.
  void wait(Request& request);
  /// Waits for anything: returns when `ready()` is true, making progress meanwhile. For conditions on memory
  /// that peers write, the peer must call `notify` after it wrote.
  void wait_until(const std::function<bool()>& ready);
  /// Moves what can be moved; returns how many things happened. Never blocks.
  unsigned progress();
  /// Progress for a test call: as `progress`, and lets other processes run now and then if nothing happens.
  void progress_for_test();
  /// Gives a request back. One that is not complete goes on and is freed when it completes
  /// (MPI_Request_free).
  void free(Request* request);
  /// Cancels a receive that has not matched, or a send that has not left (MPI 5.0, section 3.8.4); completion
  /// comes through the request in any case.
  void cancel(Request& request);
  [[nodiscard]] RequestPool& requests() noexcept { return requests_; }

  /// After writing to memory that `peer` waits for in `wait_until`: wakes it if it sleeps.
  void notify(PeerId peer);

  // --- end
  // ------------------------------------------------------------------------------------------------------------------------

  /// Completes everything that peers may still need of this rank, meets all ranks, and marks this one
  /// finalized.
  void finalize();
  /// Per pair of this rank: paths by size, refusals with reasons, and traffic so far; for `isthmus explain`.
  [[nodiscard]] std::string explain();
};

}  // namespace isthmus
