#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/settings.hpp"
#include "channel/cma/cma.hpp"
#include "launch/job.hpp"
#include "p2p/gpu.hpp"
#include "p2p/idle.hpp"
#include "p2p/lock.hpp"
#include "p2p/matcher.hpp"
#include "p2p/message.hpp"
#include "p2p/peer.hpp"
#include "p2p/remote.hpp"
#include "p2p/request.hpp"
#include "p2p/request_pool.hpp"
#include "p2p/staging.hpp"

namespace isthmus {

/// Carries messages for one rank: owns its matcher, its requests and its connections, and makes progress on
/// all of them.
///
/// Threading: every member but `lock()` is called with `lock()` held; blocking members let go of it while
/// they wait, so that other threads of the rank can work. With one thread the lock is a branch.
class Engine {
 public:
  /// Joins the job's region as `job.rank`. The job must outlive the engine.
  static Result<std::unique_ptr<Engine>> make(const launch::Job& job, const Settings& settings);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  [[nodiscard]] EngineLock& lock() noexcept { return lock_; }
  [[nodiscard]] PeerId rank() const noexcept { return rank_; }
  [[nodiscard]] std::uint32_t size() const noexcept { return size_; }
  /// Whether `id` shares this process's region.
  [[nodiscard]] bool is_local(PeerId id) noexcept { return peer(id).is_local(); }
  [[nodiscard]] const launch::Job& job() const noexcept { return job_; }
  [[nodiscard]] const wire::RegionView& region() const noexcept { return region_; }
  [[nodiscard]] const Settings& settings() const noexcept { return settings_; }
  /// Whether ranks of this job may sleep, so that who writes to shared memory must `notify`.
  [[nodiscard]] bool peers_sleep() const noexcept { return sleeps_; }

  // --- contexts
  // -------------------------------------------------------------------------------------------------------------------

  /// Ids below this are the library's own: 0 and 1 MPI_COMM_WORLD, 2 and 3 MPI_COMM_SELF.
  static constexpr ContextId world_context = 0;
  static constexpr ContextId self_context = 2;
  static constexpr ContextId internal_context = 4;

  /// An id that no other process of the job hands out: made of this process's rank and a counter. Each
  /// reserves `id` and `id + 1`.
  [[nodiscard]] ContextId new_context_id() noexcept {
    return (ContextId{rank_ + 1} << 32) | (2 * next_context_++);
  }
  /// The matching space of `id`. Messages that came before it was opened are in it. `sources`: size of the
  /// group that sends to it.
  MatchContext& open_context(ContextId id, std::uint32_t sources) { return matcher_.open(id, sources); }
  /// No receive may be pending in it. Unmatched messages are dropped.
  void close_context(MatchContext& context);

  // --- sending
  // --------------------------------------------------------------------------------------------------------------------

  /// Starts a send. Returns null if it is already complete and the buffer may be reused, which is the rule
  /// for small messages; otherwise a request that the caller gives back with `free`.
  Request* start_send(const Target& target, const Payload& payload, SendMode mode = SendMode::standard,
                      Start start = Start::nonblocking) {
    if (uses_cuda()) [[unlikely]]
      return start_gpu_send(target, payload, mode, start);
    return start_host_send(target, payload, mode, start);
  }
  /// Sends and returns when the buffer may be reused. The result is the error of the request.
  int send(const Target& target, const Payload& payload, SendMode mode = SendMode::standard);

  // --- GPU memory
  // -----------------------------------------------------------------------------------------------------------------

  /// Whether the program has initialised CUDA, so that a payload may lie in GPU memory: 1 ns.
  [[nodiscard]] bool uses_cuda() noexcept { return cuda_.find() != nullptr; }
  /// Null before it has, and where CUDA does not work.
  GpuMessages* gpu();
  /// Copies a payload in any memory, packed, to `payload.bytes` bytes of host memory.
  Result<> pack(const Payload& payload, std::byte* to);

  // --- receiving
  // ------------------------------------------------------------------------------------------------------------------

