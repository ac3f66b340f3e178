#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.hpp"
#include "gpu/copy/engine.hpp"
#include "gpu/copy/gdr_mappings.hpp"
#include "gpu/driver/gpu.hpp"
#include "gpu/memory/classify.hpp"
#include "gpu/memory/export.hpp"
#include "gpu/memory/mapping_cache.hpp"
#include "gpu/memory/pinned_pool.hpp"
#include "gpu/memory/pinned_range.hpp"
#include "p2p/active/completion.hpp"
#include "p2p/gpu_copy/copies.hpp"
#include "p2p/gpu_copy/courier_copy.hpp"
#include "p2p/message/gpu_part.hpp"
#include "p2p/message/gpu_windows.hpp"
#include "p2p/message/message.hpp"
#include "p2p/message/request.hpp"
#include "p2p/progress/poll_list.hpp"
#include "p2p/protocol/gpu/dependent.hpp"
#include "p2p/protocol/gpu/exports.hpp"
#include "route/gpu_pairs.hpp"
#include "route/gpu_plan_cache.hpp"
#include "route/plan.hpp"
#include "route/workload.hpp"
#include "wire/gpu.hpp"

namespace isthmus {

class GpuCouriers;
class Links;
class Peer;
class PeerAccess;

/// What messages in GPU memory need of those in memory of the host.
class CpuSends {
 public:
  /// As `Engine::start_send`, of a payload that a processor can read.
  virtual Request* start_cpu_send(const Target& target, const Payload& payload, SendMode mode,
                                  Start start) = 0;
  /// Writes the envelope of a send to a peer of this host, now or when there is room.
  virtual void start_offer(Peer& peer, Request& send) = 0;

 protected:
  ~CpuSends() = default;
};

/// Who brings what a peer of this host offers in its GPU memory to the `receive` that it has been assigned
/// to.
class OfferFetcher {
 public:
  virtual void fetch(Peer& peer, Request& receive, const wire::GpuOffer& offer, const GpuSource& from) = 0;

 protected:
  ~OfferFetcher() = default;
};

/// What is left of the plan of a message that no GPU copies from one side's memory to the other's.
struct StagedWay {
  Protocol way;              ///< `gpu_bounce` or `gpu_staged`
  std::optional<Error> why;  ///< a GPU was to copy it straight, and could not
};

/// What the network does with GPU memory.
class GpuNetwork {
 public:
  /// Sends a message that lies in GPU memory without gaps: as it lies, or chunk by chunk. Null where it is
  /// too short for that, or the peer cannot be reached; `part` is taken only otherwise.
  virtual Request* try_send_gpu(Peer& peer, const Target& target, std::unique_ptr<GpuPart>& part,
                                SendMode mode) = 0;
  /// Whether the network may be handed GPU memory; why not.
  [[nodiscard]] virtual Reach gpu_reach() const = 0;
  /// The matched `receive` of a peer on this host, whose envelope went through shared memory, waits for what
  /// the sender hands to the network.
  virtual void expect_loop(Peer& peer, Request& receive) = 0;
  /// Hands a send in GPU memory to the network, for that `receive` of a peer on this host.
  virtual Result<> send_loop(Peer& peer, Request& send, wire::Cookie receive, std::uint64_t bytes) = 0;

