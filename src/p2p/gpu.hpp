#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/error.hpp"
#include "memory/classify.hpp"
#include "memory/copy_engine.hpp"
#include "memory/export.hpp"
#include "memory/gpu.hpp"
#include "memory/mapping_cache.hpp"
#include "p2p/gpu_dependent.hpp"
#include "p2p/gpu_layouts.hpp"
#include "p2p/gpu_part.hpp"
#include "p2p/message.hpp"
#include "p2p/request.hpp"
#include "wire/ring.hpp"

namespace isthmus {

class Engine;
class Peer;

/// Messages from and to GPU memory, for an engine, which makes one as soon as the program has initialised
/// CUDA and names GPU memory. Managed and pinned memory count as the host's.
///
/// Between ranks of one host that both use CUDA, the sender offers its allocation (`Export`), and the
/// receiver copies from it by its GPU's copy engine. Where that is refused, the message goes by way of the
/// host's memory, with the reason on record: the receiver asks the sender to copy it there, and on it goes as
/// any other message. A receive into GPU memory has a stand-in in host memory for all that comes that way.
class GpuMessages {
 public:
  static Result<std::unique_ptr<GpuMessages>> make(Engine& engine, CudaDriver& driver);
  GpuMessages(const GpuMessages&) = delete;
  GpuMessages& operator=(const GpuMessages&) = delete;
  ~GpuMessages();

  /// The GPU memory that a payload lies in, nothing if that is the host's.
  Result<std::optional<Buffer>> find(const Payload& payload);

  /// As `Engine::start_send` where the payload is in GPU memory; nothing where it is not.
  std::optional<Request*> try_send(const Target& target, const Payload& payload, SendMode mode);
  /// Makes a receive whose payload may be in GPU memory ready to be posted; false if it has failed.
  bool try_prepare(Request& receive);

  /// Writes the offer of a send; false if the ring has no room.
  bool emit(Peer& peer, Request& send, const Target& target);
  /// Begins to copy what a peer offers to where the matched `receive` wants it; fails with the reason why it
  /// cannot.
  Result<> copy_from_peer(Peer& peer, Request& receive, const wire::GpuOffer& offer,
                          const wire::GpuExport& from);
  /// The receiver of a send asks for it by way of the host.
  void stage(Peer& peer, const wire::StageRequest& wanted);
  /// Whether a request that has nothing more to wait for from peers is complete; else it will be.
  bool may_finish(Request& request);

  /// Makes progress on copies; how many have ended.
  unsigned poll();
  [[nodiscard]] bool is_busy() const noexcept { return !running_.empty(); }

  /// The kernels of this rank's GPUs.
  [[nodiscard]] GpuKernels& kernels() noexcept { return layouts_.kernels(); }
  /// Copies between payloads of equal packed size, one or both in GPU memory; waits.
  Result<> copy(const Payload& from, const Payload& to);
  /// The same; false where neither is in GPU memory, with nothing done.
  Result<bool> try_copy(const Payload& from, const Payload& to);
  /// `inout = in OP inout` by a kernel; waits. False, with nothing done, unless both are in the memory of one
  /// GPU and there is such a kernel.
  Result<bool> try_reduce(const Op& op, const Datatype& type, const void* in, void* inout,
                          std::int64_t count);

  // --- for collectives between GPUs

  [[nodiscard]] cuda::PrimaryContexts& contexts() noexcept { return contexts_; }
  [[nodiscard]] Exporter& exporter() noexcept { return exporter_; }
  /// Where an allocation that a peer of this host exports is, for copies by the device `local`. The mapping
  /// is null for memory of this very process.
  struct Opened {
    std::shared_ptr<const Mapping> mapping;
    std::byte* base = nullptr;
  };
  Result<Opened> open(PeerId peer, const wire::GpuExport& from, cuda::Device local);
  /// Says once for each peer, and on record for `isthmus explain`, why GPU memory goes by way of the host's.
  void note(PeerId peer, const Error& why);
  /// Collectives of this process with data in GPU memory.
  struct Collectives {
    std::uint64_t between_gpus = 0;
    std::uint64_t by_host = 0;  ///< with stand-ins
  } collectives;
  void add(GpuDependent& dependent) { dependents_.push_back(&dependent); }
  void remove(const GpuDependent& dependent) { std::erase(dependents_, &dependent); }

 private:
  /// What is to be done when a copy is over.
  enum class Purpose : std::uint8_t { land, land_from_peer, stage };
  struct Running {
    PendingCopy copy;
    Purpose purpose;
    wire::Cookie request;
    wire::Cookie answer;  ///< `land_from_peer`: the send to acknowledge; `stage`: the receive that waits
    std::shared_ptr<const Mapping> mapping;
  };

  GpuMessages(Engine& engine, CudaDriver& driver, const cuda::Functions& functions, GpuList gpus,
              const ProcessIdentity& self);

  CopyEngine& engine_on(cuda::Device device);
  /// By the GPU that `near`, one side of the copy, lies on.
  Result<PendingCopy> start_copy(const Buffer& near, const Payload& from, const Payload& to,
                                 std::uint64_t bytes);
  Request* start_send(const Target& target, const Payload& payload, SendMode mode, const Buffer& buffer);
  void prepare(Request& receive, const Buffer& buffer);
  /// Puts a message without its gaps in place of that of a send.
  Result<> pack(GpuPart& part);
  Request* send_by_host(const Target& target, const Payload& payload, SendMode mode, const Buffer& buffer);
  Result<std::shared_ptr<const Mapping>> map(Peer& peer, const wire::GpuExport& from, cuda::Device local);
  void run(Result<PendingCopy> copy, Running running);
  void ended(Running& running, const Result<bool>& result);
  void fail(Request& request, const Error& error);

  Engine& engine_;
  const GpuList gpus_;
  const ProcessIdentity self_;
  cuda::PrimaryContexts contexts_;
  std::unordered_map<cuda::Device, CopyEngine> engines_;
  Classifier classifier_;
  Exporter exporter_;
  MappingCache mappings_;
  GpuLayouts layouts_;
  std::vector<Running> running_;
  /// Allocations whose descriptor each peer has been offered: it has them open now.
  std::unordered_map<PeerId, std::unordered_set<std::uint64_t>> handed_;
  std::vector<GpuDependent*> dependents_;
  bool complained_ = false;
};

}  // namespace isthmus