  /// Starts a receive of a message from rank `source` (or `any_source`) with `tag` (or `any_tag`) in
  /// `context`.
  Request* start_receive(MatchContext& context, int source, int tag, const Payload& payload);
  /// Receives; a message longer than the payload gives `ErrorClass::truncate` in the status.
  Status receive(MatchContext& context, int source, int tag, const Payload& payload);
  /// Both at once, without deadlock between pairs that do the same. `Status::error` covers the receive; a
  /// send fails only with its process.
  Status send_receive(const Target& target, const Payload& out, MatchContext& context, int source, int tag,
                      const Payload& in);

  /// The oldest message that would match, left in its queue; null if there is none now (makes progress
  /// first).
  const UnexpectedMessage* probe(MatchContext& context, int source, int tag);
  /// The same, taken out of matching (MPI_Mprobe); to be received by `start_matched_receive`.
  UnexpectedMessage* matched_probe(MatchContext& context, int source, int tag);
  /// Receives a message taken by `matched_probe`, and consumes it.
  Request* start_matched_receive(UnexpectedMessage* message, const Payload& payload);
  [[nodiscard]] static Status status_of(const UnexpectedMessage& message) noexcept {
    return {.source = message.source, .tag = message.tag, .bytes = message.bytes};
  }

  // --- completion
  // -----------------------------------------------------------------------------------------------------------------

  /// Waits until `ready()` is true, making progress meanwhile. For conditions on memory that peers write, the
  /// peer calls `notify` after it wrote.
  template <class Ready>
  void wait_for(Ready&& ready) {
    if (ready()) return;
    Idle idle(*this);
    for (;;) {
      const unsigned happened = progress();
      if (ready()) return;
      if (happened != 0)
        idle.reset();
      else
        idle.pause();
    }
  }
  /// Waits until `request` is complete. The request stays the caller's.
  void wait(const Request& request) {
    wait_for([&request] { return request.complete; });
  }
  /// Moves what can be moved; returns how many things happened. Never blocks.
  unsigned progress();
  /// Reads what peers have written, and no more: for calls that start one of many operations.
  unsigned listen();
  /// Progress for a test call: as `progress`, and lets other processes run if nothing happened and they share
  /// the core.
  void progress_for_test();
  /// Gives a request back. One that is not complete goes on and is freed when it completes
  /// (MPI_Request_free).
  void free(Request* request);
  /// Cancels a receive that has not matched, or a send that has not left (MPI 5.0, section 3.8.4); completion
  /// comes through the request in any case.
  void cancel(Request& request);
  /// Marks a request complete that this engine does not move itself (generalized requests), and wakes a
  /// waiting thread.
  void complete(Request& request);
  [[nodiscard]] RequestPool& requests() noexcept { return requests_; }

  /// After writing to memory that `peer` waits for in `wait_for`: wakes it if it sleeps.
  void notify(PeerId id) noexcept {
    if (sleeps_) wake(peer(id).slot);
  }

  // --- direct access to a peer's memory
  // -------------------------------------------------------------------------------------------

  /// Whether this process can read the memory of `peer` (tries it the first time), else why not.
  const Reach& pull_reach(PeerId id);
  /// Reads `bytes` at `address` of `peer`; only where `pull_reach` holds.
  Result<> pull(PeerId id, std::uint64_t address, void* to, std::uint64_t bytes);
  /// The same for writing to the memory of `peer`.
  const Reach& push_reach(PeerId id);
  Result<> push(PeerId id, std::uint64_t address, const void* from, std::uint64_t bytes);

  // --- end
  // ------------------------------------------------------------------------------------------------------------------------

  /// Completes everything that peers may still need of this rank: its sends.
  void settle();
  /// Completes everything that peers may still need of this rank, meets all ranks, and marks this one
  /// finalized.
  void finalize();
  /// For this rank: per peer, paths by size, refusals with reasons, and traffic so far; for `isthmus
  /// explain`.
  [[nodiscard]] std::string explain();
  /// The same as one JSON object.
  [[nodiscard]] std::string explain_json();

 private:
  friend class Idle;
  friend class Remote;
  friend class GpuMessages;
  friend class NetworkChunks;
  friend class Staging;

