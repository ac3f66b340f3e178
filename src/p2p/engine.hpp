#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/settings.hpp"
#include "launch/job.hpp"
#include "p2p/active/batch_reports.hpp"
#include "p2p/active/cell_handlers.hpp"
#include "p2p/active/completion.hpp"
#include "p2p/active/message_trace.hpp"
#include "p2p/active/unexpected.hpp"
#include "p2p/active/way_times.hpp"
#include "p2p/agreement.hpp"
#include "p2p/link/links.hpp"
#include "p2p/link/loss_watch.hpp"
#include "p2p/link/peer.hpp"
#include "p2p/link/peer_access.hpp"
#include "p2p/link/peer_memory.hpp"
#include "p2p/losses.hpp"
#include "p2p/message/claims.hpp"
#include "p2p/message/context_ids.hpp"
#include "p2p/message/matcher.hpp"
#include "p2p/message/message.hpp"
#include "p2p/message/request.hpp"
#include "p2p/message/request_pool.hpp"
#include "p2p/moving.hpp"
#include "p2p/progress/idle.hpp"
#include "p2p/progress/lock.hpp"
#include "p2p/progress/poll_list.hpp"
#include "p2p/progress/wait_telling.hpp"
#include "p2p/protocol/cpu/eager.hpp"
#include "p2p/protocol/cpu/fragment_stream.hpp"
#include "p2p/protocol/cpu/rendezvous.hpp"
#include "p2p/protocol/cpu/self.hpp"
#include "p2p/protocol/cpu/split_copy.hpp"
#include "p2p/protocol/gpu/access.hpp"
#include "p2p/protocol/gpu/messages.hpp"
#include "p2p/protocol/gpu/offers.hpp"
#include "p2p/protocol/mapping/mapped_memory.hpp"
#include "p2p/protocol/network/peers.hpp"
#include "p2p/waits.hpp"
#include "route/call_report.hpp"
#include "route/eager_plans.hpp"
#include "route/live_plans.hpp"

namespace isthmus {

struct ExplainParts;

/// Carries messages for one rank: owns its matcher, its requests and its connections, and makes progress on
/// all of them.
///
/// Threading: every member but `lock()` is called with `lock()` held; blocking members let go of it while
/// they wait, so that other threads of the rank can work. With one thread the lock is a branch.
class Engine final : private CpuSends, private Losses::Rings {
 public:
  /// Joins the job's region as `job.rank`. The job must outlive the engine.
  static Result<std::unique_ptr<Engine>> make(const launch::Job& job, const Settings& settings);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  [[nodiscard]] EngineLock& lock() noexcept { return lock_; }
  [[nodiscard]] PeerId rank() const noexcept { return links_.rank(); }
  [[nodiscard]] std::uint32_t size() const noexcept { return links_.size(); }
  /// Up to how many bytes messages to ranks of this host are assumed to go with their envelope.
  [[nodiscard]] std::uint64_t eager_limit() const noexcept { return links_.eager_limit(); }
  /// Whether `id` shares this process's region.
  [[nodiscard]] bool is_local(PeerId id) noexcept { return links_.peer(id).is_local(); }
  [[nodiscard]] const launch::Job& job() const noexcept { return links_.job(); }
  /// Has the pages mapped of the rings with a rank, where there are any, through which the next `bytes` go:
  /// what is measured next is not that.
  void map_rings(PeerId id, std::uint64_t bytes) noexcept;
  [[nodiscard]] const wire::RegionView& region() const noexcept { return links_.region(); }
  [[nodiscard]] const Settings& settings() const noexcept { return links_.settings(); }
  /// Whether a thread of this rank's own, on a core that nobody else has, goes on with what calls begin.
  [[nodiscard]] bool has_helping_core() const noexcept {
    return settings().progress == ProgressSetting::thread && !job().spare_cpus.empty();
  }
  /// Whether ranks of this job may sleep, so that who writes to shared memory must `notify`.
  [[nodiscard]] bool peers_sleep() const noexcept { return links_.peers_sleep(); }

  // --- contexts
  // -------------------------------------------------------------------------------------------------------------------

  /// Ids below this are the library's own: 0 and 1 MPI_COMM_WORLD, 2 and 3 MPI_COMM_SELF.
  static constexpr ContextId world_context = 0;
  static constexpr ContextId self_context = 2;
  static constexpr ContextId internal_context = ContextIds::internal;
  static constexpr ContextId failure_context = ContextIds::failure;
  static constexpr ContextId first_job_context =
      ContextIds::first_of_job;  ///< all that `new_context_id` gives are above