 protected:
  ~GpuNetwork() = default;
};

/// Messages from and to GPU memory, for an engine, which makes one as soon as the program has initialised
/// CUDA and names GPU memory. Pinned memory counts as the host's, and managed memory whose pages the host
/// has.
///
/// Between ranks of one host the sender offers its allocation (`Export`). The receiver answers with its own,
/// and the sender's GPU writes there: until a processor knows that 8 bytes have arrived it takes 6.6 us, and
/// 9.6 for 1 MiB; reading takes 6.9 and 10.3 (2 x H200, memory opened by IPC). Where the receiver's memory is
/// not one run of a GPU's, or that is refused, the receiver's GPU reads. What lies in memory of the host, and
/// is not sent at once, goes straight to or from the GPU too, if both processes use CUDA. Where no GPU
/// reaches both, the message goes through memory that both share (`Staging`), with the reason on record. A
/// receive into GPU memory has a stand-in in host memory once something comes in another way.
///
/// A send with gaps is offered as it lies (`wire::GpuShape`) where that is quicker than to pack it first: the
/// sender's GPU packs it into a receive without gaps, else the receiver's reads it out of the sender's memory
/// into its own layout. Where neither can, the sender packs it when the receiver asks for it by way of the
/// host.
class GpuMessages final : public Polled, public Completion::Lander {
 public:
  /// What they are made of besides.
  struct Surroundings {
    Links& links;
    Completion& completion;
    PeerAccess& access;
    CpuSends& sends;
    OfferFetcher* offers = nullptr;
    GpuNetwork* network = nullptr;  ///< null where there is none
  };
  static Result<std::unique_ptr<GpuMessages>> make(const Surroundings& around, CudaDriver& driver);
  GpuMessages(const GpuMessages&) = delete;
  GpuMessages& operator=(const GpuMessages&) = delete;
  ~GpuMessages() override;

  /// As `Engine::start_send` where the payload is in GPU memory; else what memory of the host it is in.
  std::variant<Request*, MemoryKind> try_send(const Target& target, const Payload& payload, SendMode mode,
                                              Start start);
  /// Makes a receive whose payload may be in GPU memory ready to be posted; false if it has failed.
  bool try_prepare(Request& receive);

  // --- rendezvous.cpp

  /// Writes the offer of a send; false if the ring has no room.
  bool emit(Peer& peer, Request& send, const Target& target);
  /// What a peer names, nothing (exporter 0) where that is not its own: `piece` where it tells it in full,
  /// else null and a number.
  wire::GpuExport resolve(Peer& peer, std::uint32_t number, const std::byte* piece, std::uint64_t offset,
                          std::uint64_t bytes);
  /// Begins to bring what a peer offers to where the matched `receive` wants it, by the first way of their
  /// plan that can be; else the way that is left for `Staging`.
  std::optional<StagedWay> begin(Peer& peer, Request& receive, const wire::GpuOffer& offer,
                                 const GpuSource& from);
  /// Asks the sender to have its GPU write to where the matched `receive` wants it; false if that cannot be.
  bool ask_to_push(Peer& peer, Request& receive, wire::Cookie sender);
  /// The receiver of a send asks for that.
  void push(Peer& peer, std::uint32_t number, const wire::GpuTarget& target, const std::byte* piece);
  /// Asks the sender to hand it to the network, which puts it where the matched `receive` wants it; false if
  /// that cannot be.
  bool ask_to_loop(Peer& peer, Request& receive, wire::Cookie sender);
  /// The receiver of a send asks for that.
  void loop(Peer& peer, const wire::LoopRequest& wanted);
  /// The sender of a receive has answered what `ask_to_push` asked for.
  void answered(const Peer& peer) { exports(peer).answered(); }
  /// The sender of a receive has not done it, because of `why`; as `begin`.
  std::optional<StagedWay> begin_without_push(Peer& peer, Request& receive, wire::GpuOutcome why);
  /// Brings a matched `receive` in another way of its plan than by the sender's GPU or the network, as
  /// `begin`. `may_read`: this rank's GPU may look at the sender's memory.
  std::optional<StagedWay> begin_rest(Peer& peer, Request& receive, bool may_read);
  /// Packs a send that was offered as it lies, because it goes by way of the host; waits.
  Result<> pack_late(Request& send);
  /// The peer has not what it has been told of.
  void untell(Peer& peer, const Request& send) { exports(peer).forget(send.gpu->buffer.allocation); }
  /// Whether the driver has refused to open that here.
  [[nodiscard]] bool cannot_reach(const Peer& peer, const wire::GpuExport& what) {
    return exports(peer).is_unreachable(what.memory.allocation);
  }
  /// The peer has freed it.
  void forget(Peer& peer, const wire::GpuFreed& freed);
  /// The peer is no more: what it has promised is not waited for. Its requests are ended elsewhere.
  void lost(const Peer& peer) noexcept;

  // --- copies