  Engine(const launch::Job& job, const Settings& settings);

  // engine.cpp: connections and the ring
  Peer& peer(PeerId id) {
    Peer* found = peers_[id].get();
    return found ? *found : make_peer(id);
  }
  Peer& make_peer(PeerId id);
  void connect(Peer& peer);
  void discover();
  unsigned drain(Peer& peer);
  unsigned drain_doorbells();
  unsigned advance();
  void list(Peer& peer);
  unsigned push_out(Peer& peer);
  void after_publish(Peer& peer) noexcept {
    if (sleeps_) ring_doorbell(peer.slot);
  }
  /// What to do with the first idle moment of a wait.
  void prepare_next_send() noexcept {
    if (!last_out_) return;
    last_out_->out.prefetch(std::min(last_out_->last_piece, prefetched_bytes));
    last_out_ = nullptr;
  }
  void ring_doorbell(std::uint32_t slot) noexcept;
  void wake(std::uint32_t slot) noexcept;
  [[nodiscard]] bool has_doorbell() const noexcept;
  [[nodiscard]] bool copies_run() const noexcept {
    return (gpu_ && gpu_->is_busy()) || (staging_ && staging_->is_busy()) ||
           (remote_ && remote_->is_copying());
  }
  void malformed(Peer& peer, const std::string& what) const;
  void finish(Request& request);

  // eager.cpp
  Request* start_gpu_send(const Target& target, const Payload& payload, SendMode mode, Start start);
  Request* start_host_send(const Target& target, const Payload& payload, SendMode mode, Start start);
  /// Writes the envelope of a send, now or when there is room.
  void start_offer(Peer& peer, Request& send);
  Request* start_send_slow(Peer& peer, const Target& target, const Payload& payload, SendMode mode,
                           Start start);
  Request* make_send(const Target& target, const Payload& payload, SendMode mode);
  /// Counts a send of more bytes than an envelope takes along; the peer's plan changes with its workload.
  void trace_send(Peer& peer, Start start) noexcept;
  bool emit(Peer& peer, Request& send);
  bool emit_eager(Peer& peer, const Target& target, const Payload& payload, const Request* synchronous);
  Request* send_to_self(const Target& target, const Payload& payload, SendMode mode);
  bool emit_pieces(Peer& peer, wire::CellHeader header, const wire::EagerHeader& eager,
                   const Payload& payload);
  void receive_inline(Peer& peer, const wire::CellHeader& header, const std::byte* bytes);
  void receive_eager(Peer& peer, const wire::CellHeader& header, const wire::EagerHeader& eager,
                     const std::byte* bytes);
  void receive_more(Peer& peer, const std::byte* bytes, std::uint32_t size);
  void abandon_pieces(Peer& peer);
  UnexpectedMessage* make_unexpected(Peer& peer, MatchContext& context, int source, int tag,
                                     std::uint64_t bytes);
  static void begin_pieces(Peer& peer, Request& receive, int source, int tag, std::uint64_t bytes);
  void add_piece(Peer& peer, const std::byte* bytes, std::uint32_t size);
  void adopt_pieces(UnexpectedMessage& message, Request& receive);
  void deliver(Request& receive, int source, int tag, const std::byte* bytes, std::uint64_t size);
  void accept(UnexpectedMessage* message, Request& receive);
  void deliver_from_self(Request& receive, UnexpectedMessage& message);