  /// An id that no other process of the job hands out. Each reserves `id` and `id + 1`. `ContextIds::none`
  /// when they have run out: to be proposed like any other, so that all hear of it.
  [[nodiscard]] ContextId new_context_id() noexcept { return context_ids_.take(); }
  [[nodiscard]] ContextIds& context_ids() noexcept { return context_ids_; }
  /// Whether a communicator may be made of what has been proposed: an id of its maker's that is not open
  /// here. What comes from another process must pass this, or it could name any communicator that there is.
  [[nodiscard]] Result<> check(const ContextProposal& proposal) const;
  /// The matching space of `id`. Messages that came before it was opened are in it. `sources`: size of the
  /// group that sends to it.
  MatchContext& open_context(ContextId id, std::uint32_t sources);
  /// The same for `id` and `id + 1`: both or, where memory runs out, neither, and then what came before them
  /// is kept.
  Matcher::Two open_contexts(ContextId id, std::uint32_t sources, std::uint32_t sources_of_next);
  /// No receive may be pending in it. Unmatched messages are dropped.
  void close_context(MatchContext& context);

  // --- sending
  // --------------------------------------------------------------------------------------------------------------------

  /// Starts a send. Returns null if it is already complete and the buffer may be reused, which is the rule
  /// for small messages; otherwise a request that the caller gives back with `free`.
  Request* start_send(const Target& target, const Payload& payload, SendMode mode = SendMode::standard,
                      Start start = Start::nonblocking) {
    if (trace_) [[unlikely]]
      return start_traced_send(target, payload, mode, start);
    return start_untraced_send(target, payload, mode, start);
  }
  /// Sends and returns when the buffer may be reused. The result is the error of the request.
  int send(const Target& target, const Payload& payload, SendMode mode = SendMode::standard);

  // --- GPU memory
  // -----------------------------------------------------------------------------------------------------------------

  /// Whether the program has initialised CUDA, so that a payload may lie in GPU memory: 1 ns.
  [[nodiscard]] bool uses_cuda() noexcept { return gpu_.uses_cuda(); }
  /// Null before it has, and where CUDA does not work.
  GpuMessages* gpu() { return gpu_.get(); }
  /// Copies a payload in any memory, packed, to `payload.bytes` bytes of host memory.
  Result<> pack(const Payload& payload, std::byte* to) { return gpu_.pack(payload, to); }

  // --- memory of this host
  // -----------------------------------------------------------------------------------------------------------------

  /// Memory for the program from which peers of this host take messages with one copy, whatever lies between
  /// them; null where that is no use, or cannot be. `alignment`: a power of two. It must not outlive the
  /// engine.
  [[nodiscard]] std::unique_ptr<Allocation> allocate(std::size_t bytes, std::size_t alignment) {
    // Pages that peers map would stay behind when the rank goes on in another process.
    if (job().turns && !job().turns->host_workers().empty()) return nullptr;
    return memories_.allocate(bytes, alignment);
  }
  /// This process is the child of a fork: what it writes is its own.
  void become_child() noexcept { memories_.become_child(); }

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

  /// The oldest message that would match, left in its queue; null if there is none. Makes no progress.
  const UnexpectedMessage* find_unexpected(MatchContext& context, int source, int tag);
  /// The same; makes progress if there is none.
  const UnexpectedMessage* probe(MatchContext& context, int source, int tag);
  /// The same, taken out of matching (MPI_Mprobe); to be received by `start_matched_receive`.
  UnexpectedMessage* matched_probe(MatchContext& context, int source, int tag);
  /// Waits for a message that would match, and leaves it in its queue. Null if the memory for messages that
  /// nobody receives is used up by those of the processes that it may come from.
  const UnexpectedMessage* wait_for_message(MatchContext& context, int source, int tag);
  /// Receives a message taken by `matched_probe`, and consumes it.
  Request* start_matched_receive(UnexpectedMessage* message, const Payload& payload);
  [[nodiscard]] static Status status_of(const UnexpectedMessage& message) noexcept {
    return {.source = message.source, .tag = message.tag, .bytes = message.bytes};
  }

  // --- completion
  // -----------------------------------------------------------------------------------------------------------------