  /// What this process's GPUs copy, whoever asks for it.
  [[nodiscard]] GpuCopies& copies() noexcept { return copies_; }
  bool land_or_finish(Request& request) noexcept override;
  /// Makes progress on copies; how many have ended.
  unsigned poll() override;
  [[nodiscard]] bool wakes_nobody() const noexcept override;
  /// Memory of peers that is open.
  [[nodiscard]] MappingCache& mappings() noexcept { return mappings_; }
  /// What short messages did besides, for `isthmus explain`: whole lines, or nothing.
  [[nodiscard]] std::string explain_short() const;
  /// Makes what messages of that GPU need of the driver and otherwise make when they first need it: streams,
  /// events, loaded kernels. For a program whose streams wait for messages: once one of its launches waits
  /// for room, nobody can make any (`CopyEngine::prepare`). Some milliseconds the first time.
  Result<> prepare(cuda::Device device);

  // --- bounce.cpp

  /// Whether messages between GPU memories that no other process can open may go through the library's.
  [[nodiscard]] bool may_bounce() const noexcept;
  /// What chunks of a message from a device of this rank go through: a window, or (number 0) memory of the
  /// host. Nothing where the peer has been told of the window first; it will ask again.
  struct Bounce {
    std::uint32_t number = 0;
    std::span<std::byte> memory{};
  };
  std::optional<Bounce> bounce_of(Peer& peer, cuda::Device device, const wire::StageRequest& wanted);
  /// A message to a peer goes by staging: through a window, or memory of the host.
  void note_way(Peer& peer, const Buffer& from, bool bounces);
  /// Opens a window of a peer for a device, and what to say of it.
  wire::StageWindow open_window(Peer& peer, std::uint32_t number, const wire::GpuExport& what,
                                cuda::Device local);
  [[nodiscard]] std::shared_ptr<const Mapping> opened_window(const Peer& peer, std::uint32_t number,
                                                             cuda::Device local) const;

  /// A window of this rank for a collective, until its end; what it is to the driver.
  struct LentWindow {
    GpuWindows::Slot slot;
    Buffer buffer;
  };
  Result<LentWindow> lend_window(cuda::Device device);

  // --- plans.cpp

  /// The plan of messages in memory of the sender's host to the GPU memory of the matched `receive`.
  [[nodiscard]] const Plan& plan_from_host(const Peer& peer, const Request& receive, bool is_pinned);
  /// The plan of sends to a peer of another host; what its memory is, it does not say.
  [[nodiscard]] const Plan& plan_to_host_of(const Peer& peer, const GpuPart& part);
  /// The plan of what a peer of another host offers as a whole, to the GPU memory of a matched receive.
  [[nodiscard]] const Plan& plan_from_host_of(const Peer& peer, const GpuPart& part);
  /// The plans of messages from a peer, as far as they are known, for `isthmus explain`.
  [[nodiscard]] std::vector<GpuPairs> plans(const Peer& peer);
  /// Why GPUs do not copy some of what comes from a peer of this host, as far as it has been met.
  [[nodiscard]] std::set<std::string> refusals(const Peer& peer);
  /// Where a peer's GPU is to the one that this rank has used last.
  [[nodiscard]] GpuLocality locality(const Peer& peer);

  // --- for collectives between GPUs