  // rendezvous.cpp
  void receive_control(Peer& peer, const wire::CellHeader& header, const wire::Cell& cell,
                       const std::byte* bytes);
  void receive_offer(Peer& peer, const wire::CellHeader& header, const wire::SendOffer& offer);
  void begin_rendezvous(Peer& peer, Request& receive, int source, int tag, const wire::SendOffer& offer);
  /// Keeps an offer that no receive waits for; what it offers is the caller's to fill in.
  UnexpectedMessage& keep_offer(Peer& peer, MatchContext& context, int source, int tag, std::uint64_t bytes,
                                UnexpectedMessage::Content content);
  bool offer_split(Peer& peer, Request& receive);
  Result<> pull_all(Peer& peer, Request& receive, std::uint64_t address);
  void join_split(Peer& peer, Request& send, const wire::SplitOffer& offer);
  static wire::Share& share_of(const Request& request) noexcept;
  bool copy_chunk(Request& request);
  unsigned advance_shares();
  bool finish_share(Peer& peer, Request& request);
  unsigned stream(Peer& peer);
  Result<> after_copy(Peer& peer, Result<> copied) const;
  /// The process of a peer on this host is no more: the launcher ends the job and says which rank was killed
  /// by what. It is given the time to, once, before this rank complains about what is but a consequence.
  void found_gone(Peer& peer) const;
  void receive_fragment(Peer& peer, const wire::FragmentHeader& fragment, const std::byte* bytes,
                        std::uint32_t size);
  // gpu_offers.cpp
  void receive_gpu_control(Peer& peer, const wire::CellHeader& header, const wire::Cell& cell,
                           const std::byte* bytes);
  void receive_gpu_offer(Peer& peer, const wire::CellHeader& header, const wire::GpuOffer& offer,
                         const std::byte* bytes);
  void begin_gpu_offer(Peer& peer, Request& receive, int source, int tag, const wire::GpuOffer& offer,
                       const GpuSource& from);
  /// A message in the sender's host memory, for a receive in GPU memory; false if it comes as any other.
  bool begin_to_gpu(Peer& peer, Request& receive, const wire::SendOffer& offer);
  void receive_gpu_end(Peer& peer, const wire::GpuEnd& end);
  Staging& staging();
  /// Keeps the first reason why GPU memory goes by way of the host between here and `peer`; a setback is
  /// warned of.
  void note_gpu_reason(Peer& peer, const Error& why, bool is_setback) const;
  void send_control(Peer& peer, wire::CellKind kind, const void* payload, std::size_t bytes);
  void probe_reach(Peer& peer);
  /// Whether the process in that slot of the region is one of this kernel.
  [[nodiscard]] bool same_machine(std::uint32_t slot) const noexcept {
    return region_.block(slot).place.boot == region_.block(slot_).place.boot;
  }

  // explain.cpp, explain_json.cpp
  void report();
  [[nodiscard]] std::string report_head() const;
  [[nodiscard]] std::string report_head_json() const;

  /// More lines than a core has in flight anyway would delay the look for the answer.
  static constexpr std::uint32_t prefetched_bytes = 32 * 1024;

  const launch::Job& job_;
  Settings settings_;
  wire::RegionView region_;
  const PeerId rank_;
  const std::uint32_t slot_;
  const std::uint32_t size_;
  const bool sleeps_;
  const bool naps_;
  bool shares_cores_ = false;            ///< with `naps_`: more ranks than cores in this virtual machine
  std::uint32_t eager_limit_;            ///< towards a peer whose workload is latency
  std::uint32_t bandwidth_eager_limit_;  ///< and bandwidth
  EngineLock lock_;
  // Unexpected messages point to their peers, and requests own what may close a context when it goes.
  std::vector<std::unique_ptr<Peer>> peers_;
  Matcher matcher_;
  RequestPool requests_;
  std::vector<Peer*> inbound_;      ///< peers whose ring to this rank is open
  std::vector<Peer*> outbound_;     ///< peers with something to send
  std::vector<Request*> shares_;    ///< copies by both sides that are under way, oldest first
  std::vector<Request*> deferred_;  ///< receives that wait for room to offer such a copy
  Peer* last_out_ = nullptr;        ///< whose byte ring was written last
  std::unique_ptr<Remote>
      remote_;  ///< null where all processes share the region and nothing goes through the adapter
  std::uint32_t connections_seen_ = 0;
  std::uint32_t next_context_ = 1;
  std::uint32_t fruitless_tests_ = 0;
  std::uint64_t pending_sends_ = 0;  ///< sends that are not complete
  cma::Probe probe_{};
  CudaDriver cuda_;
  bool gpu_failed_ = false;
  // Last, because they end what is under way.
  std::unique_ptr<GpuMessages> gpu_;
  std::unique_ptr<Staging> staging_;  ///< null until a message goes that way
};

}  // namespace isthmus
