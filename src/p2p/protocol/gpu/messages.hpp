#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.hpp"
#include "gpu/copy/gdr_mappings.hpp"
#include "gpu/driver/gpu.hpp"
#include "p2p/active/completion.hpp"
#include "p2p/gpu_copy/copies.hpp"
#include "p2p/gpu_copy/couriers.hpp"
#include "p2p/gpu_memory/export_table.hpp"
#include "p2p/gpu_memory/window_table.hpp"
#include "p2p/message/gpu_part.hpp"
#include "p2p/message/message.hpp"
#include "p2p/message/request.hpp"
#include "p2p/progress/poll_list.hpp"
#include "p2p/protocol/gpu/gpu_network.hpp"
#include "p2p/protocol/gpu/plans.hpp"
#include "p2p/protocol/gpu/transfers.hpp"
#include "route/gpu/live_plans.hpp"
#include "route/plan.hpp"
#include "wire/gpu.hpp"

namespace isthmus {

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

/// How a message goes through what both ranks reach.
inline constexpr wire::StageChunks chunks_of(GpuWay way) noexcept {
  return way == GpuWay::staged_finely ? wire::StageChunks::small : wire::StageChunks::chosen;
}

/// What is left of the plan of a message that no GPU copies from one side's memory to the other's.
struct StagedWay {
  Protocol way;              ///< `gpu_bounce` or `gpu_staged`
  std::optional<Error> why;  ///< a GPU was to copy it straight, and could not
  wire::StageChunks chunks = wire::StageChunks::usual;
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
    LivePlans& clock;  ///< by which plans measure themselves
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
  /// The sender of a receive has not done it, because of `why`; as `begin`.
  std::optional<StagedWay> begin_without_push(Peer& peer, Request& receive, wire::GpuOutcome why);
  /// Brings a matched `receive` in another way of its plan than by the sender's GPU or the network, as
  /// `begin`. `may_read`: this rank's GPU may look at the sender's memory.
  std::optional<StagedWay> begin_rest(Peer& peer, Request& receive, bool may_read);
  /// By what earlier messages took, which way the matched `receive` is to come that has that plan: null where
  /// that is not measured. `GpuOffers` and this begin messages so.
  [[nodiscard]] std::optional<GpuWay> choose(Request& receive, const GpuPlanKey& key, GpuPlanned& planned) {
    if (!lives_.on()) return std::nullopt;
    return choose_live(receive, key, planned);
  }
  [[nodiscard]] LiveGpuPlans& lives() noexcept { return lives_; }
  /// Packs a send that was offered as it lies, because it goes by way of the host; waits.
  Result<> pack_late(Request& send);
  /// The peer is no more: what it has asked for is not brought any more. Its requests are ended elsewhere.
  void lost(const Peer& peer) noexcept;

  // --- copies

  /// What this process's GPUs copy, whoever asks for it.
  [[nodiscard]] GpuCopies& copies() noexcept { return copies_; }
  bool land_or_finish(Request& request) noexcept override;
  /// Makes progress on copies; how many have ended.
  unsigned poll() override;
  [[nodiscard]] bool wakes_nobody() const noexcept override;
  /// What short messages did besides, for `isthmus explain`: whole lines, or nothing.
  [[nodiscard]] std::string explain_short() const;
  /// Makes what messages of that GPU need of the driver and otherwise make when they first need it: streams,
  /// events, loaded kernels. For a program whose streams wait for messages: once one of its launches waits
  /// for room, nobody can make any (`CopyEngine::prepare`). Some milliseconds the first time.
  Result<> prepare(cuda::Device device);

  /// What ranks of this host know of each other's GPU memory.
  [[nodiscard]] ExportTable& exports() noexcept { return exports_; }
  /// The library's own GPU memory.
  [[nodiscard]] WindowTable& windows() noexcept { return windows_; }
  [[nodiscard]] GpuPlans& plans() noexcept { return plans_; }
  /// A message to a peer goes by staging: through a window, or memory of the host.
  void note_way(Peer& peer, const Buffer& from, bool bounces);

  // --- for collectives between GPUs