  [[nodiscard]] Exporter& exporter() noexcept { return exporter_; }
  /// Where an allocation that a peer of this host exports is, for copies by the device `local`. The mapping
  /// is null for memory of this very process.
  struct Opened {
    std::shared_ptr<const Mapping> mapping;
    std::byte* base = nullptr;
  };
  /// `descriptor`: as `take` has given it.
  Result<Opened> open(PeerId peer, const wire::GpuExport& from, cuda::Device local, UniqueFd descriptor);
  /// Leaves the descriptor of an export for peers in the region's box, and closes it. Where there is no box,
  /// or it is full, it stays open, for peers that may fetch it from this process.
  void hand_over(std::span<const PeerId> peers, wire::GpuExport& what, UniqueFd& descriptor);
  /// What a peer has left. Must be called for every export that a collective tells with a ticket. Waits for
  /// it, until that has been in vain once (`GpuExports::may_wait`).
  [[nodiscard]] UniqueFd take(PeerId peer, const wire::GpuExport& what);
  /// A peer has been handed an allocation of this rank otherwise than by a message; it is told when that is
  /// freed.
  void handed(PeerId peer, std::uint64_t allocation);
  /// Says once for each peer, and on record for `isthmus explain`, why GPU memory goes by way of the host's.
  void note(PeerId peer, const Error& why);
  /// Collectives of this process with data in GPU memory.
  struct Collectives {
    std::uint64_t between_gpus = 0;
    std::uint64_t by_window = 0;     ///< of these by way of windows (`GpuWindows`)
    std::uint64_t across_hosts = 0;  ///< on each host between its GPUs
    std::uint64_t by_host = 0;       ///< with stand-ins
  } collectives;
  void add(GpuDependent& dependent) { dependents_.push_back(&dependent); }
  void remove(const GpuDependent& dependent) { std::erase(dependents_, &dependent); }

 private:
  /// What is to be done when a copy is over.
  enum class Purpose : std::uint8_t {
    land,  ///< a receive's, from its stand-in
    pull,  ///< a receive's, from the peer's memory
    push,  ///< a send's, to the peer's memory
  };
  struct Running {
    PendingCopy copy;
    Purpose purpose;
    wire::Cookie request;
    wire::Cookie peers;  ///< `pull`: the send, `push`: the receive that waits to hear of it
    std::shared_ptr<const Mapping> mapping;
    std::optional<CourierCopy> errand{};           ///< in place of the copy
    std::shared_ptr<const PinnedBuffer> pinned{};  ///< what it copies from, where that is the library's
  };
  /// A copy that is to be started together with others.
  struct Held {
    Running running;
    Buffer near;  ///< a side of it, on the GPU that copies
    CopyPiece piece;
  };
  /// What a peer has asked for that needs a descriptor which is not here yet: to read what it offers, or to
  /// write to what it names.
  struct ParkedRead {
    wire::GpuOffer offer;
    GpuSource from;
  };
  struct ParkedWrite {
    wire::GpuTarget target;
    wire::GpuExport to;
  };
  struct Parked {
    Peer* peer;
    wire::Cookie request;
    std::uint64_t allocation;  ///< whose descriptor it is
    std::variant<ParkedRead, ParkedWrite> asked;
  };
  /// An export on its way to a peer.
  struct Announcement {
    std::uint32_t number = 0;
    bool in_full = true;
    wire::GpuExport what{};
  };

  GpuMessages(const Surroundings& around, CudaDriver& driver, const cuda::Functions& functions, GpuList gpus,
              const ProcessIdentity& self);

  // held.cpp
  /// A copy of all that the shorter side has, by the GPU that `near` lies on, from or to memory that a peer's
  /// GPU has. While that GPU has enough to do, short ones without gaps are held back until several can be
  /// started by one call of the driver: `poll` does that, or the eighth. Where this fails, nothing has become
  /// of the request.
  Result<> start_or_hold(Request& request, const Buffer& near, const Payload& from, const Payload& to,
                         Running running);
  void start_held();
  void start_held_if_idle();
  // landings.cpp
  /// Whether short messages from memory of the host wait for `start_landings`, so that all which have come
  /// at once are copied to the GPU together.
  [[nodiscard]] bool lands_with_others(const GpuPart& part, std::uint64_t bytes) const noexcept;
  Result<PendingCopy> start_landing(Request& receive);
  void start_landings();
  /// Of the first `count`, all of one GPU. False if they have to be started one by one.
  bool start_landings_together(std::size_t count);
  Request* start_send(const Target& target, const Payload& payload, SendMode mode, Start start,
                      const Buffer& buffer);
  void prepare(Request& receive, const Buffer& buffer);
  /// Puts a message without its gaps in place of that of a send.
  Result<> pack(GpuPart& part);
  /// Makes a send with gaps ready to be offered as it lies; false where it is to be packed.
  bool offer_in_place(GpuPart& part);
  struct Offered {
    Request* send;
    bool is_alone;  ///< as `GpuExports::begin_send` says
  };
  /// Begins a send to a peer of this host, or fails and has begun nothing. `error`: it has failed, and its
  /// receiver hears of that in the place of the message.
  Offered offer(Peer& peer, const Target& target, const Payload& payload, SendMode mode,
                std::unique_ptr<GpuPart> part, ErrorClass error);
  Request* send_by_host(const Target& target, const Payload& payload, SendMode mode, const Buffer& buffer);
  /// Messages that are short enough for the processor's own loads and stores (`GdrMappings`).
  std::optional<Request*> send_by_processor(const Target& target, const Payload& payload, SendMode mode,
                                            Start start, const Buffer& buffer);
  bool land_by_processor(const GpuPart& part, const Payload& arrived);