  /// Waits until `ready()` is true, making progress meanwhile. For conditions on memory that peers write, the
  /// peer calls `notify` after it wrote. `subject`: what a wait that has become long tells of itself.
  template <class Ready>
  void wait_for(Ready&& ready, WaitSubject subject = WaitSubject::unnamed()) {
    if (ready()) return;
    Idle idle(waiting_, subject);
    for (;;) {
      const unsigned happened = progress();
      if (ready()) return plans_.leave();
      if (happened != 0) {
        idle.reset();
      } else {
        plans_.quiet();
        idle.pause();
      }
    }
  }
  /// Waits until `request` is complete. The request stays the caller's.
  void wait(const Request& request) {
    wait_for([&request] { return request.complete; }, WaitSubject::of(request));
  }
  /// Moves what can be moved; returns how many things happened. Never blocks. What needs memory that there is
  /// not stays where it is, and goes on when there is: so no exception leaves it, and none leaves a wait.
  unsigned progress();
  /// Reads the rings that are known, and no more: for calls that start one of many operations.
  /// What there is no memory for is read later, as with `progress`.
  unsigned listen();
  /// Progress by a thread that looks now and then, while the program may be outside of MPI.
  unsigned progress_in_passing();
  /// Progress for a test call: as `progress`, and lets other processes run if nothing happened and they share
  /// the core.
  void progress_for_test();
  /// Gives a request back. One that is not complete goes on and is freed when it completes
  /// (MPI_Request_free).
  void free(Request* request) { completion_.free(request); }
  /// Cancels a receive or send that has not matched (MPI 5.0, section 3.8.4). Completion comes through the
  /// request in any case, and does not wait for what other processes of this region do in MPI. Between hosts
  /// a send asks its target whether it has been matched: it completes when that makes progress.
  void cancel(Request& request);
  /// Ends what the caller cannot go on with: takes it back, or waits for it where it has been matched, and
  /// gives it back. From then on its buffer is not touched.
  void withdraw(Request* request);
  /// What this rank does is written there; null: nobody wants to know (`Settings::trace`).
  [[nodiscard]] MessageTrace* trace() noexcept { return trace_.get(); }
  /// Who says more of waits that have become long than this engine knows; null: nobody.
  void set_wait_witness(WaitTelling::Witness* program) noexcept { telling_.set_program(program); }
  /// What `Idle` is handed.
  [[nodiscard]] const Waiting& waiting() const noexcept { return waiting_; }
  // --- other processes (mpiexec --migratable)

  /// All ranks of the host are here before one goes on, and none of them is in its engine meanwhile: nothing
  /// is read or written that a rank which moves would miss.
  void meet_at_rest() noexcept;
  /// This rank has come to another process, which its peers are to know.
  Result<> arrive();
  /// Some ranks may be in other processes than before. Between two meetings of all, and the next message.
  void renew_peers();

  // The same where the job is on several hosts, by all ranks: rest.cpp

  /// All that has been sent has arrived, and what is on offer between ranks one of which leaves its host has
  /// been brought in. `to`: for each rank the process that it goes on in. `taken`: messages that probes have
  /// taken out of matching. An error is the same for all ranks, and nobody moves then.
  Result<> come_to_rest(std::span<const std::uint32_t> to, std::span<UnexpectedMessage* const> taken);
  /// What has to do with the places of ranks before they move is over: rings and lines.
  void part();
  /// This rank leaves its host, or has come to another, or back.
  void leave_region() noexcept;
  void enter_region() noexcept;
  /// All meet, and know where all are.
  void go_on();

  /// Marks a request complete that this engine does not move itself (generalized requests), and wakes a
  /// waiting thread.
  void complete(Request& request) { completion_.finish(request); }
  [[nodiscard]] RequestPool& requests() noexcept { return completion_.pool(); }
  /// What is to be polled by `progress`.
  [[nodiscard]] PollList& polled() noexcept { return polled_; }
  /// After something became complete that no request of this engine stands for: wakes another thread of this
  /// rank that may wait for it.
  void wake_threads() noexcept { completion_.wake_threads(); }

  /// After writing to memory that `peer` waits for in `wait_for`: wakes it if it sleeps.
  void notify(PeerId id) noexcept { links_.notify(id); }

  // --- processes that are no more
  // -------------------------------------------------------------------------------------------------