  /// Whether no other rank of this host uses that GPU, as far as they have used any: two processes on one GPU
  /// take turns, and a kernel that waits would wait for whole turns in vain.
  bool has_to_itself(cuda::Device device) noexcept;
  /// Whether kernels may meet in short collectives, as far as this rank is asked. Not where its process has
  /// several ranks: a kernel waits for those of the other members, while any rank of the process may be in a
  /// call of CUDA that waits for that kernel (cuMemFree), and keep a member from launching its own.
  [[nodiscard]] bool may_meet() const noexcept {
    return !links_.job().turns && links_.settings().collective_way != CollectiveWaySetting::direct;
  }
  /// Whether the courier of that GPU is to have this member's part of the next collective that the program
  /// waits for. Counts it. Then `take_order` gives it, if the courier can take it (`Courier::take`).
  bool may_order(cuda::Device device, std::uint64_t bytes);
  GpuErrand take_order(cuda::Device device, const kernel::MeetOrder& order, const std::byte* table,
                       std::uint64_t id);

  /// Says once for each peer, and on record for `isthmus explain`, why GPU memory goes by way of the host's.
  void note(PeerId peer, const Error& why);
  /// Collectives of this process with data in GPU memory.
  struct Collectives {
    std::uint64_t between_gpus = 0;
    std::uint64_t by_window = 0;     ///< of these by way of windows (`GpuWindows`)
    std::uint64_t across_hosts = 0;  ///< on each host between its GPUs
    std::uint64_t by_host = 0;       ///< with stand-ins
  } collectives;

 private:
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
  GpuMessages(const Surroundings& around, CudaDriver& driver, const cuda::Functions& functions, GpuList gpus,
              const ProcessIdentity& self);

  [[nodiscard]] std::optional<GpuWay> choose_live(Request& receive, const GpuPlanKey& key,
                                                  GpuPlanned& planned);
  enum class Begun : std::uint8_t { no, yes, by_staging };
  /// Begins to bring what a peer offers by one way of its plan. Where that cannot be, and why, goes to
  /// `trouble`.
  Begun begin_by(Protocol way, Peer& peer, Request& receive, wire::Cookie sender, const GpuSource& from,
                 std::optional<Error>& trouble);
  Request* start_send(const Target& target, const Payload& payload, SendMode mode, Start start,
                      const Buffer& buffer);
  void prepare(Request& receive, const Buffer& buffer);
  /// Puts a message without its gaps in place of that of a send.
  Result<> pack(GpuPart& part);
  /// Makes a send with gaps ready to be offered as it lies; false where it is to be packed.
  bool offer_in_place(const Peer& peer, GpuPart& part);
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

  // parked.cpp
  /// Puts off what needs memory whose descriptor is waited for; false where it need not be.
  bool park(Peer& peer, const Request& request, const wire::GpuOffer& offer, const GpuSource& from);
  bool park(Peer& peer, const Request& request, const wire::GpuTarget& target, const wire::GpuExport& to);
  /// Goes on with that whose descriptors have come, or will not; how many.
  unsigned poll_parked();
  [[nodiscard]] Request* find_pushed(const Peer& peer, const wire::GpuTarget& target);
  /// `Links::prepare_answer` has been called.
  void push_to(Peer& peer, Request& send, const wire::GpuTarget& target, const wire::GpuExport& to);
  /// Has the sender's GPU copy, or this rank's where that has more to do; false if none can.
  bool begin_by_push(Peer& peer, Request& receive, wire::Cookie sender, const GpuSource& from);
  /// Whether this rank is to copy because the peer has more to copy to it than it from the peer.
  [[nodiscard]] bool can_help(const Peer& peer, const wire::GpuExport& from, cuda::Device local);
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
  /// `outcome`: what the receiver is to be told if that fails.
  Result<> start_push(Peer& peer, Request& send, const wire::GpuTarget& target, const wire::GpuExport& to,
                      wire::GpuOutcome& outcome);
  void look_for_freed();

  Links& links_;
  Completion& completion_;
  CpuSends& sends_;
  OfferFetcher& offers_;
  GpuNetwork* const network_;
  const GpuList gpus_;
  GpuCopies copies_;
  ExportTable exports_;
  WindowTable windows_;
  GdrMappings gdr_;
  std::unique_ptr<GpuCouriers> couriers_;
  GpuPlans plans_;
  LiveGpuPlans lives_;
  GpuTransfers transfers_;
  cuda::Device published_ = cuda::no_device;
  std::vector<Parked> parked_;  ///< at most one for a request
  std::uint32_t polls_ = 0;
  std::chrono::steady_clock::time_point looked_for_freed_{};
};

}  // namespace isthmus
