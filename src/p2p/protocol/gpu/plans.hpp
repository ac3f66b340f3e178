#pragma once

#include <set>
#include <string>
#include <vector>

#include "gpu/driver/gpu.hpp"
#include "p2p/message/gpu_part.hpp"
#include "p2p/message/request.hpp"
#include "route/gpu/pairs.hpp"
#include "route/gpu/plan_cache.hpp"
#include "route/plan.hpp"

namespace isthmus {

class ExportTable;
class GpuCopies;
class GpuCouriers;
class GpuNetwork;
class Links;
class Peer;
class WindowTable;

/// Which plan holds between two memories, of which at least one is a GPU's, and what is known of it
/// beforehand. What acts and what `isthmus explain` prints are plans of one cache, each by its key. Guarded
/// by the engine's lock.
class GpuPlans {
 public:
  /// What the probes look at.
  struct Surroundings {
    Links& links;
    GpuCopies& copies;
    ExportTable& exports;
    WindowTable& windows;
    GpuCouriers& couriers;
    const GpuList& gpus;
    const GpuNetwork* network;  ///< null where there is none
  };
  explicit GpuPlans(const Surroundings& around) noexcept : around_(around) {}
  GpuPlans(const GpuPlans&) = delete;
  GpuPlans& operator=(const GpuPlans&) = delete;

  /// Holds until the next call.
  [[nodiscard]] GpuPlanned& planned(const Peer& peer, const GpuPlanKey& key);
  [[nodiscard]] const Plan& of(const Peer& peer, const GpuPlanKey& key) { return planned(peer, key).plan; }
  /// Of the plan between what a peer offers and where the matched `receive` wants it.
  [[nodiscard]] GpuPlanKey key_of(Peer& peer, const Request& receive, const GpuSource& source);

  /// Of the plan of messages in memory of the sender's host to the GPU memory of the matched `receive`.
  [[nodiscard]] GpuPlanKey key_from_host(const Peer& peer, const Request& receive, bool is_pinned);
  /// The plan of sends to a peer of another host; what its memory is, it does not say.
  [[nodiscard]] const Plan& to_host_of(const Peer& peer, const GpuPart& part);
  /// The plan of what a peer of another host offers as a whole, to the GPU memory of a matched receive.
  [[nodiscard]] const Plan& from_host_of(const Peer& peer, const GpuPart& part);

  /// Whether the network is handed GPU memory of messages with a peer.
  [[nodiscard]] Reach network_reach(const Peer& peer) const;
  /// Keeps why a message goes by way of the host by its plan, where that is for want of another way.
  void note(Peer& peer, const GpuPlanKey& key);

  // --- for `isthmus explain`

  /// The plans of messages from a peer, as far as they are known.
  [[nodiscard]] std::vector<GpuPairs> pairs(const Peer& peer);
  /// Why GPUs do not copy some of what comes from a peer of this host, as far as it has been met.
  [[nodiscard]] std::set<std::string> refusals(const Peer& peer);
  /// Where a peer's GPU is to the one that this rank has used last.
  [[nodiscard]] GpuLocality locality(const Peer& peer);

 private:
  /// What the probes of that plan look at, with the reasons in words.
  [[nodiscard]] GpuPlanInputs facts(const Peer& peer, const GpuPlanKey& key);
  [[nodiscard]] bool has_network(const Peer& peer) const;
  [[nodiscard]] GpuPlanKey key_of(const Peer& peer, GpuLocality locality);
  [[nodiscard]] GpuLocality place_of(const Peer& peer);
  void describe_target(const Peer& peer, const cuda::Uuid& theirs, const Request& receive, GpuPlanKey& key);
  [[nodiscard]] static GpuPlanEnd end_of(const GpuPart& part) noexcept;
  [[nodiscard]] GpuLocality locality(cuda::Device mine, const cuda::Uuid& theirs) const;
  void note_missing_loopback(Peer& peer) const;

  const Surroundings around_;
  GpuPlanCache plans_;
};

}  // namespace isthmus