  /// Those that have been lost, in the order in which this process has found out. A loss is final.
  [[nodiscard]] const std::vector<PeerId>& lost() const noexcept { return losses_.lost(); }
  [[nodiscard]] bool has_lost(PeerId id) const noexcept { return links_.has_lost(id); }
  /// As `Losses::lose`.
  void lose(PeerId id, const std::string& why, bool warns) { losses_.lose(id, why, warns); }
  /// Lets a context that has been opened since know of the losses before.
  void recall_losses(MatchContext& context) { losses_.recall(context); }
  /// Looks which processes of this region have ended, and loses them.
  void look_for_losses() { loss_watch_.look(); }
  /// The same at most every 100 ms; for who waits in vain.
  void look_after_peers() noexcept { loss_watch_.look_after_peers(); }
  /// Ends all that is under way in the matching spaces `id` and `id + 1`, here and, as the others hear of it,
  /// on all processes that `context(id + 1)` names. Now and from now on, `why` is the error of what is
  /// received there.
  void revoke(ContextId id, ErrorClass why) { agreements_.revoke(id, why); }
  /// The part of `revoke` that is done here.
  void break_off(ContextId id, ErrorClass why) { losses_.break_off(id, why); }
  [[nodiscard]] Agreements& agreements() noexcept { return agreements_; }

  // --- direct access to a peer's memory
  // -------------------------------------------------------------------------------------------

  /// Whether `peer` has come far enough in MPI_Init for its memory to be tried. Until then `pull_reach` and
  /// `push_reach` say no.
  [[nodiscard]] bool can_try_reach(PeerId id) { return access_.can_probe(links_.peer(id)); }
  /// Whether this process can read the memory of `peer` (tries it the first time), else why not.
  const Reach& pull_reach(PeerId id) {
    Peer& found = links_.peer(id);
    access_.probe(found);
    return found.pull;
  }
  /// Reads `bytes` at `address` of `peer`; only where `pull_reach` holds.
  Result<> pull(PeerId id, std::uint64_t address, void* to, std::uint64_t bytes) {
    return access_.read(links_.peer(id), address, to, bytes);
  }
  /// The same for writing to the memory of `peer`.
  const Reach& push_reach(PeerId id) {
    Peer& found = links_.peer(id);
    access_.probe(found);
    return found.push;
  }
  Result<> push(PeerId id, std::uint64_t address, const void* from, std::uint64_t bytes) {
    return access_.write(links_.peer(id), address, from, bytes);
  }

  // --- what is learned of collectives

  /// Where someone wants to know, `reporter` is asked at the job's end, or when it leaves.
  void join_call_reports(const CallReporter& reporter) {
    if (settings().explain != ExplainSetting::off) call_reports_.join(reporter);
  }
  void leave_call_reports(const CallReporter& reporter) {
    call_reports_.leave(reporter, plans_.nanoseconds());
  }
  /// By whose clock the time counts that this rank spends in MPI.
  [[nodiscard]] LivePlans& live_plans() noexcept { return plans_; }
  [[nodiscard]] const EagerPlans& eager_plans() const noexcept { return eager_plans_; }

  // --- end
  // ------------------------------------------------------------------------------------------------------------------------

  /// Completes everything that peers may still need of this rank, its sends, and tells those of other hosts
  /// that it may end now, or begin again. Waits until they have heard it; for 2 s at most, since they may
  /// compute.
  void leave();
  /// Whether anything of this rank goes through a network, which `finalize` closes.
  [[nodiscard]] bool has_network() const noexcept { return network_ != nullptr; }
  /// Completes everything that peers may still need of this rank, meets all ranks, and marks this one
  /// finalized.
  void finalize();
  /// What this rank has to say in a form of `isthmus explain`: text, one JSON object, or what it counts for
  /// the summary (`JobTally::add`).
  [[nodiscard]] std::string explain(ExplainSetting form);

 private:
  Engine(const launch::Job& job, const Settings& settings);

  void begin_trace();
  void take_turns(RankTurns& turns);
  // engine.cpp: what peers write, and what goes to them
  void discover();
  /// Opens the ring of a peer of this host that has connected.
  void accept(Peer& peer);
  unsigned drain(Peer& peer);
  unsigned drain_doorbells();
  unsigned drain_cells(Peer& peer);
  unsigned push_out(Peer& peer);
  // What `listen` and `progress` are made of, and what these do not: fail where there is no memory.
  unsigned read_all();
  unsigned poll_all();
  /// There was no memory for what has come: it is looked at again.
  unsigned put_off() noexcept;
  [[nodiscard]] bool all_leave() const noexcept;
  void settle();
  /// All processes of the job meet; from then on nothing is said of those that leave.
  void meet_all();
  void meet_once();

