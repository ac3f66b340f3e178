#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/error.hpp"
#include "base/unique_fd.hpp"
#include "gpu/driver/gpu.hpp"
#include "gpu/memory/export.hpp"
#include "gpu/memory/mapping_cache.hpp"
#include "p2p/gpu_copy/copies.hpp"
#include "p2p/gpu_memory/dependent.hpp"
#include "p2p/gpu_memory/exports.hpp"
#include "p2p/message/gpu_part.hpp"
#include "p2p/message/message.hpp"
#include "wire/gpu.hpp"
#include "wire/ring.hpp"

namespace isthmus {

class Links;
class Peer;
class PeerAccess;

/// What this rank and its peers know of each other's GPU memory: what each has been told, and what of it is
/// open here. Guarded by the engine's lock.
class ExportTable {
 public:
  /// All of them outlive it.
  ExportTable(Links& links, PeerAccess& access, GpuCopies& copies, const GpuList& gpus,
              const cuda::Functions& functions, const ProcessIdentity& self);
  ExportTable(const ExportTable&) = delete;
  ExportTable& operator=(const ExportTable&) = delete;

  /// Of one peer. What has been refused before a context was made anew may be opened now, and is forgotten
  /// first.
  GpuExports& of(const Peer& peer);
  [[nodiscard]] Exporter& exporter() noexcept { return exporter_; }
  /// Memory of peers that is open.
  [[nodiscard]] MappingCache& mappings() noexcept { return mappings_; }

  // --- what this rank tells

  /// An export on its way to a peer.
  struct Announcement {
    std::uint32_t number = 0;
    bool in_full = true;
    bool is_handed = false;  ///< it is told so that the peer can open it
    wire::GpuExport what{};
  };
  Announcement announce(Peer& peer, GpuPart& part);
  /// Writes the cell that an announcement goes with; false if the ring has no room.
  bool publish(Peer& peer, wire::CellHeader header, const void* payload, Announcement& announcement,
               GpuPart& part);
  /// A peer has been handed an allocation of this rank otherwise than by a message; it is told when that is
  /// freed.
  void handed(PeerId peer, std::uint64_t allocation);
  /// Leaves the descriptor of an export for peers in the region's box, and closes it. Where there is no box,
  /// or it is full, it stays open, for peers that may fetch it from this process.
  void hand_over(std::span<const PeerId> peers, wire::GpuExport& what, UniqueFd& descriptor);
  /// Tells peers what the program has freed of what they may have open.
  void tell_freed();

  // --- what peers tell

  /// What a peer names, nothing (exporter 0) where that is not its own: `piece` where it tells it in full,
  /// else null and a number.
  wire::GpuExport resolve(Peer& peer, std::uint32_t number, const std::byte* piece, std::uint64_t offset,
                          std::uint64_t bytes);
  /// Whether a peer's exports may say that they are of that process: one names one, and no two the same, so
  /// that nobody has this rank copy to or from what a third has told.
  [[nodiscard]] bool is_exporter(const Peer& peer, std::uint64_t exporter);
  /// Whether descriptors are waited for that have been told (`GpuExports::awaits`).
  [[nodiscard]] bool awaits() const noexcept { return awaits_; }
  /// Looks for them.
  void look_for_awaited();
  /// What a peer has left. Must be called for every export that a collective tells with a ticket. Waits for
  /// it, until that has been in vain once (`GpuExports::may_wait`).
  [[nodiscard]] UniqueFd take(PeerId peer, const wire::GpuExport& what);
  /// The peer has freed it.
  void forget(Peer& peer, const wire::GpuFreed& freed);
  /// The peer is no more: what it has promised is not waited for.
  void lost(const Peer& peer) noexcept;

  // --- what is open here

  /// What a peer's export is called here; the mapping stays empty where it is this process's own.
  struct Reached {
    std::byte* address = nullptr;
    std::shared_ptr<const Mapping> mapping;
  };
  Result<Reached> reach(Peer& peer, const wire::GpuExport& what, cuda::Device local);
  /// Its mapping alone, of another process's memory.
  Result<std::shared_ptr<const Mapping>> map(Peer& peer, const wire::GpuExport& what, cuda::Device local);
  /// Where an allocation that a peer of this host exports is, for copies and kernels of the device `local`.
  /// The mapping is null where memory of this very process is used as it is.
  struct Opened {
    std::shared_ptr<const Mapping> mapping;
    std::byte* base = nullptr;
  };
  /// `descriptor`: as `take` has given it.
  Result<Opened> open(PeerId peer, const wire::GpuExport& from, cuda::Device local, UniqueFd descriptor);

  void add(GpuDependent& dependent) { dependents_.push_back(&dependent); }
  void remove(const GpuDependent& dependent) { std::erase(dependents_, &dependent); }
  /// Whoever depends on it is told that nothing of it may be used any more.
  void release_dependents();

 private:
  /// Takes the descriptor of an export that a peer has just told, or has it waited for.
  void expect_descriptor(const Peer& peer, const wire::GpuExport& what);
  Result<UniqueFd> descriptor_of(Peer& peer, const wire::GpuExport& what);
  /// Whether this is memory of a rank of this process, which kernels of `local` reach at its own address.
  Result<bool> reaches_as_it_is(const Peer& peer, const Export& what, cuda::Device local);
  /// A peer's memory cannot be reached.
  void note_refusal(Peer& peer, const Export& what, const Error& why);

  Links& links_;
  PeerAccess& access_;
  GpuCopies& copies_;
  const GpuList& gpus_;
  const ProcessIdentity self_;
  Exporter exporter_;
  MappingCache mappings_;
  std::unordered_map<PeerId, GpuExports> peers_;
  std::vector<GpuDependent*> dependents_;
  bool awaits_ = false;
  std::uint32_t last_ticket_ = 0;
  unsigned renewals_ = 0;  ///< of contexts, that have been seen
};

}  // namespace isthmus