  bool announce_window(Peer& peer, GpuWindows::Window& window, std::uint32_t number, wire::Cookie receiver);
  void note_missing_loopback(Peer& peer);
  /// What has been refused before a context was made anew may be opened now, and is forgotten first.
  GpuExports& exports(const Peer& peer);
  /// Whether a peer's exports may say that they are of that process: one names one, and no two the same, so
  /// that nobody has this rank copy to or from what a third has told.
  [[nodiscard]] bool is_exporter(const Peer& peer, std::uint64_t exporter);
  // parked.cpp
  /// Takes the descriptor of an export that a peer has just told, or has it waited for.
  void expect_descriptor(const Peer& peer, const wire::GpuExport& what);
  /// Puts off what needs memory whose descriptor is waited for; false where it need not be.
  bool park(Peer& peer, const Request& request, const wire::GpuOffer& offer, const GpuSource& from);
  bool park(Peer& peer, const Request& request, const wire::GpuTarget& target, const wire::GpuExport& to);
  /// Goes on with that whose descriptors have come, or will not; how many.
  unsigned poll_parked();
  [[nodiscard]] Request* find_pushed(const Peer& peer, const wire::GpuTarget& target);
  /// `Links::prepare_answer` has been called.
  void push_to(Peer& peer, Request& send, const wire::GpuTarget& target, const wire::GpuExport& to);
  Announcement announce(Peer& peer, GpuPart& part);
  bool publish(Peer& peer, wire::CellHeader header, const void* payload, Announcement& announcement,
               GpuPart& part);
  // plans.cpp
  /// Holds until the next call.
  [[nodiscard]] const Plan& plan(const Peer& peer, const GpuPlanKey& key);
  /// What the probes of that plan look at, with the reasons in words.
  [[nodiscard]] GpuPlanInputs facts(const Peer& peer, const GpuPlanKey& key);
  [[nodiscard]] GpuPlanKey key_of(const Peer& peer);
  /// Of the plan between what a peer offers and where the matched `receive` wants it.
  [[nodiscard]] GpuPlanKey key_of(Peer& peer, const Request& receive, const GpuSource& source);
  /// The same for what lies in memory of the sender's host.
  [[nodiscard]] GpuPlanKey key_from_host(const Peer& peer, const Request& receive, bool is_pinned);
  void describe_target(const Peer& peer, const cuda::Uuid& theirs, const Request& receive, GpuPlanKey& key);
  [[nodiscard]] static GpuPlanEnd end_of(const GpuPart& part) noexcept;
  [[nodiscard]] GpuLocality locality(cuda::Device mine, const cuda::Uuid& theirs) const;
  /// Whether the network is handed GPU memory of messages with a peer.
  [[nodiscard]] Reach network_reach(const Peer& peer) const;
  /// Keeps why a message goes by way of the host by its plan, where that is for want of another way.
  void note_plan(Peer& peer, const GpuPlanKey& key);
  /// Has the sender's GPU copy, or this rank's where that has more to do; false if none can.
  bool begin_by_push(Peer& peer, Request& receive, wire::Cookie sender, const GpuSource& from);
  /// Whether this rank is to copy because the peer has more to copy to it than it from the peer.
  [[nodiscard]] bool can_help(const Peer& peer, const wire::GpuExport& from, cuda::Device local);
  /// What a peer's export is called here; the mapping stays empty where it is this process's own.
  struct Reached {
    std::byte* address = nullptr;
    std::shared_ptr<const Mapping> mapping;
  };
  Result<Reached> reach(Peer& peer, const wire::GpuExport& what, cuda::Device local);
  Result<std::shared_ptr<const Mapping>> map(Peer& peer, const wire::GpuExport& what, cuda::Device local);
  Result<UniqueFd> descriptor_of(Peer& peer, const wire::GpuExport& what);
  Result<bool> pull(Peer& peer, Request& receive, wire::Cookie sender, const GpuSource& from);
  bool try_pull(Peer& peer, Request& receive, wire::Cookie sender, const GpuSource& from,
                std::optional<Error>& trouble);
  /// A copy of what a peer offers with gaps, by the GPU that `near` lies on, begun; no copy where no kernel
  /// can do it.
  struct Reading {
    std::optional<PendingCopy> copy;
    std::shared_ptr<const Mapping> mapping;
  };
  Result<Reading> start_read(Peer& peer, const GpuSource& from, const Buffer& near, const Payload& to,
                             std::uint64_t bytes);
  // short.cpp
  /// As `begin`, by a courier; false if none is to have it, with nothing done.
  bool begin_by_courier(Peer& peer, Request& receive, wire::Cookie sender, const GpuSource& from);
  /// Has a courier bring a short message that cannot be handed on to where it can be, and waits: a courier
  /// that is out takes 3 us, none is waited for longer than 0.1 ms. Nothing changes where none does it.
  void lend_slot(Peer& peer, GpuPart& part);
  /// Whether a courier of that device is to have the next message. Counts it.
  bool may_send_courier(cuda::Device device);
  void publish_gpu(cuda::Device device) noexcept;
  [[nodiscard]] bool is_alone_on(cuda::Device device) const noexcept;
  Result<bool> is_over(Running& running);
  /// `outcome`: what the receiver is to be told if that fails.
  Result<> start_push(Peer& peer, Request& send, const wire::GpuTarget& target, const wire::GpuExport& to,
                      wire::GpuOutcome& outcome);
  void look_for_freed();
  void tell_freed();