  // rest.cpp
  std::vector<MeetingWords> meet(const MeetingWords& words);
  unsigned progress_at_rest(std::span<UnexpectedMessage* const> taken);
  unsigned bring_in(UnexpectedMessage& message);
  unsigned end_bringing_in();
  [[nodiscard]] bool has_rest() const noexcept;
  [[nodiscard]] MeetingWords at_rest() const noexcept;
  /// Calls `visit` with the sends that a peer has, and has not matched, where the peer comes to this host or
  /// leaves it.
  template <class Visit>
  void for_each_moving_send(Visit visit);

  bool read_rest(Peer& peer) override;
  void close(Peer& peer) noexcept override { std::erase(inbound_, &peer); }
  /// A message that came before its matching space, and is of no source of it.
  void discard_misfit(UnexpectedMessage* message) noexcept;

  // start.cpp
  Request* start_untraced_send(const Target& target, const Payload& payload, SendMode mode, Start start) {
    if (uses_cuda()) [[unlikely]]
      return start_any_send(target, payload, mode, start);
    return start_cpu_send(target, payload, mode, start);
  }
  Request* start_traced_send(const Target& target, const Payload& payload, SendMode mode, Start start);
  Request* refuse_send(const Target& target, const Payload& payload, SendMode mode);
  /// Of a payload that may lie in GPU memory.
  Request* start_any_send(const Target& target, const Payload& payload, SendMode mode, Start start);
  Request* start_cpu_send(const Target& target, const Payload& payload, SendMode mode, Start start) override;
  void start_offer(Peer& peer, Request& send) override;
  Request* start_send_slow(Peer& peer, const Target& target, const Payload& payload, SendMode mode,
                           Start start, MemoryKind memory = MemoryKind::pageable);
  /// How a send that becomes a request goes.
  struct Going {
    SendMode mode;
    MemoryKind memory;
    Eagerness eagerness = Eagerness::by_limit;
    std::uint16_t mark = 0;
  };
  Request* start_request(Peer& peer, const Target& target, const Payload& payload, const Going& going);
  Request* start_measured(Peer& peer, const Target& target, const Payload& payload, Start start);
  [[nodiscard]] EagerPlans::Fate measured_fate(const Peer& peer, std::uint64_t bytes, Start start) noexcept;
  bool emit_eagerly(Peer& peer, const Target& target, const Payload& payload, std::uint16_t mark);
  bool emit(Peer& peer, Request& send);
  void receive_inline(Peer& peer, const wire::CellHeader& header, const std::byte* bytes);
  void accept(UnexpectedMessage* message, Request& receive);

  // explain/report.cpp
  [[nodiscard]] ExplainParts parts();
  void report();

  Links links_;
  EngineLock lock_;
  std::unique_ptr<MessageTrace> trace_;
  PollList polled_;
  LossWatch loss_watch_;
  PeerMemories memories_;
  PeerAccess access_;
  Matcher matcher_;
  // Unexpected messages point to their peers, and requests own what may close a context when it goes.
  Completion completion_;
  std::vector<Peer*> inbound_;  ///< peers whose ring to this rank is open
  std::unique_ptr<NetworkPeers>
      network_;  ///< null where all processes share the region and nothing goes through the adapter
  ContextIds context_ids_;
  Losses losses_;
  Agreements agreements_;
  Claims claims_;
  UnexpectedMessages unexpected_;
  MessageWitness witness_;
  WaitTelling telling_;
  Waiting waiting_;
  CellHandlers handlers_;
  MappedMemory mapped_;
  std::uint32_t connections_seen_ = 0;
  std::uint32_t fruitless_tests_ = 0;
  std::uint32_t meetings_ = 0;    ///< that this rank has been at
  std::optional<Moving> moving_;  ///< while ranks do
  LivePlans plans_;
  BatchReports reports_;
  EagerPlans eager_plans_;
  CallReports call_reports_;
  std::optional<WayTimes> times_;  ///< while somebody explains
  // Last, because they end what is under way.
  GpuAccess gpu_;
  GpuOffers gpu_offers_;
  EagerMessages eager_;
  SelfMessages self_;
  SplitCopies splits_;
  FragmentStreams streams_;
  Rendezvous rendezvous_;
};

}  // namespace isthmus