  void reserve_running(std::size_t more);
  /// What a request waits for has been started. `reserve_running` has been called before that.
  void add(Request& request, Running running) noexcept;
  void collect_over();
  unsigned end_over();
  void ended(const Running& running, const Result<bool>& result);
  void complain(const Error& error) noexcept;
  void fail(Request& request, const Error& error) noexcept;

  Links& links_;
  Completion& completion_;
  PeerAccess& access_;
  CpuSends& sends_;
  OfferFetcher& offers_;
  GpuNetwork* const network_;
  const GpuList gpus_;
  const ProcessIdentity self_;
  GpuCopies copies_;
  Exporter exporter_;
  MappingCache mappings_;
  GpuWindows windows_;
  GdrMappings gdr_;
  GpuPlanCache plans_;
  std::unique_ptr<GpuCouriers> couriers_;
  cuda::Device published_ = cuda::no_device;
  std::vector<Running> running_;        ///< in the order in which they were started
  std::vector<Held> held_;              ///< all of one GPU
  std::vector<Parked> parked_;          ///< at most one for a request
  std::vector<wire::Cookie> landings_;  ///< receives in their stand-ins, whose copies are to be started
  bool awaits_ = false;                 ///< a descriptor
  std::size_t held_bytes_ = 0;
  std::vector<const void*> busy_streams_;               ///< of `poll`
  std::vector<std::pair<Running, Result<bool>>> over_;  ///< whose requests are yet to end
  std::unordered_map<PeerId, GpuExports> exports_;
  std::uint32_t last_ticket_ = 0;
  unsigned renewals_ = 0;  ///< of contexts, that have been seen
  std::uint32_t polls_ = 0;
  std::chrono::steady_clock::time_point looked_for_freed_{};
  std::vector<GpuDependent*> dependents_;
  bool complained_ = false;
};

}  // namespace isthmus
